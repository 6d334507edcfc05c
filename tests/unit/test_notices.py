"""The couriers: budgets, pauses, digests, retries, and what goes elsewhere when a receiver does not work."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as changed

from taskkit.alerts import Alert, AlertChange, AlertState, Event, Item, Notice, Posting, Said
from taskkit.center import TaskCenter
from taskkit.errors import StoreError
from taskkit.notices import Courier, MemoryOutbox, Troubleshooter, couriers
from taskkit.receivers.mentions import Mentions
from taskkit.receivers.protocol import USUAL, CallPayload, Form, Options, Reply, Verdict
from taskkit.settings import Settings
from taskkit.watchdog.engine import CheckOutcome, Engine
from taskkit.watchdog.evidence import Evidence
from taskkit.watchdog.post import Post
from tests.schemas import build
from tests.waiting import wait_until
from tests.watchdogs import breach, clear, rule

START = datetime(2026, 1, 1, tzinfo=UTC)
SENT = Reply(Verdict.SENT, "0")
CAP, SPAN_S = 18, 60


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def seconds(self) -> float:
        return (self.now - START).total_seconds()

    def move(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class Robot:
    """A receiver that remembers what it was asked to send and answers by a script."""

    kind = "fake"

    def __init__(
        self,
        clock: Clock,
        name: str = "ops",
        *,
        budget: int | None = CAP,
        month: int | None = None,
        robot: str = "",
        **options: Any,
    ) -> None:
        self.clock, self.name, self.budget, self.month = clock, name, budget, month
        self.options = Options(name=name, **options)
        self.robot = robot or f"robot-of-{name}"
        self.calls: list[tuple[datetime, Notice, Form, str]] = []
        self.answers: list[Reply | Callable[[], Reply]] = []
        self.taken: dict[str, Notice] = {}
        self._made: Notice | None = None
        self._form = Form()

    def payloads(
        self, notice: Notice, form: Form = USUAL, *, language: str, zone: Any
    ) -> Sequence[CallPayload]:
        self._made, self._form = notice, form
        found = [CallPayload(body=b"x" * 2000, kind="markdown")]
        return [*found, CallPayload(body=b"@", kind="mention")] if self.options.mentions.everyone else found

    def send(self, payload: CallPayload, *, uuid: str, now: datetime) -> Reply:
        assert self._made is not None
        self.calls.append((self.clock.now, self._made, self._form, uuid))
        answer = self.answers.pop(0) if self.answers else SENT
        reply = answer() if callable(answer) else answer
        if reply.verdict is Verdict.SENT:
            self.taken[uuid] = self._made
        return reply

    @property
    def told(self) -> Counter[int]:
        """In how many messages that were taken each alert was told."""
        return Counter(item.alert_id for notice in self.taken.values() for item in notice.items)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def center(tmp_path: Path, clock: Clock) -> Any:
    url = f"sqlite:///{tmp_path / 'alerts.db'}"
    build(url)
    found = TaskCenter(url, clock=clock)
    yield found
    found.close()


def item(number: int, event: Event = Event.FIRING, severity: str = "warning") -> Item:
    return Item(
        alert_id=number, event=event, rule="backlog", object=f"q{number}", severity=severity, since=START, at=START,
        said={"en": Said(title=f"alert {number}")},
    )  # fmt: skip


def post(
    center: TaskCenter, number: int, event: Event = Event.FIRING, receiver: str = "ops", **more: Any
) -> None:
    severity = more.pop("severity", "warning")
    center.outbox.post([Posting(receiver, item(number, event, severity), **more)])


def run(clock: Clock, courier: Courier | Sequence[Courier], seconds: float, step: float = 1.0) -> None:
    """Let couriers work for so long."""
    end = clock.seconds() + seconds
    while clock.seconds() < end:
        for one in [courier] if isinstance(courier, Courier) else courier:
            while one.tick() <= 0:
                clock.move(0.01)
        clock.move(step)


def most_in_a_span(robot: Robot) -> int:
    times = [at for at, *_ in robot.calls]
    return max((sum(0 <= (b - a).total_seconds() < SPAN_S for b in times) for a in times), default=0)


def test_bot_04_thirty_alerts_in_a_minute_stay_within_the_budget_and_none_is_told_twice(
    center: TaskCenter, clock: Clock
) -> None:
    robot = Robot(clock)
    courier = Courier(center.outbox, [robot], "me", clock=clock)
    for number in range(1, 31):
        post(center, number)
        run(clock, courier, 2)
    run(clock, courier, 120)
    assert robot.told == Counter(range(1, 31))
    assert most_in_a_span(robot) <= CAP
    assert max(len(notice.items) for _, notice, _, _ in robot.calls) > 1, "the rest came as a digest"
    assert center.outbox.depth() == {}


def test_sixty_alerts_at_once_are_told_once_each_within_the_budget(center: TaskCenter, clock: Clock) -> None:
    robot = Robot(clock)
    courier = Courier(center.outbox, [robot], "me", clock=clock)
    for number in range(1, 61):
        post(center, number)
    run(clock, courier, 300)
    assert robot.told == Counter(range(1, 61))
    assert most_in_a_span(robot) <= CAP


def test_two_watchdogs_share_one_budget(center: TaskCenter, clock: Clock) -> None:
    robot = Robot(clock)
    both = [Courier(center.outbox, [robot], name, clock=clock) for name in ("one", "two")]
    for number in range(1, 61):
        post(center, number)
    run(clock, both, 300)
    assert robot.told == Counter(range(1, 61))
    assert most_in_a_span(robot) <= CAP


def test_two_receivers_of_one_robot_share_its_budget(center: TaskCenter, clock: Clock) -> None:
    one, two = Robot(clock, "one", robot="same"), Robot(clock, "two", robot="same")
    (courier,) = couriers(center.outbox, [one, two], "me", clock=clock)
    for number in range(1, 41):
        post(center, number, receiver="one" if number % 2 else "two")
    run(clock, courier, 400)
    assert one.told + two.told == Counter(range(1, 41))
    both = Robot(clock)
    both.calls = sorted(one.calls + two.calls, key=lambda call: call[0])
    assert most_in_a_span(both) <= CAP


def test_bot_03_a_robot_that_is_over_its_rate_is_left_alone_and_the_alert_is_told_once(
    center: TaskCenter, clock: Clock
) -> None:
    robot = Robot(clock)
    robot.answers = [Reply(Verdict.PAUSE, "45009", "api freq out of limit", pause_s=65)]
    courier = Courier(center.outbox, [robot], "me", clock=clock)
    post(center, 1)
    run(clock, courier, 120)
    first, second = (at for at, *_ in robot.calls)
    assert (second - first).total_seconds() >= 60
    assert len({uuid for *_, uuid in robot.calls}) == 1, "the same key for each attempt"
    assert center.outbox.depth() == {}


def test_bot_06_a_ban_is_respected_critical_alerts_go_elsewhere_and_one_digest_follows(
    center: TaskCenter, clock: Clock
) -> None:
    robot, other = Robot(clock), Robot(clock, "second", fallback=True, severity="critical")
    trouble = Troubleshooter(center.outbox, [robot, other], clock=clock)
    both = couriers(center.outbox, [robot, other], "me", clock=clock, trouble=trouble)
    ban = Reply(Verdict.PAUSE, "130101", "send too fast", pause_s=610)
    for number in (1, 2, 3):
        post(center, number)
    robot.answers = [SENT, SENT, ban]
    run(clock, both, 5)
    banned = robot.calls[-1][0]
    for number in range(4, 16):
        post(center, number, severity="critical" if number == 10 else "warning")
        run(clock, both, 30)
    post(center, 7, Event.RESOLVED)
    run(clock, both, 700)
    after = [(at, notice) for at, notice, *_ in robot.calls if at > banned]
    assert (after[0][0] - banned).total_seconds() >= 600
    assert len(after) == 1, "one digest"
    found = {one.alert_id: one.event for one in after[0][1].items}
    assert set(found) == set(range(3, 16))
    assert found.pop(7) is Event.RESOLVED, "the state at the end"
    assert set(found.values()) == {Event.FIRING}
    assert [one.alert_id for _, notice, *_ in other.calls for one in notice.items] == [10]


def test_what_was_over_before_it_was_told_is_not_told(center: TaskCenter, clock: Clock) -> None:
    robot = Robot(clock)
    courier = Courier(center.outbox, [robot], "me", clock=clock)
    post(center, 1, wait_s=30)
    clock.move(10)
    post(center, 1, Event.RESOLVED, wait_s=30)
    run(clock, courier, 100)
    assert robot.calls == []


def test_an_end_that_comes_while_the_beginning_waits_for_a_robot_is_one_message(
    center: TaskCenter, clock: Clock
) -> None:
    robot = Robot(clock)
    robot.answers = [Reply(Verdict.RETRY, "http 502")]
    courier = Courier(center.outbox, [robot], "me", clock=clock)
    post(center, 1)
    run(clock, courier, 1)
    post(center, 1, Event.RESOLVED)
    run(clock, courier, 60)
    assert [[one.event for one in notice.items] for _, notice, *_ in robot.calls] == [
        [Event.FIRING],
        [Event.RESOLVED],
    ]


def test_alerts_of_one_group_that_come_together_are_one_message(center: TaskCenter, clock: Clock) -> None:
    robot = Robot(clock)
    courier = Courier(center.outbox, [robot], "me", clock=clock)
    for number in range(1, 6):
        post(center, number, group="worker_dead", wait_s=10)
        run(clock, courier, 1)
    post(center, 6, group="other", wait_s=10)
    run(clock, courier, 60)
    assert sorted(len(notice.items) for _, notice, *_ in robot.calls) == [1, 5]


def test_a_receiver_that_is_configured_wrongly_is_told_of_through_another_and_not_called_every_minute(
    center: TaskCenter, clock: Clock
) -> None:
    robot, other = Robot(clock), Robot(clock, "second", fallback=True)
    robot.answers = [Reply(Verdict.MISCONFIGURED, "93000", "invalid webhook url")] * 50
    trouble = Troubleshooter(center.outbox, [robot, other], clock=clock)
    both = couriers(center.outbox, [robot, other], "me", clock=clock, trouble=trouble)
    for number in range(1, 4):
        post(center, number)
    run(clock, both, 1800, step=5)
    assert len(robot.calls) == 1
    assert other.told == Counter([1, 2, 3]), "what it should have told"
    about = [notice for _, notice, *_ in other.calls if not notice.items]
    assert len(about) == 1
    assert "93000" in about[0].text
    robot.answers = []
    run(clock, both, 3700, step=5)
    assert robot.told == Counter([1, 2, 3]), "it is tried again in the end, and nothing was lost"


def test_what_does_not_arrive_is_tried_again_ever_more_rarely_with_one_key(
    center: TaskCenter, clock: Clock
) -> None:
    robot = Robot(clock)
    robot.answers = [Reply(Verdict.RETRY, "timeout")] * 6
    courier = Courier(center.outbox, [robot], "me", clock=clock)
    post(center, 1)
    run(clock, courier, 600)
    times = [at for at, *_ in robot.calls]
    gaps = [(b - a).total_seconds() for a, b in pairwise(times)]
    assert len(times) == 7
    assert gaps == sorted(gaps)
    assert len({uuid for *_, uuid in robot.calls}) == 1
    assert center.alerts.told(1)[0]["state"] == "sent"


@pytest.mark.parametrize(
    ("verdict", "form"),
    [
        (Verdict.PLAIN, Form(plain=True)),
        (Verdict.NO_MENTION_ALL, Form(mention_all=False)),
        (Verdict.NO_LINKS, Form(links=False)),
        (Verdict.SHRINK, Form(limit=1000)),
        (Verdict.RESIGN, Form()),
    ],
)
def test_a_message_that_is_refused_as_it_is_goes_once_more_in_another_form(
    center: TaskCenter, clock: Clock, verdict: Verdict, form: Form
) -> None:
    robot = Robot(clock)
    robot.answers = [Reply(verdict, "1")]
    courier = Courier(center.outbox, [robot], "me", clock=clock)
    post(center, 1)
    run(clock, courier, 3)
    assert [form for _, _, form, _ in robot.calls] == [Form(), form]
    assert center.outbox.depth() == {}


def test_what_can_never_arrive_is_refused_for_good_and_goes_elsewhere(
    center: TaskCenter, clock: Clock
) -> None:
    robot, other = Robot(clock), Robot(clock, "second", fallback=True)
    robot.answers = [Reply(Verdict.BROKEN, "44004", "content is empty")]
    trouble = Troubleshooter(center.outbox, [robot, other], clock=clock)
    both = couriers(center.outbox, [robot, other], "me", clock=clock, trouble=trouble)
    post(center, 1)
    run(clock, both, 60)
    assert len(robot.calls) == 1
    assert other.told == Counter([1])
    assert [row["state"] for row in center.alerts.told(1)] == ["refused", "sent"]


def test_bot_23_b_a_watchdog_that_dies_after_the_call_causes_one_double_with_the_same_key(
    center: TaskCenter, clock: Clock
) -> None:
    class Died(BaseException):
        pass

    robot = Robot(clock)

    def die() -> Reply:
        raise Died

    robot.answers = [die]
    post(center, 1)
    with pytest.raises(Died):
        Courier(center.outbox, [robot], "one", clock=clock).tick()
    two = Courier(center.outbox, [robot], "two", clock=clock)
    run(clock, two, 30)
    assert len(robot.calls) == 1, "it may still be under way"
    run(clock, two, 100)
    assert len(robot.calls) == 2
    assert len({uuid for *_, uuid in robot.calls}) == 1


def test_a_mention_counts_in_the_budget(center: TaskCenter, clock: Clock) -> None:
    robot = Robot(clock, mentions=Mentions(everyone=True))
    courier = Courier(center.outbox, [robot], "me", clock=clock)
    for number in range(1, 41):
        post(center, number)
    run(clock, courier, 400)
    assert robot.told == Counter(range(1, 41))
    assert most_in_a_span(robot) <= CAP


def test_most_of_a_months_calls_are_told_of_once(center: TaskCenter, clock: Clock) -> None:
    robot, other = Robot(clock, month=10), Robot(clock, "second", fallback=True)
    trouble = Troubleshooter(center.outbox, [robot, other], clock=clock)
    both = couriers(center.outbox, [robot, other], "me", clock=clock, trouble=trouble)
    for number in range(1, 10):
        post(center, number)
        run(clock, both, 20)
    assert len(other.calls) == 1
    assert "8 of 10" in other.calls[0][1].text


def test_the_step_of_an_alert_and_what_is_told_of_it_are_written_together(
    center: TaskCenter, clock: Clock
) -> None:
    alert = Alert(
        0, "backlog", "mail", AlertState.FIRING, "warning", "burst", 12.5, "tasks", {"en": Said(title="t")}, START, START,
        firing_at=START, told_at=START,
    )  # fmt: skip
    (number,) = center.alerts.record([AlertChange(None, alert, (Posting("ops", item(0)),))])
    assert center.alerts.record([AlertChange(None, alert, (Posting("ops", item(0)),))]) == [0], (
        "another was faster"
    )
    found = center.alerts.alert(number)
    assert (found.object, found.said["en"].title, found.since) == ("mail", "t", START)
    assert [one.notice.items[0].alert_id for one in center.outbox.waiting(["ops"])] == [number]


def test_an_outbox_in_memory_keeps_the_same_promises(clock: Clock) -> None:
    robot = Robot(clock)
    outbox = MemoryOutbox(clock.seconds)
    courier = Courier(outbox, [robot], "me", clock=clock)
    outbox.post([Posting("ops", item(number)) for number in range(1, 41)])
    run(clock, courier, 400)
    assert robot.told == Counter(range(1, 41))
    assert most_in_a_span(robot) <= CAP
    assert len(outbox) == 0


def in_memory(clock: Clock, robot: Robot) -> tuple[MemoryOutbox, Courier]:
    outbox = MemoryOutbox(clock.seconds)
    return outbox, Courier(outbox, [robot], "me", clock=clock)


def test_in_memory_too_a_robot_over_its_rate_is_left_alone_and_the_alert_is_told_once(clock: Clock) -> None:
    robot = Robot(clock)
    outbox, courier = in_memory(clock, robot)
    robot.answers = [Reply(Verdict.PAUSE, "45009", "api freq out of limit", pause_s=65)]
    outbox.post([Posting("ops", item(1))])
    run(clock, courier, 120)
    first, second = (at for at, *_ in robot.calls)
    assert (second - first).total_seconds() >= 60
    assert len({uuid for *_, uuid in robot.calls}) == 1
    assert robot.told == Counter([1])
    assert len(outbox) == 0


def test_in_memory_too_what_does_not_arrive_is_tried_again_ever_more_rarely_with_one_key(
    clock: Clock,
) -> None:
    robot = Robot(clock)
    outbox, courier = in_memory(clock, robot)
    robot.answers = [Reply(Verdict.RETRY, "timeout")] * 6
    outbox.post([Posting("ops", item(1))])
    run(clock, courier, 600)
    gaps = [(b - a).total_seconds() for a, b in pairwise(at for at, *_ in robot.calls)]
    assert len(gaps) == 6
    assert gaps == sorted(gaps)
    assert len({uuid for *_, uuid in robot.calls}) == 1
    assert robot.told == Counter([1])


def test_in_memory_too_what_is_refused_for_good_holds_up_nothing(clock: Clock) -> None:
    robot = Robot(clock)
    outbox, courier = in_memory(clock, robot)
    robot.answers = [Reply(Verdict.BROKEN, "44004", "content is empty")]
    outbox.post([Posting("ops", item(number)) for number in (1, 2)])
    run(clock, courier, 60)
    assert (len(robot.calls), robot.told) == (2, Counter([2]))
    assert len(outbox) == 0


@pytest.mark.parametrize("where", ["sql", "memory"])
def test_bot_03_a_mention_that_is_over_the_rate_pauses_the_robot_though_the_message_arrived(
    center: TaskCenter, clock: Clock, where: str
) -> None:
    robot = Robot(clock, mentions=Mentions(everyone=True))
    outbox = center.outbox if where == "sql" else MemoryOutbox(clock.seconds)
    courier = Courier(outbox, [robot], "me", clock=clock)
    robot.answers = [SENT, Reply(Verdict.PAUSE, "45009", "api freq out of limit", pause_s=65)]
    outbox.post([Posting("ops", item(number)) for number in (1, 2)])
    run(clock, courier, 120)
    paused, after = (at for at, *_ in robot.calls[1:3])
    assert (after - paused).total_seconds() >= 60, "no call to this robot"
    assert robot.told == Counter([1, 2])


def told_in_order(robot: Robot) -> list[list[tuple[int, str]]]:
    return [[(one.alert_id, one.event.value) for one in notice.items] for notice in robot.taken.values()]


def test_an_end_does_not_overtake_a_beginning_that_is_tried_again_later(
    center: TaskCenter, clock: Clock
) -> None:
    robot = Robot(clock)
    courier = Courier(center.outbox, [robot], "w", clock=clock)

    def ends_meanwhile() -> Reply:
        post(center, 1, Event.RESOLVED)
        return Reply(Verdict.RETRY, "timeout")

    robot.answers = [Reply(Verdict.RETRY, "timeout"), ends_meanwhile]
    post(center, 1)
    run(clock, courier, 6)
    post(center, 2)
    run(clock, courier, 60)
    assert told_in_order(robot) == [[(2, "firing")], [(1, "firing")], [(1, "resolved")]]


def test_a_notebook_does_not_take_the_place_of_an_alert_that_waits(center: TaskCenter, clock: Clock) -> None:
    robot = Robot(clock)
    courier = Courier(center.outbox, [robot], "w", clock=clock)
    robot.answers = [Reply(Verdict.RETRY, "refused")] * 2
    post(center, 1)
    run(clock, courier, 12)
    post(center, 1, Event.EVIDENCE)
    run(clock, courier, 60)
    assert told_in_order(robot) == [[(1, "firing")], [(1, "evidence")]]


def test_a_notebook_says_on_which_host_it_lies_and_how_to_make_it(
    center: TaskCenter, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Evidence, "page", lambda self, alert, rule: tmp_path / "1-backlog.html")
    evidence = Evidence(Settings(home=tmp_path), center)
    evidence.ask(alert_of("critical"), rule("backlog", group_wait="0s"), Post([Robot(clock)]))
    (waiting,) = wait_until(lambda: center.outbox.waiting(["ops"]), 10)
    evidence.stop()
    (told,) = waiting.notice.items
    assert (told.host, told.command) == (socket.gethostname(), "taskkit runbook run backlog")
    assert told.file.endswith("1-backlog.html")


def test_an_end_that_comes_while_a_repeat_gathers_is_told(center: TaskCenter, clock: Clock) -> None:
    robot = Robot(clock)
    courier = Courier(center.outbox, [robot], "w", clock=clock)
    post(center, 1)
    run(clock, courier, 10)
    post(center, 1, Event.REPEAT, wait_s=5)
    post(center, 1, Event.RESOLVED, wait_s=5)
    run(clock, courier, 60)
    assert told_in_order(robot) == [[(1, "firing")], [(1, "resolved")]]


def test_a_repeat_of_what_nobody_was_told_is_told_as_a_beginning(center: TaskCenter, clock: Clock) -> None:
    robot = Robot(clock)
    courier = Courier(center.outbox, [robot], "w", clock=clock)
    center.outbox.pause(courier.robot, 65, "45009")
    post(center, 1)
    post(center, 1, Event.REPEAT, severity="critical")
    run(clock, courier, 120)
    assert told_in_order(robot) == [[(1, "firing")]]


def test_an_end_is_told_once_where_a_beginning_and_a_repeat_wait(center: TaskCenter, clock: Clock) -> None:
    robot = Robot(clock)
    courier = Courier(center.outbox, [robot], "w", clock=clock)

    def repeated_meanwhile() -> Reply:
        post(center, 1, Event.REPEAT, wait_s=5)
        return Reply(Verdict.RETRY, "timeout")

    robot.answers = [repeated_meanwhile]
    post(center, 1)
    run(clock, courier, 2)
    post(center, 1, Event.RESOLVED)
    run(clock, courier, 60)
    assert told_in_order(robot) == [[(1, "resolved")]]


def test_so_many_gather_in_one_notice_as_a_message_has_room_for_their_ids(center: TaskCenter) -> None:
    for number in range(1, 251):
        post(center, number, group="g", wait_s=60)
    assert [len(one.notice.items) for one in center.outbox.waiting(["ops"])] == [100, 100, 50]


def test_a_receiver_that_took_over_for_another_is_told_the_end_too(center: TaskCenter, clock: Clock) -> None:
    ops, other = Robot(clock), Robot(clock, "other", fallback=True)
    trouble = Troubleshooter(center.outbox, [ops, other], clock=clock)
    both = couriers(center.outbox, [ops, other], "w", clock=clock, trouble=trouble)
    asked = rule(
        "backlog", hold="0s", keep_firing="0s", group_wait="0s", receivers=("ops",), severity="critical"
    )
    engine = Engine(center, Post([ops, other]))
    ops.answers = [Reply(Verdict.PAUSE, "130101", "", 610.0)]
    engine.apply(asked, CheckOutcome((breach("a"),)))
    run(clock, both, 700)
    engine.apply(asked, CheckOutcome((clear("a"),)))
    run(clock, both, 100)
    assert told_in_order(ops) == told_in_order(other) == [[(1, "firing")], [(1, "resolved")]]


def alert_of(severity: str) -> Alert:
    said = {"en": Said(title="t")}
    return Alert(1, "backlog", "a", AlertState.FIRING, severity, "burst", 1.0, "tasks", said, START, START)


def in_silence(center: TaskCenter, clock: Clock, **covers: str) -> tuple[Robot, Any, Any]:
    """An alert that was told, and that ended ten minutes into a silence of an hour: robot, rule and a look that is clear."""
    ops = Robot(clock)
    asked = rule("backlog", hold="0s", keep_firing="0s", group_wait="0s")
    engine, courier = Engine(center, Post([ops])), couriers(center.outbox, [ops], "w", clock=clock)

    def look(*readings: Any) -> list[list[tuple[int, str]]]:
        engine.apply(asked, CheckOutcome(readings))
        run(clock, courier, 10)
        return told_in_order(ops)

    assert look(breach("a")) == [[(1, "firing")]]
    center.alerts.silence(clock.now + timedelta(hours=1), "ada", "import", **covers)
    clock.move(600)
    assert look(clear("a")) == [[(1, "firing")]]
    assert center.alerts.alert(1).state is AlertState.RESOLVED
    return ops, asked, look


def test_what_ended_in_a_silence_is_told_as_over_once_when_the_silence_ends(
    center: TaskCenter, clock: Clock
) -> None:
    ops, _, look = in_silence(center, clock)
    ended = center.alerts.alert(1).resolved_at
    clock.move(3000)
    for _ in range(3):
        assert look(clear("a")) == [[(1, "firing")], [(1, "resolved")]]
    assert ops.calls[-1][1].items[0].at == ended, "the message says when it was over"


def test_what_ended_in_a_silence_waits_for_the_next_one_that_covers_it(
    center: TaskCenter, clock: Clock
) -> None:
    _, _, look = in_silence(center, clock, rule="backlog")
    center.alerts.silence(clock.now + timedelta(hours=2), "ada", "and another", rule="backlog")
    clock.move(3600)
    assert look(clear("a")) == [[(1, "firing")]]
    clock.move(3700)
    assert look(clear("a")) == [[(1, "firing")], [(1, "resolved")]]


def test_what_ended_in_a_silence_that_is_long_over_is_told_by_nobody(
    center: TaskCenter, clock: Clock
) -> None:
    _, _, look = in_silence(center, clock)
    clock.move(2 * 86_400)
    assert look(clear("a")) == [[(1, "firing")]]


def test_where_no_receiver_takes_it_nobody_was_told_until_there_is_one(
    center: TaskCenter, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    asked = rule("backlog", hold="0s", keep_firing="0s", group_wait="0s", severity="warning")
    nobody, deaf = Engine(center, Post([])), Engine(center, Post([Robot(clock, severity="critical")]))
    with caplog.at_level("INFO", "taskkit.watchdog"):
        fired = [len(one.apply(asked, CheckOutcome((breach("a"),))).fired) for one in (nobody, deaf, nobody)]
        assert fired == [1, 0, 0], "it began once"
        assert center.alerts.alert(1).told_at is None
        clock.move(5 * 3600)
        nobody.apply(asked, CheckOutcome((breach("a"),)))
        assert center.alerts.alert(1).told_at is None
        ops = Robot(clock)
        engine, courier = Engine(center, Post([ops])), couriers(center.outbox, [ops], "w", clock=clock)
        engine.apply(asked, CheckOutcome((breach("a"),)))
        run(clock, courier, 10)
        assert told_in_order(ops) == [[(1, "firing")]]
        told = center.alerts.alert(1).told_at
        assert told is not None
        clock.move(5 * 3600)
        for _ in range(3):
            nobody.apply(asked, CheckOutcome((breach("a"),)))
        assert center.alerts.alert(1).told_at == told, "nobody heard the repeat"
        nobody.apply(asked, CheckOutcome((breach("b"), clear("a"))))
        nobody.apply(asked, CheckOutcome((clear("b"),)))
    said = [line.getMessage() for line in caplog.records if line.name == "taskkit.watchdog"]
    assert said == [f"{what}: backlog {name}: too much" for what, name in
                    (("firing", "a"), ("firing", "a"), ("resolved", "a"), ("firing", "b"), ("resolved", "b"))]  # fmt: skip


def test_what_two_receivers_of_one_robot_take_is_told_there_once_by_the_more_particular(
    center: TaskCenter, clock: Clock
) -> None:
    calm = Robot(clock, "calm", robot="group")
    twin = Robot(clock, "twin", robot="group")
    loud = Robot(clock, "loud", robot="group", severity="critical")
    other = Robot(clock, "other")
    asked = rule("backlog", hold="0s", keep_firing="0s", severity="warning")
    post = Post([calm, twin, loud, other])

    def told(severity: str, event: Event = Event.FIRING, **keys: Any) -> list[str]:
        turned = replace(alert_of(severity), resolved_at=START)
        return [one.receiver for one in post.postings(turned, event, changed(asked, **keys), START)]

    assert told("warning") == ["calm", "other"]
    assert told("critical") == told("critical", Event.RESOLVED) == ["loud", "other"]
    assert told("critical", receivers=("twin",)) == ["twin"]


def test_a_message_that_cannot_be_made_goes_elsewhere_and_holds_up_no_other(
    center: TaskCenter, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    robot, other = Robot(clock), Robot(clock, "second", fallback=True)
    made = robot.payloads

    def payloads(notice: Notice, form: Form = USUAL, **options: Any) -> Sequence[CallPayload]:
        if notice.items[0].alert_id == 1:
            raise KeyError("a fault of ours")
        return made(notice, form, **options)

    monkeypatch.setattr(robot, "payloads", payloads)
    trouble = Troubleshooter(center.outbox, [robot, other], clock=clock)
    both = couriers(center.outbox, [robot, other], "me", clock=clock, trouble=trouble)
    post(center, 1)
    run(clock, both, 5)
    post(center, 2)
    run(clock, both, 5)
    assert (robot.told, other.told) == (Counter([2]), Counter([1]))


def test_a_clock_that_was_set_back_leaves_no_budget_used_up(center: TaskCenter, clock: Clock) -> None:
    robot = Robot(clock)
    courier = Courier(center.outbox, [robot], "me", clock=clock)
    for number in range(1, 18):
        post(center, number)
    run(clock, courier, 60)
    before = len(robot.calls)
    clock.move(-7200)
    post(center, 99)
    run(clock, courier, 5)
    assert len(robot.calls) == before + 1


def over(center: TaskCenter, number: int) -> int:
    """The id of an alert that has ended."""
    alert = replace(alert_of("critical"), object=f"q{number}", state=AlertState.RESOLVED, resolved_at=START)
    return center.alerts.record([AlertChange(None, alert)])[0]


def test_a_notebook_that_does_not_arrive_holds_up_no_end_and_does_not_come_after_it(
    center: TaskCenter, clock: Clock
) -> None:
    robot = Robot(clock)
    courier = Courier(center.outbox, [robot], "w", clock=clock)
    number = over(center, 1)
    robot.answers = [SENT]
    post(center, number)
    run(clock, courier, 2)
    post(center, number, Event.EVIDENCE)
    post(center, number, Event.RESOLVED)
    run(clock, courier, 100)
    assert told_in_order(robot) == [[(number, "firing")], [(number, "resolved")]]
    assert [row["state"] for row in center.alerts.told(number)] == ["sent", "dropped", "sent"]
    assert center.outbox.depth() == {}


def test_a_notebook_that_is_tried_again_later_lets_the_end_go_first(center: TaskCenter, clock: Clock) -> None:
    robot = Robot(clock)
    courier = Courier(center.outbox, [robot], "w", clock=clock)
    robot.answers = [SENT, *[Reply(Verdict.RETRY, "timeout")] * 3]
    post(center, 1)
    post(center, 1, Event.EVIDENCE)
    run(clock, courier, 12)
    post(center, 1, Event.RESOLVED)
    robot.answers = []
    run(clock, courier, 2)
    assert told_in_order(robot) == [[(1, "firing")], [(1, "resolved")]]


def test_a_digest_leaves_out_the_notebook_of_what_is_over(center: TaskCenter, clock: Clock) -> None:
    robot = Robot(clock)
    courier = Courier(center.outbox, [robot], "w", clock=clock)
    number = over(center, 1)
    center.outbox.pause(courier.robot, 65, "45009")
    post(center, 77)
    post(center, number, Event.EVIDENCE)
    run(clock, courier, 120)
    assert told_in_order(robot) == [[(77, "firing")]]
    assert center.outbox.depth() == {}


@pytest.mark.parametrize("step", ["robots", "post_notice", "known", "post"])
def test_what_is_refused_for_good_waits_until_another_has_it(
    center: TaskCenter, clock: Clock, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    robot, other = Robot(clock), Robot(clock, "second", fallback=True)
    robot.answers = [Reply(Verdict.BROKEN, "44004", "content is empty")] * 2
    trouble = Troubleshooter(center.outbox, [robot, other], clock=clock)
    both = couriers(center.outbox, [robot, other], "me", clock=clock, trouble=trouble)
    post(center, 1)

    def fails(*_: object, **__: object) -> Any:
        raise StoreError("SQL is away")

    with monkeypatch.context() as patched:
        patched.setattr(center.outbox, step, fails)
        run(clock, both, 2)
    assert other.told == Counter()
    assert [row["state"] for row in center.alerts.told(1) if row["receiver"] == "ops"] == ["waiting"]
    run(clock, both, 60)
    assert other.told == Counter([1])
    assert [row["state"] for row in center.alerts.told(1)] == ["refused", "sent"]
