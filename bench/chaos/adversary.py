"""The adversary's plan: which faults come when, fixed in advance by a seed, so that the same seed replays it."""

from __future__ import annotations

import random
from dataclasses import dataclass

WEIGHTS = {
    "kill worker": 12,
    "kill child": 16,
    "kill nursery": 7,
    "kill scheduler": 12,
    "freeze worker": 9,
    "freeze child": 8,
    "freeze scheduler": 7,
    "stop worker": 9,
    "stop scheduler": 4,
    "redis freeze": 6,
    "redis restart": 5,
    "redis restart empty": 5,
    "redis flush": 8,
    "redis cut": 8,
    "sql restart": 3,
    "sql kill": 3,
    "sql freeze": 4,
    "sql cut": 9,
    "sql hold rows": 7,
    "sql deadlock": 7,
}
"""The kinds of faults, and how often each comes."""

SERVER_ONLY = frozenset({"sql restart", "sql kill", "sql freeze", "sql cut"})
"""What can be done to a database server and not to a file."""

SECONDS = {
    "freeze worker": ((1, 6), (16, 40)),
    "freeze child": ((1, 6), (10, 30)),
    "freeze scheduler": ((1, 6), (12, 30)),
    "redis freeze": ((1, 4), (4, 12)),
    "sql freeze": ((1, 3), (3, 10)),
    "sql hold rows": ((1, 4), (8, 14)),
    "sql deadlock": ((2, 6),),
}
"""How long the kinds that last do so: ranges, one of which is drawn."""

EDGE = 0.04
"""The part of the run at its beginning and at its end that stays quiet."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One fault to come: ``at`` seconds after the start; ``pick`` chooses among the victims that there are then."""

    at: float
    kind: str
    pick: int
    seconds: float = 0.0


def plan(seed: int, seconds: float, faults: int, *, server: bool = True) -> list[Planned]:
    """The faults of a run of so many seconds, in order of time: each kind at least once where ``faults`` allow it."""
    rng = random.Random(seed)
    kinds = _kinds(rng, faults, server)
    first, last = seconds * EDGE, seconds * (1 - EDGE)
    width = (last - first) / max(1, faults)
    times = [first + width * (n + rng.random()) for n in range(faults)]
    return [_planned(rng, at, kind, last) for at, kind in zip(times, kinds, strict=True)]


def _kinds(rng: random.Random, faults: int, server: bool) -> list[str]:
    possible = [kind for kind in WEIGHTS if server or kind not in SERVER_ONLY]
    kinds = possible[:faults] if faults >= len(possible) else rng.sample(possible, faults)
    weights = [WEIGHTS[kind] for kind in possible]
    kinds = kinds + rng.choices(possible, weights, k=faults - len(kinds))
    rng.shuffle(kinds)
    return kinds


def _planned(rng: random.Random, at: float, kind: str, last: float) -> Planned:
    pick = rng.randrange(1 << 30)
    low, high = rng.choice(SECONDS.get(kind, ((0, 0),)))
    lasts = rng.uniform(low, high)
    return Planned(at, kind, pick, round(min(lasts, max(0.5, last - at)), 3) if lasts else 0.0)
