"""Adoption: rows that others inserted are completed, and what makes no sense is set aside with a reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from taskkit.center import PlanRules, TaskCenter
from taskkit.cron import parse
from taskkit.errors import CronError
from taskkit.states import Status, TaskType
from tests.centers import (
    NOON,
    Clock,
    dispatch,
    instant,
    new,
    occurrences,
    on_clock,
    periodic,
    plain_insert,
    sql,
    task,
)
from tests.databases import connect
from tests.naughty import naughty_strings
from tests.planned import adopt, run_once

pytest_plugins = ["tests.center_fixtures"]


def test_rule_21_a_plain_insert_of_a_code_becomes_a_task_that_is_due_at_once(center: TaskCenter) -> None:
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
def test_rule_24_plain_inserts_of_a_session_in_another_zone_mean_the_instant_they_say(
    mariadb_center: TaskCenter, mariadb_center_url: str, zone: str
) -> None:
    """A PHP producer in +08:00 and a worker in UTC agree."""
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


def test_guarantee_8_a_broken_cron_row_is_set_aside_with_the_reason_while_healthy_ones_go_on(
    moving: TaskCenter, clock: Clock
) -> None:
    """One bad row must never stop the planner."""
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
