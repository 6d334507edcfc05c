"""New tasks at the limits: 2038, alphabets, packets, numbers, a commit without a reply."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from taskkit.center import TaskCenter
from taskkit.errors import InputError, KeyTaken
from taskkit.model import NewTask
from taskkit.states import Status, TaskType
from tests.centers import columns, in_status, instant, new, periodic, sql, task
from tests.naughty import naughty_strings
from tests.proxy import Proxy
from tests.servers import MariaDB

pytest_plugins = ["tests.center_fixtures"]

LAST = datetime(2038, 1, 19, 3, 14, 7, tzinfo=UTC)


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
def test_rule_24_guarantee_8_instants_that_mysql_cannot_hold_are_refused_by_name(
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
    """As payload, code, queue, key and trace id."""
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
def test_guarantee_8_a_lone_surrogate_is_refused_with_a_clear_message(center: TaskCenter, field: str) -> None:
    with pytest.raises(InputError, match="lone surrogate"):
        center.intake.insert([new(**{field: '{"a": "\ud800"}'})])
    assert center.intake.insert([new()])


def test_a_batch_larger_than_a_packet_is_split_by_bytes(center: TaskCenter) -> None:
    """1,000 payloads of 8,000 emoji: 32 MB, twice the usual max_allowed_packet, though only 8 million letters."""
    payload = json.dumps({"a": "😀" * 8000}, ensure_ascii=False)
    ids = center.intake.insert([new(payload=payload)] * 600)
    assert len(set(ids)) == 600
    assert columns(center, ids[-1], "payload") == (payload,)


@pytest.fixture
def small_packets(mariadb_center_url: str, mariadb: MariaDB) -> Iterator[TaskCenter]:
    """A task center on a server that takes statements of 2 MiB at most."""
    ((usual,),) = mariadb.admin("SELECT @@global.max_allowed_packet")
    mariadb.admin(f"SET GLOBAL max_allowed_packet = {2 << 20}")
    center = TaskCenter(mariadb_center_url)
    yield center
    center.close()
    mariadb.admin(f"SET GLOBAL max_allowed_packet = {usual}")


def test_guarantee_8_a_payload_larger_than_a_packet_is_refused_by_name_before_it_is_sent(
    small_packets: TaskCenter,
) -> None:
    """Sent all the same, the server would cut the connection, and nobody would know why."""
    size = 1_200_000
    with pytest.raises(InputError, match=r"payload: takes 24\d* bytes.*takes 2097152 \(max_allowed_packet\)"):
        small_packets.intake.insert([new(), new(payload='{"a": "%s"}' % ('\\"' * (size // 2)))])
    assert sql(small_packets, "SELECT COUNT(*) FROM task_center")[0][0] == 0
    assert small_packets.database.counters == {}
    assert small_packets.intake.insert([new(payload='{"a": "%s"}' % ("x" * size))] * 3)


def test_guarantee_8_sql_10_a_number_too_large_for_sqlite_is_refused_and_not_a_crash(
    center: TaskCenter,
) -> None:
    assert center.read.tasks([2**63 - 1]) == []
    if center.database.sqlite:
        with pytest.raises(InputError, match="too large"):
            center.read.tasks([2**63])
    else:
        assert center.read.tasks([2**63]) == []


def test_rule_22_a_key_taken_by_another_names_its_holder(center: TaskCenter) -> None:
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
