"""The checks of the watchdog about workers, schedulers, planned times and stores: read, said, and over again."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace as changed

from taskkit.alerts import ReadLevel
from taskkit.beats import SchedulerBeat
from taskkit.center import TaskCenter
from taskkit.center.alert_checks import NodeSign
from taskkit.embedded import Embedded
from taskkit.errors import DatabaseUnavailable
from taskkit.model import ListName
from taskkit.settings import Scheduler, Settings
from taskkit.watchdog.checks import run_check
from taskkit.watchdog.checks.stores import sql_away
from taskkit.watchdog.place import CheckPlace
from tests.centers import dispatch, instant, new, start
from tests.towns import BEGIN, WORKER, Town, assert_said, plan
from tests.watchdogs import rule

pytest_plugins = ["tests.center_fixtures", "tests.town_fixtures"]


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
    assert town.levels(asked) == {"workers": ReadLevel.BREACH, WORKER: ReadLevel.NO_DATA}
    assert town.breaches(asked)["workers"].since == instant(2026, 3, 1, 12, 0, 10)
    town.center.nodes.leave_worker(WORKER)
    assert town.levels(asked) == {"workers": ReadLevel.BREACH}
    town.worker("host:2:x")
    assert town.levels(asked) == {"workers": ReadLevel.CLEAR}


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


def test_watchdogs_that_beat_are_not_silent_though_each_look_finds_another_age(town: Town) -> None:
    asked, ages = rule("watchdog"), iter(range(1, 50))

    def beating() -> list[NodeSign]:
        return [
            NodeSign(name, "host", 1, BEGIN, BEGIN, float(next(ages))) for name in ("host:1:me", "host:2:it")
        ]

    assert town.breaches(asked, watchdogs=beating, own_watchdog="host:1:me") == {}
    assert town.breaches(asked, watchdogs=beating) == {}


# stores: on the real clock


def test_stores_that_answer_give_no_breach_and_sql_that_does_not_is_critical(
    center: TaskCenter, redis_url: str
) -> None:
    asked = rule("stores", persistence=False, disk_left=0)
    settings = Settings(redis_url=redis_url)
    place = CheckPlace(center, settings, center.now())
    levels = {one.object: one.level for one in run_check(asked, place)}
    assert set(levels.values()) <= {ReadLevel.CLEAR, ReadLevel.BETWEEN}
    assert {"sql", "redis", "sql_slow", "redis_slow", "clock", "redis_eviction", "redis_saving"} <= set(
        levels
    )
    told = sql_away(DatabaseUnavailable("the database mysql://u:***@h/x does not answer"))
    assert (told[0].object, told[0].level, told[0].severity) == ("sql", ReadLevel.BREACH, "critical")
    assert {one.level for one in told[1:]} == {ReadLevel.NO_DATA}
    assert_said(told[0].said)


def test_a_redis_that_is_away_is_critical_and_what_it_would_tell_is_not_known(center: TaskCenter) -> None:
    place = CheckPlace(center, Settings(redis_url="redis://127.0.0.1:1/0"), center.now())
    readings = {one.object: one for one in run_check(rule("stores"), place)}
    assert (readings["redis"].level, readings["redis"].severity) == (ReadLevel.BREACH, "critical")
    assert readings["redis_slow"].level is ReadLevel.NO_DATA
    assert readings["sql"].level is ReadLevel.CLEAR


def test_sql_that_is_away_is_read_by_the_check_itself(redis_url: str) -> None:
    url = "mysql+pymysql://u:secret@127.0.0.1:1/x"
    gone = TaskCenter(url)
    place = CheckPlace(gone, Settings(redis_url=redis_url), BEGIN)
    readings = {one.object: one for one in run_check(rule("stores"), place)}
    gone.close()
    assert (readings["sql"].level, readings["clock"].level) == (ReadLevel.BREACH, ReadLevel.NO_DATA)
    assert readings["redis"].level is ReadLevel.CLEAR
    assert "secret" not in str(readings)


def test_the_embedded_default_is_well_while_it_runs_and_away_when_it_does_not(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / ".taskkit")
    asked = rule("stores", disk_left=0)
    embedded = Embedded(settings.home)
    embedded.join()
    opened = TaskCenter(settings.sqlalchemy_url())
    opened.upgrade_schema()
    try:
        readings = run_check(asked, CheckPlace(opened, settings, opened.now()))
        assert {one.object for one in readings if one.level is ReadLevel.BREACH} == set()
        embedded.leave()
        readings = run_check(asked, CheckPlace(opened, settings, opened.now()))
        assert {one.object for one in readings if one.level is ReadLevel.BREACH} == {"redis"}
    finally:
        embedded.leave()
        opened.close()
