"""The life of an alert: when it fires, when it is over, and what is told of it; by the cases from the field."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskkit.alerts import Alert, AlertState, Event, Reading, ReadLevel, Said, Silence
from taskkit.errors import InputError
from taskkit.names import check_name
from taskkit.watchdog.rounds import (
    CheckState,
    about_check,
    fares,
    inhibitor,
    retired,
    silenced,
    soundness,
    turns,
)
from taskkit.watchdog.signals import Rule
from taskkit.watchdog.step import CHECK, step
from tests.watchdogs import Life, at, between, breach, clear, no_data, of_value, rule

FIRING, REPEAT, RESOLVED = Event.FIRING, Event.REPEAT, Event.RESOLVED
PLAIN = {"hold": "0s", "keep_firing": "2m", "repeat": "30m", "every": "10s"}


def life(**keys: Any) -> Life:
    return Life(rule(**(PLAIN | keys)))


def backlog(value: float) -> Reading:
    return of_value(value, 10_000, 8_000)


# BOT-17


def test_bot_17_a_backlog_that_ends_before_its_time_tells_nothing() -> None:
    one = life(hold="5m").looks(range(0, 291, 10), backlog(10_001))
    one.looks(range(300, 3600, 10), backlog(9_999))
    assert one.told == []
    assert one.alert is None


def test_bot_17_exactly_at_the_limit_tells_nothing() -> None:
    one = life(hold="5m").looks(range(0, 601, 10), backlog(10_000))
    assert one.told == []
    assert one.alert is None


def test_bot_17_what_lasts_fires_once_and_is_dated_from_the_first_breach() -> None:
    one = life(hold="5m").looks(range(0, 600, 10), backlog(10_001))
    assert one.told == [(300, FIRING)]
    assert one.alert is not None
    assert one.alert.since == at()
    assert one.alert.firing_at == one.alert.told_at == at(minutes=5)


def test_bot_17_a_restart_of_the_watchdog_does_not_start_the_time_again() -> None:
    one = life(hold="5m").looks(range(0, 240, 10), backlog(10_001))
    one.looks(range(270, 400, 10), backlog(10_001))
    assert one.told == [(300, FIRING)]
    assert one.alert is not None
    assert one.alert.since == at()


def test_a_watchdog_that_was_away_for_long_counts_from_its_return() -> None:
    one = life(hold="5m").looks(range(0, 240, 10), backlog(10_001))
    one.looks(range(7200, 7600, 10), backlog(10_001))
    assert one.told == [(7500, FIRING)]
    assert one.alert is not None
    assert one.alert.since == at(hours=2)


def test_what_the_check_dates_itself_fires_at_once_when_it_has_lasted() -> None:
    one = life(hold="30s")
    one.look(100, breach(since=at(seconds=20)))
    assert one.told == [(100, FIRING)]
    assert one.alert is not None
    assert one.alert.since == at(seconds=20)


def test_an_instant_of_the_future_is_not_believed() -> None:
    one = life()
    one.look(100, breach(since=at(hours=1)))
    assert one.alert is not None
    assert one.alert.since == at(seconds=100)


# BOT-22, DOG-01


def test_bot_22_a_condition_that_comes_and_goes_is_one_alert_and_one_end() -> None:
    one = life()
    for number in range(20):
        one.look(30 * number, breach() if number % 2 == 0 else clear())
    one.looks(range(600, 900, 10), clear())
    assert one.told == [(0, FIRING), (540 + 120, RESOLVED)]
    ended = one.turns[-24].after
    assert ended is not None
    assert (ended.flaps, ended.state) == (9, AlertState.RESOLVED)


def test_bot_22_with_a_time_to_wait_each_break_starts_it_from_zero() -> None:
    one = life(hold="1m")
    for second in range(0, 600, 10):
        one.look(second, breach() if second % 60 < 50 else clear())
    assert one.told == []
    one.looks(range(600, 700, 10), breach())
    assert one.told == [(660, FIRING)]
    assert one.alert is not None
    assert one.alert.since == at(seconds=600)


def test_dog_01_flapping_round_the_limit_is_told_once_and_ends_once() -> None:
    one = life()
    for number in range(180):
        one.look(10 * number, of_value(1001 if number % 2 == 0 else 999, 1000, 800))
    one.looks(range(1800, 3600, 10), of_value(1500, 1000, 800))
    one.looks(range(3600, 4000, 10), of_value(0, 1000, 800))
    assert one.told == [(0, FIRING), (1800, REPEAT), (3590 + 120, RESOLVED)]


def test_dog_01_between_the_marks_it_goes_on_for_as_long_as_it_likes() -> None:
    one = life()
    one.look(0, breach())
    one.looks(range(10, 1000, 10), between())
    assert one.events == [FIRING]
    one.looks(range(1000, 1200, 10), clear())
    assert one.told[-1] == (990 + 120, RESOLVED)


def test_dog_01_what_is_not_told_does_not_push_the_next_reminder_further() -> None:
    one = life(repeat="30m").looks(range(0, 5500, 10), breach())
    assert one.told == [(0, FIRING), (1800, REPEAT), (3600, REPEAT), (5400, REPEAT)]


def test_a_rule_without_repeats_is_told_once() -> None:
    assert life(repeat=None).looks(range(0, 50_000, 100), breach()).events == [FIRING]


def test_one_that_somebody_has_acknowledged_is_not_repeated_and_its_end_is_told() -> None:
    from dataclasses import replace

    one = life()
    one.look(0, breach())
    assert one.alert is not None
    one.alert = replace(one.alert, acked_at=at(seconds=5), acked_by="amy")
    one.looks(range(10, 7200, 10), breach()).looks(range(7200, 7400, 10), clear())
    assert one.events == [FIRING, RESOLVED]


def test_one_that_becomes_worse_is_told_at_once_and_does_not_swing_back() -> None:
    one = life(severity="warning")
    one.look(0, breach())
    for second in range(10, 200, 10):
        one.look(second, breach(severity="critical" if second % 20 else "warning"))
    assert one.told == [(0, FIRING), (10, REPEAT)]
    assert one.alert is not None
    assert one.alert.severity == "critical"


# DOG-02: no data


def test_dog_02_without_data_nothing_fires_and_nothing_is_over() -> None:
    one = life().looks([0], breach()).looks(range(10, 4000, 10), no_data())
    assert one.events == [FIRING]
    assert one.alert is not None
    assert one.alert.state is AlertState.FIRING
    assert life(hold="1m").looks([0], breach()).looks(range(10, 4000, 10), no_data()).told == []


def test_dog_02_without_data_there_is_no_new_alert() -> None:
    assert life().looks(range(0, 100, 10), no_data()).alert is None


def test_dog_02_a_check_without_data_is_an_alert_of_its_own_after_a_while() -> None:
    asked = rule("worker_dead", no_data_after="5m")
    state = fares(None, soundness([no_data()]), at())
    assert state == CheckState("no_data", at())
    assert about_check(asked, state, at(minutes=4), {}).level is ReadLevel.BETWEEN
    told = about_check(asked, state, at(minutes=5), {})
    assert (told.object, told.level, told.cause, told.since, told.value) == (
        CHECK,
        ReadLevel.BREACH,
        "no_data",
        at(),
        300,
    )
    assert about_check(rule("worker_dead", no_data="ignore"), state, at(days=1), {}).level is ReadLevel.CLEAR


def test_dog_02_a_failed_check_keeps_the_alerts_and_becomes_one_itself() -> None:
    asked = rule("backlog", failed_after="3m", hold="5m", keep_firing="3m")
    one = Life(asked).looks([0, 300, 310], breach())
    assert one.alert is not None
    state = fares(
        fares(None, "failed", at(seconds=320), "gone away"), "failed", at(seconds=500), "gone away again"
    )
    assert state.since == at(seconds=320)
    assert state.error == "gone away again"
    (turn,) = turns(
        asked, [one.alert], None, at(seconds=500), about=about_check(asked, state, at(seconds=500), {})
    )
    assert turn.after is not None
    assert (turn.after.object, turn.after.severity, turn.event) == (CHECK, "warning", FIRING)
    assert turn.after.since == at(seconds=320)
    back = fares(state, soundness([breach()]), at(seconds=600))
    live = [one.alert, turn.after]
    found = turns(
        asked, live, [breach()], at(seconds=600), about=about_check(asked, back, at(seconds=600), {})
    )
    assert {t.after.object: t.event for t in found if t.after} == {"": None, CHECK: RESOLVED}


def test_a_queue_may_be_called_like_the_alert_about_a_check_and_is_looked_after_all_the_same() -> None:
    with pytest.raises(InputError):
        check_name(CHECK, "queue")
    name = check_name(CHECK.strip(), "queue")
    asked = rule("backlog", hold="0s", keep_firing="0s")
    failing = about_check(asked, CheckState("failed", at(hours=-1)), at(), {})
    found = turns(asked, [], [breach(name)], at(), about=failing)
    assert {t.after.object: t.event for t in found if t.after} == {name: FIRING, CHECK: FIRING}
    live = [replace(t.after, id=n) for n, t in enumerate(found, 1) if t.after]
    found = turns(asked, live, [], at(seconds=1), about=clear(CHECK))
    assert {t.after.object: t.event for t in found if t.after} == {name: RESOLVED, CHECK: RESOLVED}
    written = Silence(1, "backlog", "(check)", at(), at(hours=1), "ada", "as people write it")
    assert silenced([written], "backlog", CHECK, at()) == 1


def test_a_check_that_says_nothing_had_data() -> None:
    assert soundness([]) == "ok"
    assert soundness([no_data(), clear("a")]) == "ok"
    assert soundness([no_data(), no_data("a")]) == "no_data"


# BOT-15: a restart


def test_bot_15_what_ended_while_the_watchdog_was_dead_is_told_once_with_its_true_beginning() -> None:
    one = life().looks([0], breach())
    turn = one.look(300, clear())
    assert turn.event is RESOLVED
    assert turn.after is not None
    assert (turn.after.since, turn.after.resolved_at) == (at(), at(minutes=5))
    one.looks(range(310, 900, 10), clear())
    assert one.events == [FIRING, RESOLVED]
    assert one.alert is None


def test_what_comes_back_after_its_end_is_a_new_alert() -> None:
    one = life().looks([0], breach()).looks([300], clear())
    turn = one.look(310, breach())
    assert turn.before is None
    assert turn.after is not None
    assert (turn.after.id, turn.after.since) == (0, at(seconds=310))
    ended = one.turns[1].after
    assert step(ended, breach(), one.rule, at(seconds=400)).before is None


# BOT-18 and silences: kept quiet


def test_bot_18_what_is_explained_is_not_told_and_does_not_end() -> None:
    one = life().looks([0, 10], breach())
    one.looks(range(20, 200, 10), clear(), inhibited_by="stores:redis")
    assert one.events == [FIRING]
    assert one.alert is not None
    assert one.alert.inhibited_by == "stores:redis"
    one.looks(range(200, 600, 10), breach())
    assert one.events == [FIRING]
    assert one.alert is not None
    assert one.alert.inhibited_by is None


def test_bot_18_after_its_root_is_gone_an_end_that_was_kept_back_is_told() -> None:
    one = life().looks([0], breach()).looks(range(10, 400, 10), clear(), inhibited_by="stores:redis")
    one.look(400, clear())
    assert one.told == [(0, FIRING), (400, RESOLVED)]


def test_a_consequence_that_comes_and_goes_with_its_root_is_never_told() -> None:
    one = life().looks(range(0, 100, 10), breach(), inhibited_by="stores:sql")
    one.looks(range(100, 400, 10), clear(), inhibited_by="stores:sql").looks(range(400, 500, 10), clear())
    assert one.told == []
    assert one.alert is None


def test_a_silenced_alert_is_told_first_when_the_silence_ends_and_never_when_it_was_over_by_then() -> None:
    one = life().looks(range(0, 100, 10), breach(), silence_id=1)
    assert one.told == []
    one.looks(range(100, 200, 10), breach())
    assert one.told == [(100, FIRING)]
    other = (
        life()
        .looks(range(0, 100, 10), breach(), silence_id=1)
        .looks(range(100, 400, 10), clear(), silence_id=1)
    )
    other.looks(range(400, 500, 10), clear())
    assert other.told == []
    assert other.alert is None


def test_when_a_silence_ends_while_it_is_already_under_its_limit_nothing_is_told() -> None:
    one = life().looks(range(0, 100, 10), breach(), silence_id=1).looks(range(100, 400, 10), clear())
    assert one.told == []


def test_one_that_ends_in_a_silence_ends_without_a_message() -> None:
    one = life().looks([0], breach()).looks(range(10, 400, 10), clear(), silence_id=1)
    assert one.events == [FIRING]
    assert one.alert is None


@pytest.mark.parametrize("name", ["success_rate", "slow"])
def test_in_a_system_in_which_nothing_runs_it_is_over_after_a_while_with_a_word(name: str) -> None:
    life = Life(rule(name, hold="0s", keep_firing="1m", no_data_ends="1h", repeat=None))
    quiet = Reading("", ReadLevel.NO_DATA, said={"en": Said(title="too few runs", text="to tell")})
    life.looks(range(0, 61, 30), breach()).looks(range(90, 3660, 30), quiet)
    assert life.events == [Event.FIRING]
    turn = life.look(3660, quiet)
    assert life.told[-1] == (3660, Event.RESOLVED)
    assert turn.after is not None
    assert turn.after.said["en"] == Said(title="too few runs", text="to tell\ntoo much")


def test_without_that_limit_it_waits_for_runs_and_one_that_is_explained_does_too() -> None:
    for keys, quiet in (({"no_data_ends": None}, {}), ({"no_data_ends": "1h"}, {"inhibited_by": "stores"})):
        life = Life(rule("success_rate", hold="0s", repeat=None, **keys)).looks([0], breach())
        life.looks(range(30, 20_000, 600), no_data(), **quiet)
        assert life.events == [Event.FIRING]


def test_a_rule_that_does_not_tell_ends_does_not() -> None:
    assert life(resolved=False).looks([0], breach()).looks(range(10, 400, 10), clear()).events == [FIRING]


@pytest.mark.parametrize(
    ("of", "name", "covers"),
    [
        ("backlog", None, True),
        (None, None, True),
        ("slow", None, False),
        ("backlog", "mail*", True),
        (None, "push", False),
    ],
)
def test_a_silence_covers_a_rule_and_objects_until_its_end(
    of: str | None, name: str | None, covers: bool
) -> None:
    one = Silence(7, of, name, at(), at(hours=1), "amy", "we know")
    assert silenced([one], "backlog", "mail.eu", at(minutes=5)) == (7 if covers else None)
    assert silenced([one], "backlog", "mail.eu", at(hours=1)) is None
    assert silenced([one], "backlog", "mail.eu", at(seconds=-1)) is None


def test_only_an_alert_that_fires_inhibits_and_by_its_object_where_one_is_named() -> None:
    asked = rule("backlog")
    roots = Life(rule("stores", hold="0s"))
    roots.look(0, breach("sql_health"))
    assert roots.alert is not None
    assert inhibitor(asked, [roots.alert]) is None
    sql = step(None, breach("sql"), rule("stores", hold="0s"), at()).after
    pending = step(None, breach("sql"), rule("stores", hold="1m"), at()).after
    assert sql is not None
    assert pending is not None
    assert inhibitor(asked, [pending]) is None
    assert inhibitor(asked, [sql]) == "stores:sql"
    assert inhibitor(rule("stores"), [sql]) is None


# a round


def test_an_object_of_which_a_check_says_nothing_is_clear_unless_it_had_no_data() -> None:
    asked = rule("worker_dead", hold="0s", keep_firing="0s")
    alerts = [turn.after for turn in turns(asked, [], [breach("a"), breach("b")], at())]
    live = [one for one in alerts if one is not None]
    assert [one.object for one in live] == ["a", "b"]
    after = turns(asked, live, [breach("b")], at(seconds=10))
    assert {t.after.object: t.event for t in after if t.after} == {"a": RESOLVED, "b": None}
    blind = turns(asked, live, [no_data()], at(seconds=10))
    assert all(t.after is not None and t.after.state is AlertState.FIRING for t in blind if t.before)


def test_alerts_of_other_rules_are_left_alone() -> None:
    other = step(None, breach("x"), rule("slow", hold="0s"), at()).after
    assert other is not None
    assert turns(rule("backlog"), [other], [], at()) == []


def test_an_alert_whose_rule_is_gone_ends_and_nobody_is_told() -> None:
    one = life().looks([0], breach())
    assert one.alert is not None
    turn = retired(one.alert, at(minutes=1))
    assert turn.after is not None
    assert (turn.after.state, turn.event) == (AlertState.RESOLVED, None)
    pending = step(None, breach(), rule(hold="5m"), at()).after
    assert pending is not None
    assert retired(pending, at(minutes=1)).after is None


# whatever comes

LEVELS = st.sampled_from([breach(), breach(severity="critical"), clear(), between(), no_data()])
QUIET = st.sampled_from([{}, {}, {}, {"inhibited_by": "stores:sql"}, {"silence_id": 3}])
RULES = st.builds(
    lambda hold, keep, repeat, resolved: rule(
        hold=hold, keep_firing=keep, repeat=repeat, resolved=resolved, severity="warning"
    ),
    st.sampled_from([0, 15, 60]),
    st.sampled_from([0, 30, 120]),
    st.sampled_from([None, 60, 600]),
    st.booleans(),
)
STORIES = st.lists(st.tuples(LEVELS, QUIET, st.sampled_from([15, 15, 15, 30, 400])), max_size=80)


def lived(asked: Rule, story: list[tuple[Reading, dict[str, Any], int]]) -> Life:
    one, second = Life(asked), 0
    for reading, quiet, rest in story:
        one.look(second, reading, **quiet)
        second += rest
    return one


@given(RULES, STORIES)
def test_each_alert_is_told_as_firing_once_then_repeats_and_at_most_one_end(asked: Rule, story: Any) -> None:
    one = lived(asked, story)
    told: dict[int, list[Event]] = {}
    number = 0
    for turn in one.turns:
        number += turn.after is not None and turn.after.id == 0
        if turn.event is not None:
            told.setdefault(number, []).append(turn.event)
    for events in told.values():
        assert events[0] is FIRING
        assert set(events[1:-1]) <= {REPEAT}
        assert events[-1] in {FIRING, REPEAT, RESOLVED}
        assert events.count(FIRING) == 1


@given(RULES, STORIES)
def test_nothing_is_told_of_what_is_kept_quiet_or_pending_or_without_data(asked: Rule, story: Any) -> None:
    one = lived(asked, story)
    for (reading, quiet, _), turn in zip(story, one.turns, strict=True):
        if turn.event is None:
            continue
        assert turn.after is not None
        assert not quiet
        assert turn.after.state is not AlertState.PENDING
        assert reading.level is not ReadLevel.NO_DATA
        assert (turn.event is RESOLVED) == (turn.after.state is AlertState.RESOLVED)


@given(RULES, STORIES)
def test_the_moves_of_an_alert_are_these_and_its_instants_are_in_order(asked: Rule, story: Any) -> None:
    moves = {
        (None, None), (None, "pending"), (None, "firing"), ("pending", "pending"), ("pending", "firing"), ("pending", None),
        ("firing", "firing"), ("firing", "resolved"),
    }  # fmt: skip
    for turn in lived(asked, story).turns:
        assert (_state(turn.before), _state(turn.after)) in moves
        if turn.after is not None:
            one = turn.after
            at_all = [one.since, one.firing_at, one.told_at, one.resolved_at]
            known = [instant for instant in at_all if instant is not None]
            assert known == sorted(known)
            assert one.since <= one.breach_at
        if turn.before is not None and turn.after is not None and turn.before.firing_at:
            assert turn.after.since == turn.before.since
            assert turn.after.flaps - turn.before.flaps in {0, 1}


@given(RULES, STORIES, st.sampled_from([15, 400]))
def test_the_same_reading_for_long_enough_settles_everything(asked: Rule, story: Any, rest: int) -> None:
    one = lived(asked, story)
    end = sum(step for *_, step in story)
    one.looks(range(end, end + 1200, 15), clear())
    assert one.alert is None
    one.looks(range(end + 1200, end + 2400, 15), breach())
    assert one.alert is not None
    assert one.alert.state is AlertState.FIRING
    assert one.alert.told_at is not None
    assert one.alert.told_at - one.alert.since >= timedelta(seconds=float(asked.hold))


def _state(alert: Alert | None) -> str | None:
    return None if alert is None else str(alert.state)


def test_an_alert_is_over_in_time_though_the_clock_was_set_back() -> None:
    life = Life(rule(hold="0s", keep_firing="1m"))
    life.look(10_000, breach())
    life.looks(range(0, 100, 20), clear())
    assert life.events == [Event.FIRING, Event.RESOLVED]
