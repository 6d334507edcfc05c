"""Ends of attempts: written with their run row, whatever they carry and however many there are."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from datetime import timedelta

import pytest
from msgspec.structs import replace

from taskkit.center import TaskCenter
from taskkit.model import Finish
from taskkit.states import Move, Outcome, Status
from taskkit.texts import TEXT_BYTES
from taskkit.worker.perform import failure
from tests.centers import (
    columns,
    failed,
    new,
    sql,
    start,
    succeeded,
    task,
)
from tests.servers import MariaDB

pytest_plugins = ["tests.center_fixtures"]

W1, W2 = "host-1:11:aaaa", "host-2:22:bbbb"


def test_rule_11_ends_are_written_with_their_run_rows(center: TaskCenter) -> None:
    good, bad, last, back, stop = start(center, W1, *[new()] * 5)
    began = center.now()
    desk = center.worker_desk(W1)
    spent = {
        "started_at": began,
        "finished_at": began + timedelta(seconds=1.5),
        "runtime_ms": 1500,
        "pid": 77,
    }
    ends = [
        succeeded(good, result='{"ok": "😀"}', last_result='{"ok": "😀"}', **spent),
        failed(bad, delay=30.0, traceback="Traceback …", **spent),
        replace(failed(last), move=Move.EXHAUST, retry_count=0),
        Finish(back, Outcome.HANDED_BACK, Move.HAND_BACK, 0, suspect=True),
        Finish(stop, Outcome.CANCELLED, Move.HONOUR_CANCEL, 0),
    ]
    random.Random(3).shuffle(ends)
    assert desk.finish(ends) == []
    found = {one.id: one for one in center.read.tasks([c.id for c in (good, bad, last, back, stop)])}
    assert [found[c.id].status for c in (good, bad, last, back, stop)] == [3, 4, 5, 0, 6]
    assert (found[good.id].result, found[good.id].last_result) == ('{"ok": "😀"}', '{"ok": "😀"}')
    assert (found[bad.id].retry_count, found[bad.id].last_result) == (1, "ValueError: no")
    waits = found[bad.id].plan_next_run_at
    assert waits is not None
    assert abs((waits - center.now()).total_seconds() - 30) < 10
    assert columns(center, back.id, "suspect") == (1,)
    runs = {run.task_id: run for run in center.read.runs(list(found))}
    assert [runs[c.id].outcome.value for c in (good, bad, last, back, stop)] == [
        "success", "failed", "failed", "handed_back", "cancelled",
    ]  # fmt: skip
    run = runs[bad.id]
    assert (run.attempt, run.worker_id, run.host, run.pid) == (1, W1, "host-1", 77)
    assert (run.started_at, run.finished_at, run.runtime_ms) == (began, spent["finished_at"], 1500)
    assert (run.error, run.traceback, run.task_code) == ("ValueError: no", "Traceback …", "mail")
    assert abs((runs[good.id].dispatched_at - good.dispatched_at).total_seconds()) == 0  # type: ignore[operator]


def test_many_ends_at_once_are_written_each_with_its_own_values(center: TaskCenter) -> None:
    claimed = start(center, W1, *[new()] * 450)
    ends = [
        succeeded(c, result=f'"{c.id}"') if n % 2 else failed(c, delay=float(n))
        for n, c in enumerate(claimed)
    ]
    assert center.worker_desk(W1).finish(ends) == []
    found = center.read.tasks([c.id for c in claimed])
    assert [one.status for one in found] == [3 if n % 2 else 4 for n in range(450)]
    assert all(one.result == f'"{one.id}"' for one in found if one.status == 3)
    plans = [one.plan_next_run_at for one in found if one.status == 4]
    assert plans == sorted(plans)  # type: ignore[type-var]
    assert sql(center, "SELECT COUNT(*) FROM task_run") == [(450,)]


@pytest.fixture
def small_packets(mariadb: MariaDB) -> Iterator[None]:
    """Connections made from now on take statements of 4 MiB at most; the usual limit is 16 MiB."""
    ((usual,),) = mariadb.admin("SELECT @@global.max_allowed_packet")
    mariadb.admin("SET GLOBAL max_allowed_packet = 4194304")
    yield
    mariadb.admin(f"SET GLOBAL max_allowed_packet = {usual}")


def test_a_portion_of_large_results_fits_a_packet(small_packets: None, mariadb_center: TaskCenter) -> None:
    """20 results of 60 kB, quoted, with as much error text, would be 5 MB in one statement."""
    claimed = start(mariadb_center, W1, *[new()] * 20)
    large = '"' * 60_000
    ends = [succeeded(c, result=large, last_result=large, error=large, traceback=large) for c in claimed]
    assert mariadb_center.worker_desk(W1).finish(ends) == []
    count = "SELECT COUNT(*), SUM(LENGTH(result)) FROM task_center WHERE status = 3"
    assert sql(mariadb_center, count) == [(20, 20 * 60_000)]


@pytest.mark.parametrize(
    "text",
    ["x" * 256, "x" * 65_536, "😀" * 16_384, "错" * 30_000, "\ud800 lone", "a\0b"],
    ids=["short", "ascii", "emoji", "chinese", "surrogate", "nul"],
)
def test_sql_05_an_error_of_any_length_and_alphabet_is_kept_as_far_as_it_fits(
    center: TaskCenter, text: str
) -> None:
    """And the retry counts, whatever the text."""
    (claimed,) = start(center, W1)
    desk = center.worker_desk(W1)
    assert desk.finish([failed(claimed, error=text, traceback=f"HEAD{text}TAIL", result=text[:9])]) == []
    found, (run,) = task(center, claimed.id), center.read.runs([claimed.id])
    assert (found.status, found.retry_count) == (Status.FAILED, 1)
    for kept in (found.last_result, run.error, run.traceback):
        assert kept is not None
        assert len(kept.encode()) <= TEXT_BYTES
    assert (run.traceback or "")[:4] + (run.traceback or "")[-4:] == "HEADTAIL"
    if len(text.encode("utf-8", "replace")) < TEXT_BYTES:
        assert found.last_result == text.replace("\ud800", "\\ud800")


def deep(n: int) -> None:
    if n:
        deep(n - 1)
    raise ValueError("错" * 30_000)


def test_sql_05_of_a_traceback_of_2000_frames_head_and_tail_are_kept(
    center: TaskCenter,
) -> None:
    """With a message of 90,000 bytes; it is written as any other, and the retry counts."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(4000)
    try:
        with pytest.raises(ValueError, match="错") as raised:
            deep(2000)
    finally:
        sys.setrecursionlimit(limit)
    ended = failure(raised.value)
    (claimed,) = start(center, W1)
    assert (
        center.worker_desk(W1).finish([failed(claimed, error=ended.error, traceback=ended.traceback)]) == []
    )
    (run,), found = center.read.runs([claimed.id]), task(center, claimed.id)
    assert (found.status, found.retry_count) == (Status.FAILED, 1)
    for kept in (run.traceback or "", run.error or "", found.last_result or ""):
        assert 0 < len(kept.encode()) <= TEXT_BYTES
        assert "\ufffd" not in kept
    assert (run.traceback or "").startswith("Traceback (most recent call last)")
    assert (run.traceback or "").rstrip().endswith("错")


@pytest.mark.parametrize("delay", [float("inf"), float("nan"), 1e18, -5.0, 0.0])
def test_whatever_a_handler_asks_for_its_end_is_written(center: TaskCenter, delay: float) -> None:
    """RetryLater(seconds) takes any number; one that no database holds must not stop the ends of the others."""
    odd, good = start(center, W1, new(), new())
    assert center.worker_desk(W1).finish([failed(odd, delay=delay), succeeded(good)]) == []
    found = task(center, odd.id)
    assert (found.status, task(center, good.id).status) == (Status.FAILED, Status.SUCCESS)
    assert found.plan_next_run_at is not None
    assert (found.plan_next_run_at.year >= 2038) == (delay > 0)
