"""The producer: every option stands in the row, many at once, unique keys, transactions of the caller's."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from taskkit import Settings, Taskkit
from taskkit.center import TaskCenter
from taskkit.clock import as_utc
from taskkit.context import trace
from taskkit.errors import InputError
from taskkit.model import Task
from taskkit.names import check_name
from taskkit.payload import decode_payload
from taskkit.registry import Handler
from taskkit.states import Status, TaskType
from tests.naughty import naughty_strings
from tests.servers import Valkey

pytest_plugins = ["tests.center_fixtures", "tests.producing"]

SHANGHAI = ZoneInfo("Asia/Shanghai")
YEAR = datetime.now(UTC).year + 1


def task(kit: Taskkit, task_id: int) -> Task:
    return kit.center.read.task(task_id)


def delays(kit: Taskkit, task_id: int) -> str | None:
    with kit.center.database.engine.connect() as connection:
        text = f"SELECT retry_delays FROM task_center WHERE id = {task_id}"
        found: str | None = connection.exec_driver_sql(text).scalar_one()
        return found


def test_a_bare_task_has_the_defaults_of_the_specification(kit: Taskkit) -> None:
    found = task(kit, kit.producer.enqueue("anything"))
    assert (found.payload, found.queue, found.priority, found.timeout) == ("{}", "anything", 5, 300)
    assert (found.max_retry, found.status, found.task_type) == (3, Status.PENDING, TaskType.ONE_OFF)
    assert found.plan_next_run_at
    assert abs((found.plan_next_run_at - kit.center.now()).total_seconds()) < 10
    assert found.trace_id


def test_a_handlers_options_are_the_defaults_of_its_tasks(kit: Taskkit, handler: Handler[..., None]) -> None:
    found = task(kit, handler.enqueue(to="a@example.com"))
    assert (found.queue, found.priority, found.timeout, found.max_retry) == ("mail", 3, 30, 7)
    assert found.payload == '{"to":"a@example.com"}'
    by_code = task(kit, kit.producer.enqueue("send_email", {"to": "b"}))
    assert (by_code.queue, by_code.priority, by_code.timeout, by_code.max_retry) == ("mail", 3, 30, 7)


def test_every_option_stands_in_the_row(kit: Taskkit, handler: Handler[..., None]) -> None:
    expires = datetime(YEAR, 7, 1, 8, 30, tzinfo=SHANGHAI)
    given: dict[str, Any] = {
        "delay": 90,
        "priority": 0,
        "timeout": 1,
        "max_retry": 255,
        "retry_delays": [0.5, 60],
        "queue": "队列 {1}",
        "unique_key": "order:7",
        "expires_at": expires,
        "trace_id": "from-php",
    }
    ids = [
        handler.options(**given).enqueue("a", subject="s"),
        *kit.producer.enqueue_many(
            [
                {"code": "send_email", "payload": {"to": "a", "subject": "s"}}
                | given
                | {"unique_key": "order:8"}
            ]
        ),
    ]
    for task_id in ids:
        found = task(kit, task_id)
        assert found.payload == '{"to":"a","subject":"s"}'
        assert (found.priority, found.timeout, found.max_retry, found.queue) == (0, 1, 255, "队列 {1}")
        assert (found.delay, found.trace_id, found.expires_at) == (90, "from-php", as_utc(expires))
        assert delays(kit, task_id) == "0.5,60"
        assert found.plan_next_run_at
        assert 85 < (found.plan_next_run_at - kit.center.now()).total_seconds() <= 90
    assert [task(kit, task_id).unique_key for task_id in ids] == ["order:7", "order:8"]


def test_at_means_an_instant_whatever_its_zone(kit: Taskkit) -> None:
    at = datetime(YEAR, 3, 1, 9, 0, 0, 123456, tzinfo=SHANGHAI)
    found = task(kit, kit.producer.enqueue("x", at=at))
    assert (found.task_type, found.plan_next_run_at) == (TaskType.TIMED, as_utc(at))


def test_a_delay_below_a_second_is_kept(kit: Taskkit) -> None:
    found = task(kit, kit.producer.enqueue("x", delay=0.25))
    assert found.plan_next_run_at
    assert 0.15 < (found.plan_next_run_at - found.created_at).total_seconds() < 0.4


def test_cron_writes_a_periodic_task_with_its_next_time(kit: Taskkit, handler: Handler[..., None]) -> None:
    ids = [
        handler.cron("0 2 * * *", timezone="Asia/Shanghai", misfire="all", dst_gap="skip", to="x"),
        kit.producer.enqueue(
            "send_email",
            {"to": "x"},
            cron="0 2 * * *",
            timezone="Asia/Shanghai",
            misfire="all",
            dst_gap="skip",
        ),
    ]
    for task_id in ids:
        found = task(kit, task_id)
        assert (found.task_type, found.cron_expr, found.timezone) == (
            TaskType.PERIODIC, "0 2 * * *", "Asia/Shanghai",
        )  # fmt: skip
        assert (found.misfire, found.dst_gap, found.dst_overlap) == ("all", "skip", "first")
        assert found.plan_next_run_at == found.occurrence_at
        assert found.plan_next_run_at
        assert found.next_fire_at
        assert found.plan_next_run_at.astimezone(SHANGHAI).hour == 2
        assert found.next_fire_at - found.plan_next_run_at == timedelta(days=1)
        assert found.payload == '{"to":"x"}'


def test_a_hash_in_an_expression_is_resolved_once_from_the_task(kit: Taskkit) -> None:
    one, two = (task(kit, kit.producer.enqueue("x", cron="H H * * *", unique_key=key)) for key in "ab")
    assert "H" not in (one.cron_expr or "H")
    assert one.cron_expr != two.cron_expr


def test_a_trace_that_was_set_passes_on(kit: Taskkit) -> None:
    trace("request-7")
    try:
        assert task(kit, kit.producer.enqueue("x")).trace_id == "request-7"
        assert task(kit, kit.producer.enqueue("x", trace_id="other")).trace_id == "other"
    finally:
        trace(None)


# many, unique keys, texts


def test_many_come_back_in_order(kit: Taskkit) -> None:
    at = datetime(YEAR, 1, 1, tzinfo=UTC)
    shapes: list[dict[str, Any]] = [{}, {"delay": 5}, {"at": at}, {"cron": "0 0 1 1 *"}, {"unique_key": "k"}]
    tasks = [{"code": "x", "payload": {"n": n}} | shapes[n % 5] for n in range(500)]
    ids = kit.producer.enqueue_many(tasks)
    assert len(ids) == 500
    assert len(set(ids)) == 400 + 1
    found = {one.id: one for one in kit.center.read.tasks(ids)}
    for n, task_id in enumerate(ids):
        expected = 4 if n % 5 == 4 else n
        assert found[task_id].payload == f'{{"n":{expected}}}'
    assert kit.producer.enqueue_many([]) == []


def test_a_live_unique_key_gives_the_task_that_has_it(kit: Taskkit) -> None:
    first = kit.producer.enqueue("x", {"n": 1}, unique_key="k")
    assert kit.producer.enqueue("y", {"n": 2}, unique_key="k") == first
    assert kit.producer.enqueue("x", unique_key="K") != first
    kit.operations.cancel(first, "tester")
    assert kit.producer.enqueue("x", unique_key="k") != first
    assert task(kit, first).payload == '{"n":1}'


def test_texts_of_any_kind_stand_in_the_row_unchanged(kit: Taskkit) -> None:
    """As payload, and as every name that takes them."""
    texts = naughty_strings()
    ids = kit.producer.enqueue_many([{"code": "x", "payload": {"text": text}} for text in texts])
    stored = {one.id: one.payload for one in kit.center.read.tasks(ids)}
    assert [decode_payload(stored[task_id])["text"] for task_id in ids] == texts


def test_names_of_any_kind_stand_in_the_row_unchanged(kit: Taskkit) -> None:
    names = list(dict.fromkeys(text for text in naughty_strings() if is_name(text)))
    tasks = [{"code": name, "queue": name, "unique_key": name, "trace_id": name} for name in names]
    for name, task_id in zip(names, kit.producer.enqueue_many(tasks), strict=True):
        found = task(kit, task_id)
        assert (found.task_code, found.queue, found.unique_key, found.trace_id) == (name,) * 4


def is_name(text: str) -> bool:
    try:
        check_name(text, "x")
    except InputError:
        return False
    return True


# transactions of the caller's


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("kind", ["connection", "session"])
def test_a_task_joined_to_a_transaction_shares_its_fate(kit: Taskkit, commit: bool, kind: str) -> None:
    engine = sa.create_engine(kit.center.database.url)
    joined: Any = engine.connect() if kind == "connection" else Session(engine)
    with joined:
        joined.execute(sa.text("DROP TABLE IF EXISTS orders"))
        joined.execute(sa.text("CREATE TABLE orders (id INTEGER PRIMARY KEY)"))
        joined.commit()
        joined.execute(sa.text("INSERT INTO orders VALUES (1)"))
        one = kit.producer.enqueue("x", {"n": 1}, connection=joined)
        many = kit.producer.enqueue_many([{"code": "x"}, {"code": "y", "unique_key": "k"}], connection=joined)
        keyed = kit.producer.enqueue("y", unique_key="k", connection=joined)
        periodic = kit.producer.enqueue("z", cron="0 0 1 1 *", connection=joined)
        assert keyed == many[1]
        (joined.commit if commit else joined.rollback)()
        orders = joined.execute(sa.text("SELECT COUNT(*) FROM orders")).scalar()
    engine.dispose()
    found = kit.center.read.tasks([one, *many, periodic])
    assert [task.status for task in found] == [Status.PENDING] * (4 * commit)
    assert orders == commit
    if commit:
        assert all(abs((t.created_at - kit.center.now()).total_seconds()) < 20 for t in found)


def test_a_refusal_leaves_the_callers_transaction_alone(kit: Taskkit) -> None:
    engine = sa.create_engine(kit.center.database.url)
    with engine.connect() as connection:
        first = kit.producer.enqueue("x", connection=connection)
        with pytest.raises(InputError, match="priority"):
            kit.producer.enqueue("x", priority=77, connection=connection)
        second = kit.producer.enqueue("x", connection=connection)
        connection.commit()
    engine.dispose()
    assert kit.center.read.counts()[Status.PENDING] == 2
    assert second != first


# the broker is only a hint


def test_without_a_broker_enqueuing_is_as_quick_as_ever(kit: Taskkit) -> None:
    kit.producer.enqueue("x")
    begun = time.monotonic()
    for _ in range(20):
        kit.producer.enqueue("x")
    assert time.monotonic() - begun < 20
    assert kit.center.read.counts()[Status.PENDING] == 21


def test_a_broker_that_never_answers_costs_little_and_only_now_and_then(tmp_path: Path) -> None:
    with Valkey() as frozen:
        settings = Settings(database_url=f"sqlite:///{tmp_path}/x.db", redis_url=frozen.url, key_prefix="p:")
        center = TaskCenter(settings.sqlalchemy_url())
        center.upgrade_schema()
        center.close()
        kit = Taskkit(settings)
        kit.producer.enqueue("x")
        frozen.pause()
        begun = time.monotonic()
        kit.producer.enqueue("x")
        waited = time.monotonic() - begun
        for _ in range(20):
            kit.producer.enqueue("x")
        assert time.monotonic() - begun < 10 * waited + 5
        assert waited < 3
        frozen.resume()
        kit.close()
