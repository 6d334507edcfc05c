"""New tasks: in bulk and in order, one for each key, with the caller's transaction or not at all, byte by byte."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.orm import Session

from taskkit.center import TaskCenter
from taskkit.center.joining import connection_of
from taskkit.errors import InputError, KeyTaken
from taskkit.model import NewTask
from taskkit.states import Status, TaskType
from tests.centers import at_once, columns, in_status, instant, new, periodic, sql, task
from tests.naughty import naughty_strings
from tests.proxy import Proxy

pytest_plugins = ["tests.center_fixtures"]

LAST = datetime(2038, 1, 19, 3, 14, 7, tzinfo=UTC)


@pytest.fixture
def callers(center_url: str) -> Iterator[sa.Engine]:
    """An engine of the caller's own on the same database, with none of taskkit's settings."""
    engine = sa.create_engine(center_url.replace("mysql://", "mysql+pymysql://"))
    yield engine
    engine.dispose()


def test_many_tasks_are_written_and_their_ids_come_back_in_order(center: TaskCenter) -> None:
    """1,500 rows span statements; keyed ones, timed ones and duplicates among them."""
    tomorrow = center.now() + timedelta(days=1)
    tasks = [new(f"code-{n}", payload=f'{{"n": {n}}}') for n in range(1500)]
    tasks[100:100] = [
        new("keyed", unique_key="a"),
        new("timed", plan_next_run_at=tomorrow),
        new("keyed again", unique_key="a"),
    ]
    tasks.append(new("keyed", unique_key="b"))
    ids = center.intake.insert(tasks)
    found = {one.id: one.task_code for one in center.read.tasks(ids)}
    assert ids[100] == ids[102]
    assert len(set(ids)) == len(found) == len(tasks) - 1
    assert [found[i] for i in ids if i != ids[100]] == [t.task_code for t in tasks if t.unique_key != "a"]
    plain = [i for i, one in zip(ids, tasks, strict=True) if one.task_code.startswith("code-")]
    assert plain == sorted(plain)
    assert task(center, ids[101]).plan_next_run_at == tomorrow
    assert center.intake.insert([]) == []


def test_a_task_due_now_is_due_at_once_and_a_delay_counts_by_the_databases_clock(center: TaskCenter) -> None:
    before = center.now()
    now, later, half = center.intake.insert([new(), new(delay=90), new(delay=0.5)])
    after = center.now()
    for task_id, delay, column in ((now, 0, 0), (later, 90, 90), (half, 0.5, 1)):
        found = task(center, task_id)
        assert found.plan_next_run_at is not None
        assert (
            before <= found.plan_next_run_at - timedelta(seconds=delay) <= after + timedelta(milliseconds=1)
        )
        assert found.delay == column
    assert center.dispatch.candidates("q", 5, 10) == [now]


def test_an_instant_comes_back_to_the_microsecond_and_never_later(center: TaskCenter) -> None:
    """SQL-06: rounded up, a task of 23:59:59.6 would wait for the next day."""
    at = instant(2026, 12, 31, 23, 59, 59, 600001)
    (task_id,) = center.intake.insert([new(plan_next_run_at=at, expires_at=at + timedelta(microseconds=1))])
    found = task(center, task_id)
    assert (found.plan_next_run_at, found.expires_at) == (at, at + timedelta(microseconds=1))


@pytest.mark.parametrize("status", list(Status))
def test_a_key_of_a_live_task_gives_its_id_and_writes_nothing(center: TaskCenter, status: Status) -> None:
    holder = in_status(center, status, unique_key="order 7")
    (task_id,) = center.intake.insert([new("other", unique_key="order 7")])
    rows = sql(center, "SELECT COUNT(*) FROM task_center")[0][0]
    live = status not in {Status.SUCCESS, Status.GIVEN_UP, Status.CANCELLED}
    assert (task_id == holder, rows) == (live, 1 if live else 2)


def test_eight_threads_that_want_one_key_make_one_row(center_url: str) -> None:
    centers = [TaskCenter(center_url) for _ in range(8)]
    for turn in range(3):
        key = f"key {turn}"
        found = at_once(8, lambda n, key=key: centers[n].intake.insert([new(unique_key=key)]))  # type: ignore[misc]
        assert len({tuple(ids) for ids in found}) == 1
    assert sql(centers[0], "SELECT COUNT(*) FROM task_center")[0][0] == 3
    for center in centers:
        center.close()


def test_batches_that_share_keys_in_opposite_order_all_succeed(center_url: str) -> None:
    """Such batches deadlock; the whole transaction is repeated."""
    centers = [TaskCenter(center_url) for _ in range(4)]
    keys = [f"key {n}" for n in range(40)]

    def act(number: int) -> list[int]:
        mine = keys if number % 2 else keys[::-1]
        ids = centers[number].intake.insert([new(unique_key=key) for key in mine])
        return ids if number % 2 else ids[::-1]

    found = at_once(4, act)
    assert len({tuple(ids) for ids in found}) == 1
    for center in centers:
        center.close()


def test_ids_are_right_where_the_server_counts_in_threes(mariadb_center: TaskCenter) -> None:
    """Galera and multi-primary set auto_increment_increment; ids must be read back, not computed."""

    def count_in_threes(raw: Any, _record: Any, _proxy: Any) -> None:
        with raw.cursor() as cursor:
            cursor.execute("SET SESSION auto_increment_increment = 3, auto_increment_offset = 2")

    event.listen(mariadb_center.database.engine, "checkout", count_in_threes)
    tasks = [new(f"code-{n}") for n in range(20)]
    ids = mariadb_center.intake.insert(tasks)
    assert [task(mariadb_center, i).task_code for i in ids] == [t.task_code for t in tasks]
    assert {b - a for a, b in pairwise(ids)} == {3}


def test_ids_of_batches_written_at_once_do_not_mix(center_url: str) -> None:
    centers = [TaskCenter(center_url) for _ in range(4)]
    found = at_once(
        4, lambda n: [centers[n].intake.insert([new(f"code-{n}")] * 50 + [new("x")]) for _ in range(5)]
    )
    for number, batches in enumerate(found):
        ids = [i for ids in batches for i in ids[:50]]
        assert {one.task_code for one in centers[0].read.tasks(ids)} == {f"code-{number}"}
    assert len({i for batches in found for ids in batches for i in ids}) == 4 * 5 * 51
    for center in centers:
        center.close()


@pytest.mark.parametrize("kept", [True, False], ids=["commit", "rollback"])
def test_a_joined_task_exists_if_and_only_if_the_callers_transaction_commits(
    center: TaskCenter, callers: sa.Engine, kept: bool
) -> None:
    tasks = [new("a"), new("b", unique_key="key"), new("c", delay=60)] + [new("d")] * 3
    with callers.connect() as connection:
        ids = center.intake.insert_joined(connection, tasks)
        assert len(set(ids)) == 6
        assert center.read.tasks(ids) == []
        connection.commit() if kept else connection.rollback()
    found = {one.id: one for one in center.read.tasks(ids)}
    assert [found[i].task_code for i in ids if i in found] == (["a", "b", "c", "d", "d", "d"] if kept else [])
    assert all(one.status == Status.PENDING for one in found.values())
    assert len(center.dispatch.candidates("q", 5, 10)) == (5 if kept else 0)


def test_a_session_can_be_joined_and_a_savepoint_taken_back(center: TaskCenter, callers: sa.Engine) -> None:
    with Session(callers) as session:
        kept = center.intake.insert_joined(connection_of(session), [new("kept")])
        with session.begin_nested() as savepoint:
            gone = center.intake.insert_joined(connection_of(session), [new("gone")])
            savepoint.rollback()
        session.commit()
    codes = {one.task_code for one in center.read.tasks([*kept, *gone])}
    assert codes == {"kept"}


def test_a_joined_periodic_task_is_known_to_the_planner_after_the_commit(
    center: TaskCenter, callers: sa.Engine
) -> None:
    with callers.begin() as connection:
        (task_id,) = center.intake.insert_joined(
            connection, [periodic(center.now(), "0 3 * * *", "Asia/Shanghai")]
        )
    assert center.plan.sweep() == 1
    found = task(center, task_id)
    assert found.occurrence_at == found.plan_next_run_at
    assert found.occurrence_at is not None
    assert found.occurrence_at.hour == 19


def test_an_error_on_the_callers_connection_goes_up_and_is_not_repeated(
    center: TaskCenter, callers: sa.Engine
) -> None:
    with callers.connect() as connection:
        connection.execute(sa.text("SELECT 1"))
        with pytest.raises(sa.exc.DBAPIError):
            center.intake.insert_joined(connection, [new(priority=12)])
        connection.rollback()
    assert center.database.counters == {}


def test_a_connection_to_another_kind_of_database_is_refused(center: TaskCenter) -> None:
    class Elsewhere:
        class dialect:
            name = "postgresql"

    with pytest.raises(InputError, match="postgresql"):
        center.intake.insert_joined(Elsewhere(), [new()])  # type: ignore[arg-type]


@pytest.mark.parametrize("zone", ["+08:00", "-05:30", "+00:00"])
def test_a_caller_in_another_time_zone_gets_the_instants_right(
    mariadb_center: TaskCenter, mariadb_center_url: str, zone: str
) -> None:
    center = mariadb_center
    engine = sa.create_engine(mariadb_center_url.replace("mysql://", "mysql+pymysql://"))
    at = instant(2026, 12, 24, 18, 0, 0, 123456)
    before = center.now()
    with engine.begin() as connection:
        connection.exec_driver_sql(f"SET time_zone = '{zone}'")
        timed, delayed = center.intake.insert_joined(
            connection, [new(plan_next_run_at=at, expires_at=at + timedelta(hours=1)), new(delay=600)]
        )
        first = periodic(center.now(), "0 3 * * *", "Asia/Shanghai")
        (cron,) = center.intake.insert_joined(connection, [first])
    engine.dispose()
    found = task(center, timed)
    assert (found.plan_next_run_at, found.expires_at) == (at, at + timedelta(hours=1))
    assert before <= found.created_at <= center.now()
    late = task(center, delayed).plan_next_run_at
    assert late is not None
    assert before <= late - timedelta(seconds=600) <= center.now()
    planned = task(center, cron)
    assert planned.plan_next_run_at == planned.occurrence_at == first.plan_next_run_at
    assert planned.next_fire_at == first.next_fire_at


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("at", {"plan_next_run_at": LAST + timedelta(seconds=1)}),
        ("at", {"plan_next_run_at": instant(1970, 1, 1)}),
        ("at", {"plan_next_run_at": instant(1969, 12, 31)}),
        ("expires_at", {"expires_at": LAST + timedelta(microseconds=1)}),
        ("delay", {"delay": 86400 * 366 * 20}),
        ("delay", {"delay": 1e30}),
        ("cron", {"cron_expr": "0 0 29 2 */7", "plan_next_run_at": instant(2060, 2, 29)}),
    ],
)
def test_instants_that_mysql_cannot_hold_are_refused_by_name(
    mariadb_center: TaskCenter, field: str, values: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match=r"outside 1970 … 2038-01-19T03:14:07Z") as refused:
        mariadb_center.intake.insert([new(), new(**values)])
    assert refused.value.field == field
    assert sql(mariadb_center, "SELECT COUNT(*) FROM task_center")[0][0] == 0


def test_the_last_instant_of_mysql_can_be_written(mariadb_center: TaskCenter) -> None:
    (task_id,) = mariadb_center.intake.insert([new(plan_next_run_at=LAST, expires_at=LAST)])
    assert task(mariadb_center, task_id).plan_next_run_at == LAST


def test_a_periodic_task_whose_second_fire_time_is_out_of_range_can_still_be_written(
    center: TaskCenter,
) -> None:
    """``0 0 29 2 */7`` fires on leap days that are Sundays: 2032, then 2060."""
    (task_id,) = center.intake.insert([periodic(center.now(), "0 0 29 2 */7")])
    found = task(center, task_id)
    assert found.occurrence_at == instant(2032, 2, 29)
    assert found.next_fire_at == (instant(2060, 2, 29) if center.database.sqlite else LAST)


def test_every_naughty_string_comes_back_byte_by_byte(center: TaskCenter) -> None:
    """PAY-01: as payload, code, queue, key and trace id."""
    strings = [s for s in naughty_strings() if s]
    strings += ["' OR 1=1 --", "%s %(a)s ? :a {now}", "a "]
    tasks = [
        NewTask(
            task_code=text[:64],
            payload=json.dumps({"text": text, text: 1}, ensure_ascii=False),
            queue=text[:64],
            unique_key=f"{number} {text}"[:190],
            trace_id=text[:64],
        )
        for number, text in enumerate(strings)
    ]
    ids = center.intake.insert(tasks)
    for one, read in zip(tasks, center.read.tasks(ids), strict=True):
        assert (read.task_code, read.queue, read.payload) == (one.task_code, one.queue, one.payload)
        assert (read.unique_key, read.trace_id) == (one.unique_key, one.trace_id)
    if not center.database.sqlite:
        emoji = ids[strings.index("支付😀完成")]
        assert (
            "F09F9880" in sql(center, "SELECT HEX(payload) FROM task_center WHERE id = :id", id=emoji)[0][0]
        )


@pytest.mark.parametrize("field", ["payload", "task_code", "queue", "unique_key", "trace_id"])
def test_a_lone_surrogate_is_refused_with_a_clear_message(center: TaskCenter, field: str) -> None:
    with pytest.raises(InputError, match="lone surrogate"):
        center.intake.insert([new(**{field: '{"a": "\ud800"}'})])
    assert center.intake.insert([new()])


def test_a_batch_larger_than_a_packet_is_split_by_bytes(center: TaskCenter) -> None:
    """1,000 payloads of 8,000 emoji: 32 MB, twice the usual max_allowed_packet, though only 8 million letters."""
    payload = json.dumps({"a": "😀" * 8000}, ensure_ascii=False)
    ids = center.intake.insert([new(payload=payload)] * 600)
    assert len(set(ids)) == 600
    assert columns(center, ids[-1], "payload") == (payload,)


def test_a_number_too_large_for_sqlite_is_refused_and_not_a_crash(center: TaskCenter) -> None:
    """SQL-10."""
    assert center.read.tasks([2**63 - 1]) == []
    if center.database.sqlite:
        with pytest.raises(InputError, match="too large"):
            center.read.tasks([2**63])
    else:
        assert center.read.tasks([2**63]) == []


def test_a_key_taken_by_another_names_its_holder(center: TaskCenter) -> None:
    done = in_status(center, Status.SUCCESS, unique_key="key")
    (holder,) = center.intake.insert([new(unique_key="key")])
    with pytest.raises(KeyTaken, match=f"'key' is held by task {holder}") as refused:
        center.people.run_now(done, "ann")
    assert refused.value.holder == holder


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_insert_whose_commit_got_no_reply_is_written_exactly_once(
    mariadb_center_url: str, when: str
) -> None:
    with Proxy(mariadb_center_url) as proxy:
        center = TaskCenter(proxy.url)
        center.now()
        for tasks in ([new()], [new("a")] * 5, [new(unique_key="k"), new("b"), new(unique_key="k")]):
            proxy.lose_commit(when)
            ids = center.intake.insert(tasks)
            assert proxy.lost
            assert len(center.read.tasks(ids)) == len(set(ids))
        assert sql(center, "SELECT COUNT(*) FROM task_center")[0][0] == 8
        center.close()


def test_the_type_of_a_task_follows_from_what_was_asked(center: TaskCenter) -> None:
    tomorrow = center.now() + timedelta(days=1)
    ids = center.intake.insert(
        [new(), new(task_type=TaskType.TIMED, plan_next_run_at=tomorrow), periodic(center.now())]
    )
    found = center.read.tasks(ids)
    assert [one.task_type for one in found] == [0, 2, 1]
    assert [one.occurrence_at is None for one in found] == [True, True, False]
