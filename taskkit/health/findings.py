"""A finding: what is so, why it hurts, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is, the worst first."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Finding:
    """``id`` is stable, for scripts; what is fine has no ``why`` and no ``advice``."""

    id: str
    level: Level
    what: str
    why: str = ""
    advice: str = ""


def ok(name: str, what: str) -> Finding:
    """Looked at, and fine."""
    return Finding(name, Level.OK, what)


def note(name: str, what: str, why: str, advice: str) -> Finding:
    """Good to know; may be meant so."""
    return Finding(name, Level.NOTE, what, why, advice)


def untold(name: str, what: str) -> Finding:
    """Could not be looked at: neither fine nor wrong."""
    return note(name, f"{what} is not known", "it could not be looked at, and nothing is guessed", "")


def warning(name: str, what: str, why: str, advice: str) -> Finding:
    """Works, and will hurt one day."""
    return Finding(name, Level.WARNING, what, why, advice)


def error(name: str, what: str, why: str, advice: str) -> Finding:
    """Does not work, or loses what it must not lose."""
    return Finding(name, Level.ERROR, what, why, advice)


SLOW_MS, VERY_SLOW_MS = 20.0, 200.0


def answers(name: str, who: str, took_ms: float | None, why: str, advice: str) -> Finding:
    """How fast a store answers: what is slow hurts by ``why``."""
    if took_ms is None:
        return untold(name, f"how fast {who} answers")
    what = f"{who} answers in {took_ms:.1f} ms"
    if took_ms < SLOW_MS:
        return ok(name, what)
    return (warning if took_ms >= VERY_SLOW_MS else note)(name, what, why, advice)


def worst(findings: Iterable[Finding]) -> Level:
    """The worst level among them."""
    ranks = list(Level)
    return min((finding.level for finding in findings), key=ranks.index, default=Level.OK)


def number(text: str | None) -> int | None:
    """A server's variable as a whole number, where it is one."""
    try:
        return None if text is None else int(float(text))
    except ValueError:
        return None


def is_on(text: str | None) -> bool:
    """Whether a server's switch is on."""
    return text is not None and text.upper() not in {"", "0", "OFF", "NO"}


def version_of(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: ``10.11.19-MariaDB`` → (10, 11, 19)."""
    found: list[int] = []
    for part in text.split("-", maxsplit=1)[0].split("."):
        if not part.isdigit():
            break
        found.append(int(part))
    return tuple(found)


def quoted(account: str | None) -> str:
    """An account as GRANT writes it."""
    user, _, host = (account or "").rpartition("@")
    return f"'{user}'@'{host}'"


def size(count: float) -> str:
    """Bytes for people: ``16 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024 or unit == "GiB":
            return f"{count:.3g} {unit}" if abs(count) < 1000 else f"{count:.0f} {unit}"
        count /= 1024
    raise AssertionError("GiB is the last unit")
