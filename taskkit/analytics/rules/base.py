"""What all rules share: a rule's signature, reasons in their order, and a diagnosis about a source's window."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from taskkit.analytics.diagnosis import Diagnosis
from taskkit.analytics.measures import pace
from taskkit.analytics.source import Source

F = TypeVar("F")
Reason = tuple[str, Callable[[F], bool]]
MOST_FOUND = 50


def first(reasons: Iterable[Reason[F]], facts: F) -> str:
    """The name of the first reason that holds; the last one always does."""
    return next(name for name, holds in reasons if holds(facts))


def about(source: Source, rule: str, verdict: str, severity: str, confidence: str, **parts: Any) -> Diagnosis:
    """A diagnosis of the source's window."""
    window = source.window
    parts["found"] = tuple(parts.get("found", ()))[:MOST_FOUND]
    return Diagnosis(
        rule, verdict, severity, confidence, window.since, window.until, source.now, window.zone, **parts
    )


def patience(source: Source) -> float:
    """How the installation's heartbeats compare with the usual ones: what all waits of a rule are multiplied with."""
    return pace(source.frame("facts"))


def tasks_told(text: object) -> list[dict[str, Any]]:
    """The tasks that a worker's last heartbeat named; none where it cannot be read."""
    try:
        told = json.loads(text) if isinstance(text, str) and text else []
    except ValueError:
        return []
    return (
        [one for one in told if isinstance(one, dict) and "task_id" in one] if isinstance(told, list) else []
    )


def quoted(words: Sequence[str]) -> str:
    """Names as one argument of a shell command."""
    import shlex

    return shlex.quote(",".join(words))
