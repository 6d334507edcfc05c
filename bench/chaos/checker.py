"""The verdict on a chaos run: each count that must be zero, with what was found, and the figures beside it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from bench.chaos import check_effects, check_messages, check_moves, check_occurrences
from bench.chaos.case import Case, Finding
from bench.chaos.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Count:
    """One line of the table: what must not happen, how often it did, and what was allowed beside it."""

    name: str
    found: list[Finding]
    beside: str = ""

    @property
    def ok(self) -> bool:
        return not self.found


@dataclass(slots=True)
class Verdict:
    """All counts; ``repeats``, ``dispatches``, ``overlaps`` and ``occurrences`` tell what was explained, by cause."""

    counts: list[Count]
    repeats: Counter[str] = field(default_factory=Counter)
    dispatches: Counter[str] = field(default_factory=Counter)
    overlaps: Counter[str] = field(default_factory=Counter)
    occurrences: Counter[str] = field(default_factory=Counter)

    @property
    def ok(self) -> bool:
        """Whether every count that must be zero is."""
        return all(count.ok for count in self.counts)


def judge(evidence: Evidence) -> Verdict:
    """Judge a run by its evidence alone."""
    case, verdict = Case(evidence), Verdict([])
    once_twice = [*check_occurrences.fired_twice(case), *check_occurrences.off_the_grid(case)]
    repeated = [
        *check_effects.repeated(case, verdict.repeats),
        *check_effects.again_without_retries(case),
    ]
    overlapping = list(check_effects.overlapping(case, verdict.overlaps))
    multiplied = [
        *check_messages.multiplied(case, verdict.dispatches),
        *check_messages.missed_in_vain(case, verdict.dispatches),
    ]
    never = list(check_occurrences.never(case, verdict.occurrences))
    lost = list(check_moves.lost(case))
    verdict.counts += [
        Count("tasks lost", lost, f"of {len(case.tasks) - len(case.periodic)} accepted"),
        Count("transitions against the rules", list(check_moves.illegal(case)), f"of {len(evidence.moves)}"),
        Count("gaps in the audit", list(check_moves.gaps(case))),
        Count("attempts that overlap", overlapping, _told(verdict.overlaps, "refused: ")),
        Count("effects repeated without cause", repeated, _told(verdict.repeats, "explained: ")),
        Count("occurrences fired twice", once_twice, _told(verdict.occurrences)),
        Count("occurrences without an answer", never),
        Count("messages multiplied", multiplied, _told(verdict.dispatches, "explained: ")),
        Count("tasks given up without cause", list(check_moves.given_up(case))),
    ]
    return verdict


def _told(counter: Counter[str], before: str = "") -> str:
    text = ", ".join(f"{name} {number}" for name, number in counter.most_common())
    return before + text if text else ""
