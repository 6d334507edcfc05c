"""Loading an application: ``shop.tasks:kit`` → its Taskkit, with the built-in handlers beside its own."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from taskkit.errors import AppError
from taskkit.hints import suggest
from taskkit.kit import Taskkit


def load(name: str | None) -> Taskkit:
    """Import ``module:attribute`` (the attribute defaults to ``kit``); None gives a kit of built-in handlers.

    Raises AppError, one line, whatever the module does: raise, call sys.exit, or have no kit.
    """
    kit = Taskkit() if name is None else _import(name)
    add_builtins(kit)
    return kit


def add_builtins(kit: Taskkit) -> None:
    """Register the handlers that every worker has, unless the application has some of these names."""
    from taskkit.worker.builtin import HANDLERS

    for code, fn in HANDLERS.items():
        if kit.registry.get(code) is None:
            kit.task(code)(fn)


def _import(name: str) -> Taskkit:
    module_name, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise AppError(
                f"--app {name}: there is no module {error.name!r} in {here} or on PYTHONPATH; write package.module:kit"
            ) from error
        raise AppError(f"--app {name}: {module_name} could not be imported: {error}") from error
    except (Exception, SystemExit) as error:
        raise AppError(f"--app {name}: {module_name} could not be imported: {_told(error)}") from error
    return _kit(name, module, attribute or "kit")


def _kit(name: str, module: object, attribute: str) -> Taskkit:
    found = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Taskkit):
        return found
    kits = [key for key, value in vars(module).items() if isinstance(value, Taskkit)]
    here = name.partition(":")[0]
    what = (
        f"the module {here} has no {attribute!r}"
        if found is None
        else f"{attribute!r} in {here} is a {type(found).__name__}, not a Taskkit"
    )
    hint = suggest(attribute, kits) or (
        f"; it has {', '.join(kits)}" if kits else "; write kit = Taskkit() in it"
    )
    raise AppError(f"--app {name}: {what}{hint}")


def _told(error: BaseException) -> str:
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
