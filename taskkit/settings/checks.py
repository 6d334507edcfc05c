"""Turn one given value into the setting's type, or say in one line what is wrong with it and what to write."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import msgspec
from msgspec import Meta

from taskkit.errors import InputError, SettingsError
from taskkit.names import check_zone
from taskkit.settings.brokers import check_redis_url
from taskkit.settings.schema import TABLES, Settings
from taskkit.settings.urls import absolute_sqlite, check_database_url, check_web_url, origin, redact

if TYPE_CHECKING:
    from taskkit.settings.sources import Found

SWITCHES = {"yes": True, "on": True, "no": False, "off": False}
EXAMPLES: dict[str, Any] = {
    "database_url": "mysql://user:password@host:3306/taskkit",
    "redis_url": "redis://host:6379/0",
    "home": "/srv/taskkit",
    "log_dir": "/var/log/taskkit",
    "app": "shop.tasks",
    "queues": ["mail", "report"],
    "default_queue": "default",
    "key_prefix": "shop:",
    "watchdog.alerting": "/etc/taskkit/alerting",
    "watchdog.console_url": "https://tasks.example.com",
    "watchdog.ping_url": "https://hc-ping.com/…",
    "watchdog.daily_at": "09:00",
    "watchdog.metrics": "127.0.0.1:9464",
}


@cache
def hints() -> dict[str, Any]:
    """The annotated type of every setting by its key."""
    flat = get_type_hints(Settings, include_extras=True)
    for name, table in TABLES.items():
        inner = get_type_hints(table, include_extras=True)
        flat |= {f"{name}.{key}": hint for key, hint in inner.items()}
    return flat


def checked(found: Found) -> Any:
    """The value in its type and bounds; raises SettingsError."""
    hint = hints()[found.key]
    try:
        value = msgspec.convert(
            _prepared(found, hint), hint, strict=not found.from_environment, dec_hook=_path
        )
        if isinstance(value, float) and math.isnan(value):  # it passes every bound
            raise ValueError
    except (msgspec.ValidationError, ValueError):
        raise SettingsError(f"{_told(found)}: {_wanted(hint)}{_example(found)}") from None
    return _meaning(found, value)


def _path(kind: type, value: object) -> Path:
    if kind is not Path or not isinstance(value, str) or not value:
        raise ValueError
    return Path(value)


def _prepared(found: Found, hint: Any) -> Any:
    """The value as msgspec reads it: lists of the environment split, words for switches, any case of a choice."""
    value = found.value
    if isinstance(value, Path):
        return str(value)
    if not isinstance(value, str):
        return list(value) if isinstance(value, (tuple, set)) else value
    if found.from_environment and found.key == "queues":
        return [name.strip() for name in value.split(",") if name.strip()]
    if found.from_environment and hint is bool:
        return SWITCHES.get(value.lower(), value)
    return value.lower() if found.key in ("log_level", "log_format") else value


def _meaning(found: Found, value: Any) -> Any:
    """What a type cannot tell: URLs, zones and paths that mean the same from every folder."""
    try:
        if found.key == "database_url":
            check_database_url(value)
            return absolute_sqlite(value, found.folder) if value.startswith("sqlite:") else value
        if found.key == "redis_url":
            check_redis_url(value)
        elif found.key in ("watchdog.ping_url", "watchdog.console_url") and value is not None:
            check_web_url(value)
        elif found.key == "timezone":
            check_timezone(value)
        elif isinstance(value, Path):
            # SQLAlchemy 2.0 and 2.1 read % differently in an SQLite URL, and ? begins its parameters
            return absolute_path(value, found.folder, "\0\n?%" if found.key == "home" else "\0\n")
    except SettingsError as problem:
        raise SettingsError(f"{_told(found)}: {problem}") from None
    return tuple(dict.fromkeys(value)) if isinstance(value, tuple) else value


def absolute_path(path: Path, folder: Path, forbidden: str = "\0\n") -> Path:
    """The path seen from ``folder``; raises SettingsError for one that holds a forbidden character."""
    try:
        whole = folder / path.expanduser()
    except RuntimeError:
        raise SettingsError("there is no such home folder; write a path without ~") from None
    if found := set(forbidden) & set(str(whole)):
        raise SettingsError(f"a path with {min(found)!r} in it cannot be used; choose another folder")
    return whole


def check_timezone(name: str) -> None:
    """Raise SettingsError unless this is the name of a time zone."""
    try:
        check_zone(name)
    except InputError as problem:
        raise SettingsError(problem.problem) from None


def _told(found: Found) -> str:
    """The place, the key and the value, without secrets and not too long."""
    shown = ascii(_without_secret(found))
    shown = shown if len(shown) <= 100 else shown[:97] + "..."
    place = "" if found.place == "given" else f"{found.place}: "
    return f"{place}{found.written} = {shown}"


def _without_secret(found: Found) -> Any:
    if found.key == "watchdog.ping_url":
        return origin(str(found.value))
    if found.key.endswith("_url"):
        return redact(found.value) if isinstance(found.value, str) else type(found.value).__name__
    return str(found.value) if isinstance(found.value, Path) else found.value


def _wanted(hint: Any) -> str:
    """In words, what a type takes."""
    kinds = [kind for kind in (get_args(hint) if _is_union(hint) else (hint,)) if kind is not type(None)]
    kind = kinds[0]
    meta = next((item for item in get_args(kind)[1:] if isinstance(item, Meta)), Meta())
    base = get_args(kind)[0] if hasattr(kind, "__metadata__") else kind
    if base in (int, float):
        return f"must be a {'whole number' if base is int else 'number'} from {meta.ge} to {meta.le}"
    if base is bool:
        return "must be true or false"
    if base is str:
        return _wanted_text(meta)
    if base is Path:
        return "must be a path"
    if getattr(base, "__origin__", None) is tuple:
        return "must be a list of names"
    return f"must be one of {', '.join(get_args(base))}"


def _wanted_text(meta: Meta) -> str:
    bounds = f" of {meta.min_length or 0} to {meta.max_length} characters" if meta.max_length else ""
    if meta.pattern and not bounds:
        return "must be text in the form of the example"
    return f"must be text{bounds}{' without blanks and braces' if meta.pattern else ''}"


def _is_union(hint: Any) -> bool:
    return type(None) in get_args(hint)


def _example(found: Found) -> str:
    """``; write for example …`` with a value that works, in the form of the place where the wrong one stands."""
    table, _, name = found.key.rpartition(".")
    default = getattr(getattr(Settings(), table) if table else Settings(), name)
    example = EXAMPLES.get(found.key, default)
    if not found.from_environment:
        return f"; write for example {found.written} = {json.dumps(example)}"
    text = ",".join(example) if isinstance(example, list) else str(example)
    return f"; write for example {found.written}={text.lower() if isinstance(example, bool) else text}"
