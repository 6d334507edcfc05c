"""The checks, one file a signal: ``check(rule, place)`` reads, and says of each object how it stands. None writes or sends.

A check raises StoreError where SQL does not answer. An object that it does not name is clear, unless it says NO_DATA of "".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TypeVar

from taskkit.alerts import Reading
from taskkit.watchdog.place import CheckPlace
from taskkit.watchdog.signals import SIGNALS, Rule

T = TypeVar("T")
Check = Callable[[Rule, CheckPlace], list[Reading]]
MOST = 50
"""Objects of one rule that are told of; one that finds more has one cause, and a list of a thousand helps nobody."""


def run_check(rule: Rule, place: CheckPlace) -> list[Reading]:
    """What the check of this rule's signal reads now; raises StoreError."""
    look: Check = import_module(f"taskkit.watchdog.checks.{rule.signal}").check
    return look(rule, place)


def most(found: Sequence[T], name: Callable[[T], str], rule: Rule, place: CheckPlace) -> list[T]:
    """Of what is wrong, the worst first, ``MOST`` at most; what has an alert stays in, since it would end if it were left out."""
    if len(found) <= MOST:
        return list(found)
    live = place.live(rule.id)
    known = [one for one in found if name(one) in live]
    return [*known, *(one for one in found if name(one) not in live)][: max(MOST, len(known))]


def preload() -> None:
    """Import all checks and what they need, so that a first look takes no longer than the others."""
    for signal in SIGNALS:
        import_module(f"taskkit.watchdog.checks.{signal}")
