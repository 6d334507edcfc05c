"""What became of the demonstration's tasks: the stories as tables, and what is not as it should be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from taskkit.demo.plan import Periodic, Written
from taskkit.model import Occurrence, Run, Task
from taskkit.render import counted, duration, local, milliseconds, one_line, table
from taskkit.results import decode_result
from taskkit.states import ENDED, Outcome

if TYPE_CHECKING:
    from taskkit.center import TaskCenter

SHOWN_OCCURRENCES = 3


@dataclass(frozen=True, slots=True)
class Seen:
    """The tasks, runs and occurrences of the demonstration as they stand in SQL now."""

    tasks: Mapping[int, Task]
    runs: Mapping[int, list[Run]]
    occurrences: Mapping[int, list[Occurrence]]
    now: datetime

    def ended(self, written: Written) -> int:
        """How many tasks of an act have ended."""
        return sum(self.tasks[task_id].status in ENDED for task_id in written.ids)

    def attempts(self, task_id: int) -> list[Run]:
        """The attempts of a task that a handler began; a busy worker may have handed it back before."""
        return [run for run in self.runs[task_id] if run.outcome is not Outcome.HANDED_BACK]

    def handed_back(self) -> int:
        """How many attempts a worker gave back."""
        return sum(run.outcome is Outcome.HANDED_BACK for runs in self.runs.values() for run in runs)

    def fired(self, periodic: Periodic) -> int:
        """How many occurrences of a periodic task have been run to their end."""
        return sum(one.outcome is not None for one in self.occurrences[periodic.id])


def look(center: TaskCenter, written: Sequence[Written], periodic: Sequence[Periodic]) -> Seen:
    """Read everything about these tasks: first the tasks, so that the runs of one that has ended are all there."""
    ids = [task_id for one in written for task_id in one.ids] + [one.id for one in periodic]
    tasks = {task.id: task for task in center.read.tasks(ids)}
    runs: dict[int, list[Run]] = {task_id: [] for task_id in ids}
    for run in center.read.runs(ids):
        runs[run.task_id].append(run)
    return Seen(
        tasks,
        runs,
        {one.id: center.read.occurrences(one.id, 1000) for one in periodic},
        center.now(),
    )


def complete(seen: Seen, written: Sequence[Written], periodic: Sequence[Periodic]) -> bool:
    """Whether all has happened that the demonstration waits for."""
    return (
        all(seen.ended(one) == len(one.ids) for one in written)
        and all(seen.fired(one) >= one.at_least for one in periodic)
        and all(seen.attempts(one.id) for one in periodic if one.by_hand)
    )


def surprises(seen: Seen, written: Sequence[Written], periodic: Sequence[Periodic]) -> Iterator[str]:
    """What is not as it should be, one sentence each."""
    for one in written:
        for task_id in one.ids:
            yield from _surprise(seen, one, task_id)
    for each in periodic:
        if seen.fired(each) < each.at_least:
            yield f"task {each.id} ({each.about}) fired {counted(seen.fired(each), 'time')}, expected at least {each.at_least}"
        if each.by_hand and not any(run.outcome is Outcome.SUCCESS for run in seen.runs[each.id]):
            yield f"task {each.id} ({each.about}) was started by hand and did not run"


def _surprise(seen: Seen, one: Written, task_id: int) -> Iterator[str]:
    task, act = seen.tasks[task_id], one.act
    outcomes = tuple(run.outcome.value for run in seen.attempts(task_id))
    if task.status is not act.status or outcomes != act.outcomes:
        yield (
            f"task {task_id} ({act.about}) is {task.status.label} after {', '.join(outcomes) or 'no run'}; "
            f"expected {act.status.label} after {', '.join(act.outcomes)}"
        )


def stories(seen: Seen, written: Sequence[Written], names: Mapping[str, str]) -> object:
    """Each task's story, one line per attempt; ``names`` are short ones for workers."""
    rows: list[tuple[object, ...]] = []
    for one in written:
        rows += _together(seen, one) if len(one.ids) > 1 else _alone(seen, one.ids[0], names)
    columns = (">task", "code", "status", "attempt", ">waited", ">ran", "on", "result or error")
    return table(
        columns, rows, title="What became of each task", keep=("task", "status", "attempt", "waited", "ran")
    )


def _alone(seen: Seen, task_id: int, names: Mapping[str, str]) -> Iterator[tuple[object, ...]]:
    task, runs = seen.tasks[task_id], seen.attempts(task_id)
    for number, run in enumerate(runs):
        head = ("", "", "") if number else (task.id, task.task_code, task.status.label)
        said = run.error or (_said(task) if run is runs[-1] else None)
        due = runs[number - 1].finished_at if number else task.created_at
        yield (
            *head,
            f"{run.attempt} {run.outcome.value}",
            duration((run.started_at - due).total_seconds()) if run.started_at else "-",
            milliseconds(run.runtime_ms),
            names.get(run.worker_id or "", run.worker_id),
            one_line(said or "-", 60),
        )
    if not runs:
        yield (
            task.id,
            task.task_code,
            task.status.label,
            "none",
            "-",
            "-",
            "-",
            one_line(task.last_result or "-", 60),
        )


def _said(task: Task) -> str | None:
    """What a task returned, in a few words."""
    value = decode_result(task.id, task.result)
    if isinstance(value, dict):
        value = value.get("output") or value.get("body") or task.result
    return str(value) if value is not None else task.last_result


def _together(seen: Seen, one: Written) -> Iterator[tuple[object, ...]]:
    """Many tasks alike, in one line."""
    runs = [run for task_id in one.ids for run in seen.attempts(task_id)]
    statuses = Counter(seen.tasks[task_id].status.label for task_id in one.ids)
    waits = [
        (run.started_at - seen.tasks[run.task_id].created_at).total_seconds()
        for run in runs
        if run.started_at
    ]
    took = [run.runtime_ms for run in runs if run.runtime_ms is not None]
    yield (
        f"{one.ids[0]}…",
        one.act.code,
        " ".join(statuses),
        counted(len(runs), "run"),
        duration(max(waits)) if waits else "-",
        milliseconds(max(took)) if took else "-",
        "all",
        f"{statuses[one.act.status.label]} of {len(one.ids)}, the slowest shown",
    )


def schedule(seen: Seen, periodic: Sequence[Periodic]) -> object:
    """The latest and the next occurrence of each periodic task."""
    rows: list[tuple[object, ...]] = []
    for one in periodic:
        task, known = seen.tasks[one.id], sorted(seen.occurrences[one.id], key=lambda o: o.planned_at)
        past = [o for o in known if o.state != "planned"][-SHOWN_OCCURRENCES:]
        coming = [o for o in known if o.state == "planned" and o.planned_at > seen.now][:1]
        by_hand = [run for run in seen.attempts(one.id) if run.occurrence_at is None]
        lines = [(local(o.planned_at, now=seen.now), o.state, _late(o), o.outcome) for o in past]
        lines += [(local(run.started_at, now=seen.now), "by hand", "-", run.outcome.value) for run in by_hand]
        lines += [(local(o.planned_at, now=seen.now), "planned", "-", "-") for o in coming]
        heads = [(task.id, task.task_code, task.cron_expr), *[("", "", "")] * len(lines)]
        rows += [(*head, *line) for head, line in zip(heads, lines, strict=False)]
    return table(
        (">task", "code", "schedule", "at", "state", ">late", "outcome"), rows, title="What ran by schedule"
    )


def _late(one: Occurrence) -> str:
    return duration(one.late_s) if one.late_s is not None else "-"


def shares(seen: Seen, names: Mapping[str, str]) -> str:
    """How many attempts each worker ran."""
    counts = Counter(run.worker_id or "" for task_id in seen.runs for run in seen.attempts(task_id))
    back = (
        f"; {seen.handed_back()} were handed back by a busy one before they began"
        if seen.handed_back()
        else ""
    )
    return ", ".join(f"{name} ran {counts[worker]}" for worker, name in names.items()) + back
