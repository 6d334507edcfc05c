"""Guards of the core rules, each once in force and once taken out: without it, what it prevents happens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest

from taskkit.center import TaskCenter
from taskkit.center.statements import dispatch as dispatching
from taskkit.center.statements import work as working
from taskkit.errors import PushUnknown, StoreError
from taskkit.model import ListName, Message
from taskkit.queues import MemoryQueue
from taskkit.scheduler import proofs
from taskkit.scheduler import pushing as module
from taskkit.scheduler.dispatcher import Dispatcher
from taskkit.scheduler.proofs import Absences
from taskkit.settings import Scheduler
from taskkit.states import Status
from tests.centers import (
    Clock,
    dispatch,
    failed,
    instant,
    messages,
    new,
    on_clock,
    periodic,
    start,
    succeeded,
    task,
)
from tests.integration.test_recovery import LIST, Case, beat

pytest_plugins = ["tests.center_fixtures"]
W1, W2 = "host-1:11:aaaa", "host-2:22:bbbb"
in_force = pytest.mark.parametrize("taken_out", [False, True], ids=["in force", "taken out"])


def take_out(monkeypatch: pytest.MonkeyPatch, statements: object, names: str, *guards: str) -> None:
    """Make the guards of these statements always true; their parameters stay."""
    for name in names.split():
        text = getattr(statements, name)
        for guard in guards:
            parameter = guard.rpartition(" ")[2]
            assert guard in text, (name, guard)
            text = text.replace(guard, f"{parameter} = {parameter}")
        monkeypatch.setattr(statements, name, text)


@in_force
def test_rule_01_the_claim_looks_again_whether_a_row_is_due(
    center_url: str, monkeypatch: pytest.MonkeyPatch, taken_out: bool
) -> None:
    """A scheduler was stopped between its SELECT and its UPDATE, while others ran today's occurrence."""
    if taken_out:
        take_out(monkeypatch, dispatching, "LOCK_DUE CLAIM_DUE", "plan_next_run_at <= {now}")
    clock = Clock(instant(2026, 6, 1, 12))
    center = on_clock(center_url, clock)
    (task_id,) = center.intake.insert([periodic(clock.at, "0 13 * * *")])
    clock.move(hours=1, seconds=1)
    stale = center.dispatch.candidates("q", 5, 10)
    desk = center.worker_desk(W1)
    desk.finish([succeeded(claimed) for claimed in desk.claim(messages(dispatch(center))).won])
    assert task(center, task_id).occurrence_at == instant(2026, 6, 2, 13)
    fired_a_day_early = [won.id for won in center.dispatch.claim(stale).won]
    assert fired_a_day_early == ([task_id] if taken_out else [])
    center.close()


@in_force
def test_rule_02_a_put_back_is_matched_by_its_token(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch, taken_out: bool
) -> None:
    """By status alone it would undo what another scheduler has dispatched since, whose message is out there."""
    if taken_out:
        take_out(monkeypatch, dispatching, "PUT_BACK", "token = :token")
    (task_id,) = center.intake.insert([new()])
    first = center.dispatch.claim([task_id])
    assert center.dispatch.put_back(first.won, first.token) == 1
    assert center.dispatch.claim([task_id]).won
    assert center.dispatch.put_back(first.won, first.token) == (1 if taken_out else 0)
    assert task(center, task_id).status is (Status.PENDING if taken_out else Status.DISPATCHED)


class Mumbling(MemoryQueue):
    """Takes messages, and its answers get lost."""

    def push(self, batches: Mapping[ListName, Sequence[Message]]) -> dict[ListName, StoreError]:
        super().push(batches)
        return {name: PushUnknown("no answer") for name in batches}


@in_force
def test_rule_04_after_a_push_in_doubt_nothing_is_put_back(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch, taken_out: bool
) -> None:
    """Put back, it would be pushed again and again for as long as the answers get lost: a backlog that multiplies."""
    if taken_out:
        monkeypatch.setattr(module, "PushRefused", StoreError)
    queue = Mumbling()
    center.intake.insert([new()])
    dispatcher = Dispatcher(center, queue, Scheduler())
    for _ in range(3):
        try:
            dispatcher.scan()
        except StoreError:
            assert taken_out
    assert queue.depth([ListName("q")]) == {ListName("q"): 3 if taken_out else 1}


@in_force
def test_rule_09_a_claim_is_read_back_by_its_token(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch, taken_out: bool
) -> None:
    """By worker, a doubled message would be handed to the same worker twice."""
    if taken_out:
        take_out(monkeypatch, working, "CLAIMED_IN_BATCH", "token = :token")
    center.intake.insert([new()])
    doubled = messages(dispatch(center))
    desk = center.worker_desk(W1)
    handed_out = [len(desk.claim(doubled).won) for _ in range(2)]
    assert handed_out == ([1, 1] if taken_out else [1, 0])


@in_force
def test_rule_09_a_message_starts_only_the_attempt_it_was_pushed_for(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch, taken_out: bool
) -> None:
    """A message that comes late would start an attempt whose own message is still under way."""
    if taken_out:
        take_out(monkeypatch, working, "SAME_ATTEMPT", "attempt = :attempt")
    center.intake.insert([new()])
    batch = dispatch(center)
    stale = messages(batch)
    center.dispatch.put_back(batch.won, batch.token)
    dispatch(center)
    assert [c.attempt for c in center.worker_desk(W1).claim(stale).won] == ([2] if taken_out else [])


@in_force
def test_rule_11_an_end_is_taken_only_from_who_holds_the_task(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch, taken_out: bool
) -> None:
    """Otherwise a worker that was declared dead would write over what runs elsewhere."""
    if taken_out:
        take_out(monkeypatch, working, "LOCK_HELD", "worker_id = :worker")
    (claimed,) = start(center, W1)
    late = center.worker_desk(W2).finish([failed(claimed)])
    assert len(late) == (0 if taken_out else 1)
    assert task(center, claimed.id).status is (Status.FAILED if taken_out else Status.RUNNING)


@pytest.fixture
def case(center_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    found = Case(center_url, monkeypatch)
    yield found
    found.center.close()


@in_force
def test_rule_16_guarantee_3_age_alone_proves_nothing(
    case: Case, monkeypatch: pytest.MonkeyPatch, taken_out: bool
) -> None:
    """Without a look into the list, whatever waits for longer than a lost message is pushed again: twice as many."""
    if taken_out:
        monkeypatch.setattr(case.messages, "_missing", lambda suspects, _name: list(suspects))
    case.ids(20)
    case.scan()
    case.pass_by(30)
    case.scan()
    assert case.queue.depth([LIST]) == {LIST: 40 if taken_out else 20}


@in_force
def test_rule_16_one_look_proves_nothing(
    case: Case, monkeypatch: pytest.MonkeyPatch, taken_out: bool
) -> None:
    """Between a worker's pull and its claim, a message is in no list; its task would be started a second time."""
    if taken_out:
        monkeypatch.setattr(Absences, "look", lambda _self, _now, absent, *_: list(absent))
    case.ids()
    case.scan()
    case.pass_by(12)
    in_hands = [message for _, message in case.queue.pull(["q"], 1, 0).messages]
    case.pass_by(2)
    won = case.center.worker_desk("host:1:w").claim(in_hands).won
    assert len(won) == (0 if taken_out else 1)


@in_force
def test_rule_17_guarantee_2_after_a_gap_between_looks_everything_begins_anew(
    case: Case, monkeypatch: pytest.MonkeyPatch, taken_out: bool
) -> None:
    """While SQL was away nobody could beat: the first who looks would take the tasks of those who come back late."""
    if taken_out:
        monkeypatch.setattr(proofs, "LONGEST_GAP", float("inf"))
    for worker in ("host:1:a", "host:1:b", "host:1:c"):
        case.center.nodes.enter_worker(beat(worker))
    (claimed,) = start(case.center, "host:1:a")
    case.pass_by(4, alive="host:1:a host:1:b host:1:c")
    case.clock.move(seconds=300)
    case.pass_by(6, alive="host:1:b host:1:c")
    assert case.statuses([claimed.id]) == [Status.PENDING if taken_out else Status.RUNNING]
