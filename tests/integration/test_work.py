"""A worker's part: each attempt is claimed once and ended once, by the one who holds it; all else changes nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from taskkit.center import TaskCenter
from taskkit.model import Claimed, Claims, Finish, Message, NewTask
from taskkit.states import DEFAULT_RETRY, Move, Outcome, RetryPolicy, Status, judge
from taskkit.texts import TEXT_BYTES
from tests.centers import (
    Clock,
    at_once,
    columns,
    dispatch,
    failed,
    in_status,
    instant,
    messages,
    new,
    occurrences,
    on_clock,
    periodic,
    sql,
    start,
    succeeded,
    task,
)
from tests.proxy import Proxy
from tests.servers import MariaDB

pytest_plugins = ["tests.center_fixtures"]

W1, W2 = "host-1:11:aaaa", "host-2:22:bbbb"


def queued(center: TaskCenter, *tasks: NewTask) -> list[Message]:
    """Messages of dispatched tasks, as they stand in the broker."""
    ids = center.intake.insert(tasks or [new()])
    return messages(center.dispatch.claim(ids))


def answers(claims: Claims) -> dict[str, int]:
    names = ("won", "duplicates", "expired", "missing")
    return {name: len(getattr(claims, name)) for name in names if getattr(claims, name)}


def test_a_claimed_task_carries_all_that_its_run_needs(center: TaskCenter) -> None:
    asked = new(payload='{"a": "😀"}', timeout=7, max_retry=2, retry_delays="1,2", trace_id="t", priority=1)
    (message,) = queued(center, asked)
    (won,) = center.worker_desk(W1).claim([message]).won
    assert (won.id, won.task_code, won.attempt, won.queue) == (message.task_id, "mail", 1, "q")
    assert (won.payload, won.timeout, won.max_retry, won.retry_delays) == ('{"a": "😀"}', 7, 2, "1,2")
    assert (won.trace_id, won.retry_count, won.suspect, won.task_type) == ("t", 0, False, 0)
    found = task(center, won.id)
    assert (found.status, found.worker_id, found.claimed_at) == (Status.RUNNING, W1, won.claimed_at)
    assert center.worker_desk(W1).claim([]) == Claims()


def test_twenty_messages_of_one_task_and_five_workers_give_one_run(center_url: str) -> None:
    """WORK-10 a."""
    centers = [TaskCenter(center_url) for _ in range(5)]
    (message,) = queued(centers[0])
    claims = at_once(5, lambda n: centers[n].worker_desk(f"host:{n}:x").claim([message] * 4))
    won = [one for claim in claims for one in claim.won]
    assert (len(won), sum(len(claim.duplicates) for claim in claims)) == (1, 19)
    assert task(centers[0], message.task_id).attempt == 1
    for center in centers:
        center.close()


def test_each_message_gets_exactly_one_answer(center: TaskCenter) -> None:
    now = center.now()
    good, twice, old, future, by_hand, both, gone, late = queued(
        center, *[new()] * 7, new(expires_at=now + timedelta(hours=1))
    )
    sql(
        center,
        "UPDATE task_center SET expires_at = :at WHERE id = :i",
        at=center.database.dialect.bind(now - timedelta(seconds=1)),
        i=late.task_id,
    )
    sql(center, "DELETE FROM task_center WHERE id = :i", i=gone.task_id)
    sql(center, "UPDATE task_center SET attempt = 2 WHERE id = :i", i=old.task_id)
    asked = [
        good, twice, twice, old, replace(future, attempt=2), replace(by_hand, attempt=None),
        both, replace(both, attempt=None), gone, replace(gone, attempt=None), late, replace(good, attempt=0),
    ]  # fmt: skip
    claims = center.worker_desk(W1).claim(asked)
    won = [good, twice, by_hand, both]
    assert [(c.id, c.attempt) for c in claims.won] == [(m.task_id, 1) for m in won]
    assert [m.task_id for m in claims.missing] == [gone.task_id, gone.task_id]
    assert claims.expired == [late]
    assert [(m.task_id, m.attempt) for m in claims.duplicates] == [
        (twice.task_id, 1),
        (old.task_id, 1),
        (future.task_id, 2),
        (both.task_id, None),
        (good.task_id, 0),
    ]
    assert task(center, old.task_id).status == task(center, future.task_id).status == Status.DISPATCHED
    assert task(center, late.task_id).status == Status.CANCELLED


def test_the_same_message_in_a_later_batch_is_not_handed_out_again_to_the_same_worker(
    center: TaskCenter,
) -> None:
    """Rule 9: reading back by worker_id would hand a doubled message to the same worker twice."""
    (message,) = queued(center)
    desk = center.worker_desk(W1)
    assert answers(desk.claim([message])) == {"won": 1}
    assert answers(desk.claim([message])) == {"duplicates": 1}
    assert answers(desk.claim([replace(message, attempt=None)])) == {"duplicates": 1}
    (claimed,) = desk.claim(queued(center)).won
    assert claimed.id != message.task_id


@pytest.mark.parametrize("status", [Status.RUNNING, Status.SUCCESS, Status.FAILED, Status.PENDING])
@pytest.mark.parametrize("attempt", [1, None], ids=["with attempt", "by hand"])
def test_a_duplicate_that_arrives_later_has_no_effect(
    center: TaskCenter, status: Status, attempt: int | None
) -> None:
    """WORK-10 d: in particular a pending retry does not start before its time."""
    task_id = in_status(center, status)
    before = task(center, task_id)
    claims = center.worker_desk(W2).claim([Message(task_id, "mail", attempt)])
    assert answers(claims) == {"duplicates": 1}
    assert task(center, task_id) == before


def test_a_message_of_an_earlier_attempt_does_not_start_the_next_one(center: TaskCenter) -> None:
    (stale,) = queued(center)
    batch = center.dispatch.claim([stale.task_id])
    assert batch.won == []
    center.people.pause(stale.task_id, "ann")
    center.people.resume(stale.task_id, "ann")
    (fresh,) = messages(dispatch(center))
    assert (stale.attempt, fresh.attempt) == (1, 2)
    desk = center.worker_desk(W1)
    assert answers(desk.claim([stale])) == {"duplicates": 1}
    assert [c.attempt for c in desk.claim([fresh]).won] == [2]


def test_ends_are_written_with_their_run_rows(center: TaskCenter) -> None:
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
def test_an_error_of_any_length_and_alphabet_is_kept_as_far_as_it_fits(center: TaskCenter, text: str) -> None:
    """SQL-05: and the retry counts, whatever the text."""
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


@pytest.mark.parametrize("delay", [float("inf"), float("nan"), 1e18, -5.0, 0.0])
def test_whatever_a_handler_asks_for_its_end_is_written(center: TaskCenter, delay: float) -> None:
    """RetryLater(seconds) takes any number; one that no database holds must not stop the ends of the others."""
    odd, good = start(center, W1, new(), new())
    assert center.worker_desk(W1).finish([failed(odd, delay=delay), succeeded(good)]) == []
    found = task(center, odd.id)
    assert (found.status, task(center, good.id).status) == (Status.FAILED, Status.SUCCESS)
    assert found.plan_next_run_at is not None
    assert (found.plan_next_run_at.year >= 2038) == (delay > 0)


def test_a_finish_is_written_once_and_an_own_run_row_means_done(center: TaskCenter) -> None:
    (claimed,) = start(center, W1)
    desk = center.worker_desk(W1)
    assert desk.finish([succeeded(claimed)]) == []
    before = task(center, claimed.id)
    assert desk.finish([succeeded(claimed), succeeded(claimed)]) == []
    assert task(center, claimed.id) == before
    assert len(center.read.runs([claimed.id])) == 1


def lose(center: TaskCenter, claimed: Claimed) -> None:
    """What recovery does with the task of a worker that it takes for dead."""
    sql(
        center,
        "INSERT INTO task_run (task_id, attempt, task_code, queue, outcome, worker_id) "
        "VALUES (:i, :a, 'mail', 'q', 'lost', :w)",
        i=claimed.id, a=claimed.attempt, w=W1,
    )  # fmt: skip
    sql(
        center,
        "UPDATE task_center SET status = 0, plan_next_run_at = {now}, lost_count = 1, token = NULL WHERE id = :i",
        i=claimed.id,
    )


def still_running(center: TaskCenter, claimed: Claimed) -> None:
    assert claimed.attempt == 2


def has_succeeded(center: TaskCenter, claimed: Claimed) -> None:
    center.worker_desk(W2).finish([succeeded(claimed, result='"second"', last_result="second")])


def waits_for_retry(center: TaskCenter, claimed: Claimed) -> None:
    center.worker_desk(W2).finish([failed(claimed, error="second")])


@pytest.mark.parametrize("second", [still_running, has_succeeded, waits_for_retry])
@pytest.mark.parametrize("first", ["returns", "raises", "beats"])
@pytest.mark.parametrize("known", [True, False], ids=["lost row", "no row"])
def test_a_late_end_of_a_superseded_attempt_changes_nothing_but_its_own_run(
    center: TaskCenter, second: Callable[[TaskCenter, Claimed], None], first: str, known: bool
) -> None:
    """WORK-09: in all 9 combinations; the late one leaves a superseded row, also where nobody wrote a lost one."""
    (late,) = start(center, W1)
    lose(center, late)
    if not known:
        sql(center, "DELETE FROM task_run")
    (again,) = center.worker_desk(W2).claim(messages(dispatch(center))).won
    second(center, again)
    before, desk = task(center, late.id), center.worker_desk(W1)
    if first == "beats":
        desk.progress(late.id, late.attempt, 0.5, "half")
        assert desk.cancel_requested([late.id]) == set()
    else:
        end = succeeded(late, result='"first"') if first == "returns" else failed(late, traceback="T")
        end = replace(end, runtime_ms=99, pid=5, started_at=late.claimed_at)
        assert desk.finish([end]) == [end]
        assert desk.finish([end]) == [end]
    assert task(center, late.id) == before
    runs = {run.attempt: run for run in center.read.runs([late.id])}
    assert (2 in runs) == (second is not still_running)
    if first == "beats":
        return
    run = runs[1]
    assert (run.outcome, run.worker_id, run.runtime_ms, run.pid) == ("superseded", W1, 99, 5)
    assert run.started_at == late.claimed_at
    assert (run.error, run.traceback) == ((None, None) if first == "returns" else ("ValueError: no", "T"))


def test_a_late_end_among_others_does_not_stop_them(center: TaskCenter) -> None:
    late, good, other = start(center, W1, *[new()] * 3)
    lose(center, late)
    end = failed(late, error="x" * 70_000)
    assert center.worker_desk(W1).finish([succeeded(good), end, succeeded(other)]) == [end]
    assert [task(center, c.id).status for c in (late, good, other)] == [0, 3, 3]
    (run,) = center.read.runs([late.id])
    assert run.outcome == Outcome.SUPERSEDED
    assert len((run.error or "").encode()) <= TEXT_BYTES


def test_an_end_is_refused_to_anyone_who_does_not_hold_the_task(center: TaskCenter) -> None:
    (claimed,) = start(center, W1)
    other = center.worker_desk(W2).finish([succeeded(claimed)])
    wrong = center.worker_desk(W1).finish([succeeded(replace(claimed, attempt=2))])
    assert (len(other), len(wrong), task(center, claimed.id).status) == (1, 1, Status.RUNNING)
    assert center.worker_desk(W1).finish([succeeded(claimed)]) == []


def test_a_lost_run_that_another_row_already_tells_of_keeps_what_it_says(center: TaskCenter) -> None:
    """The one change permitted is from lost to superseded."""
    (claimed,) = start(center, W1)
    center.worker_desk(W1).finish([failed(claimed, error="first")])
    (run,) = center.read.runs([claimed.id])
    center.worker_desk(W2).finish([succeeded(claimed, result="1")])
    assert center.read.runs([claimed.id]) == [run]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_claim_and_an_end_whose_commit_got_no_reply_happen_exactly_once(
    mariadb_center_url: str, when: str
) -> None:
    with Proxy(mariadb_center_url) as proxy:
        center = TaskCenter(proxy.url)
        desk = center.worker_desk(W1)
        waiting = queued(center, *[new()] * 4)
        proxy.lose_commit(when)
        claims = desk.claim(waiting)
        assert proxy.lost
        if when == "before":
            assert answers(claims) == {"missing": 4}, "free to be claimed: to be tried again"
            claims = desk.claim(waiting)
        assert answers(claims) == {"won": 4}
        assert answers(desk.claim(waiting)) == {"duplicates": 4}
        a, b, c, d = claims.won
        lose(center, d)
        proxy.lose_commit(when)
        late = desk.finish([succeeded(a), failed(b), succeeded(c), succeeded(d)])
        assert proxy.lost
        assert [end.task.id for end in late] == [d.id]
        assert [task(center, one.id).status for one in claims.won] == [3, 4, 3, 0]
        assert task(center, b.id).retry_count == 1
        assert [run.outcome for run in center.read.runs([one.id for one in claims.won])] == [
            "success", "failed", "success", "superseded",
        ]  # fmt: skip
        center.close()


def test_a_cancel_that_was_asked_for_while_it_ran_keeps_a_failed_task_from_starting_again(
    center: TaskCenter,
) -> None:
    bad, good, back = start(center, W1, *[new()] * 3)
    desk = center.worker_desk(W1)
    for claimed in (bad, good, back):
        assert center.people.cancel(claimed.id, "ann") == Status.RUNNING
    assert desk.cancel_requested([bad.id, good.id, 999]) == {(bad.id, 1), (good.id, 1)}
    assert desk.cancel_requested([]) == center.worker_desk(W2).cancel_requested([bad.id]) == set()
    ends = [failed(bad), succeeded(good), Finish(back, Outcome.HANDED_BACK, Move.HAND_BACK, 0)]
    assert desk.finish(ends) == []
    assert [task(center, c.id).status for c in (bad, good, back)] == [6, 3, 6]
    assert [run.outcome for run in center.read.runs([bad.id, good.id])] == ["failed", "success"]


def test_progress_is_written_only_by_the_attempt_that_runs(center: TaskCenter) -> None:
    (claimed,) = start(center, W1)
    desk = center.worker_desk(W1)
    desk.progress(claimed.id, 1, 0.25, "x" * 300)
    desk.progress(claimed.id, 2, 0.75, "another attempt")
    found = task(center, claimed.id)
    assert (found.progress, found.progress_text) == (0.25, "x" * 190)
    desk.progress(claimed.id, 1, 0.5, "\ud800" + "😀" * 200)
    assert (task(center, claimed.id).progress_text or "").startswith("\\ud800😀")


def attempts(
    center: TaskCenter, clock: Clock, task_id: int, until: float, policy: RetryPolicy
) -> list[float]:
    """Seconds after the first at which a task that always fails was started."""
    begun, starts, desk = clock.at, [], center.worker_desk(W1)
    while (clock.at - begun).total_seconds() <= until:
        for claimed in desk.claim(messages(dispatch(center))).won:
            starts.append((clock.at - begun).total_seconds())
            verdict = judge(
                Outcome.FAILED, periodic=False, retry_count=claimed.retry_count, max_retry=claimed.max_retry,
                policy=policy, rng=random.Random(1),
            )  # fmt: skip
            end = failed(claimed, delay=verdict.delay)
            desk.finish([replace(end, move=verdict.move, retry_count=verdict.retry_count)])
        following = task(center, task_id).plan_next_run_at
        wait = (following - clock.at).total_seconds() if following and following > clock.at else 1000
        clock.move(seconds=wait)
    return starts


@pytest.mark.parametrize(
    ("most", "starts"), [(3, [0, 5, 35, 155]), (0, [0]), (1, [0, 5])], ids=["3", "0", "1"]
)
def test_retries_start_after_5_30_and_120_seconds_and_then_the_task_is_given_up(
    center_url: str, most: int, starts: list[float]
) -> None:
    """WORK-12."""
    clock = Clock(instant(2026, 6, 1, 12))
    center = on_clock(center_url, clock)
    (task_id,) = center.intake.insert([new(max_retry=most, plan_next_run_at=clock.at)])
    assert attempts(center, clock, task_id, 2000, RetryPolicy(jitter=0)) == starts
    found = task(center, task_id)
    assert (found.status, found.retry_count, found.attempt) == (Status.GIVEN_UP, most, most + 1)
    assert len(center.read.runs([task_id])) == most + 1
    center.close()


def test_a_restart_in_the_back_off_neither_shortens_nor_repeats_it(center_url: str) -> None:
    """WORK-12: the delay is an instant in the row, not a countdown in a process."""
    before, after = TaskCenter(center_url), TaskCenter(center_url)
    (claimed,) = start(before, W1)
    before.worker_desk(W1).finish([failed(claimed, delay=30.0)])
    before.close()
    planned = task(after, claimed.id).plan_next_run_at
    assert dispatch(after).won == []
    assert task(after, claimed.id).plan_next_run_at == planned
    after.close()


def test_300_requeues_by_hand_overflow_nothing(center: TaskCenter) -> None:
    """WORK-12: retry_count is a byte; attempt counts on."""
    (task_id,) = center.intake.insert([new(max_retry=255)])
    sql(center, "UPDATE task_center SET retry_count = 255, attempt = 299 WHERE id = :i", i=task_id)
    desk = center.worker_desk(W1)
    for _ in range(2):
        (claimed,) = desk.claim(messages(center.dispatch.claim([task_id]))).won
        verdict = judge(
            Outcome.FAILED, periodic=False, retry_count=claimed.retry_count, max_retry=claimed.max_retry,
            policy=DEFAULT_RETRY, rng=random.Random(1),
        )  # fmt: skip
        end = failed(claimed, delay=verdict.delay)
        desk.finish([replace(end, move=verdict.move, retry_count=verdict.retry_count)])
        if verdict.move is Move.FAIL:
            center.people.give_up(task_id, "ann")
        center.people.retry(task_id, "ann")
    found = task(center, task_id)
    assert (found.attempt, found.retry_count, found.status) == (301, 0, Status.PENDING)


def periodic_run(center: TaskCenter, clock: Clock, **fields: Any) -> Claimed:
    """A minutely task, planned ahead, whose first occurrence runs."""
    center.intake.insert([periodic(clock.at, **fields)])
    center.plan.sweep()
    clock.at = instant(2026, 6, 1, 12, 1)
    (claimed,) = center.worker_desk(W1).claim(messages(dispatch(center))).won
    return claimed


def test_a_periodic_task_that_ends_stands_for_its_next_occurrence(center_url: str) -> None:
    clock = Clock(instant(2026, 6, 1, 12))
    center = on_clock(center_url, clock)
    claimed = periodic_run(center, clock, max_retry=1)
    clock.move(seconds=1.2)
    center.worker_desk(W1).finish([succeeded(claimed)])
    found = task(center, claimed.id)
    assert (found.status, found.retry_count) == (Status.PENDING, 0)
    assert found.plan_next_run_at == found.occurrence_at == instant(2026, 6, 1, 12, 2)
    assert found.next_fire_at == instant(2026, 6, 1, 12, 3)
    (fired,) = occurrences(center, claimed.id, "fired")
    assert (fired.planned_at, fired.outcome) == (instant(2026, 6, 1, 12, 1), "success")
    center.close()


def test_fire_times_that_pass_while_it_runs_are_skipped_and_the_grid_stays(center_url: str) -> None:
    """SCHED-10 c."""
    clock = Clock(instant(2026, 6, 1, 12))
    center = on_clock(center_url, clock)
    claimed = periodic_run(center, clock)
    clock.move(seconds=130)
    assert dispatch(center).won == []
    center.worker_desk(W1).finish([succeeded(claimed)])
    assert task(center, claimed.id).occurrence_at == instant(2026, 6, 1, 12, 4)
    skipped = occurrences(center, claimed.id, "skipped")
    assert [(o.planned_at.minute, o.reason) for o in skipped] == [(2, "still running"), (3, "still running")]
    center.close()


def test_an_occurrence_keeps_its_planned_time_through_all_attempts_and_the_next_starts_anew(
    center_url: str,
) -> None:
    """Rule 20: back-off never overwrites occurrence_at; retry_count starts anew with each occurrence."""
    clock = Clock(instant(2026, 6, 1, 12))
    center = on_clock(center_url, clock)
    claimed = periodic_run(center, clock, cron="1 * * * *", max_retry=2)
    desk = center.worker_desk(W1)
    for count in (1, 2):
        desk.finish([failed(claimed, delay=30.0)])
        found = task(center, claimed.id)
        assert (found.status, found.retry_count) == (Status.FAILED, count)
        assert (found.occurrence_at, found.plan_next_run_at) == (
            instant(2026, 6, 1, 12, 1),
            clock.at + timedelta(seconds=30),
        )
        clock.move(seconds=30)
        (claimed,) = desk.claim(messages(dispatch(center))).won
        assert claimed.occurrence_at == instant(2026, 6, 1, 12, 1)
    desk.finish([replace(failed(claimed), move=Move.NEXT_OCCURRENCE, retry_count=0)])
    found = task(center, claimed.id)
    assert (found.status, found.retry_count, found.occurrence_at) == (0, 0, instant(2026, 6, 1, 13, 1))
    (fired,) = occurrences(center, claimed.id, "fired")
    assert (fired.attempt, fired.outcome) == (1, "given_up")
    assert [run.occurrence_at for run in center.read.runs([claimed.id])] == [instant(2026, 6, 1, 12, 1)] * 3
    center.close()


def test_a_schedule_broken_by_hand_while_it_ran_does_not_start_the_task_again_and_again(
    center_url: str,
) -> None:
    clock = Clock(instant(2026, 6, 1, 12))
    center = on_clock(center_url, clock)
    claimed = periodic_run(center, clock)
    sql(center, "UPDATE task_center SET cron_expr = '0 0 30 2 *' WHERE id = :i", i=claimed.id)
    assert center.worker_desk(W1).finish([succeeded(claimed)]) == []
    clock.move(seconds=5)
    assert dispatch(center).won == []
    center.plan.adopt(center.dispatch.due_lists()[0])
    found = task(center, claimed.id)
    assert (found.status, found.plan_next_run_at) == (Status.HELD, None)
    assert (found.held_reason or "").startswith("invalid: cron:")
    sql(center, "UPDATE task_center SET cron_expr = '0 * * * *' WHERE id = :i", i=claimed.id)
    center.people.resume(claimed.id, "ann")
    assert task(center, claimed.id).occurrence_at == instant(2026, 6, 1, 13)
    center.close()


def test_a_task_made_periodic_by_hand_while_it_ran_goes_on_and_one_made_one_off_ends(center_url: str) -> None:
    clock = Clock(instant(2026, 6, 1, 12))
    center = on_clock(center_url, clock)
    was_periodic = periodic_run(center, clock)
    (was_once,) = start(center, W1, new(plan_next_run_at=clock.at))
    sql(center, "UPDATE task_center SET task_type = 0, cron_expr = NULL WHERE id = :i", i=was_periodic.id)
    sql(center, "UPDATE task_center SET task_type = 1, cron_expr = '0 * * * *' WHERE id = :i", i=was_once.id)
    assert center.worker_desk(W1).finish([succeeded(was_periodic), succeeded(was_once)]) == []
    assert task(center, was_periodic.id).status == Status.SUCCESS
    found = task(center, was_once.id)
    assert (found.status, found.occurrence_at) == (Status.PENDING, instant(2026, 6, 1, 13))
    center.close()


def test_a_cancel_asked_for_while_a_periodic_task_runs_ends_it_even_if_the_run_succeeds(
    center_url: str,
) -> None:
    clock = Clock(instant(2026, 6, 1, 12))
    center = on_clock(center_url, clock)
    claimed = periodic_run(center, clock)
    center.people.cancel(claimed.id, "ann")
    assert center.worker_desk(W1).finish([succeeded(claimed)]) == []
    assert task(center, claimed.id).status == Status.CANCELLED
    assert [o.outcome for o in occurrences(center, claimed.id, "fired")] == ["success"]
    center.close()


def test_the_last_occurrence_that_mysql_can_hold_can_end(mariadb_center_url: str) -> None:
    """``0 0 29 2 */7`` fires in 2032 and then in 2060: its end must not stop those of other tasks."""
    clock = Clock(instant(2032, 2, 28))
    center = on_clock(mariadb_center_url, clock)
    center.intake.insert([periodic(clock.at, "0 0 29 2 */7")])
    center.plan.sweep()
    clock.at = instant(2032, 2, 29)
    (claimed,) = center.worker_desk(W1).claim(messages(dispatch(center))).won
    center.plan.sweep()
    assert center.worker_desk(W1).finish([succeeded(claimed)]) == []
    center.plan.adopt(center.dispatch.due_lists()[0])
    center.plan.sweep()
    found = task(center, claimed.id)
    assert (found.status, "2060-02-29" in (found.held_reason or "")) == (Status.HELD, True)
    center.close()
