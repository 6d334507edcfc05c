"""Runs a notebook in a kernel of its own, within a time limit, to one page; the kernel ends with the run, however that ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

from taskkit.clock import iso
from taskkit.errors import AnalyticsMissing, InputError, NotebookFailed
from taskkit.notebook.page import as_page
from taskkit.notebook.shelf import notebook_of

LIMIT_S = 120.0
DEATH_S = 60.0
PARAMETERS = "parameters"
Running = tuple[asyncio.AbstractEventLoop, "asyncio.Task[None]"]
LONGEST_FOLDER = 85
"""Sockets of the file system have short names; where they do not fit, the kernel listens on 127.0.0.1."""


def run(name: str, out: Path | str, parameters: Mapping[str, Any], *, limit_s: float = LIMIT_S) -> Path:
    """Run the notebook of a rule or report, and write its page to ``out`` at once or not at all.

    Raises InputError before a kernel starts where ``out`` cannot be written or a parameter is unknown, and
    NotebookFailed when a cell fails, the kernel dies or the time is over.
    """
    need_jupyter()
    target = Path(out)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        unfinished.touch()
        page = as_page(executed(notebook_of(name), parameters, limit_s=limit_s))
        unfinished.write_text(page, encoding="utf-8")
        unfinished.replace(target)
    except OSError as error:
        raise InputError("out", f"cannot write {target}: {error.strerror or error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return target


def executed(path: Path, parameters: Mapping[str, Any], *, limit_s: float = LIMIT_S) -> Any:
    """The notebook with its outputs."""
    from nbformat import reads

    notebook = reads(path.read_text(encoding="utf-8"), as_version=4)  # type: ignore[no-untyped-call]
    inject(notebook, parameters)
    with tempfile.TemporaryDirectory(prefix="taskkit-notebook-", ignore_cleanup_errors=True) as folder:
        _run(partial(_execute, notebook, path.stem, Path(folder), limit_s))
    return notebook


def inject(notebook: Any, parameters: Mapping[str, Any]) -> None:
    """Write these values over the defaults, in a cell of their own as papermill does; None leaves a default."""
    from nbformat.v4 import new_code_cell

    at = next(n for n, cell in enumerate(notebook.cells) if PARAMETERS in cell.metadata.get("tags", []))
    known = {line.split("=")[0].strip() for line in notebook.cells[at].source.splitlines() if "=" in line}
    given = {key: value for key, value in parameters.items() if value is not None}
    for key in given.keys() - known:
        raise InputError("parameters", f"this notebook has no {key!r}; it has {', '.join(sorted(known))}")
    if given:
        text = "\n".join(f"{key} = {_literal(value)}" for key, value in given.items())
        cell = new_code_cell(text, metadata={"tags": ["injected-parameters"]})  # type: ignore[no-untyped-call]
        notebook.cells.insert(at + 1, cell)


def _literal(value: object) -> str:
    """A value as Python writes it; instants and paths as text."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InputError("parameters", f"{value.isoformat()} has no time zone")
        return repr(iso(value))
    return repr(value if isinstance(value, bool | int | float | str) else str(value))


def _run(work: Callable[[list[Running]], Coroutine[Any, Any, None]]) -> None:
    """Run it in a thread, where nbclient leaves signals alone; an interrupt cancels it and waits until all is cleaned up."""
    at: list[Running] = []
    with ThreadPoolExecutor(1, "taskkit-notebook") as pool:
        future = pool.submit(lambda: asyncio.run(work(at)))
        try:
            future.result()
        except KeyboardInterrupt:
            for loop, task in at:
                loop.call_soon_threadsafe(task.cancel)
            raise


async def _execute(notebook: Any, name: str, folder: Path, limit_s: float, at: list[Running]) -> None:
    """nbclient takes every cancelling for a dead kernel, so the limit is asked whether it is over."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError

    at.append((asyncio.get_running_loop(), cast("asyncio.Task[None]", asyncio.current_task())))
    index = [0]
    manager = kernel(folder)
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=None,
        resources={"metadata": {"path": str(folder)}},
        extra_arguments=["--HistoryManager.enabled=False"],
        on_cell_start=lambda cell, cell_index: index.append(cell_index),
    )
    limit = asyncio.timeout(limit_s)
    try:
        async with limit:
            await client.async_execute(env=_environment(folder))
    except CellExecutionError as error:
        place = _where(notebook, index[-1])
        raise NotebookFailed(
            f"the notebook {name} stopped in {place}: {error.ename}: {error.evalue}"
        ) from error
    except (TimeoutError, DeadKernelError, RuntimeError) as error:
        place = _where(notebook, index[-1])
        raise NotebookFailed(_why(name, place, limit_s if limit.expired() else None)) from error
    finally:
        await _end(client, manager)


def _why(name: str, place: str, limit_s: float | None) -> str:
    if limit_s is not None:
        return f"the notebook {name} had not ended after {limit_s:g} s, in {place}; give it more with --limit"
    return f"the kernel of the notebook {name} died in {place}; was it killed, or out of memory?"


async def _end(client: Any, manager: Any) -> None:
    """No kernel and no channel is left, also when the run was interrupted."""
    if client.kc is not None:
        client.kc.stop_channels()
    await asyncio.shield(_bury(manager))


async def _bury(manager: Any) -> None:
    """Kill the kernel and wait for it: Jupyter gives up after 5 s, which on a busy machine leaves a defunct process."""
    await manager.shutdown_kernel(now=True)
    if manager.has_kernel:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(manager.provisioner.wait(), DEATH_S)


def kernel(folder: Path) -> Any:
    """A kernel of this very Python, whatever kernels are installed; its connection file lies in ``folder``."""
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]

    class OwnKernelSpecs(KernelSpecManager):
        def get_kernel_spec(self, kernel_name: str) -> Any:
            return KernelSpec(argv=argv, display_name=kernel_name, language="python")

    place: dict[str, Any] = {"connection_file": str(folder / "kernel.json")}
    if len(str(folder)) < LONGEST_FOLDER:
        place |= {"transport": "ipc", "ip": str(folder / "kernel")}
    return AsyncKernelManager(kernel_spec_manager=OwnKernelSpecs(), **place)


def _environment(folder: Path) -> dict[str, str]:
    """That of this process; what libraries want to write goes to the folder of the run where home is read-only."""
    found = {**os.environ, "IPYTHONDIR": str(folder / "ipython"), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    if not os.access(Path.home(), os.W_OK):
        found.setdefault("MPLCONFIGDIR", str(folder))
    return found


def _where(notebook: Any, index: int) -> str:
    """A cell as people count them: code cells only."""
    code = [n for n, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    return f"code cell {sum(n <= index for n in code) or 1} of {len(code)}"


def need_jupyter() -> None:
    """Raise AnalyticsMissing when notebooks cannot be run here."""
    try:
        import ipykernel  # noqa: F401
        import matplotlib  # noqa: F401
        import mistune  # noqa: F401
        import nbclient  # noqa: F401
    except ImportError as error:
        raise AnalyticsMissing(f"notebooks need {error.name}: pip install 'taskkit[notebooks]'") from error
