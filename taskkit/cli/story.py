"""One task's story: what it is, its runs with their errors, and a periodic one's latest and next occurrences."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from taskkit.cli.shapes import occurrence_shape, run_shape, task_shape, value_of
from taskkit.model import Occurrence, Run, Task
from taskkit.states import Outcome, Status, TaskType

if TYPE_CHECKING:
    from taskkit.center import TaskCenter
    from taskkit.center.limits import Standing

LATEST, NEXT, TOLD = 10, 5, 3
LONGEST = 1000
AGREE = 3
WRITTEN_AHEAD = 1000
"""More occurrences than the planner writes ahead, so that the past ones behind them are read too."""


@dataclass(frozen=True, slots=True)
class Story:
    """Everything the task center knows about one task, as of ``now`` on the database's clock."""

    task: Task
    runs: list[Run]
    now: datetime
    past: list[Occurrence] = field(default_factory=list)
    coming: list[datetime] = field(default_factory=list)
    pulse: str = ""
    standing: Standing | None = None

    def shape(self) -> dict[str, Any]:
        """For ``--json``."""
        found = task_shape(self.task) | {"waits_for": _limit(self.standing)}
        found |= {"runs": [run_shape(run) for run in self.runs]}
        if self.task.task_type is TaskType.PERIODIC:
            found |= {"occurrences": [occurrence_shape(one) for one in self.past], "next": self.coming}
        return found

    def show(self, *, everything: bool) -> None:
        """For people."""
        from taskkit.render import facts, show

        show(facts(self._facts()))
        if self.runs:
            show("", self._runs(everything))
            self._errors(everything)
        else:
            show("", "no attempt has ended yet" if self.task.attempt else "it has not been started yet")
        self._outputs(everything)
        if self.task.task_type is TaskType.PERIODIC:
            self._occurrences()

    def _facts(self) -> list[tuple[str, object]]:
        from taskkit.render import duration, local_with_age

        task = self.task

        def at(instant: datetime | None) -> str | None:
            return None if instant is None else local_with_age(instant, now=self.now)

        waits = task.status in {Status.PENDING, Status.FAILED}
        running = task.status is Status.RUNNING
        return [
            ("task", f"{task.id}  {task.task_code}"),
            ("status", f"{task.status.label} ({int(task.status)})"),
            ("held because", task.held_reason if task.status is Status.HELD else None),
            ("limit", _limit(self.standing)),
            (
                "cancel",
                "asked for " + str(at(task.cancel_requested_at)) if task.cancel_requested_at else None,
            ),
            ("payload", _bounded(_spaced(task.payload))),
            ("schedule", f"{task.cron_expr}  {task.timezone}" if task.cron_expr else None),
            ("due", at(task.plan_next_run_at) if waits else None),
            ("queue", f"{task.queue}, priority {task.priority}"),
            ("unique key", task.unique_key),
            ("limit key", task.limit_key),
            ("time limit", duration(task.timeout)),
            ("retries", f"{task.retry_count} of {task.max_retry} used{_losses(task)}"),
            ("expires", at(task.expires_at)),
            ("dispatched", at(task.dispatched_at) if task.status is Status.DISPATCHED else None),
            ("claimed", at(task.claimed_at) if running else None),
            ("worker", f"{task.worker_id}, {self.pulse}" if running else None),
            ("progress", _progress(task) if running else None),
            ("last result", task.last_result if not self.runs else None),
            ("result", None if _output(task.result) else _bounded(_result(task))),
            ("written", at(task.created_at)),
        ]

    def _runs(self, everything: bool) -> object:
        from taskkit.render import counted, local, milliseconds, one_line, table

        shown = self.runs if everything else self.runs[-20:]
        rows = [
            (
                run.attempt,
                run.outcome.value,
                local(run.started_at, now=self.now),
                milliseconds(_waited_ms(run)),
                milliseconds(run.runtime_ms),
                run.worker_id,
                one_line(run.error or "-", 120),
            )
            for run in shown
        ]
        title = (
            "runs"
            if len(shown) == len(self.runs)
            else f"the latest {len(shown)} of {counted(len(self.runs), 'run')}"
        )
        columns = (">attempt", "outcome", "started", ">waited", ">ran", "worker", "error")
        return table(columns, rows, title=title, keep=("outcome",))

    def _errors(self, everything: bool) -> None:
        """Error and traceback in full: of the latest failures, or of all."""
        from taskkit.render import show

        failed = [run for run in self.runs if run.error or run.traceback]
        told = failed if everything else failed[-TOLD:]
        for run in told:
            show("", f"attempt {run.attempt} {run.outcome.value}: {run.error or ''}".rstrip(": "))
            if run.traceback:
                show(run.traceback.rstrip())
            if run.fingerprint:
                show(f"fingerprint {run.fingerprint}")
        if len(told) < len(failed):
            show("", f"{len(failed) - len(told)} earlier errors: --all")

    def _outputs(self, everything: bool) -> None:
        """What the program of a `shell` task said: in its latest good run, or in all."""
        from taskkit.render import show

        said = [(run.attempt, text) for run in self.runs if (text := _output(run.result))]
        for attempt, text in said if everything else said[-1:]:
            show("", f"output of the program, attempt {attempt}", text.rstrip())

    def _occurrences(self) -> None:
        from taskkit.render import duration, local, show, table

        rows = [
            (local(one.planned_at, now=self.now), one.state, _late(one), one.attempt, one.outcome, one.reason)
            for one in self.past[:LATEST]
        ]
        if rows:
            show(
                "",
                table(
                    ("planned", "state", ">late", ">attempt", "outcome", "reason"),
                    rows,
                    title="latest occurrences",
                ),
            )
        if self.coming:
            next_ones = [
                (local(at, now=self.now), f"in {duration((at - self.now).total_seconds())}")
                for at in self.coming
            ]
            show("", table(("next", ""), next_ones))


def read_story(center: TaskCenter, task_id: int) -> Story:
    """Read one task's story; raises NotFound."""
    from taskkit.cli.life import pulse

    task, runs = _agreeing(center, task_id)
    now = center.now()
    heard = pulse(center, task)[0] if task.status is Status.RUNNING else ""
    stands = center.limits.standing(task_id) if task.status is Status.HELD else None
    if task.task_type is not TaskType.PERIODIC:
        return Story(task, runs, now, pulse=heard, standing=stands)
    known = center.read.occurrences(task_id, WRITTEN_AHEAD)
    past = [one for one in known if one.planned_at <= now or one.state != "planned"]
    return Story(task, runs, now, past, _coming(task, known, now), heard, stands)


def _agreeing(center: TaskCenter, task_id: int) -> tuple[Task, list[Run]]:
    """A task and its runs, read again while the attempt that is under way in one has ended in the other."""
    for _ in range(AGREE):
        task = center.read.task(task_id)
        runs = center.read.runs([task_id])
        under_way = task.status in {Status.DISPATCHED, Status.RUNNING}
        if not (under_way and any(run.attempt == task.attempt for run in runs)):
            break
    return task, runs


def _coming(task: Task, known: list[Occurrence], now: datetime) -> list[datetime]:
    """The next fire times: those written down, then those of the calendar; none while nothing will fire."""
    if task.status in {Status.CANCELLED, Status.HELD}:
        return []
    planned = [one.planned_at for one in known if one.planned_at > now and one.state == "planned"]
    written = sorted(planned)[:NEXT]
    missing = NEXT - len(written)
    if missing and task.cron_expr and task.timezone:
        written += _calendar(task, max([now, *written]), missing)
    return written


def _calendar(task: Task, after: datetime, count: int) -> list[datetime]:
    from taskkit.cron import parse
    from taskkit.errors import CronError

    try:
        schedule = parse(
            task.cron_expr or "", task.timezone or "UTC", gap=task.dst_gap, overlap=task.dst_overlap
        )
        return schedule.upcoming(after, count)
    except CronError:  # edited by hand; the planner holds it and says so
        return []


def _spaced(text: str) -> str:
    """JSON with blanks after its commas, where a narrow page wraps it."""
    value = value_of(text)
    return text if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _bounded(text: str | None) -> str | None:
    if text is None or len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}… ({len(text)} letters; --json shows them all)"


def _progress(task: Task) -> str | None:
    return None if task.progress is None else f"{task.progress:.0%} {task.progress_text or ''}"


def _result(task: Task) -> str | None:
    if task.result is None or task.status is not Status.SUCCESS:
        return None
    value = value_of(task.result)
    return value if isinstance(value, str) else _spaced(task.result)


def _output(result: str | None) -> str | None:
    """What the program of a `shell` task said, from its result."""
    value = value_of(result) if result else None
    said = value.get("output") if isinstance(value, dict) else None
    return said if isinstance(said, str) else None


def _late(one: Occurrence) -> str:
    from taskkit.render import duration

    return duration(one.late_s) if one.late_s is not None else "-"


def _waited_ms(run: Run) -> float | None:
    """From the dispatch to the start of an attempt."""
    if run.started_at is None or run.dispatched_at is None or run.outcome is Outcome.LOST:
        return None
    return max(0.0, (run.started_at - run.dispatched_at).total_seconds() * 1000)


def _limit(stands: Standing | None) -> str | None:
    """What a task waits for that is over a limit."""
    if stands is None:
        return None
    return f"{stands.limit.scope} {stands.name}: {stands.limit.terms}; {stands.in_use} in use, {stands.before} before it"


def _losses(task: Task) -> str:
    """Losses count apart from retries."""
    from taskkit.render import counted

    return f", lost {counted(task.lost_count, 'time')} with its worker" if task.lost_count else ""
