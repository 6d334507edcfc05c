"""The variants of the lab: which incident each brings about, which verdict is right, and how its stack is set."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from taskkit.errors import InputError
from taskkit.hints import suggest
from taskkit.lab.stand import Stand

Facts = dict[str, Any]
Act = Callable[[Stand, random.Random], Facts]


@dataclass(frozen=True, slots=True)
class Variant:
    """One incident; ``act`` causes it and returns the facts it has seen itself."""

    rule: str
    name: str
    verdicts: tuple[str, ...]
    about: str
    act: Act
    settings: Mapping[str, float | bool] = field(default_factory=dict)
    servers_only: bool = False


_known: dict[tuple[str, str], Variant] = {}


def variant(
    rule: str, *verdicts: str, about: str, servers_only: bool = False, **settings: float | bool
) -> Callable[[Act], Act]:
    """Make a function the variant of its name."""

    def register(act: Act) -> Act:
        name = act.__name__
        _known[rule, name] = Variant(rule, name, verdicts, about, act, settings, servers_only)
        return act

    return register


def all_variants(rule: str | None = None, *, servers: bool = True) -> list[Variant]:
    """The variants there are, of one rule or of all; without ``servers`` only those that SQLite can show."""
    from taskkit.lab.incidents import backlog, duplicates, lost, zombies

    _ = backlog, duplicates, lost, zombies
    return [one for one in _known.values() if rule in {None, one.rule} and (servers or not one.servers_only)]


def find(rule: str, name: str | None) -> Variant:
    """The variant of this name, the rule's first by default; raises InputError when there is none."""
    mine = {one.name: one for one in all_variants(rule)}
    if name is None:
        return next(iter(mine.values()))
    if name not in mine:
        raise InputError(
            "variant", f"{rule} has no variant {name!r}{suggest(name, mine)}; it has {', '.join(mine)}"
        )
    return mine[name]
