"""The book of alerts and the outbox on each kind of database: what is written together, merged, taken, and found again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from taskkit.alerts import Alert, AlertChange, AlertState, Event, Item, Notice, Posting, Said
from taskkit.center import TaskCenter
from taskkit.center.outbox import Robot
from taskkit.errors import NotFound
from taskkit.notices.choosing import merged
from taskkit.watchdog.daily import daily_line
from taskkit.watchdog.engine import CheckOutcome, Engine
from taskkit.watchdog.post import Post
from tests.alert_rows import ended, written
from tests.centers import sql
from tests.watchdogs import breach, rule

pytest_plugins = ["tests.center_fixtures"]

ROBOT = Robot("abc", ("ops",), budget=18, calls=3)


def alert(center: TaskCenter, name: str = "mail", **parts: object) -> Alert:
    now = center.now()
    given = {
        "id": 0, "rule": "backlog", "object": name, "state": AlertState.FIRING, "severity": "warning", "cause": "above",
        "value": 12.5, "unit": "tasks", "said": {"en": Said(title="many"), "zh": Said(title="很多")}, "since": now,
        "breach_at": now, "firing_at": now, "told_at": now,
    }  # fmt: skip
    return Alert(**given | parts)  # type: ignore[arg-type]


def item(center: TaskCenter, number: int = 0, event: Event = Event.FIRING) -> Item:
    now = center.now()
    return Item(
        alert_id=number,
        event=event,
        rule="backlog",
        object="mail",
        severity="warning",
        since=now,
        at=now,
        said={},
    )


def record(center: TaskCenter, before: Alert | None, after: Alert | None, *postings: Posting) -> int:
    return center.alerts.record([AlertChange(before, after, postings)])[0]


def waiting(center: TaskCenter) -> list[tuple[int, ...]]:
    """The alerts of each notice that waits."""
    return [tuple(one.alert_id for one in found.notice.items) for found in center.outbox.waiting(["ops"])]


def test_an_alert_comes_back_as_it_was_written(center: TaskCenter) -> None:
    wanted = alert(center, under_at=center.now(), flaps=3, inhibited_by="stores:sql", silence_id=7)
    number = record(center, None, wanted)
    assert center.alerts.alert(number) == replace(wanted, id=number)
    assert center.alerts.open() == [replace(wanted, id=number)]


def test_there_is_one_open_alert_of_a_rule_and_object_whoever_is_faster(center: TaskCenter) -> None:
    wanted = alert(center)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: record(center, None, wanted, Posting("ops", item(center))), range(8)))
    assert sum(number > 0 for number in found) == 1
    assert len(waiting(center)) == 1, "and one notice of it"


def test_a_step_that_another_watchdog_has_made_changes_and_tells_nothing(center: TaskCenter) -> None:
    number = record(center, None, alert(center))
    before = center.alerts.alert(number)
    over = replace(before, state=AlertState.RESOLVED, resolved_at=center.now())
    assert record(center, before, over, Posting("ops", item(center, number, Event.RESOLVED))) == number
    assert record(center, before, over, Posting("ops", item(center, number, Event.RESOLVED))) == 0
    assert waiting(center) == [(number,)]
    assert record(center, None, alert(center)) > number, "a new one may begin"


def test_what_was_told_and_ended_in_a_silence_is_known_until_that_is_said_once(center: TaskCenter) -> None:
    told, untold = written(center, object="told"), written(center, object="untold", told_at=None)
    other = written(center, object="other", rule="lost")
    silence = center.alerts.silence(center.now() + timedelta(hours=1), "ada", "import")
    for before in (told, untold, other):
        center.alerts.record([AlertChange(before, replace(before, silence_id=silence))])
        ended(center, center.alerts.alert(before.id))
    assert center.alerts.ended_in_silence("zombies") == []
    center.alerts.end_silence(silence, "ada")
    (late,) = center.alerts.ended_in_silence("zombies")
    assert late.id == told.id
    said = AlertChange(late, replace(late, silence_id=None))
    assert center.alerts.record([said, said]) == [told.id, 0], "of two watchdogs one says it"
    assert center.alerts.ended_in_silence("zombies") == []


def test_a_pending_alert_that_was_none_is_gone(center: TaskCenter) -> None:
    number = record(center, None, alert(center, state=AlertState.PENDING, firing_at=None, told_at=None))
    assert record(center, center.alerts.alert(number), None) == 0
    with pytest.raises(NotFound, match=f"no alert {number}"):
        center.alerts.alert(number)


def test_items_of_one_group_gather_in_one_notice(center: TaskCenter) -> None:
    for number in (1, 2, 3):
        center.outbox.post([Posting("ops", item(center, number), "group", wait_s=60)])
    center.outbox.post([Posting("ops", item(center, 4), "other", wait_s=60)])
    assert waiting(center) == [(1, 2, 3), (4,)]
    assert not any(found.due for found in center.outbox.waiting(["ops"]))


def test_what_ends_while_it_gathers_leaves_no_trace(center: TaskCenter) -> None:
    center.outbox.post([Posting("ops", item(center, number), "group", wait_s=60) for number in (1, 2)])
    center.outbox.post([Posting("ops", item(center, 1, Event.RESOLVED), "end", wait_s=60)])
    assert waiting(center) == [(2,)]
    center.outbox.post([Posting("ops", item(center, 2, Event.RESOLVED), "end", wait_s=60)])
    assert waiting(center) == []


def test_a_notice_is_taken_by_one_and_its_calls_count(center: TaskCenter) -> None:
    center.outbox.post([Posting("ops", item(center, 1))])
    (found,) = center.outbox.waiting(["ops"])
    with ThreadPoolExecutor(4) as pool:
        taken = [
            one
            for one in pool.map(lambda n: center.outbox.take(ROBOT, [found], found.notice, f"w{n}"), range(6))
            if one is not None
        ]
    assert len(taken) == 1
    assert center.outbox.standing(ROBOT).free == 15, "a place for each call it may need"
    center.outbox.called(taken[0].calls[0], "markdown", "sent", "0", "ok", 12.0)
    center.outbox.sent(taken[0], ROBOT, 1, "0", "ok", "2026-01")
    after = center.outbox.standing(ROBOT)
    assert (after.free, after.month_calls) == (17, 1)
    (story,) = center.alerts.told(1)
    assert (story["state"], story["code"], [call["verdict"] for call in story["calls"]]) == (
        "sent",
        "0",
        ["sent"],
    )


def test_merged_notices_point_to_the_one_that_was_sent(center: TaskCenter) -> None:
    center.outbox.post([Posting("ops", item(center, number)) for number in (1, 2)])
    chosen = center.outbox.waiting(["ops"])
    notice = merged(chosen, tuple(one for found in chosen for one in found.notice.items))
    taken = center.outbox.take(ROBOT, chosen, notice, "me")
    assert taken is not None
    center.outbox.sent(taken, ROBOT, 1, "0", "ok", "2026-01")
    assert center.outbox.depth() == {}
    assert [row["state"] for row in center.alerts.told(2)] == ["merged", "sent"]


def test_what_a_dead_watchdog_had_taken_waits_again(center: TaskCenter) -> None:
    center.outbox.post([Posting("ops", item(center, 1))])
    (found,) = center.outbox.waiting(["ops"])
    assert center.outbox.take(ROBOT, [found], found.notice, "dead") is not None
    assert center.outbox.waiting(["ops"]) == []
    sql(center, "UPDATE task_notice SET claimed_at = {after(-61)}")
    (again,) = center.outbox.waiting(["ops"])
    taken = center.outbox.take(ROBOT, [again], again.notice, "alive")
    assert taken is not None
    assert (taken.notice.uuid, taken.attempts) == (found.notice.uuid, 2)


def test_a_paused_robot_gives_nothing_away(center: TaskCenter) -> None:
    center.outbox.post([Posting("ops", item(center, 1))])
    (found,) = center.outbox.waiting(["ops"])
    center.outbox.pause(ROBOT, 60, "45009")
    assert center.outbox.take(ROBOT, [found], found.notice, "me") is None
    assert 50 < center.outbox.robots()["abc"]["pause_s"] <= 60
    center.outbox.free("abc")
    assert center.outbox.take(ROBOT, [found], found.notice, "me") is not None


def test_a_notice_with_a_known_key_is_not_written_twice(center: TaskCenter) -> None:
    for _ in range(2):
        center.outbox.post_notice(Notice(uuid="daily-2026-01-01", receiver="ops", subject="still here"))
    assert len(center.outbox.waiting(["ops"])) == 1


def test_silences_hold_from_their_beginning_to_their_end(center: TaskCenter) -> None:
    now = center.now()
    one = center.alerts.silence(now + timedelta(hours=1), "ann", "release", rule="backlog", object="mail*")
    two = center.alerts.silence(now + timedelta(hours=2), "bob", "later", starts_at=now + timedelta(hours=1))
    assert [found.id for found in center.alerts.silences()] == [one]
    assert [found.id for found in center.alerts.silences(coming=True)] == [one, two]
    center.alerts.end_silence(one, "ann")
    assert center.alerts.silences() == []
    with pytest.raises(NotFound, match=f"no silence {one}"):
        center.alerts.end_silence(one, "ann")


def test_a_rule_keeps_since_when_it_is_as_it_is(center: TaskCenter) -> None:
    center.watchdogs.note("backlog", "ok", 1.5)
    first = center.watchdogs.rules()["backlog"]
    center.watchdogs.note("backlog", "ok", 2.5)
    second = center.watchdogs.rules()["backlog"]
    assert (second["since"], second["took_ms"]) == (first["since"], 2.5)
    center.watchdogs.note("backlog", "failed", None, "no such table")
    third = center.watchdogs.rules()["backlog"]
    assert third["since"] > first["since"]
    assert third["error"] == "no such table"


def test_a_rule_that_is_gone_is_looked_after_by_nobody_and_not_counted(center: TaskCenter) -> None:
    for name in ("backlog", "mine", "lost"):
        center.watchdogs.note(name, "ok", 1.5)
    kept = (rule("backlog"), rule("lost", enabled=False))
    Engine(center, Post([])).retire(kept)
    assert center.watchdogs.rules().keys() == {"backlog"}
    assert daily_line(center, "en")[1].startswith("1 rule looked after")
    Engine(center, Post([])).retire(())
    assert center.watchdogs.rules() == {}


def test_watchdogs_are_known_by_their_rows(center: TaskCenter) -> None:
    assert center.watchdogs.beat("one", 0, None) is False
    center.watchdogs.enter("one", "host", 1)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert center.watchdogs.beat("one", 3, at) is True
    (row,) = center.watchdogs.all()
    assert (row["rounds"], row["last_round_at"], row["stopped_at"]) == (3, at, None)
    center.watchdogs.leave("one")
    assert center.watchdogs.all()[0]["stopped_at"] is not None


def test_an_object_and_words_of_any_alphabet_and_length_are_kept(center: TaskCenter) -> None:
    number = record(center, None, alert(center, "队列" * 200, said={"zh": Said(title="🙂" * 5000)}))
    found = center.alerts.alert(number)
    assert len(found.object) == 190
    assert found.said["zh"].title == "🙂" * 5000


@pytest.mark.parametrize("name", ["队" * 64, "x" * 300])
def test_an_alert_of_the_longest_names_lives_like_any_other(center: TaskCenter, name: str) -> None:
    asked = rule("given_up", hold="0s", keep_firing="0s", group="g" * 150)
    engine = Engine(center, Post(()))
    for _ in range(3):
        engine.apply(asked, CheckOutcome((breach(name), breach(f"{name[:-1]}z"))))
    assert [one.state for one in center.alerts.newest()] == ["firing", "firing"]
    engine.apply(asked, CheckOutcome(()))
    assert center.alerts.open() == []
