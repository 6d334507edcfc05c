"""The checks of the watchdog on real databases: what is brought about is read, said in both languages, and ends again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace as changed

from taskkit.alerts import LANGUAGES, Level, Reading, Said
from taskkit.analytics import LiveSource, Window, diagnose
from taskkit.beats import SchedulerBeat, WorkerBeat
from taskkit.center import TaskCenter, TaskFilter
from taskkit.center.alert_checks import NodeSign
from taskkit.errors import DatabaseUnavailable
from taskkit.model import Claimed, Finish, ListName
from taskkit.settings import Scheduler, Settings
from taskkit.states import Move, Outcome
from taskkit.watchdog.checks import preload, run_check
from taskkit.watchdog.checks.stores import sql_away
from taskkit.watchdog.place import Memory, Place
from taskkit.watchdog.rules import shipped
from taskkit.watchdog.signals import Rule
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
)
from tests.watchdogs import rule

pytest_plugins = ["tests.center_fixtures"]

BEGIN = instant(2026, 3, 1, 12)
WORKER = "host:1:w"


class Town:
    """A task center on a clock that the test moves, with nodes that beat while time passes; and looks of checks."""

    def __init__(self, url: str) -> None:
        self.clock = Clock(BEGIN)
        self.center = on_clock(url, self.clock)
        self.settings = Settings(database_url=url, redis_url="memory://town")
        self.workers: dict[str, dict[str, Any]] = {}
        self.schedulers: set[str] = set()
        self.memory = Memory()

    @property
    def now(self) -> Any:
        return self.clock.at

    def place(self, **parts: Any) -> Place:
        return Place(self.center, self.settings, self.now, **({"memory": self.memory} | parts))

    def look(self, asked: Rule, **parts: Any) -> list[Reading]:
        readings = run_check(asked, self.place(**parts))
        assert len({one.object for one in readings}) == len(readings)
        for one in readings:
            if one.level is Level.BREACH:
                assert_said(one.said)
        return readings

    def breaches(self, asked: Rule, **parts: Any) -> dict[str, Reading]:
        return {one.object: one for one in self.look(asked, **parts) if one.level is Level.BREACH}

    def levels(self, asked: Rule) -> dict[str, Level]:
        return {one.object: one.level for one in self.look(asked)}

    def worker(self, name: str = WORKER, queues: str = "q", processes: int = 4) -> None:
        self.workers[name] = {
            "queues": queues,
            "processes": processes,
            "busy": 0,
            "processed": 0,
            "last_progress_at": None,
        }
        self.center.nodes.enter_worker(self._beat(name))

    def scheduler(self, name: str = "host:9:s") -> None:
        self.center.nodes.enter_scheduler(name, "host", 9)
        self.schedulers.add(name)
        self.beat()

    def progress(self, name: str = WORKER, **fields: Any) -> None:
        self.workers[name] |= {"last_progress_at": self.now} | fields

    def _beat(self, name: str) -> WorkerBeat:
        fixed = {"worker_id": name, "host": "host", "pid": int(name.split(":")[1]), "failed": 0, "dropped": 0}
        return WorkerBeat(**fixed, rss_bytes=1, cpu_percent=0.0, children=[], tasks=[], **self.workers[name])  # type: ignore[arg-type]

    def beat(self) -> None:
        for name in self.workers:
            assert self.center.nodes.beat_worker(self._beat(name))
        for name in self.schedulers:
            beat = SchedulerBeat(name, "host", 9, 0, 1, self.now, 0.5, "2026a")
            assert self.center.nodes.beat_scheduler(beat)

    def pass_by(self, seconds: int, every: int = 10) -> None:
        """Time passes; the nodes beat."""
        for _ in range(0, seconds, every):
            self.clock.move(seconds=every)
            self.beat()

    def run(self, *tasks: Any, ends: str = "success", worker: str = WORKER) -> list[Claimed]:
        """Tasks that are dispatched, run, and end."""
        claimed = start(self.center, worker, *tasks)
        self.clock.move(milliseconds=100)
        made = [self._end(one, ends) for one in claimed]
        assert self.center.worker_desk(worker).finish(made) == []
        self.clock.move(milliseconds=1)
        return claimed

    def _end(self, one: Claimed, ends: str) -> Any:
        times = {"started_at": one.claimed_at, "runtime_ms": 100}
        if ends == "success":
            return succeeded(one, **times)
        end = failed(one, error=f"ValueError: no {one.id}", **times)
        return end if ends == "failed" else changed(end, move=Move.EXHAUST, retry_count=0)


def assert_said(said: dict[str, Said]) -> None:
    """Both languages, at most three figures, nothing left unfilled."""
    assert set(said) == set(LANGUAGES)
    for one in said.values():
        assert one.title
        assert one.text
        assert len(one.figures) <= 3
        assert "{" not in one.title + one.text
        assert all(name and value for name, value in (*one.figures, *one.forecast, *one.actions))
    assert said["en"].title != said["zh"].title
    assert [command for _, command in said["en"].actions] == [command for _, command in said["zh"].actions]


@pytest.fixture
def town(center_url: str) -> Iterator[Town]:
    made = Town(center_url)
    yield made
    made.center.close()


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
    assert town.levels(rule("success_rate")) == {"": Level.NO_DATA}
    assert town.levels(rule("slow")) == {"": Level.NO_DATA}
    assert town.levels(rule("duplicates")) == {"": Level.CLEAR}
    assert town.levels(rule("zombies")) == {"": Level.NO_DATA}


# backlog


def test_a_backlog_is_over_its_limit_between_the_marks_or_under(town: Town) -> None:
    asked = rule(above=10)
    town.scheduler()
    town.center.intake.insert([new() for _ in range(11)])
    dispatch(town.center, n=4)
    (found,) = town.look(asked)
    assert (found.level, found.value, found.unit) == (Level.BREACH, 11.0, "tasks")
    levels = []
    for one in town.center.read.find(TaskFilter(limit=100))[:4]:
        town.center.people.cancel(one.id, "amy")
        levels += town.levels(asked).values()
    assert levels == [Level.BETWEEN, Level.BETWEEN, Level.BETWEEN, Level.CLEAR]


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
    assert town.levels(rule(above=20, per="queue"))["mail"] is Level.CLEAR


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
    assert town.levels(asked) == {"": Level.NO_DATA}
    town.run(*[new() for _ in range(20)])
    found = town.breaches(asked)[""]
    assert found.value == pytest.approx(66.67, abs=0.01)
    assert found.cause == "one_cause"
    assert found.said["en"].figures[0][0] == "Runs that end well"
    town.pass_by(700)
    town.run(*[new() for _ in range(30)])
    assert town.levels(asked) == {"": Level.CLEAR}


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
    assert town.levels(asked) == {"quick": Level.CLEAR, "lame": Level.BREACH, "rare": Level.NO_DATA}
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


# worker_dead


def test_a_silent_worker_is_an_alert_until_it_beats_again(town: Town) -> None:
    asked = rule("worker_dead")
    town.worker()
    town.worker("host:2:x")
    start(town.center, "host:2:x", new(), new())
    gone = town.workers.pop("host:2:x")
    town.pass_by(60)
    assert town.breaches(asked) == {}
    silent_since = BEGIN
    town.pass_by(10)
    found = town.breaches(asked)
    assert found.keys() == {"host:2:x"}
    assert found["host:2:x"].since == silent_since
    assert found["host:2:x"].value == 70.0
    said = found["host:2:x"].said["en"]
    assert said.title == "worker host:2:x is silent"
    assert said.figures == (("Last heartbeat", "70 s"), ("Tasks it held", "2"), ("Workers alive", "1"))
    town.workers["host:2:x"] = gone
    town.beat()
    assert town.breaches(asked) == {}


def test_a_silent_worker_that_signed_off_or_was_replaced_is_none(town: Town) -> None:
    asked = rule("worker_dead")
    town.worker()
    town.worker("host:2:x", queues="mail,push")
    town.worker("host:3:y", queues="mail")
    for name in ("host:2:x", "host:3:y"):
        town.workers.pop(name)
    town.pass_by(100)
    assert town.breaches(asked).keys() == {"host:2:x", "host:3:y"}
    town.worker("host:4:z", queues="mail,other")
    assert town.breaches(asked).keys() == {"host:2:x"}
    town.center.nodes.leave_worker("host:2:x")
    assert town.breaches(asked) == {}


def test_dog_02_no_worker_at_all_is_an_alert_though_none_was_ever_seen(town: Town) -> None:
    asked = rule("worker_dead")
    found = town.breaches(asked)
    assert found.keys() == {"workers"}
    assert found["workers"].value == 0.0
    assert found["workers"].said["en"].title == "no worker has ever run here, expected at least 1"
    assert town.breaches(rule("worker_dead", expected=0)) == {}


def test_dog_02_when_the_last_worker_goes_it_is_one_alert_dated_from_its_last_sign(town: Town) -> None:
    asked = rule("worker_dead")
    town.worker()
    town.pass_by(10)
    town.workers.clear()
    town.pass_by(100)
    assert town.levels(asked) == {"workers": Level.BREACH, WORKER: Level.NO_DATA}
    assert town.breaches(asked)["workers"].since == instant(2026, 3, 1, 12, 0, 10)
    town.center.nodes.leave_worker(WORKER)
    assert town.levels(asked) == {"workers": Level.BREACH}
    town.worker("host:2:x")
    assert town.levels(asked) == {"workers": Level.CLEAR}


def test_fewer_workers_than_expected_are_told_beside_those_that_are_silent(town: Town) -> None:
    town.worker()
    town.worker("host:2:x")
    town.workers.pop("host:2:x")
    town.pass_by(100)
    found = town.breaches(rule("worker_dead", expected=2))
    assert found.keys() == {"workers", "host:2:x"}
    assert found["workers"].cause == "too_few"


# zombies: BOT-20


def stood_still(town: Town, seconds: int = 120) -> None:
    """A worker that has done something, and then beats on without progress."""
    town.scheduler()
    town.worker(processes=1)
    town.run(*[new() for _ in range(3)])
    town.progress(processed=500)
    town.beat()
    town.pass_by(seconds)


def test_bot_20_no_progress_while_work_waits_is_a_zombie(town: Town) -> None:
    stood_still(town, 10)
    town.center.intake.insert([new() for _ in range(50)])
    dispatch(town.center)
    town.pass_by(120)
    found = town.breaches(rule("zombies"))
    assert found.keys() == {WORKER}
    assert found[WORKER].cause == "starved"
    assert found[WORKER].since is not None
    assert found[WORKER].said["en"].figures[0] == ("Last progress", "2.2 min")


def test_bot_20_without_work_it_is_none(town: Town) -> None:
    stood_still(town)
    assert town.breaches(rule("zombies")) == {}


def test_bot_20_one_task_within_its_own_time_is_none(town: Town) -> None:
    stood_still(town, 10)
    start(town.center, WORKER, new("report", timeout=600))
    town.progress(busy=1)
    town.center.intake.insert([new() for _ in range(50)])
    dispatch(town.center)
    town.pass_by(120)
    assert town.breaches(rule("zombies")) == {}


def test_bot_20_a_counter_that_starts_again_is_none(town: Town) -> None:
    stood_still(town, 10)
    town.center.intake.insert([new() for _ in range(50)])
    dispatch(town.center)
    town.center.nodes.leave_worker(WORKER)
    town.workers.clear()
    town.worker("host:2:x", processes=1)
    town.pass_by(20)
    town.progress("host:2:x", processed=3)
    town.pass_by(40)
    assert town.breaches(rule("zombies")) == {}


def test_bot_20_when_only_other_queues_have_work_it_is_none(town: Town) -> None:
    stood_still(town, 10)
    town.center.intake.insert([new(queue="other") for _ in range(50)])
    dispatch(town.center, "other")
    town.pass_by(120)
    assert town.breaches(rule("zombies")) == {}


def test_a_rule_that_waits_longer_for_progress_tells_later(town: Town) -> None:
    stood_still(town, 10)
    town.center.intake.insert([new() for _ in range(50)])
    dispatch(town.center)
    town.pass_by(120)
    assert town.breaches(rule("zombies", after="5m")) == {}


# lost


def test_many_losses_in_a_while_are_a_breach_and_leave_it_again(town: Town) -> None:
    asked = rule("lost", above=5)
    town.scheduler()
    town.worker()
    town.center.intake.insert([new() for _ in range(8)])
    dispatch(town.center)
    town.pass_by(20)
    name = ListName("q", 5)
    suspects = town.center.recovery.suspects(name, 10, {name: None})
    assert town.center.recovery.ring_again(suspects) == 8
    town.clock.move(seconds=1)
    found = town.breaches(asked)[""]
    assert (found.cause, found.value) == ("wiped_redis", 8.0)
    assert town.breaches(rule("lost", above=8)) == {}
    town.pass_by(700, every=100)
    assert town.breaches(asked) == {}


def test_what_nobody_takes_back_from_a_dead_worker_is_told(town: Town) -> None:
    asked = rule("lost")
    town.worker("host:2:x")
    (claimed, _) = start(town.center, "host:2:x", new(), new())
    town.workers.clear()
    town.pass_by(70)
    assert town.breaches(asked) == {}
    town.pass_by(10)
    found = town.breaches(asked)
    assert found.keys() == {"not_recovered"}
    assert found["not_recovered"].value == 2.0
    assert f"task {claimed.id} of host:2:x" in found["not_recovered"].said["en"].text


# scheduler


def test_no_scan_of_anybody_is_a_breach_by_what_the_schedulers_are(town: Town) -> None:
    asked = rule("scheduler")
    assert town.breaches(asked)["scan"].cause == "never_seen"
    town.scheduler()
    assert town.breaches(asked) == {}
    town.pass_by(60)
    assert town.breaches(asked) == {}
    town.schedulers.clear()
    town.clock.move(seconds=31)
    found = town.breaches(asked)["scan"]
    assert (found.cause, found.value) == ("gone", 31.0)
    assert found.since == instant(2026, 3, 1, 12, 1)
    town.scheduler("host:10:t")
    assert town.breaches(asked) == {}


def test_a_scheduler_that_beats_and_does_not_scan_is_told_as_such(town: Town) -> None:
    town.scheduler()
    scanned = town.now
    for _ in range(4):
        town.clock.move(seconds=10)
        town.center.nodes.beat_scheduler(SchedulerBeat("host:9:s", "host", 9, 0, 1, scanned, 0.5, "2026a"))
    assert town.breaches(rule("scheduler"))["scan"].cause == "stands_still"


def test_one_scheduler_that_scans_is_enough(town: Town) -> None:
    town.scheduler()
    town.scheduler("host:10:t")
    town.schedulers.discard("host:9:s")
    town.pass_by(100)
    assert town.breaches(rule("scheduler")) == {}


def test_due_tasks_count_only_where_there_is_room_for_them(town: Town) -> None:
    asked = rule("scheduler")
    town.scheduler()
    town.center.intake.insert([new() for _ in range(30)])
    town.pass_by(60, every=20)
    assert town.breaches(asked).keys() == {"due"}
    assert town.breaches(asked)["due"].value == 30.0
    dispatch(town.center, n=20)
    town.settings = changed(town.settings, scheduler=Scheduler(window=20))
    assert town.breaches(asked) == {}
    town.settings = changed(town.settings, scheduler=Scheduler(window=50))
    found = town.breaches(asked)["due"]
    assert (found.value, found.cause) == (10.0, "undispatched")
    assert dict(found.said["en"].figures)["Dispatched in its queue"] == "20"


def test_what_waits_for_a_retry_or_stands_held_is_not_undispatched(town: Town) -> None:
    town.scheduler()
    (task_id,) = town.center.intake.insert([new()])
    town.center.people.pause(task_id, "amy")
    town.pass_by(100)
    assert town.breaches(rule("scheduler")) == {}


# missed


def plan(town: Town, **fields: Any) -> int:
    (task_id,) = town.center.intake.insert([periodic(town.now, "* * * * *", code="report", **fields)])
    town.center.plan.sweep()
    return int(task_id)


def test_a_planned_time_that_does_not_fire_is_told_by_its_code(town: Town) -> None:
    asked = rule("missed")
    task_id = plan(town)
    town.clock.move(seconds=90)
    assert town.breaches(asked) == {}
    town.clock.move(seconds=60)
    found = town.breaches(asked)
    assert found.keys() == {"report"}
    assert (found["report"].cause, found["report"].value) == ("scheduler_down", 1.0)
    assert f"taskkit tasks show {task_id}" in [command for _, command in found["report"].said["en"].actions]
    town.scheduler()
    town.pass_by(40)
    assert town.breaches(asked)["report"].cause == "not_dispatched"


def test_a_time_that_is_held_is_not_missed(town: Town) -> None:
    task_id = plan(town)
    town.center.people.pause(task_id, "amy")
    town.clock.move(seconds=200)
    assert town.breaches(rule("missed")) == {}


def test_the_times_of_a_task_that_was_cancelled_are_not_missed(town: Town) -> None:
    task_id = plan(town)
    town.clock.move(seconds=200)
    assert town.breaches(rule("missed")).keys() == {"report"}
    town.center.people.cancel(task_id, "amy")
    for _ in range(2):
        assert town.breaches(rule("missed")) == {}
        assert (
            diagnose("missed", LiveSource(town.center, Window.last(900, town.now), now=town.now)).verdict
            == "healthy"
        )
        town.clock.move(seconds=200)
        town.center.plan.sweep()


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


# watchdog


def test_another_watchdog_that_fell_silent_is_told_until_it_is_replaced(town: Town) -> None:
    asked = rule("watchdog")
    mine = NodeSign("host:1:me", "host", 1, BEGIN, BEGIN, 1.0)
    gone = NodeSign("host:2:it", "host", 2, BEGIN, BEGIN, 61.0)
    found = town.breaches(asked, watchdogs=lambda: [mine, gone], own_watchdog="host:1:me")
    assert found.keys() == {"host:2:it"}
    later = NodeSign("host:3:new", "host", 3, instant(2026, 3, 1, 13), instant(2026, 3, 1, 13), 1.0)
    assert town.breaches(asked, watchdogs=lambda: [mine, gone, later], own_watchdog="host:1:me") == {}
    assert town.breaches(asked) == {}


# stores: on the real clock


def test_stores_that_answer_give_no_breach_and_sql_that_does_not_is_critical(
    center: TaskCenter, redis_url: str
) -> None:
    asked = rule("stores", persistence=False, disk_left=0)
    settings = Settings(redis_url=redis_url)
    place = Place(center, settings, center.now())
    levels = {one.object: one.level for one in run_check(asked, place)}
    assert set(levels.values()) <= {Level.CLEAR, Level.BETWEEN}
    assert {"sql", "redis", "sql_slow", "redis_slow", "clock", "redis_eviction", "redis_saving"} <= set(
        levels
    )
    told = sql_away(DatabaseUnavailable("the database mysql://u:***@h/x does not answer"))
    assert (told[0].object, told[0].level, told[0].severity) == ("sql", Level.BREACH, "critical")
    assert {one.level for one in told[1:]} == {Level.NO_DATA}
    assert_said(told[0].said)


def test_a_redis_that_is_away_is_critical_and_what_it_would_tell_is_not_known(center: TaskCenter) -> None:
    place = Place(center, Settings(redis_url="redis://127.0.0.1:1/0"), center.now())
    readings = {one.object: one for one in run_check(rule("stores"), place)}
    assert (readings["redis"].level, readings["redis"].severity) == (Level.BREACH, "critical")
    assert readings["redis_slow"].level is Level.NO_DATA
    assert readings["sql"].level is Level.CLEAR


def test_sql_that_is_away_is_read_by_the_check_itself(redis_url: str) -> None:
    url = "mysql+pymysql://u:secret@127.0.0.1:1/x"
    gone = TaskCenter(url)
    place = Place(gone, Settings(redis_url=redis_url), BEGIN)
    readings = {one.object: one for one in run_check(rule("stores"), place)}
    gone.close()
    assert (readings["sql"].level, readings["clock"].level) == (Level.BREACH, Level.NO_DATA)
    assert readings["redis"].level is Level.CLEAR
    assert "secret" not in str(readings)
