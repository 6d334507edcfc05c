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
STAYS = {
    "task_center": "tasks that are not over, and periodic ones",
    "task_run": "all of a task that is not over; the last one of one given up or periodic",
    "task_occurrence": "planned ones",
    "task_sample": "",
    "task_action": "",
    "task_once": "",
    "task_alert": "what is not over",
    "task_notice": "what was not sent yet",
    "task_notice_alert": "",
    "task_delivery": "",
    "task_watchdog": "",
    "task_worker": "",
    "task_scheduler": "",
}
"""What is kept of each table, however old it is."""
OFTEN = ("tasks_days", "runs_days", "occurrences_days", "samples_days")


@click.command()
@click.option("--dry-run", is_flag=True, help="Only count what would go.")
@click.option(
    "--older-than",
    type=SPAN,
    metavar="SPAN",
    help="Instead of the settings, for ended tasks, runs, occurrences and samples: 7d, 12h, … "
    "Dead letters, actions, alerts and `once` keep theirs.",
)
@json_option
@pass_front
def command(front: Front, dry_run: bool, older_than: float | None, as_json: bool) -> None:
    """Delete ended tasks, runs, occurrences, samples, actions and alerts that are older than their [retention].

    Schedulers do this by themselves, a little at a time; the command does it now. It deletes a few hundred rows at
    a time and rests in between, so that everything else goes on. It may be stopped at any moment and started again.
    What is live, what waits for a person, and planned occurrences stay.

    With --dry-run the table says what would be deleted, from which age on, and what is kept whatever its age.

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

        ages = _ages(self.keep)
        rows = [(name, self._gone(name), ages[name], stays) for name, stays in STAYS.items()]
        gone = ">would be deleted" if self.dry else ">deleted"
        show(table(("table", gone, "because older than", "kept whatever its age"), rows))
        took = duration(monotonic() - self.began)
        if not whole:
            show("", f"stopped after {took}; run it again to go on")
        elif self.dry:
            show("", "nothing was deleted; what is younger would be kept, too. To do it, leave out --dry-run")
        else:
            show("", f"done in {took}; what is younger was kept")

    def _gone(self, table: str) -> int | None:
        """How many rows of a table; None where it was not looked at."""
        return self.tables[table]["gone"] if table in self.tables else None


def _ages(keep: Retention) -> dict[str, str]:
    """The age at which a row of each table goes."""
    from taskkit.center.retention import NODES_DAYS

    days = {
        "task_run": keep.runs_days,
        "task_occurrence": keep.occurrences_days,
        "task_sample": keep.samples_days,
        "task_action": keep.actions_days,
        "task_once": keep.once_days,
        "task_alert": keep.alerts_days,
        "task_notice": keep.alerts_days,
        "task_notice_alert": keep.alerts_days,
        "task_delivery": keep.alerts_days,
        "task_watchdog": NODES_DAYS,
        "task_worker": NODES_DAYS,
        "task_scheduler": NODES_DAYS,
    }
    tasks = f"{_age(keep.tasks_days)}; given up: {_age(keep.dead_days)}"
    return {"task_center": tasks} | {name: _age(value) for name, value in days.items()}


def _age(days: float) -> str:
    from taskkit.render import duration

    return duration(days * DAY) if days else "kept for ever"
