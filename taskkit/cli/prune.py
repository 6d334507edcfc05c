"""``taskkit prune``: delete what is older than its retention."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from taskkit.cli.front import Front, pass_front
from taskkit.cli.options import SPAN, json_option
from taskkit.clock import monotonic

if TYPE_CHECKING:
    from taskkit.center.retention import Step
    from taskkit.settings import Retention

DAY = 86_400.0
LEAST, LONGEST = 0.005, 1.0
OFTEN = ("tasks_days", "runs_days", "occurrences_days", "samples_days")


@click.command()
@click.option("--dry-run", is_flag=True, help="Only count what would go.")
@click.option(
    "--older-than",
    type=SPAN,
    metavar="SPAN",
    help="Instead of the settings, for ended tasks, runs, occurrences and samples: 7d, 12h, … "
    "Dead letters, actions and `once` keep theirs.",
)
@json_option
@pass_front
def command(front: Front, dry_run: bool, older_than: float | None, as_json: bool) -> None:
    """Delete ended tasks, runs, occurrences, samples and actions that are older than their [retention].

    Schedulers do this by themselves, a little at a time; the command does it now. It deletes a few hundred rows at
    a time and rests in between, so that everything else goes on. It may be stopped at any moment and started again.
    What is live, what waits for a person, and planned occurrences stay.

    \b
      taskkit prune --dry-run
      taskkit prune --older-than 7d
    """
    from taskkit.errors import InputError

    if older_than is not None and older_than <= 0:
        raise InputError("--older-than", "must be longer than 0; write for example 7d")
    sweep = Sweep(front, _keep(front, older_than), dry=dry_run)
    try:
        sweep.run()
    except KeyboardInterrupt:
        sweep.tell(as_json, whole=False)
        raise
    sweep.tell(as_json, whole=True)


def _keep(front: Front, older_than: float | None) -> Retention:
    from msgspec.structs import replace

    keep = front.settings.retention
    return keep if older_than is None else replace(keep, **dict.fromkeys(OFTEN, older_than / DAY))


class Sweep:
    """One pass over the tables, and what it came to."""

    def __init__(self, front: Front, keep: Retention, *, dry: bool) -> None:
        self.front, self.keep, self.dry = front, keep, dry
        self.tables: dict[str, dict[str, int]] = {}
        self.began = monotonic()

    def run(self) -> None:
        """Step by step, with a rest as long as the step took."""
        from taskkit.render import progress

        with progress("looking", None) as bar:
            began = monotonic()
            for step in self.front.center.retention.sweep(self.keep, dry=self.dry):
                self._count(step)
                bar.step(step.table, step.looked)
                if step.gone and not self.dry:
                    time.sleep(min(LONGEST, max(LEAST, monotonic() - began)))
                began = monotonic()

    def _count(self, step: Step) -> None:
        found = self.tables.setdefault(step.table, {"looked": 0, "gone": 0})
        found["looked"] += step.looked
        found["gone"] += step.gone

    def tell(self, as_json: bool, *, whole: bool) -> None:
        """What went, table by table; ``whole`` says whether the pass came to its end."""
        from taskkit.render import to_json

        if as_json:
            click.echo(to_json(self._shape(whole)))
        else:
            self._show(whole)

    def _shape(self, whole: bool) -> dict[str, Any]:
        seconds = round(monotonic() - self.began, 3)
        return {"dry_run": self.dry, "complete": whole, "seconds": seconds, "tables": self.tables}

    def _show(self, whole: bool) -> None:
        from taskkit.render import duration, show, table

        rows = [(name, found["looked"], found["gone"]) for name, found in self.tables.items()]
        show(table(("table", ">looked at", ">would go" if self.dry else ">deleted"), rows))
        took = duration(monotonic() - self.began)
        show("", f"done in {took}" if whole else f"stopped after {took}; run it again to go on")
