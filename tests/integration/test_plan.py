"""The planner: completes what others inserted, writes occurrences ahead by the calendar, applies misfire policies."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from taskkit.center import PlanRules, TaskCenter
from taskkit.center.occurrences import settle
from taskkit.cron import parse
from taskkit.errors import CronError
from taskkit.states import OccurrenceState, Status, TaskType
from tests.centers import (
    Clock,
    at_once,
    columns,
    dispatch,
    in_status,
    instant,
    messages,
    new,
    occurrences,
    on_clock,
    periodic,
    plain_insert,
    sql,
    succeeded,
    task,
)
from tests.databases import connect
from tests.naughty import naughty_strings

pytest_plugins = ["tests.center_fixtures"]

W1 = "host-1:11:aaaa"
NOON = instant(2026, 6, 1, 12)


@pytest.fixture
def clock() -> Clock:
    return Clock(NOON)


@pytest.fixture
def moving(center_url: str, clock: Clock) -> Iterator[TaskCenter]:
    """A task center whose database believes in ``clock``."""
    center = on_clock(center_url, clock)
    yield center
    center.close()


def adopt(center: TaskCenter) -> int:
    return center.plan.adopt(center.dispatch.due_lists()[0])


def run_once(center: TaskCenter) -> list[datetime | None]:
    """One scheduler and one worker: dispatch what is due, run it in no time; the occurrences that ran."""
    batch = dispatch(center)
    if batch.misfired:
        center.plan.plan_ids(batch.misfired)
        batch = dispatch(center)
    desk = center.worker_desk(W1)
    won = desk.claim(messages(batch)).won
    desk.finish([succeeded(claimed) for claimed in won])
    return [claimed.occurrence_at for claimed in won]


def test_a_plain_insert_of_a_code_becomes_a_task_that_is_due_at_once(center: TaskCenter) -> None:
    task_id = plain_insert(center, task_code="mail")
    assert adopt(center) == 1
    found = task(center, task_id)
    assert (found.queue, found.task_type) == ("mail", TaskType.ONE_OFF)
    assert found.plan_next_run_at == found.created_at
    assert [w.id for w in dispatch(center, "mail").won] == [task_id]
    assert adopt(center) == 0


def test_what_a_plain_insert_states_is_kept(center: TaskCenter) -> None:
    at = "2037-01-01 00:00:00"
    delayed = plain_insert(center, task_code="mail", delay=90, queue="slow", priority=2)
    timed = plain_insert(center, task_code="mail", plan_next_run_at=at)
    asked = plain_insert(center, task_code="mail", plan_next_run_at=at, task_type=2, queue="q")
    assert adopt(center) == 2
    found = task(center, delayed)
    assert (found.queue, found.plan_next_run_at) == ("slow", found.created_at + timedelta(seconds=90))
    found = task(center, timed)
    assert (found.queue, found.task_type) == ("mail", TaskType.TIMED)
    assert found.plan_next_run_at == task(center, asked).plan_next_run_at == datetime(2037, 1, 1, tzinfo=UTC)


def test_the_default_queue_and_zone_of_the_settings_are_filled_in(center_url: str) -> None:
    rules = PlanRules(default_zone="Asia/Shanghai", default_queue="jobs")
    center = TaskCenter(center_url, rules=rules)
    plain, cron = (
        plain_insert(center, task_code="mail"),
        plain_insert(center, task_code="mail", cron_expr="0 9 * * *"),
    )
    adopt(center)
    assert (task(center, plain).queue, task(center, cron).queue) == ("jobs", "jobs")
    found = task(center, cron)
    assert found.occurrence_at is not None
    assert (found.timezone, found.occurrence_at.hour) == ("Asia/Shanghai", 1)
    center.close()


@pytest.mark.parametrize("values", [{}, {"timezone": "Asia/Shanghai"}, {"task_type": 1}, {"queue": "q"}])
def test_a_cron_row_with_nothing_but_code_payload_and_expression_is_planned(
    moving: TaskCenter, values: dict[str, Any]
) -> None:
    task_id = plain_insert(moving, task_code="report", payload='{"a": 1}', cron_expr="0 9 * * *", **values)
    assert adopt(moving) == 1
    zone = values.get("timezone", "UTC")
    found = task(moving, task_id)
    right = parse("0 9 * * *", zone).upcoming(NOON, 2)
    assert (found.task_type, found.timezone, found.queue) == (1, zone, values.get("queue", "report"))
    assert [found.occurrence_at, found.next_fire_at] == right
    assert found.plan_next_run_at == found.occurrence_at
    moving.plan.sweep()
    assert [o.planned_at for o in occurrences(moving, task_id, "planned")] == right[:1]


@pytest.mark.parametrize("zone", ["+08:00", "+00:00"])
def test_plain_inserts_of_a_session_in_another_zone_mean_the_instant_they_say(
    mariadb_center: TaskCenter, mariadb_center_url: str, zone: str
) -> None:
    """Rule 24: a PHP producer in +08:00 and a worker in UTC agree."""
    center = mariadb_center
    before = center.now()
    with connect(mariadb_center_url) as link, link.cursor() as cursor:
        cursor.execute("SET time_zone = %s, sql_mode = ''", (zone,))
        for text in (
            "INSERT INTO task_center (task_code, payload) VALUES ('now', '{}')",
            "INSERT INTO task_center (task_code, plan_next_run_at) VALUES ('at', NOW() + INTERVAL 1 HOUR)",
            "INSERT INTO task_center (task_code, delay) VALUES ('delay', 3600)",
            "INSERT INTO task_center (task_code, cron_expr) VALUES ('cron', '* * * * *')",
        ):
            cursor.execute(text)
        ids = [row[0] for row in center_rows(cursor)]
    assert adopt(center) == 4
    after = center.now()
    now, timed, delayed, cron = center.read.tasks(ids)
    assert now.plan_next_run_at is not None
    assert before <= now.plan_next_run_at <= after
    for one in (timed, delayed):
        assert one.plan_next_run_at is not None
        hour_less = one.plan_next_run_at - timedelta(hours=1)
        assert before - timedelta(seconds=1) <= hour_less <= after
    assert cron.occurrence_at is not None
    assert before < cron.occurrence_at <= after + timedelta(minutes=1)
    assert [one.queue for one in (now, timed, delayed, cron)] == ["now", "at", "delay", "cron"]


def center_rows(cursor: Any) -> list[tuple[int]]:
    cursor.execute("SELECT id FROM task_center ORDER BY id")
    return list(cursor.fetchall())


def test_rows_without_a_plan_are_found_in_a_busy_list_too(center: TaskCenter) -> None:
    center.intake.insert([new()] * 3)
    task_id = plain_insert(center, task_code="mail", queue="q")
    (one,), _ = center.dispatch.due_lists()
    assert one.earliest is not None
    assert center.plan.adopt([one]) == 1
    assert task(center, task_id).plan_next_run_at is not None


BROKEN: list[dict[str, Any]] = [
    {"cron_expr": "0 0 30 2 *"},
    {"cron_expr": "* * * *"},
    {"cron_expr": ""},
    {"cron_expr": "R * * * *"},
    {"cron_expr": "0 9 * * *", "timezone": "Asia/Beijing"},
    {"cron_expr": "0 9 * * *", "timezone": "../../etc/passwd"},
    {"cron_expr": "0 0 30 2 *", "task_type": 1, "queue": "q"},
]


def test_a_broken_cron_row_is_set_aside_with_the_reason_while_healthy_ones_go_on(
    moving: TaskCenter, clock: Clock
) -> None:
    """CRON-07: one bad row must never stop the planner."""
    first = plain_insert(moving, task_code="good", queue="q", cron_expr="* * * * *")
    broken = [plain_insert(moving, **({"task_code": "bad"} | values)) for values in BROKEN]
    (edited,) = moving.intake.insert([periodic(clock.at)])
    sql(moving, "UPDATE task_center SET cron_expr = '61 * * * *' WHERE id = :i", i=edited)
    last = plain_insert(moving, task_code="good", queue="q", cron_expr="* * * * *")
    assert adopt(moving) == 2
    for minute in (1, 2):
        moving.plan.sweep()
        clock.at = NOON + timedelta(minutes=minute)
        assert run_once(moving) == [clock.at] * 2
    for task_id in [*broken, edited]:
        found = task(moving, task_id)
        assert (found.status, found.queue != "") == (Status.HELD, True), found
        assert (found.held_reason or "").startswith("invalid: "), found
        assert found.last_result == found.held_reason
    assert all(task(moving, i).status == Status.PENDING for i in (first, last))
    with pytest.raises(CronError):
        moving.people.resume(edited, "ann")
    sql(moving, "UPDATE task_center SET cron_expr = '0 9 * * *' WHERE id = :i", i=broken[0])
    moving.people.resume(broken[0], "ann")
    adopt(moving)
    assert task(moving, broken[0]).occurrence_at == instant(2026, 6, 2, 9)


def test_no_nonsense_in_a_row_stops_the_planner(center: TaskCenter) -> None:
    texts = naughty_strings()[::10]
    for number, text in enumerate(texts):
        (task_id,) = center.intake.insert([periodic(center.now(), "0 0 1 1 *")])
        column = ("cron_expr", "timezone")[number % 2]
        limit = {"cron_expr": 100, "timezone": 64}[column]
        sql(center, f"UPDATE task_center SET {column} = :t WHERE id = :i", t=text[:limit], i=task_id)
    assert center.plan.sweep() == len(texts)
    statuses = {row[0] for row in sql(center, "SELECT status FROM task_center")}
    assert statuses <= {0, 7}
    center.plan.sweep()


@pytest.mark.parametrize("delay", [4_294_967_295, 400_000_000])
def test_a_delay_beyond_what_the_database_can_hold_is_set_aside(
    mariadb_center: TaskCenter, delay: int
) -> None:
    far = plain_insert(mariadb_center, task_code="mail", delay=delay)
    near = plain_insert(mariadb_center, task_code="mail", delay=60)
    assert adopt(mariadb_center) == 1
    assert task(mariadb_center, near).plan_next_run_at is not None
    assert (task(mariadb_center, far).held_reason or "").startswith("invalid: delay: ")


def test_a_task_that_fires_next_after_2038_is_set_aside_on_mysql(mariadb_center_url: str) -> None:
    center = on_clock(mariadb_center_url, Clock(instant(2033, 1, 1)))
    far = plain_insert(center, task_code="mail", cron_expr="0 0 29 2 */7")
    near = plain_insert(center, task_code="mail", cron_expr="0 0 1 1 *")
    assert adopt(center) == 1
    assert "2060-02-29" in (task(center, far).held_reason or "")
    assert task(center, near).occurrence_at == instant(2034, 1, 1)
    center.close()


@pytest.mark.parametrize(
    ("cron", "count"), [("* * * * *", 100), ("*/30 * * * *", 48), ("0 9 * * *", 1), ("0 0 1 1 *", 1)]
)
def test_occurrences_are_written_ahead_the_next_one_and_a_day_up_to_100(
    moving: TaskCenter, cron: str, count: int
) -> None:
    """Rule 21."""
    (task_id,) = moving.intake.insert([periodic(NOON, cron)])
    for _ in range(3):
        moving.plan.sweep()
    assert [o.planned_at for o in occurrences(moving, task_id, "planned")] == parse(cron).upcoming(
        NOON, count
    )


def test_occurrences_are_written_by_the_calendar_even_while_the_task_is_stuck(
    moving: TaskCenter, clock: Clock
) -> None:
    """Rule 21: so that a stuck task still has occurrences that did not fire."""
    (task_id,) = moving.intake.insert([periodic(NOON, "*/10 * * * *")])
    moving.plan.sweep()
    clock.move(minutes=10)
    (claimed,) = moving.worker_desk(W1).claim(messages(dispatch(moving))).won
    for _ in range(30):
        clock.move(hours=1)
        moving.plan.sweep()
    planned = [o.planned_at for o in occurrences(moving, task_id, "planned")]
    assert planned == parse("*/10 * * * *").upcoming(NOON + timedelta(minutes=10), len(planned))
    assert planned[-1] >= clock.at + timedelta(hours=6)
    moving.worker_desk(W1).finish([succeeded(claimed)])
    moving.plan.sweep()
    assert all(o.planned_at > clock.at for o in occurrences(moving, task_id, "planned"))
    assert len(occurrences(moving, task_id, "skipped")) == 180


def test_two_planners_at_once_write_nothing_twice(center_url: str) -> None:
    clocks = [Clock(NOON), Clock(NOON)]
    planners = [on_clock(center_url, clock) for clock in clocks]
    ids = planners[0].intake.insert([periodic(NOON, misfire=m) for m in ("once", "skip", "all")])
    plain = [plain_insert(planners[0], task_code="mail", cron_expr="*/2 * * * *") for _ in range(5)]
    for minutes in (0, 30, 31):
        for clock in clocks:
            clock.at = NOON + timedelta(minutes=minutes, seconds=20)
        adopted = at_once(2, lambda n: adopt(planners[n]))
        at_once(2, lambda n: planners[n].plan.sweep())
        assert sum(adopted) == (5 if minutes == 0 else 0)
    once, skip, every = (task(planners[0], i) for i in ids)
    assert [t.occurrence_at for t in (once, skip, every)] == [
        NOON + timedelta(minutes=31), NOON + timedelta(minutes=31), NOON + timedelta(minutes=1),
    ]  # fmt: skip
    settled = [(o.planned_at, o.state) for o in occurrences(planners[0], once.id, "skipped")]
    assert settled == [(NOON + timedelta(minutes=m), "skipped") for m in range(1, 31)]
    assert {columns(planners[0], i, "queue")[0] for i in plain} == {"mail"}
    for planner in planners:
        planner.close()


def test_a_planner_that_was_stopped_does_not_move_a_task_that_went_on_without_it(
    moving: TaskCenter, center_url: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 21: a compare-and-set on occurrence_at; status alone would not tell."""
    (task_id,) = moving.intake.insert([periodic(NOON)])
    clock.at = NOON + timedelta(minutes=5, seconds=1)
    other, decide = on_clock(center_url, clock), moving.plan._next_up

    def stop_here(*arguments: Any) -> Any:
        decided = decide(*arguments)
        other.plan.sweep()
        assert run_once(other) == [NOON + timedelta(minutes=5)]
        return decided

    monkeypatch.setattr(moving.plan, "_next_up", stop_here)
    moving.plan.sweep()
    found = task(moving, task_id)
    assert found.plan_next_run_at == found.occurrence_at == NOON + timedelta(minutes=6)
    assert len(occurrences(moving, task_id, "fired")) == 1
    other.close()


def test_what_has_fired_stays_fired_whatever_is_settled_later(moving: TaskCenter, clock: Clock) -> None:
    (task_id,) = moving.intake.insert([periodic(NOON)])
    moving.plan.sweep()
    clock.move(minutes=1)
    assert run_once(moving) == [clock.at]
    both = [clock.at, clock.at + timedelta(minutes=1)]
    moving.database.write(
        lambda c: settle(c, moving.database, task_id, both, OccurrenceState.SKIPPED, "late planner")
    )
    (fired,) = occurrences(moving, task_id, "fired")
    (skipped,) = occurrences(moving, task_id, "skipped")
    assert (fired.planned_at, fired.reason) == (both[0], None)
    assert (skipped.planned_at, skipped.reason) == (both[1], "late planner")


def test_an_expression_edited_by_hand_is_planned_anew(moving: TaskCenter, clock: Clock) -> None:
    (task_id,) = moving.intake.insert([periodic(NOON, "0 9 * * *")])
    moving.plan.sweep()
    sql(moving, "UPDATE task_center SET cron_expr = '30 * * * *' WHERE id = :i", i=task_id)
    moving.plan.sweep()
    found = task(moving, task_id)
    assert found.plan_next_run_at == found.occurrence_at == instant(2026, 6, 1, 12, 30)
    assert found.next_fire_at == instant(2026, 6, 1, 13, 30)
    planned = [o.planned_at for o in occurrences(moving, task_id, "planned")]
    assert planned == parse("30 * * * *").upcoming(NOON, 24)
    sql(moving, "UPDATE task_center SET timezone = 'Asia/Kolkata' WHERE id = :i", i=task_id)
    moving.plan.sweep()
    assert task(moving, task_id).occurrence_at == instant(2026, 6, 1, 13)
    assert occurrences(moving, task_id, "planned")[0].planned_at == instant(2026, 6, 1, 13)


def test_an_edit_while_an_occurrence_is_late_does_not_hang_the_task(moving: TaskCenter, clock: Clock) -> None:
    """Its next fire time was that of the old schedule: the scan would hand it to the planner for ever."""
    (task_id,) = moving.intake.insert([periodic(NOON)])
    moving.plan.sweep()
    clock.move(minutes=3)
    sql(moving, "UPDATE task_center SET cron_expr = '0 9 * * *' WHERE id = :i", i=task_id)
    moving.plan.sweep()
    assert run_once(moving) == [NOON + timedelta(minutes=1)]
    assert task(moving, task_id).occurrence_at == instant(2026, 6, 2, 9)


def test_new_time_zone_data_plan_every_task_anew(moving: TaskCenter, monkeypatch: pytest.MonkeyPatch) -> None:
    (task_id,) = moving.intake.insert([periodic(NOON)])
    moving.plan.sweep()
    before = sql(moving, "SELECT digest FROM task_schedule WHERE task_id = :i", i=task_id)
    monkeypatch.setattr("taskkit.planning.tzdata_version", lambda: "2099z")
    moving.plan.sweep()
    assert sql(moving, "SELECT digest FROM task_schedule WHERE task_id = :i", i=task_id) != before
    assert task(moving, task_id).occurrence_at == NOON + timedelta(minutes=1)


def test_downtime_of_six_hours_end_to_end(
    moving: TaskCenter, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SCHED-05: one run of the minutely job, one each of 41 daily ones; or none; or all up to a limit."""
    monkeypatch.setattr("taskkit.planning.ALL_LIMIT", 10)
    clock.at = instant(2026, 6, 1, 10, 0, 20)
    policies = {"once": 1, "skip": 0, "all": 10}
    minutely = {m: moving.intake.insert([periodic(clock.at, misfire=m)])[0] for m in policies}
    daily = moving.intake.insert([periodic(clock.at, "0 12 * * *")] * 41)
    moving.plan.sweep()
    back = clock.at = instant(2026, 6, 1, 16, 0, 30)
    ran: dict[int, list[datetime]] = {i: [] for i in [*minutely.values(), *daily]}
    for turn in range(15):
        if turn < 2:
            moving.plan.sweep()
        batch = dispatch(moving)
        desk = moving.worker_desk(W1)
        won = desk.claim(messages(batch)).won
        for claimed in won:
            assert claimed.occurrence_at is not None
            ran[claimed.id].append(claimed.occurrence_at)
        desk.finish([succeeded(claimed) for claimed in won])
        if not won and not batch.misfired:
            break
    assert {m: len(ran[i]) for m, i in minutely.items()} == policies
    assert ran[minutely["once"]] == [instant(2026, 6, 1, 16)]
    assert ran[minutely["all"]] == parse("* * * * *").upcoming(instant(2026, 6, 1, 15, 50), 10)
    assert all(ran[i] == [instant(2026, 6, 1, 12)] for i in daily)
    skipped = {m: occurrences(moving, i, "skipped") for m, i in minutely.items()}
    assert {m: len(o) for m, o in skipped.items()} == {"once": 359, "skip": 360, "all": 350}
    assert {o.reason for o in skipped["once"]} == {"misfire policy once"}
    for task_id in minutely.values():
        assert task(moving, task_id).occurrence_at == instant(2026, 6, 1, 16, 1)
        states = [o for o in moving.read.occurrences(task_id, 1000) if o.planned_at <= back]
        assert len(states) == 360
        assert {o.state for o in states} <= {"fired", "skipped"}
    (late,) = occurrences(moving, daily[0], "fired")
    assert (late.late_s, late.reason) == (pytest.approx(4 * 3600 + 30), None)


def test_a_late_task_keeps_its_place_in_the_line(moving: TaskCenter, clock: Clock) -> None:
    (task_id,) = moving.intake.insert([periodic(NOON)])
    moving.plan.sweep()
    clock.move(minutes=30)
    moving.plan.sweep()
    found = task(moving, task_id)
    assert found.occurrence_at == NOON + timedelta(minutes=30)
    assert found.plan_next_run_at == NOON + timedelta(minutes=1)


def test_a_paused_task_neither_runs_nor_catches_up_and_its_times_are_recorded(
    moving: TaskCenter, clock: Clock
) -> None:
    (task_id,) = moving.intake.insert([periodic(NOON, "*/10 * * * *", misfire="all")])
    moving.plan.sweep()
    moving.people.pause(task_id, "ann", "holidays")
    clock.move(hours=2, seconds=61)
    moving.plan.sweep()
    assert run_once(moving) == []
    skipped = occurrences(moving, task_id, "skipped")
    assert [o.planned_at for o in skipped] == parse("*/10 * * * *").upcoming(NOON, 12)
    assert {o.reason for o in skipped} == {"held: paused by ann: holidays"}
    moving.people.resume(task_id, "ann")
    moving.plan.sweep()
    assert run_once(moving) == []
    assert task(moving, task_id).occurrence_at == instant(2026, 6, 1, 14, 10)
    clock.at = instant(2026, 6, 1, 14, 10)
    assert run_once(moving) == [clock.at]


def test_a_cancelled_task_is_not_planned_any_further(moving: TaskCenter, clock: Clock) -> None:
    (task_id,) = moving.intake.insert([periodic(NOON, "*/10 * * * *")])
    moving.plan.sweep()
    moving.people.cancel(task_id, "ann")
    planned = len(occurrences(moving, task_id, "planned"))
    clock.move(hours=48)
    moving.plan.sweep()
    assert occurrences(moving, task_id, "planned") == []
    assert {o.reason for o in occurrences(moving, task_id, "skipped")} == {"cancelled"}
    assert len(moving.read.occurrences(task_id, 1000)) == planned


def test_times_nobody_fired_are_missed_and_those_of_deleted_tasks_do_not_stay_open(
    moving: TaskCenter, clock: Clock
) -> None:
    kept, gone = moving.intake.insert([periodic(NOON, "*/10 * * * *"), periodic(NOON, "*/10 * * * *")])
    moving.plan.sweep()
    clock.move(minutes=25)
    sql(moving, "DELETE FROM task_center WHERE id = :i", i=gone)
    sql(
        moving,
        "UPDATE task_center SET occurrence_at = '2026-06-01 12:30:00.000000', "
        "plan_next_run_at = '2026-06-01 12:30:00', next_fire_at = '2026-06-01 12:40:00' WHERE id = :i",
        i=kept,
    )
    moving.plan.sweep()
    missed = occurrences(moving, kept, "missed")
    assert [(o.planned_at.minute, o.reason) for o in missed] == [
        (10, "no scheduler fired it in time"),
        (20, "no scheduler fired it in time"),
    ]
    assert {o.reason for o in occurrences(moving, gone, "skipped")} == {"the task is gone"}
    assert sql(moving, "SELECT task_id FROM task_schedule") == [(kept,)]


def test_old_times_of_one_stuck_task_do_not_keep_those_of_others_open(
    moving: TaskCenter, clock: Clock
) -> None:
    """More of them than one look takes in."""
    stuck, other = moving.intake.insert([periodic(NOON, "* * * * * *"), periodic(NOON, "*/10 * * * *")])
    moving.plan.sweep()
    clock.move(seconds=1)
    moving.worker_desk(W1).claim(messages(dispatch(moving)))
    for _ in range(13):
        clock.move(seconds=50)
        moving.plan.sweep()
    assert len([o for o in occurrences(moving, stuck, "planned") if o.planned_at < clock.at]) > 500
    moving.people.cancel(other, "ann")
    clock.move(seconds=61)
    moving.plan.sweep()
    assert [o.reason for o in occurrences(moving, other, "skipped")] == ["cancelled"]


def test_more_skipped_times_than_are_written_down_are_told_by_number(
    moving: TaskCenter, clock: Clock
) -> None:
    (task_id,) = moving.intake.insert([periodic(NOON, "* * * * * *")])
    clock.move(hours=6)
    moving.plan.sweep()
    skipped = occurrences(moving, task_id, "skipped")
    assert len(skipped) == 1001
    assert "21599 in all" in (skipped[-1].reason or "")


@pytest.mark.parametrize(
    ("cron", "day", "runs"),
    [
        ("30 2 * * *", (2026, 3, 7), ["07 07:30", "08 07:00", "09 06:30"]),
        ("30 1 * * *", (2026, 10, 31), ["31 05:30", "01 05:30", "02 06:30"]),
    ],
)
def test_a_daily_task_runs_once_on_each_date_across_a_clock_change(
    center_url: str, cron: str, day: tuple[int, int, int], runs: list[str]
) -> None:
    clock = Clock(instant(*day))
    center = on_clock(center_url, clock)
    center.intake.insert([periodic(clock.at, cron, "America/New_York")])
    ran: list[datetime | None] = []
    for _ in range(36):
        center.plan.sweep()
        ran += run_once(center)
        clock.move(hours=2)
    assert [f"{at:%d %H:%M}" for at in ran if at] == runs
    center.close()


def test_the_planner_leaves_alone_what_runs_or_waits_for_a_retry(moving: TaskCenter, clock: Clock) -> None:
    ids = [in_status(moving, s, plan_next_run_at=clock.at) for s in (Status.RUNNING, Status.FAILED)]
    (cron,) = moving.intake.insert([periodic(NOON)])
    moving.plan.sweep()
    clock.move(minutes=1)
    refused = dispatch(moving)
    moving.dispatch.put_back(refused.won, refused.token)
    before = [task(moving, i) for i in [*ids, cron]]
    clock.move(minutes=30)
    moving.plan.sweep()
    moving.plan.plan_ids([*ids, cron])
    assert [task(moving, i) for i in [*ids, cron]] == before
