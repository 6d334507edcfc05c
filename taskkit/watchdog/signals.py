"""The rules as they are kept: what all have in common, and the thresholds of each signal. Frozen; made by rules.py.

Lengths of time are seconds here and text (``"5m"``) in the file; ``for`` is called ``hold``, since Python has that word.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from taskkit.clock import parse_span

LONGEST_S = 366 * 86_400.0
LARGEST_SIZE = 2.0**63
SIZES = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?i?b)?", re.IGNORECASE)

Tasks = Annotated[int, Meta(ge=0, le=10**12)]
Runs = Annotated[int, Meta(ge=1, le=10**9)]
Percent = Annotated[float, Meta(gt=0, le=100)]
Names = tuple[Annotated[str, Meta(min_length=1, max_length=64)], ...]


class Length(float):
    """A length of time in seconds, read from ``"5m"`` or from a number of seconds."""

    @classmethod
    def of(cls, given: object) -> Length:
        """Raises ValueError for what is none, negative, or longer than a year."""
        if isinstance(given, bool) or not isinstance(given, str | int | float):
            raise ValueError('is no length of time; write "5m", or a number of seconds')  # noqa: TRY004 - msgspec takes ValueErrors
        try:
            seconds = parse_span(given) if isinstance(given, str) else float(given)
        except OverflowError:
            seconds = math.inf
        if not math.isfinite(seconds) or not 0 <= seconds <= LONGEST_S:
            raise ValueError(f"{given!r} must be from 0 to a year")
        return cls(seconds)


class Size(int):
    """A number of bytes, read from ``"1GiB"`` or from a number."""

    @classmethod
    def of(cls, given: object) -> Size:
        """Raises ValueError for what is none."""
        match = _SIZE.fullmatch(str(given).strip())
        unit = (match[2] or "").lower() if match else "?"
        if match is None or isinstance(given, bool) or unit not in SIZES:
            raise ValueError('is no size; write "500MiB" or "1GiB"')
        size = float(match[1]) * SIZES[unit]
        if size > LARGEST_SIZE:
            raise ValueError("is more than any disk has")
        return cls(size)


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule of ``alerting/rules.toml``."""

    id: str
    signal: str
    """Which check looks; the rule's own id, where the file does not say."""
    enabled: bool = True
    severity: Literal["note", "warning", "critical"] = "warning"
    every: Length
    """So often the check looks."""
    hold: Length = field(name="for")
    """It fires when it has been over its limit for so long, without a break."""
    keep_firing: Length
    """It is over when it has been under its lower mark for so long."""
    repeat: Length | None
    """While it lasts it is told again so often; None: once."""
    limit: Length
    """A check that takes longer has failed."""
    group: Annotated[str, Meta(max_length=150)]
    """Alerts of one group that come within ``group_wait`` are told in one message."""
    group_wait: Length
    inhibited_by: Names
    """Rules (or ``rule:object``) whose alert explains this one: while such a one fires, nobody is told of this."""
    no_data: Literal["ignore", "alert"]
    no_data_after: Length
    failed_after: Length
    """A check that has failed for so long is itself an alert."""
    receivers: Names
    """Whom to tell; empty: everybody in receivers.toml."""
    resolved: bool
    """Tell the end, too."""
    runbook: str
    evidence: bool
    """Run the notebook for an alert that is critical, and send its page after it."""

    def __post_init__(self) -> None:
        for name in ("every", "limit", "over", "horizon", "promise"):
            if getattr(self, name, 1) <= 0:
                raise ValueError(f"{name} must be more than 0")


class BacklogRule(Rule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tasks that wait."""

    above: Tasks
    below: Tasks | None
    """The lower mark; None: 80 % of ``above``."""
    queues: Names
    """Only these; empty: all, but for those of drills."""
    per: Literal["total", "queue"]
    """Whether the limit is for all queues together or for each."""
    drain_above: Length | None
    """Fires also when what waits needs longer than this at the present rates."""
    drain_from: Tasks
    """… and so many wait at least."""

    def __post_init__(self) -> None:
        Rule.__post_init__(self)
        if self.below is not None and self.below > self.above:
            raise ValueError(f"below = {self.below} is over above = {self.above}")

    @property
    def mark(self) -> int:
        """The lower mark: from here on it is well again."""
        return self.above * 4 // 5 if self.below is None else self.below


class SuccessRateRule(Rule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Runs that do not end well."""

    below: Percent
    over: Length
    min_runs: Runs
    no_data_ends: Length | None
    """What fires is over when there have been too few runs to judge by for so long; None: it waits for them."""


class WorkerDeadRule(Rule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Workers that fell silent, and too few of them."""

    after: Length
    expected: Annotated[int, Meta(ge=0, le=100_000)]


class ZombiesRule(Rule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Workers that beat and make no progress."""

    after: Length


class LostRule(Rule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Losses, and what nobody recovers."""

    above: Tasks
    over: Length
    not_recovered: Length


class SlowRule(Rule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Codes that take longer than they use to."""

    factor: Annotated[float, Meta(ge=2, le=1000)]
    over: Length
    min_runs: Annotated[int, Meta(ge=50, le=10**9)]
    no_data_ends: Length | None
    """As for the rate of success."""


class SchedulerRule(Rule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Schedulers that do not scan, and due tasks that nobody dispatches."""

    no_scan: Length
    due_for: Length


class GivenUpRule(Rule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """New dead letters."""

    above: Tasks
    over: Length


class MissedRule(Rule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Planned times that did not fire."""

    after: Length
    over: Length


class ForecastRule(Rule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A promised waiting time that will be broken."""

    promise: Length
    horizon: Length
    min_waiting: Tasks
    queues: Names


class DuplicatesRule(Rule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tasks whose effect came twice."""

    above: Tasks
    over: Length
    causes: tuple[
        Literal["dispatched_twice", "declared_dead_alive", "killed_after_effect", "enqueued_twice", "may_be_twice"], ...
    ]  # fmt: skip


class StoresRule(Rule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """SQL, Redis, clocks and disks."""

    slow_ms: Annotated[float, Meta(gt=0, le=60_000)]
    """Slow is a store of which even the quickest of three answers took longer."""
    clock_skew: Length
    disk_left: Size
    persistence: bool
    """Tell (as a note) of a Redis of one's own that keeps nothing on disk; the embedded one never does, by design."""


class WatchdogRule(Rule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The watchdogs themselves."""

    after: Length


SIGNALS: dict[str, type[Rule]] = {
    "backlog": BacklogRule,
    "success_rate": SuccessRateRule,
    "worker_dead": WorkerDeadRule,
    "zombies": ZombiesRule,
    "lost": LostRule,
    "slow": SlowRule,
    "scheduler": SchedulerRule,
    "given_up": GivenUpRule,
    "missed": MissedRule,
    "forecast": ForecastRule,
    "duplicates": DuplicatesRule,
    "stores": StoresRule,
    "watchdog": WatchdogRule,
}
"""Every signal there is, and the type of its rules."""
