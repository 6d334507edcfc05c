"""Comparing diagnoses of the lab with the truth, and the table of a score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from taskkit.errors import InputError
from taskkit.hints import suggest

if TYPE_CHECKING:
    from taskkit.analytics import Diagnosis
    from taskkit.lab.truth import Truth
    from taskkit.lab.variants import Variant


@dataclass(frozen=True, slots=True)
class Scored:
    """One run: what was true, what was said, and how long it took from the first process to the verdict."""

    rule: str
    variant: str
    seed: int
    stores: str
    truth: tuple[str, ...]
    verdict: str
    confidence: str
    right: bool
    took_s: float
    diagnosed_s: float

    @property
    def mark(self) -> str:
        """For people."""
        return "right" if self.right else "WRONG"

    @property
    def line(self) -> str:
        """One run in a line."""
        return f"{self.rule} {self.variant}, seed {self.seed}: {self.verdict}, {self.mark}"

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


def score(truth: Truth, folder: Path, took_s: float) -> tuple[Scored, Diagnosis]:
    """Diagnose the bundle in the folder, and compare."""
    from taskkit.analytics import Bundle, diagnose
    from taskkit.clock import monotonic
    from taskkit.lab.truth import BUNDLE

    begun = monotonic()
    found = diagnose(truth.rule, Bundle(folder / BUNDLE))
    spent = monotonic() - begun
    right = found.verdict in truth.verdicts
    scored = Scored(truth.rule, truth.variant, truth.seed, truth.stores, truth.verdicts, found.verdict,
                    found.confidence, right, round(took_s + spent, 1), round(spent, 2))  # fmt: skip
    return scored, found


def not_brought_about(variant: Variant, seed: int) -> Scored:
    """A run that has no bundle."""
    return Scored(
        variant.rule, variant.name, seed, "none", variant.verdicts, "not brought about", "-", False, 0.0, 0.0
    )


def chosen(names: str | None, *, servers: bool) -> list[Variant]:
    """The variants that were named, by their own names or by their rules'; all without any."""
    from taskkit.lab.variants import all_variants

    known = all_variants(servers=servers)
    if names is None:
        return known
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    words = (
        {one.rule for one in known}
        | {one.name for one in known}
        | {f"{one.rule}.{one.name}" for one in known}
    )
    for name in wanted:
        if name not in words:
            raise InputError(
                "variants", f"there is no variant {name!r}{suggest(name, words)}; see `taskkit lab list`"
            )
    return [one for one in known if {one.rule, one.name, f"{one.rule}.{one.name}"} & set(wanted)]


def show_scores(scores: Sequence[Scored], as_json: bool) -> None:
    """The table, and how many were right."""
    from taskkit.render import show, table, to_json

    if as_json:
        click.echo(to_json([one.as_dict() for one in scores]))
        return
    rows = [
        (one.rule, one.variant, one.seed, " or ".join(one.truth), one.verdict, one.confidence, one.mark, f"{one.took_s:.0f} s")
        for one in scores
    ]  # fmt: skip
    heads = ("rule", "variant", ">seed", "truth", "verdict", "confidence", "right", ">time")
    show(table(heads, rows, keep=heads), "")
    stores = " and ".join(sorted({one.stores for one in scores}))
    show(f"{sum(one.right for one in scores)} of {len(scores)} right, on {stores}")
