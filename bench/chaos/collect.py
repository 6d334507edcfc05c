"""Gathers the evidence of a run: SQL, the audit, the ledger, the deaths, the processes and the faults, on one clock."""

from __future__ import annotations

import json
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.chaos import audit, ledger
from bench.chaos.evidence import Death, Drop, Effect, Evidence, Occurrence, Run, Task
from bench.chaos.ledger import Entry
from bench.chaos.stage import Stage

TASKS = "SELECT id, task_code, task_type, status, attempt, max_retry, retry_count, lost_count, last_result FROM task_center"
RUNS = "SELECT task_id, attempt, outcome, worker_id, pid, {finished}, error, {occurrence} FROM task_run ORDER BY id"
OCCURRENCES = "SELECT task_id, {planned}, state, reason, attempt FROM task_occurrence"
DROPPED = "dropped a message"
EPOCH = {"mysql": "UNIX_TIMESTAMP({})", "sqlite": "((julianday({}) - 2440587.5) * 86400.0)"}


def from_sql(evidence: Evidence, stage: Stage) -> None:
    """Read what the database knows."""
    kind = "sqlite" if stage.mariadb is None else "mysql"
    offset = evidence.offset = stage.offset()

    def epoch(column: str) -> str:
        return EPOCH[kind].format(column)

    evidence.tasks = [_task(row) for row in stage.query(TASKS)]
    text = RUNS.format(finished=epoch("finished_at"), occurrence=epoch("occurrence_at"))
    evidence.runs = [_run(row, offset) for row in stage.query(text)]
    rows = stage.query(OCCURRENCES.format(planned=epoch("planned_at")))
    evidence.occurrences = [Occurrence(r[0], round(float(r[1])), r[2], r[3] or "", r[4]) for r in rows]
    evidence.moves = audit.read(stage.query, offset)
    acted = stage.query("SELECT DISTINCT task_id FROM task_action WHERE task_id IS NOT NULL")
    evidence.acted = [row[0] for row in acted]
    evidence.dropped = int(stage.query("SELECT COALESCE(SUM(dropped), 0) FROM task_worker")[0][0])


def _task(row: Sequence[Any]) -> Task:
    task, code, kind, status, attempt, max_retry, retries, losses, note = row
    return Task(task, code, kind, status, attempt, max_retry, retries, losses, (note or "")[:200])


def _run(row: Sequence[Any], offset: float) -> Run:
    task, attempt, outcome, worker, pid, finished, error, occurrence = row
    planned = None if occurrence is None else round(float(occurrence))
    return Run(
        task, attempt, outcome, worker or "", pid, float(finished) + offset, (error or "")[:200], planned
    )


def from_ledger(evidence: Evidence, path: Path, deaths: Sequence[Death]) -> None:
    """Read the effects; one without an end goes on until its child is known to be dead."""
    entries = list(ledger.read(path)) if path.exists() else []
    whole = [entry for entry in entries if entry is not None]
    evidence.torn = len(entries) - len(whole)
    evidence.deaths = sorted(deaths, key=lambda death: death.at)
    evidence.effects = effects(whole, evidence.deaths, evidence.ended)


def from_logs(evidence: Evidence, home: Path) -> None:
    """Read which messages the workers say they dropped; a log's last line may be torn."""
    offset = time.monotonic() - time.time()
    for path in sorted(home.glob("worker-*.log")):
        pid = int(path.stem.rpartition("-")[2])
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if DROPPED in line and line.endswith("}"):
                said = json.loads(line)
                at = datetime.fromisoformat(said["time"]).timestamp() + offset
                evidence.drops.append(Drop(said["task_id"], said.get("attempt"), at, pid))


def effects(entries: Sequence[Entry], deaths: Iterable[Death], ended: float) -> list[Effect]:
    """The starts of a ledger with their ends."""
    dead: dict[int, list[Death]] = defaultdict(list)
    for death in deaths:
        dead[death.pid].append(death)
    open_ones: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    ends: dict[int, Entry] = {}
    last: dict[int, list[float]] = defaultdict(list)
    starts: list[Entry] = []
    for entry in entries:
        last[entry.pid].append(entry.mono)
        key = (entry.pid, entry.task, entry.attempt)
        if entry.kind == ledger.START:
            open_ones[key].append(len(starts))
            starts.append(entry)
        elif entry.kind == ledger.END and open_ones[key]:
            ends[open_ones[key].pop(0)] = entry
    return [
        _effect(start, ends.get(n), dead[start.pid], last[start.pid], ended) for n, start in enumerate(starts)
    ]


def _effect(start: Entry, end: Entry | None, deaths: list[Death], seen: list[float], ended: float) -> Effect:
    until = end.mono if end is not None else _last_breath(start, deaths, seen, ended)
    return Effect(
        task=start.task,
        attempt=start.attempt,
        code=start.code,
        worker=start.worker,
        pid=start.pid,
        start=start.mono,
        end=None if end is None else end.mono,
        until=until,
        how="" if end is None else end.extra,
        occurrence=None if start.extra == ledger.NONE else int(start.extra),
    )


def _last_breath(start: Entry, deaths: list[Death], seen: list[float], ended: float) -> float:
    """When the child of an effect without an end died; where nobody saw it, the last that was heard of it before."""
    death = next((death for death in deaths if death.at >= start.mono), None)
    if death is None:
        return ended
    if death.exact:
        return death.at
    return seen[max(0, bisect_left(seen, death.at) - 1)]
