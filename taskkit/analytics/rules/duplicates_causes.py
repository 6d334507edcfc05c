"""Why a task ran more than once: one cause for each task, and for each business key that was written twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from taskkit.analytics.diagnosis import Figure, Subject
from taskkit.analytics.rules.base import tasks_told
from taskkit.analytics.source import Source
from taskkit.zone import load_zone

Story = list[Any]
"""Runs as named tuples of their frame's columns."""
Pair = tuple[Any, Any]
MOST_PAIRS = 3
RACE_S = 60.0
HAD_SAID = "its handler had said"
"""So a lost run tells how far its handler had come, where it told of its progress."""
PERSONS = {"run_now", "retry"}


def findings(source: Source, runs: pd.DataFrame) -> list[Subject]:
    """Each task and key that may have had more than one effect, or looks as if; ``runs`` are the :func:`judged` ones."""
    never, asked = never_begun(source.frame("workers"), runs), _asked_again(source.frame("actions"))
    found = [one for story in _stories(runs) if (one := _of_task(story, never, asked, source)) is not None]
    return found + list(_of_keys(source.frame("twins"), runs))


def judged(source: Source) -> pd.DataFrame:
    """The runs of those tasks and occurrences of which one ran or ended in the window: older ones were told already."""
    runs = source.frame("runs").drop_duplicates(["task_id", "attempt"])
    began = runs["started_at"].fillna(runs["dispatched_at"]).fillna(runs["finished_at"])
    before = runs["finished_at"] < pd.Timestamp(source.window.since)
    there = ~before & ~(began >= pd.Timestamp(source.window.until))
    wish = [runs["task_id"], _wish(runs)]
    return runs[there.groupby(wish).transform("any").astype(bool)]


def cut_at(source: Source, runs: pd.DataFrame) -> int | None:
    """How many repeated tasks were read, where there may be more: frames have only the newest of so many."""
    told = dict(source.frame("facts").itertuples(index=False, name=None)).get("repeated_at_most")
    most = int(told) if told and str(told).isdecimal() else None
    one_off, periodic = runs[runs["occurrence_at"].isna()], runs[runs["occurrence_at"].notna()]
    several = one_off.loc[one_off["attempt"] > 1, "task_id"].nunique()
    occurrences = len(periodic[["task_id", "occurrence_at"]].drop_duplicates())
    return most if most and max(several, occurrences) >= most else None


def _wish(runs: pd.DataFrame) -> pd.Series[Any]:
    """Which occurrence a run belongs to; an empty text for a one-off task."""
    return runs["occurrence_at"].astype("object").where(runs["occurrence_at"].notna(), "")


def overlapping(runs: pd.DataFrame) -> list[Pair]:
    """Pairs of runs of one task whose times overlap, the earlier one first."""
    stories: defaultdict[int, Story] = defaultdict(list)
    for run in runs.itertuples(index=False):
        stories[int(run.task_id)].append(run)
    return [pair for task_id in sorted(stories) for pair in _overlaps(stories[task_id])]


def overlaps_told(pairs: Sequence[Pair], source: Source) -> list[Figure]:
    """Who overlapped whom and when, where anybody did."""
    return [Figure("overlaps", _told_pairs(pairs, source.window.zone))] if pairs else []


def _overlaps(story: Story) -> list[Pair]:
    if len(story) < 2:
        return []
    timed = [run for run in story if pd.notna(run.started_at) and pd.notna(run.finished_at)]
    timed.sort(key=lambda run: (run.started_at, run.finished_at))
    return [
        (earlier, later)
        for n, earlier in enumerate(timed)
        for later in timed[n + 1 :]
        if later.started_at < earlier.finished_at
    ]


def _told_pairs(pairs: Sequence[Pair], zone: str) -> str:
    """The first pairs with their workers and times."""
    clock = load_zone(zone)

    def one(run: Any) -> str:
        start, end = (
            at.tz_convert(clock).isoformat(" ", "seconds") for at in (run.started_at, run.finished_at)
        )
        return f"{run.worker_id or '?'} {start} … {end}"

    return "; ".join(
        f"{earlier.task_id}: {one(earlier)}, {one(later)}" for earlier, later in pairs[:MOST_PAIRS]
    )


def _stories(runs: pd.DataFrame) -> Iterator[Story]:
    """The runs that answer one wish, by attempt: those of a task, or of one occurrence of a periodic one."""
    wishes: defaultdict[tuple[int, str], Story] = defaultdict(list)
    for run in runs.itertuples(index=False):
        wish = "" if pd.isna(run.occurrence_at) else str(run.occurrence_at)
        wishes[int(run.task_id), wish].append(run)
    for key in sorted(wishes):
        if len(wishes[key]) > 1:
            yield sorted(wishes[key], key=lambda run: int(run.attempt))


def _of_task(story: Story, never: set[tuple[int, int]], asked: set[int], source: Source) -> Subject | None:
    first, last = story[0], story[-1]
    task_id = int(first.task_id)
    cause = _cause(story, never, task_id in asked)
    if cause is None:
        return None
    known = pd.notna(first.dispatched_at)
    waited = (last.finished_at - first.dispatched_at).total_seconds() if known else None
    pairs = _overlaps(story)
    figures = (
        Figure("runs_of_task", len(story), "runs"),
        Figure("ended_after", waited, "s"),
        Figure("overlapping", len(pairs), "pairs"),
        *overlaps_told(pairs, source),
    )
    return Subject(cause, f"{task_id} {first.task_code}", figures)


def _cause(story: Story, never: set[tuple[int, int]], asked: bool) -> str | None:
    """The cause of the second effect; None when there was one effect, or none."""
    outcomes = [run.outcome for run in story]
    successes = outcomes.count("success")
    with_worker = [run for run in story if run.outcome == "lost" and pd.notna(run.worker_id)]
    if successes > 1:
        return "run_again_by_person" if asked else "dispatched_twice"
    if "superseded" in outcomes:
        return "declared_dead_alive"
    if any(HAD_SAID in str(run.error) for run in with_worker):
        return "killed_after_effect"
    if any((int(run.task_id), int(run.attempt)) not in never for run in with_worker):
        return "may_be_twice"
    if "failed" in outcomes or "timeout" in outcomes:
        return "retried_without_idempotency" if successes else None
    return "late_not_twice" if "lost" in outcomes and successes else None


def _of_keys(twins: pd.DataFrame, runs: pd.DataFrame) -> Iterator[Subject]:
    done = set(runs.loc[runs["outcome"] == "success", "task_id"])
    for twin in twins.itertuples():
        apart = (twin.last_at - twin.first_at).total_seconds()
        if (twin.key_kind == "unique_key" or apart <= RACE_S) and {twin.first_id, twin.last_id} <= done:
            figures = (Figure("tasks_of_key", int(twin.tasks), "tasks"), Figure("written_apart", apart, "s"))
            yield Subject("enqueued_twice", f"{twin.first_id} {twin.last_id} {twin.task_code}", figures)


def never_begun(workers: pd.DataFrame, runs: pd.DataFrame) -> set[tuple[int, int]]:
    """The lost attempts that no handler had begun, as far as that can be proved.

    In its last heartbeat the worker held them behind others, and those others, as many as it has children, were lost
    with it: so none of them had ended, and no child was free.
    """
    lost = runs[(runs["outcome"] == "lost") & runs["worker_id"].notna()]
    gone = {(int(r.task_id), int(r.attempt)) for r in lost.itertuples()}
    found: set[tuple[int, int]] = set()
    for worker in workers.itertuples():
        held = tasks_told(worker.tasks)
        begun = {_attempt(one) for one in held if one.get("begun")} & gone
        if len(begun) >= worker.processes:
            found |= {_attempt(one) for one in held if one.get("begun") is False} & gone
    return found


def _attempt(told: dict[str, Any]) -> tuple[int, int]:
    return int(told["task_id"]), int(told.get("attempt", 0))


def _asked_again(actions: pd.DataFrame) -> set[int]:
    return set(actions.loc[actions["action"].isin(PERSONS), "task_id"].dropna().astype(int))
