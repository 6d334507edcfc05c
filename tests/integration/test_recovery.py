"""Recovery step by step: whose message is provably gone, whose worker is gone, and what follows for the task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from taskkit.beats import WorkerBeat
from taskkit.center import TaskCenter
from taskkit.center.statements import recovery as statements
from taskkit.errors import BrokerUnavailable
from taskkit.model import Claimed, ListName, Message
from taskkit.queues import MemoryQueue
from taskkit.scheduler import lost_messages, lost_workers
from taskkit.scheduler.dispatcher import Dispatcher
from taskkit.scheduler.lost_messages import MessageRecovery
from taskkit.scheduler.lost_workers import WorkerRecovery
from taskkit.settings import Scheduler
from taskkit.states import Outcome, Status
from tests.centers import (
    Clock,
    dispatch,
    failed,
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
)  # fmt: skip
from tests.proxy import Proxy

pytest_plugins = ["tests.center_fixtures"]

START = instant(2026, 3, 1, 12)
LIST = ListName("q")


class Case:
    """A task center and a broker whose clocks a test moves together, and a scheduler that looks when it is told."""

    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = Clock(START)
        self.center = on_clock(url, self.clock)
        self.queue = MemoryQueue()
        settings = Scheduler()
        self.messages = MessageRecovery(self.center, self.queue, "s", settings)
        self.workers = WorkerRecovery(self.center, "s", settings)
        self.dispatcher = Dispatcher(self.center, self.queue, settings)
        for module in (lost_messages, lost_workers):
            monkeypatch.setattr(module, "monotonic", self.seconds)

    def seconds(self) -> float:
        """The monotonic clock of this test."""
        return (self.clock.at - START).total_seconds()

    def pass_by(self, seconds: int, *, alive: str = "") -> None:
        """Time passes; the scheduler looks every 2 s, and the workers named beat."""
        for _ in range(seconds // 2):
            self.clock.move(seconds=2)
            for worker in alive.split():
                self.center.nodes.beat_worker(beat(worker))
            self.messages.look()
            self.workers.look()

    def ids(self, count: int = 1, **fields: Any) -> list[int]:
        return self.center.intake.insert([new(**fields) for _ in range(count)])

    def scan(self) -> None:
        while not self.dispatcher.scan():
            pass

    def statuses(self, ids: list[int]) -> list[int]:
        return [int(task(self.center, task_id).status) for task_id in ids]

    def outcomes(self, task_id: int) -> list[str]:
        return [run.outcome.value for run in self.center.read.runs([task_id])]

    def claim(self, worker: str, count: int = 100) -> list[Claimed]:
        """What a worker takes from the broker and wins."""
        if not self.center.nodes.beat_worker(beat(worker)):
            self.center.nodes.enter_worker(beat(worker))
        pulled = self.queue.pull(["q"], count, 0).messages
        return self.center.worker_desk(worker).claim([message for _, message in pulled]).won


def beat(worker: str) -> WorkerBeat:
    return WorkerBeat(worker, "host", 1, "q", 1, 0, 0, 0, 0, None, 0, 0.0, [], [])


@pytest.fixture
def case(center_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    found = Case(center_url, monkeypatch)
    yield found
    found.center.close()


# dispatched rows


def test_rule_16_a_message_that_is_gone_is_rung_again_and_the_attempt_recorded_as_lost(case: Case) -> None:
    (task_id,) = case.ids()
    case.scan()
    case.queue.pull(["q"], 1, 0)
    case.pass_by(18)
    assert case.statuses([task_id]) == [Status.DISPATCHED]
    case.pass_by(4)
    case.scan()
    again = task(case.center, task_id)
    assert (again.status, again.attempt, again.retry_count, again.lost_count) == (Status.DISPATCHED, 2, 0, 0)
    (run,) = case.center.read.runs([task_id])
    assert (run.outcome, run.attempt, run.worker_id, run.started_at) == (Outcome.LOST, 1, None, None)
    assert run.error is not None and "its message was no longer in the list q:5" in run.error
    assert case.queue.listing(LIST) == [Message(task_id, "mail", 2, again_at(case, task_id))]


def again_at(case: Case, task_id: int) -> str:
    from taskkit.clock import iso

    return iso(task(case.center, task_id).dispatched_at) or ""


def test_rule_16_waiting_is_never_being_lost_however_long(case: Case) -> None:
    ids = case.ids(50)
    case.scan()
    case.pass_by(600)
    assert case.messages.rung_again == 0
    assert case.statuses(ids) == [Status.DISPATCHED] * 50
    assert case.queue.depth([LIST]) == {LIST: 50}
    assert len(case.claim("host:1:w", 20)) == 20
    case.pass_by(600, alive="host:1:w")
    assert case.messages.rung_again == 0
    assert sorted(case.statuses(ids)) == [Status.DISPATCHED] * 30 + [Status.RUNNING] * 20


def test_rule_16_a_flushed_broker_gets_all_its_messages_back_and_running_tasks_go_on(case: Case) -> None:
    ids = case.ids(30)
    case.scan()
    running = case.claim("host:1:w", 10)
    case.queue.pull(["q"], 100, 0)
    case.pass_by(24, alive="host:1:w")
    case.scan()
    assert case.queue.depth([LIST]) == {LIST: 20}
    assert case.center.worker_desk("host:1:w").finish([succeeded(claimed) for claimed in running]) == []
    assert sorted(case.statuses(ids)) == [Status.DISPATCHED] * 20 + [Status.SUCCESS] * 10


def test_rule_16_in_a_pass_the_rows_are_read_before_their_list(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is dispatched while a pass goes on is then no suspect of it, however long the pass takes."""
    read: list[str] = []

    def noting(name: str, act: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: (read.append(name), act(*arguments))[1]

    monkeypatch.setattr(case.center.recovery, "suspects", noting("rows", case.center.recovery.suspects))
    monkeypatch.setattr(case.queue, "listing", noting("list", case.queue.listing))
    case.ids()
    case.scan()
    case.pass_by(12)
    assert read[-2:] == ["rows", "list"]
    assert read.index("rows") < read.index("list")


def test_rule_16_what_is_being_claimed_is_not_lost(case: Case) -> None:
    ids = case.ids(3)
    case.scan()
    case.pass_by(12)
    taken = case.queue.pull(["q"], 3, 0).messages
    case.pass_by(8)  # the worker that took them takes its time to claim
    assert len(case.center.worker_desk("host:1:w").claim([m for _, m in taken]).won) == 3
    case.center.nodes.enter_worker(beat("host:1:w"))
    case.pass_by(30, alive="host:1:w")
    assert case.statuses(ids) == [Status.RUNNING] * 3
    assert case.messages.rung_again == 0


def test_rule_16_what_is_behind_the_head_is_no_suspect(case: Case) -> None:
    (first,) = case.ids()
    case.scan()
    case.clock.move(seconds=1)
    (second,) = case.ids()
    case.scan()
    lost = case.queue.pull(["q"], 2, 0).messages
    case.queue.push({LIST: [lost[0][1]]})  # the second one's message is gone, but the first still waits
    case.pass_by(60)
    assert case.statuses([first, second]) == [Status.DISPATCHED] * 2
    case.queue.pull(["q"], 1, 0)
    case.pass_by(22)
    assert case.statuses([first, second]) == [Status.PENDING] * 2


def test_rule_16_a_message_that_a_person_pushed_counts_as_present(case: Case) -> None:
    ids = case.ids(2)
    case.scan()
    case.queue.pull(["q"], 2, 0)
    case.queue.push({LIST: [Message(ids[0])]})
    case.pass_by(60)
    assert case.statuses(ids) == [Status.DISPATCHED, Status.PENDING]


def test_rule_16_a_row_whose_queue_was_edited_is_looked_for_where_it_was_pushed(case: Case) -> None:
    ids = case.ids(2)
    case.scan()
    sql(case.center, "UPDATE task_center SET queue = 'other' WHERE id = :id", id=ids[0])
    case.pass_by(60)
    assert case.statuses(ids) == [Status.DISPATCHED] * 2
    case.queue.pull(["q"], 2, 0)
    case.pass_by(22)
    assert case.statuses(ids) == [Status.PENDING] * 2


def test_rule_16_a_pass_that_has_no_time_for_all_lists_goes_on_with_the_next_and_proves_as_well(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_messages, "LOOKING_SECONDS", -1.0)  # one list a pass
    looked, suspects = [], case.center.recovery.suspects

    def look(name: ListName, *rest: Any) -> Any:
        looked.append(name.queue)
        return suspects(name, *rest)

    monkeypatch.setattr(case.center.recovery, "suspects", look)
    queues = [f"q{n}" for n in range(6)]
    ids = [case.ids(queue=queue)[0] for queue in queues]
    case.scan()
    case.pass_by(12)
    assert sorted(looked) == queues, "each in its turn, one a pass"
    case.queue.pull(["q1", "q4"], 2, 0)
    case.pass_by(10)
    assert looked.count("q0") == looked.count("q2") == 2, "one a pass, as long as nothing is missing"
    assert looked.count("q1") > 3, "what is missing is looked for in every pass"
    case.pass_by(14)
    lost = [ids[1], ids[4]]
    assert case.statuses(lost) == [Status.PENDING] * 2
    assert case.statuses([one for one in ids if one not in lost]) == [Status.DISPATCHED] * 4


def test_rule_16_an_outage_of_the_broker_between_two_looks_proves_nothing(case: Case) -> None:
    (task_id,) = case.ids()
    case.scan()
    case.queue.pull(["q"], 1, 0)
    case.pass_by(18)
    listing, case.queue.listing = case.queue.listing, no_answer  # type: ignore[method-assign, assignment]
    with pytest.raises(BrokerUnavailable):
        case.pass_by(2)
    case.queue.listing = listing  # type: ignore[method-assign]
    case.pass_by(8)
    assert case.statuses([task_id]) == [Status.DISPATCHED]
    case.pass_by(4)
    assert case.statuses([task_id]) == [Status.PENDING]


def no_answer(_name: ListName) -> list[Message]:
    raise BrokerUnavailable("the broker does not answer")


def test_rule_16_a_new_attempt_begins_a_new_proof(case: Case) -> None:
    (task_id,) = case.ids()
    case.scan()
    case.queue.pull(["q"], 1, 0)
    case.pass_by(18)
    case.center.dispatch.put_back(dispatch_of(case, task_id), token_of(case, task_id))
    case.scan()
    case.queue.pull(["q"], 1, 0)
    case.pass_by(18)
    assert (case.statuses([task_id]), task(case.center, task_id).attempt) == ([Status.DISPATCHED], 2)


def dispatch_of(case: Case, task_id: int) -> list[Any]:
    from taskkit.model import Won

    row = task(case.center, task_id)
    assert row.dispatched_at is not None
    return [Won(task_id, row.task_code, row.attempt, row.queue, row.priority, row.dispatched_at)]


def token_of(case: Case, task_id: int) -> str:
    return str(sql(case.center, "SELECT token FROM task_center WHERE id = :id", id=task_id)[0][0])


def test_a_late_message_of_an_attempt_that_was_rung_again_is_dropped(case: Case) -> None:
    case.ids()
    case.scan()
    ((_, late),) = case.queue.pull(["q"], 1, 0).messages
    case.pass_by(24)
    case.scan()
    claims = case.center.worker_desk("host:1:w").claim([late])
    assert (claims.won, claims.duplicates) == ([], [late])


def test_a_periodic_task_whose_message_is_gone_fires_its_occurrence_once(case: Case) -> None:
    (task_id,) = case.center.intake.insert([periodic(case.clock.at, "0 13 * * *")])
    case.clock.move(hours=1)
    case.scan()
    case.queue.pull(["q"], 1, 0)
    case.pass_by(24)
    case.scan()
    assert len(occurrences(case.center, task_id, "fired")) == 1
    assert task(case.center, task_id).attempt == 2


# running rows


def test_rule_17_a_dead_workers_tasks_run_elsewhere_at_once_and_the_attempt_is_lost(case: Case) -> None:
    ids = case.ids(8)
    case.scan()
    assert len(case.claim("host:1:dead")) == 8
    case.center.nodes.enter_worker(beat("host:2:well"))
    case.pass_by(14, alive="host:2:well")
    assert case.statuses(ids) == [Status.RUNNING] * 8
    case.pass_by(4, alive="host:2:well")
    case.scan()
    assert len(case.claim("host:2:well")) == 8
    rows = [task(case.center, task_id) for task_id in ids]
    assert {(row.status, row.attempt, row.retry_count, row.lost_count) for row in rows} == {(2, 2, 0, 1)}
    (run,) = case.center.read.runs([ids[0]])
    assert (run.outcome, run.worker_id) == (Outcome.LOST, "host:1:dead")


def test_rule_17_a_worker_without_a_row_is_dead_at_once(case: Case) -> None:
    (claimed,) = start(case.center, "host:1:nobody")
    case.pass_by(2)
    assert case.statuses([claimed.id]) == [Status.PENDING]


def test_rule_17_what_a_worker_left_behind_when_it_signed_off_is_taken_at_once(case: Case) -> None:
    case.center.nodes.enter_worker(beat("host:1:gone"))
    (claimed,) = start(case.center, "host:1:gone")
    case.center.nodes.leave_worker("host:1:gone")
    case.pass_by(2)
    assert case.statuses([claimed.id]) == [Status.PENDING]


def test_rule_17_right_after_an_outage_nobody_is_dead(case: Case) -> None:
    case.center.nodes.enter_worker(beat("host:1:a"))
    case.center.nodes.enter_worker(beat("host:1:b"))
    (claimed,) = start(case.center, "host:1:a")
    case.pass_by(4, alive="host:1:a host:1:b")
    case.clock.move(seconds=300)  # SQL was away: no look, no heartbeat
    case.pass_by(14, alive="host:1:b")
    assert case.statuses([claimed.id]) == [Status.RUNNING]


def test_rule_17_a_woken_worker_is_alive_again_and_its_new_claims_are_its_own(case: Case) -> None:
    case.ids(2)
    case.scan()
    (old,) = case.claim("host:1:stopped", 1)
    case.center.nodes.enter_worker(beat("host:2:well"))
    case.pass_by(20, alive="host:2:well")
    assert case.statuses([old.id]) == [Status.PENDING]
    case.clock.move(seconds=1)
    pulled = case.queue.pull(["q"], 1, 0).messages
    (new_claim,) = case.center.worker_desk("host:1:stopped").claim([m for _, m in pulled]).won
    case.pass_by(12, alive="host:2:well")  # it has claimed, but not beaten yet
    assert case.statuses([new_claim.id]) == [Status.RUNNING]
    case.pass_by(8, alive="host:2:well host:1:stopped")
    case.pass_by(30, alive="host:2:well host:1:stopped")
    assert case.statuses([new_claim.id]) == [Status.RUNNING]


def test_rule_17_a_woken_worker_that_dies_before_its_next_beat_loses_what_it_claimed_since(
    case: Case,
) -> None:
    case.ids(2)
    case.scan()
    case.claim("host:1:stopped", 1)
    case.center.nodes.enter_worker(beat("host:2:well"))
    case.pass_by(20, alive="host:2:well")
    case.clock.move(seconds=1)
    pulled = case.queue.pull(["q"], 1, 0).messages
    (claimed,) = case.center.worker_desk("host:1:stopped").claim([m for _, m in pulled]).won
    case.pass_by(24, alive="host:2:well")
    assert case.statuses([claimed.id]) == [Status.PENDING]


@pytest.mark.parametrize("state", ["running", "succeeded", "failed"])
def test_rule_11_work_09_a_woken_workers_result_is_refused_and_recorded_as_superseded(
    case: Case, state: str
) -> None:
    case.ids()
    case.scan()
    (old,) = case.claim("host:1:stopped")
    case.center.nodes.enter_worker(beat("host:2:well"))
    case.pass_by(20, alive="host:2:well")
    case.scan()
    (second,) = case.claim("host:2:well")
    ends = {"succeeded": succeeded(second, result='"second"'), "failed": failed(second)}
    if state in ends:
        case.center.worker_desk("host:2:well").finish([ends[state]])
    before = sql(case.center, "SELECT * FROM task_center")
    late = succeeded(old, result='"first"')
    assert case.center.worker_desk("host:1:stopped").finish([late]) == [late]
    assert sql(case.center, "SELECT * FROM task_center") == before
    assert case.outcomes(old.id)[0] == "superseded"


def test_rule_19_the_first_loss_starts_at_once_later_ones_with_back_off_and_alone(case: Case) -> None:
    (task_id,) = case.ids(max_retry=1)
    told = []
    for number in range(1, 6):
        claimed = lose(case, task_id)
        row = task(case.center, task_id)
        wait = 0.0 if row.plan_next_run_at is None else (row.plan_next_run_at - case.clock.at).total_seconds()
        told.append((int(row.status), row.lost_count, row.retry_count, wait > 0, claimed.suspect))
        if row.status == Status.GIVEN_UP:
            break
        case.clock.move(seconds=max(wait, 0) + 1)
        assert number < 5
    assert told == [
        (0, 1, 0, False, False),
        (0, 2, 0, True, False),
        (0, 3, 0, True, True),
        (0, 4, 0, True, True),
        (5, 0, 0, False, True),
    ]
    assert case.outcomes(task_id) == ["lost"] * 5


def lose(case: Case, task_id: int) -> Claimed:
    """The task is dispatched and claimed by a worker that vanishes."""
    batch = case.center.dispatch.claim([task_id])
    (claimed,) = case.center.worker_desk("host:1:vanished").claim(messages(batch)).won
    case.workers.look()
    return claimed


def test_rule_19_who_allows_no_retry_is_given_up_at_once(case: Case) -> None:
    (task_id,) = case.ids(max_retry=0)
    lose(case, task_id)
    assert case.statuses([task_id]) == [Status.GIVEN_UP]
    assert case.outcomes(task_id) == ["lost"]


def test_rule_19_a_periodic_task_that_is_lost_too_often_goes_on_with_its_next_occurrence(case: Case) -> None:
    (task_id,) = case.center.intake.insert([periodic(case.clock.at, "0 13 * * *", max_retry=0)])
    case.clock.move(hours=1)
    lose(case, task_id)
    row = task(case.center, task_id)
    assert (row.status, row.occurrence_at) == (Status.PENDING, instant(2026, 3, 2, 13))
    assert [o.outcome for o in occurrences(case.center, task_id, "fired")] == ["given_up"]


def test_a_lost_task_that_a_person_had_asked_to_cancel_is_cancelled(case: Case) -> None:
    (claimed,) = start(case.center, "host:1:nobody")
    case.center.people.cancel(claimed.id, "Ada")
    case.pass_by(2)
    assert case.statuses([claimed.id]) == [Status.CANCELLED]


def test_two_schedulers_that_recover_at_once_take_a_task_once(case: Case) -> None:
    from tests.centers import at_once

    claimed = start(case.center, "host:1:nobody", *[new() for _ in range(20)])
    looks = [WorkerRecovery(case.center, f"s{n}", Scheduler()) for n in range(4)]
    at_once(4, lambda n: looks[n].look())
    case.workers.look()
    assert {task(case.center, c.id).lost_count for c in claimed} == {1}
    assert [case.outcomes(c.id) for c in claimed] == [["lost"]] * 20


@pytest.mark.parametrize("again", [True, False], ids=["claimed again", "only awake"])
def test_rule_17_a_worker_that_wakes_up_between_the_look_and_the_lock_keeps_what_it_runs(
    case: Case, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    case.ids()
    case.scan()
    (old,) = case.claim("host:1:stopped")
    case.center.nodes.enter_worker(beat("host:2:well"))
    desk, read = case.center.recovery, case.center.recovery._rows
    (worker,) = [w for w in desk.watched() if w.worker_id == "host:1:stopped"]
    assert desk.declare_dead(worker)

    def then_it_wakes_up(template: str, parameters: dict[str, Any]) -> Any:
        found = read(template, parameters)
        if template is statements.ORPHANS:
            monkeypatch.setattr(desk, "_rows", read)
            if again:  # another scheduler was faster
                WorkerRecovery(case.center, "s2", Scheduler()).look()
            case.clock.move(seconds=1)
            case.center.nodes.beat_worker(beat("host:1:stopped"))
            if again:
                case.scan()
                assert case.claim("host:1:stopped")
        return found

    monkeypatch.setattr(desk, "_rows", then_it_wakes_up)
    case.workers.look()
    row = task(case.center, old.id)
    assert (row.status, row.attempt, row.lost_count) == (Status.RUNNING, 2 if again else 1, int(again))


def test_guarantee_1_a_row_that_cannot_be_written_does_not_keep_the_others_from_recovery(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody edited a running row by hand, so that its attempt can have no run row."""
    claimed = start(case.center, "host:1:nobody", *[new() for _ in range(5)])
    bad, *good = [one.id for one in claimed]
    sql(case.center, "UPDATE task_center SET attempt = 0 WHERE id = :id", id=bad)
    for _ in range(3):
        case.workers.look()
    assert case.statuses([bad, *good]) == [Status.RUNNING, *[Status.PENDING] * 4]
    (told,) = [r for r in caplog.records if "a person must mend it" in r.getMessage()]
    assert told.task_id == bad  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("column", "value"),
    [("list_name", "q"), ("list_name", "q:x"), ("list_name", ""), ("list_name", ":5"), ("queue", "")],
)
def test_guarantee_1_a_dispatched_row_edited_by_hand_does_not_keep_the_others_from_recovery(
    case: Case, column: str, value: str
) -> None:
    ids = case.ids(3)
    case.scan()
    case.queue.pull(["q"], 100, 0)
    sql(case.center, f"UPDATE task_center SET {column} = :value WHERE id = :id", value=value, id=ids[0])
    case.pass_by(24)
    assert case.statuses(ids) == [Status.PENDING] * 3


def test_a_loss_is_bounded_in_a_portion_and_all_portions_come(case: Case) -> None:
    claimed = start(case.center, "host:1:nobody", *[new() for _ in range(450)])
    case.workers.look()
    assert set(case.statuses([c.id for c in claimed])) == {Status.PENDING}


def test_rule_15_recovery_from_workers_needs_no_broker(case: Case) -> None:
    (claimed,) = start(case.center, "host:1:nobody")
    assert case.workers.tick() > 0
    assert case.statuses([claimed.id]) == [Status.PENDING]


def test_rule_15_without_the_lease_a_scheduler_looks_and_takes_nothing(case: Case) -> None:
    """It has seen what proves a death, and acts upon it as soon as the lease is its own.

    The only worker that lived is waited for twice as long.
    """
    case.center.nodes.enter_scheduler("s", "host", 1)
    case.center.nodes.enter_worker(beat("host:1:dead"))
    held = [claimed.id for claimed in start(case.center, "host:1:dead")]
    assert case.center.nodes.take_lease("deaths", "another", 60)
    for _ in range(16):
        case.clock.move(seconds=2)
        case.workers.tick()
    assert case.statuses(held) == [Status.RUNNING]
    case.center.nodes.drop_lease("deaths", "another")
    case.workers.tick()
    assert case.statuses(held) == [Status.PENDING]


def test_rule_15_without_the_lease_a_scheduler_rings_for_nobody(case: Case) -> None:
    ids = case.ids()
    case.scan()
    case.queue.pull(["q"], 1, 0)
    assert case.center.nodes.take_lease("recovery", "another", 60)
    for _ in range(25):
        case.clock.move(seconds=2)
        case.messages.tick()
    assert (case.statuses(ids), case.messages.rung_again) == ([Status.DISPATCHED], 0)


def test_rule_18_a_task_far_past_its_limit_raises_an_alarm_once(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    case.center.nodes.enter_worker(beat("host:1:w"))
    (claimed,) = start(case.center, "host:1:w", new(timeout=10))
    for _ in range(50):
        case.pass_by(2, alive="host:1:w")
    alarms = [r for r in caplog.records if "with a time limit of 10 s" in r.getMessage()]
    assert [r.task_id for r in alarms] == [claimed.id]  # type: ignore[attr-defined]
    assert case.statuses([claimed.id]) == [Status.RUNNING]


@pytest.mark.parametrize("when", ["before", "after"])
def test_rule_16_rule_17_a_loss_whose_commit_got_no_reply_is_recorded_once_and_told(
    mariadb_center_url: str, caplog: pytest.LogCaptureFixture, when: str
) -> None:
    with Proxy(mariadb_center_url) as proxy:
        center = TaskCenter(proxy.url)
        running = [claimed.id for claimed in start(center, "host:1:nobody", *[new()] * 3)]
        waiting = center.intake.insert([new(), new()])
        assert [won.id for won in dispatch(center).won] == waiting
        workers = WorkerRecovery(center, "s", Scheduler())
        for look in (
            workers.look,
            lambda: center.recovery.ring_again(center.recovery.suspects(LIST, 0, {})),
        ):
            proxy.lose_commit(when)
            look()
            assert proxy.lost
            look()  # for what the connection that was cut had still locked
        told = [r.getMessage() for r in caplog.records if "the reply to a COMMIT was lost" in r.getMessage()]
        assert len(told) == 2
        if when == "after":
            assert "done again: 0 of 3 lost tasks were still to be moved" in told[0]
            assert "done again: 0 of 2 lost tasks were still to be moved" in told[1]
        assert {task(center, one).status for one in running + waiting} == {Status.PENDING}
        assert [run.outcome for run in center.read.runs(running + waiting)] == [Outcome.LOST] * 5
        center.close()


def test_dispatch_takes_what_recovery_made_due(center: TaskCenter) -> None:
    (claimed,) = start(center, "host:1:nobody")
    WorkerRecovery(center, "s", Scheduler()).look()
    assert [won.id for won in dispatch(center).won] == [claimed.id]
