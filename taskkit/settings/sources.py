"""Read settings from taskkit.toml, the environment and the caller; refuse what is unknown, naming its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, fields

from taskkit.errors import SettingsError
from taskkit.hints import suggest
from taskkit.settings.checks import checked
from taskkit.settings.schema import TABLES, Settings

FILE = "taskkit.toml"
PREFIX = "TASKKIT_"
NOT_SETTINGS = re.compile(
    r"TASKKIT_(TEST_.*|CONFIG|DEBUG)"
    # Kubernetes and Docker links put these into every container beside a service named taskkit or taskkit-…
    r"|TASKKIT(_\w+)?_SERVICE_(HOST|PORT(_\w+)?)|TASKKIT(_\w+)?_PORT(_\d+_(TCP|UDP)(_\w+)?)?"
)


@dataclass(frozen=True, slots=True)
class Found:
    """A value somebody gave: where it stands, how it is written there, and what relative paths start from."""

    key: str
    value: Any
    place: str
    written: str
    folder: Path

    @property
    def from_environment(self) -> bool:
        return self.place == "environment"


def load(env: Mapping[str, str], file: Path | str | None, overrides: Mapping[str, Any]) -> Settings:
    """One frozen object from all sources, the later ones winning."""
    found: dict[str, Found] = {}
    for source in (in_file(env, file), in_environment(env), in_overrides(overrides)):
        found |= {item.key: item for item in source}
    values = {key: checked(item) for key, item in found.items()}
    flat: dict[str, Any] = {key: value for key, value in values.items() if "." not in key}
    flat |= {name: kind(**_of_table(values, name)) for name, kind in TABLES.items()}
    return Settings(**flat)


def _of_table(values: Mapping[str, Any], table: str) -> dict[str, Any]:
    return {key.partition(".")[2]: value for key, value in values.items() if key.startswith(f"{table}.")}


def known_keys() -> dict[str, str]:
    """Every setting's key (``worker.processes``) by its flat name (``worker_processes``)."""
    keys = [item.name for item in fields(Settings) if item.name not in TABLES]
    keys += [f"{table}.{item.name}" for table, kind in TABLES.items() for item in fields(kind)]
    return {key.replace(".", "_"): key for key in keys}


def in_environment(env: Mapping[str, str]) -> Iterator[Found]:
    """The TASKKIT_* variables that are set; an empty one counts as not set."""
    known = {PREFIX + flat.upper(): key for flat, key in known_keys().items()}
    for name in sorted(name for name in env if name.startswith(PREFIX)):
        if name in known:
            if env[name].strip():
                yield Found(known[name], env[name].strip(), "environment", name, Path.cwd())
        elif not NOT_SETTINGS.fullmatch(name):
            raise SettingsError(f"environment: unknown setting {name!r}{suggest(name, known)}")


def in_overrides(overrides: Mapping[str, Any]) -> Iterator[Found]:
    """What the caller or a command line gave; None counts as not given."""
    known = known_keys()
    for flat, value in _flattened(overrides):
        if flat not in known:
            raise SettingsError(f"unknown setting {flat!r}{suggest(flat, known)}")
        if value is not None:
            yield Found(known[flat], value, "given", flat, Path.cwd())


def _flattened(overrides: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in overrides.items():
        if name not in TABLES:
            yield name, value
            continue
        if value is None:
            continue
        table = asdict(value) if isinstance(value, Struct) else value
        if not isinstance(table, Mapping):
            raise SettingsError(f"{name}: not a table of settings; write {name}={{…}}")
        yield from ((f"{name}_{key}", inner) for key, inner in table.items())


def in_file(env: Mapping[str, str], file: Path | str | None) -> Iterator[Found]:
    """The settings in the file named by the caller or TASKKIT_CONFIG, else in ./taskkit.toml where there is one."""
    named = file or env.get("TASKKIT_CONFIG", "").strip() or None
    path = Path(named).expanduser() if named else Path(FILE)
    if named or path.exists():
        yield from _in_table(_toml(path), path, "")


def _toml(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise SettingsError(f"{path}: cannot be read: {problem.strerror or problem}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: is not written in UTF-8") from None
    except tomllib.TOMLDecodeError as problem:
        raise SettingsError(f"{path}: is not TOML: {_where(str(problem))}") from None


def _where(problem: str) -> str:
    """The parser's own words, unless they quote a piece of the file, which may be a password."""
    place = re.search(r"\(at [^)]*\)", problem)
    return place.group() if place and re.search(r"['\"]", problem) else problem


def _in_table(table: Mapping[str, Any], path: Path, name: str) -> Iterator[Found]:
    known = set(known_keys().values())
    for key, value in table.items():
        dotted = f"{name}.{key}" if name else key
        written = f"[{name}] {key}" if name else key
        if not name and key in TABLES:
            if not isinstance(value, dict):
                raise SettingsError(f"{path}: {key} is a table; write [{key}] on a line of its own")
            yield from _in_table(value, path, key)
        elif dotted not in known:
            raise SettingsError(f"{path}: unknown setting {written!r}{_suggestion(name, key)}")
        else:
            yield Found(dotted, value, str(path), written, path.absolute().parent)


def _suggestion(table: str, key: str) -> str:
    """A setting of this table with a similar name, or the same name where it belongs."""
    known = known_keys()
    if not table and key in known:
        owner, _, own = known[key].partition(".")
        return f"; write {own} under [{owner}]"
    if table and key in known:
        return f"; write {key} above the first table"
    inner = [dotted.rpartition(".")[2] for dotted in known.values() if dotted.rpartition(".")[0] == table]
    return suggest(key, inner + ([] if table else list(TABLES)))
