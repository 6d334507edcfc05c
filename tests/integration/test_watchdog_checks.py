"""The checks of the watchdog about work: what is brought about is read, said in both languages, and ends again."""

from __future__ import annotations

import pytest
from msgspec.structs import replace as changed

from taskkit.alerts import ReadLevel
from taskkit.analytics import LiveSource, Window, diagnose
from taskkit.center import TaskFilter
from taskkit.model import Finish
from taskkit.states import Move, Outcome
from taskkit.watchdog.checks import preload
from taskkit.watchdog.engine import CheckOutcome, Engine
from taskkit.watchdog.post import Post
from taskkit.watchdog.rules import shipped
from tests.centers import dispatch, failed, messages, new, periodic, start, succeeded
from tests.towns import WORKER, Town, assert_said, plan
from tests.watchdogs import rule

pytest_plugins = ["tests.center_fixtures", "tests.town_fixtures"]


# nothing is wrong


def test_a_healthy_busy_installation_gives_no_breach(town: Town) -> None:
    preload()
    town.scheduler()
    town.worker()
    for turn in range(12):
        town.run(*[new(payload=f'{{"n": {turn * 100 + n}}}') for n in range(40)])
        if turn % 6 == 0:
            town.run(new(payload=f'{{"bad": {turn}}}'), ends="failed")
        town.progress()
        town.pass_by(30)
        retried = town.center.worker_desk(WORKER).claim(messages(dispatch(town.center))).won
        town.center.worker_desk(WORKER).finish([town._end(one, "success") for one in retried])
    start(town.center, WORKER, new())
    town.center.intake.insert([new(), periodic(town.now)])
    for asked in shipped():
        if asked.id != "stores":
            assert town.breaches(asked) == {}, asked.id


def test_an_empty_task_center_is_no_data_and_lacks_workers_and_schedulers(town: Town) -> None:
    found = {asked.id: town.breaches(asked) for asked in shipped() if asked.id != "stores"}
    assert {name for name, breaches in found.items() if breaches} == {"worker_dead", "scheduler"}
    assert town.levels(rule("success_rate")) == {"": ReadLevel.NO_DATA}
    assert town.levels(rule("slow")) == {"": ReadLevel.NO_DATA}
    assert town.levels(rule("duplicates")) == {"": ReadLevel.CLEAR}
    assert town.levels(rule("zombies")) == {"": ReadLevel.NO_DATA}


# backlog


def test_a_backlog_is_over_its_limit_between_the_marks_or_under(town: Town) -> None:
    asked = rule(above=10)
    town.scheduler()
    town.center.intake.insert([new() for _ in range(11)])
    dispatch(town.center, n=4)
    (found,) = town.look(asked)
    assert (found.level, found.value, found.unit) == (ReadLevel.BREACH, 11.0, "tasks")
    levels = []
    for one in town.center.read.find(TaskFilter(limit=100))[:4]:
        town.center.people.cancel(one.id, "amy")
        levels += town.levels(asked).values()
    assert levels == [ReadLevel.BETWEEN, ReadLevel.BETWEEN, ReadLevel.BETWEEN, ReadLevel.CLEAR]


def test_a_backlog_carries_its_diagnosis(town: Town) -> None:
    town.scheduler()
    town.center.intake.insert([new() for _ in range(30)])
    town.pass_by(120)
    found = town.breaches(rule(above=20))[""]
    assert found.cause == "no_workers"
    assert found.said["en"].title == "no worker is alive"
    assert found.said["en"].figures[0] == ("Waiting (due + queued)", "30")
    assert found.said["en"].actions[0][1] == "taskkit status"


def test_a_limit_under_what_the_diagnosis_minds_has_words_of_its_own(town: Town) -> None:
    town.scheduler()
    town.worker()
    town.run(*[new() for _ in range(20)])
    town.center.intake.insert([new() for _ in range(5)])
    found = town.breaches(rule(above=3))[""]
    assert found.cause == "above"
    assert found.said["en"].title == "5 tasks wait"


def test_a_rule_about_queues_sees_only_these_and_per_queue_tells_each(town: Town) -> None:
    town.center.intake.insert([new(queue="mail") for _ in range(5)] + [new(queue="push") for _ in range(50)])
    town.pass_by(120)
    mail = town.breaches(rule(above=3, queues=("mail",)))
    assert mail[""].value == 5.0
    assert "mail" in mail[""].said["en"].text
    each = town.breaches(rule(above=3, per="queue"))
    assert {name: one.value for name, one in each.items()} == {"mail": 5.0, "push": 50.0}
    assert "5 tasks wait in mail" in each["mail"].said["en"].text
    assert town.levels(rule(above=20, per="queue"))["mail"] is ReadLevel.CLEAR


def test_a_smaller_backlog_that_needs_too_long_is_one_too(town: Town) -> None:
    town.scheduler()
    town.worker(processes=1)
    town.run(*[new() for _ in range(20)])
    town.center.intake.insert([new() for _ in range(300)])
    town.pass_by(120)
    town.progress()
    town.beat()
    asked = rule(above=1000, drain_above="10s", drain_from=100)
    assert town.breaches(asked)[""].value == 300.0
    assert town.breaches(rule(above=1000, drain_above="10s", drain_from=1000)) == {}
    assert town.breaches(rule(above=1000, drain_above=None, drain_from=0)) == {}


def test_the_tasks_of_a_drill_are_nobodys_backlog(town: Town) -> None:
    town.center.intake.insert([new(queue="taskkit.drill-abcdef") for _ in range(20)])
    town.pass_by(120)
    assert town.breaches(rule(above=3)) == {}
    assert town.breaches(rule("scheduler"))["scan"]
    assert "due" not in town.breaches(rule("scheduler"))


def test_what_a_drill_loses_and_fails_is_nobodys_trouble(town: Town) -> None:
    drill = "taskkit.drill-abcdef"
    town.worker("host:2:x", queues=f"q,{drill}")
    town.run(*[new(code="drilled", queue=drill) for _ in range(60)], ends="given_up", worker="host:2:x")
    claimed = start(town.center, "host:2:x", new(queue=drill))
    assert len(claimed) == 1
    town.clock.move(seconds=400)
    for asked in (rule("given_up"), rule("success_rate"), rule("lost"), rule("slow")):
        assert town.breaches(asked) == {}, asked.id
    assert "drilled" not in town.levels(rule("slow"))
    town.run(new("mail", queue="q"), ends="given_up", worker="host:2:x")
    assert town.breaches(rule("given_up")).keys() == {"mail"}


def test_a_fresh_sample_saves_the_counting_and_an_old_one_does_not_count(town: Town) -> None:
    town.center.intake.insert([new() for _ in range(7)])
    town.center.samples.record({"q": 0}, town.center.read.backlogs())
    town.center.intake.insert([new() for _ in range(7)])
    assert [one.waiting for one in town.place().depths()] == [7]
    town.clock.move(seconds=40)
    assert [one.waiting for one in town.place().depths()] == [14]


def test_a_diagnosis_is_made_anew_only_when_the_old_one_is_too_old(town: Town) -> None:
    town.center.intake.insert([new() for _ in range(7)])
    place = town.place()
    assert place.diagnosis("backlog", 600) is place.diagnosis("backlog", 600)
    first = place.diagnosis("backlog", 600)
    town.clock.move(seconds=30)
    assert town.place().diagnosis("backlog", 600, max_age_s=60) is first
    assert town.place().diagnosis("backlog", 600, max_age_s=20) is not first


# success_rate, slow, given_up


def test_too_few_runs_are_no_data_and_many_bad_ones_a_breach_that_ends(town: Town) -> None:
    asked = rule("success_rate", min_runs=20)
    town.run(*[new() for _ in range(10)], ends="failed")
    assert town.levels(asked) == {"": ReadLevel.NO_DATA}
    town.run(*[new() for _ in range(20)])
    found = town.breaches(asked)[""]
    assert found.value == pytest.approx(66.67, abs=0.01)
    assert found.cause == "one_cause"
    assert found.said["en"].figures[0][0] == "Runs that end well"
    town.pass_by(700)
    town.run(*[new() for _ in range(30)])
    assert town.levels(asked) == {"": ReadLevel.CLEAR}


def test_what_cannot_be_judged_any_more_says_why_it_ends(town: Town) -> None:
    for asked in (rule("success_rate"), rule("slow")):
        (reading,) = town.look(asked)
        assert_said(reading.said)
        assert f"For 60 min {asked.id} was not seen over its limit" in reading.said["en"].text


def test_a_stricter_goal_than_the_diagnosis_has_words_of_its_own(town: Town) -> None:
    town.run(*[new() for _ in range(400)])
    town.run(new(), ends="failed")
    found = town.breaches(rule("success_rate", below=99.9))[""]
    assert found.cause == "below"
    assert "1 of 401 runs" in found.said["en"].text


def test_a_code_that_became_slow_is_told_by_its_name(town: Town) -> None:
    town.run(*[new(code="quick") for _ in range(120)])
    town.run(*[new(code="lame") for _ in range(120)])
    town.pass_by(3600, every=600)
    claimed = start(town.center, WORKER, *[new(code=code) for code in ("quick", "lame") for _ in range(60)])
    town.clock.move(seconds=2)
    ends = [
        succeeded(one, started_at=one.claimed_at, runtime_ms=900 if one.task_code == "lame" else 100)
        for one in claimed
    ]
    assert town.center.worker_desk(WORKER).finish(ends) == []
    town.run(*[new(code="rare") for _ in range(3)])
    town.clock.move(seconds=1)
    asked = rule("slow")
    assert town.levels(asked) == {
        "quick": ReadLevel.CLEAR,
        "lame": ReadLevel.BREACH,
        "rare": ReadLevel.NO_DATA,
    }
    found = town.breaches(asked)["lame"]
    assert found.value == pytest.approx(9, rel=0.1)
    assert [name for name, _ in found.said["en"].figures] == ["p95 now", "p95 normally", "Slower than normal"]
    assert town.breaches(rule("slow", factor=12.0)) == {}


def test_new_dead_letters_are_told_by_code_with_an_example_and_end_by_themselves(town: Town) -> None:
    asked = rule("given_up")
    claimed = town.run(new("mail"), new("mail"), new("push"), ends="given_up")
    found = town.breaches(asked)
    assert {name: one.value for name, one in found.items()} == {"mail": 2.0, "push": 1.0}
    assert found["mail"].cause == town.center.read.runs([claimed[0].id])[0].fingerprint
    said = found["mail"].said["en"]
    assert f"task {claimed[1].id}" in said.text
    assert "ValueError: no" in said.text
    assert said.actions[1][1] == "taskkit tasks dead --code mail"
    assert town.breaches(rule("given_up", above=1)).keys() == {"mail"}
    town.pass_by(700, every=100)
    assert town.breaches(asked) == {}


def test_the_end_of_given_up_says_that_the_dead_tasks_are_still_there(town: Town) -> None:
    asked, engine = rule("given_up"), Engine(town.center, Post([]))
    town.run(new("mail"), new("mail"), new("push"), ends="given_up")
    engine.apply(asked, CheckOutcome(tuple(town.look(asked))))
    town.pass_by(700, every=100)
    engine.apply(asked, CheckOutcome(tuple(town.look(asked))))
    town.pass_by(100)
    engine.apply(asked, CheckOutcome(tuple(town.look(asked))))
    ends = {one.object: one for one in town.center.alerts.newest(["resolved"])}
    assert ends["mail"].said["en"].title == (
        "2 dead tasks remain in taskkit tasks dead; no more of mail gave up within 10 min"
    )
    assert "1 dead task remains" in ends["push"].said["en"].title
    assert "仍有 2 个死信任务" in ends["mail"].said["zh"].title
    assert "2 tasks of mail gave up" in ends["mail"].said["en"].text, "what it said before stays readable"
    assert town.look(asked) == []


def test_what_a_person_gave_up_is_no_news_and_neither_is_a_failure_that_is_retried(town: Town) -> None:
    first, _ = town.run(new(), new(), ends="failed")
    town.clock.move(seconds=1)
    town.center.people.give_up(first.id, "amy")
    assert town.breaches(rule("given_up")) == {}


def test_an_occurrence_that_gave_up_is_a_dead_letter_too(town: Town) -> None:
    task_id = plan(town, max_retry=0)
    town.clock.move(seconds=61)
    (claimed,) = town.center.worker_desk(WORKER).claim(messages(dispatch(town.center))).won
    end = changed(
        failed(claimed, started_at=claimed.claimed_at, runtime_ms=5), move=Move.NEXT_OCCURRENCE, retry_count=0
    )
    assert town.center.worker_desk(WORKER).finish([end]) == []
    town.clock.move(seconds=1)
    found = town.breaches(rule("given_up"))
    assert found.keys() == {"report"}
    assert f"task {task_id}" in found["report"].said["en"].text


# forecast


def crowd(town: Town, waiting: int) -> None:
    """Runs of 100 ms on one slot, and so many that wait."""
    town.scheduler()
    town.worker(processes=1)
    town.run(*[new() for _ in range(40)])
    town.center.intake.insert([new() for _ in range(waiting)])
    town.pass_by(60)


def test_a_promise_that_is_broken_is_told_with_the_slots_that_would_keep_it(town: Town) -> None:
    crowd(town, 500)
    broken = town.breaches(rule("forecast", promise="10s"))[""]
    assert broken.cause == "broken"
    told = dict(broken.said["en"].forecast)
    assert told["Promise broken at"] == "12:01"
    assert int(told["Slots that would keep it"].replace(",", "")) > 1


def test_a_promise_that_is_kept_and_a_queue_in_which_little_waits_are_no_breach(town: Town) -> None:
    crowd(town, 300)
    assert town.breaches(rule("forecast", promise="1d")) == {}
    assert town.breaches(rule("forecast", promise="1s", min_waiting=1000)) == {}
    assert town.breaches(rule("forecast", promise="1s", queues=("mail",))) == {}


# duplicates


def test_a_second_effect_is_told_with_its_cause_and_a_second_task_only_when_asked_for(town: Town) -> None:
    asked = rule("duplicates")
    (claimed,) = start(town.center, WORKER, new())
    town.clock.move(seconds=30)
    late = succeeded(claimed, started_at=claimed.claimed_at, runtime_ms=10)
    orphans = {claimed.id: claimed.attempt}
    town.worker()
    town.center.nodes.leave_worker(WORKER)
    town.clock.move(seconds=1)
    lost = town.center.recovery.lose(
        WORKER,
        orphans,
        lambda c: Finish(c, Outcome.LOST, Move.LOSE, c.retry_count, error="its worker is dead"),
    )
    assert len(lost) == 1
    again = dispatch(town.center)
    (second,) = town.center.worker_desk("host:2:x").claim(messages(again)).won
    town.center.worker_desk("host:2:x").finish(
        [succeeded(second, started_at=second.claimed_at, runtime_ms=10)]
    )
    assert town.center.worker_desk(WORKER).finish([late]) != []
    town.clock.move(seconds=1)
    found = town.breaches(asked)[""]
    assert (found.cause, found.value) == ("declared_dead_alive", 1.0)
    assert town.breaches(rule("duplicates", above=1)) == {}
    assert town.breaches(rule("duplicates", causes=("dispatched_twice",))) == {}


def test_more_repeated_tasks_than_can_be_read_are_no_data(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not read may be a second effect: an alert about one must not end."""
    desk = town.center.worker_desk(WORKER)
    town.worker()
    first = start(town.center, WORKER, new(), new())
    town.clock.move(seconds=1)
    assert desk.finish([failed(one, started_at=one.claimed_at, runtime_ms=10) for one in first]) == []
    town.clock.move(seconds=30)
    again = desk.claim(messages(dispatch(town.center))).won
    town.clock.move(seconds=1)
    assert desk.finish([succeeded(one, started_at=one.claimed_at, runtime_ms=10) for one in again]) == []
    assert town.levels(rule("duplicates")) == {"": ReadLevel.CLEAR}
    monkeypatch.setattr("taskkit.center.frames.MOST_TASKS", 1)
    town.clock.move(seconds=1)
    assert town.levels(rule("duplicates")) == {"": ReadLevel.NO_DATA}


def test_the_times_of_a_task_that_was_cancelled_are_not_missed(town: Town) -> None:
    task_id = plan(town)
    town.clock.move(seconds=200)
    assert town.breaches(rule("missed")).keys() == {"report"}
    town.center.people.cancel(task_id, "amy")
    for _ in range(2):
        assert town.breaches(rule("missed")) == {}
        source = LiveSource(town.center, Window.last(900, town.now), now=town.now)
        assert diagnose("missed", source).verdict == "healthy"
        town.clock.move(seconds=200)
        town.center.plan.sweep()


def test_where_nothing_has_ended_yet_the_forecast_says_so_and_names_no_rate(town: Town) -> None:
    town.scheduler()
    town.worker(processes=1)
    town.center.intake.insert([new() for _ in range(300)])
    town.pass_by(60)
    asked = rule("forecast", promise="10m")
    (soon,) = town.breaches(asked).values()
    assert (soon.cause, soon.value) == ("nothing_done", None)
    assert "n/a" not in repr(soon.said)
    assert dict(soon.said["en"].forecast)["Promise broken at"] == "12:10"
    town.pass_by(600)
    assert town.breaches(asked)[""].cause == "nothing_done_broken"
