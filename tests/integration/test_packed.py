"""Batches in both directions: whatever stands in a row comes out as it went in, and leaves its neighbours alone."""

from __future__ import annotations

import sys
from datetime import UTC

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import Connection

from taskkit.center import TaskCenter
from taskkit.clock import EPOCH
from taskkit.states import Status
from tests.centers import dispatch, failed, messages, new, sql, start, succeeded, task

pytest_plugins = ["tests.center_fixtures"]

W1 = "host-1:11:aaaa"
NASTY = [
    "", "NULL", "'", '"', "\\", "\\'", "'; DROP TABLE task_center; --", "%", "%s %(id)s %%", "{now} {columns} {ids}",
    ":ids :now", "?", "\n\r\t\x1a\b", "\x7f", "😀 é 日本語 \u202e", "\ufeff", " a ", "null", '{"a": [1]}', "[]",
]  # fmt: skip
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=80)


def all_letters() -> str:
    """Every letter of the first plane but surrogates and zero, and some beyond."""
    return (
        "".join(chr(n) for n in range(1, 0x10000) if not 0xD800 <= n <= 0xDFFF) + "😀𝄞" + chr(sys.maxunicode)
    )


def test_what_stands_in_a_row_is_claimed_and_ended_unchanged(center: TaskCenter) -> None:
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.lists(TEXTS, min_size=1, max_size=12))
    @example(NASTY)
    @example([all_letters()])
    def check(texts: list[str]) -> None:
        payloads = [msgspec.json.encode({"text": text}).decode() for text in texts]
        claimed = start(center, W1, *[new(payload=payload) for payload in payloads])
        assert [msgspec.json.decode(one.payload) for one in claimed] == [{"text": text} for text in texts]
        ends = [
            succeeded(one, result=text, last_result=text[:500] or "empty")
            for one, text in zip(claimed, texts, strict=True)
        ]
        assert center.worker_desk(W1).finish(ends) == []
        found = center.read.tasks([one.id for one in claimed])
        assert [one.result for one in found] == texts
        assert [one.last_result for one in found] == [text[:500] or "empty" for text in texts]
        runs = {run.task_id: run for run in center.read.runs([one.id for one in claimed])}
        assert [runs[one.id].result for one in claimed] == texts

    check()


def test_errors_and_tracebacks_are_kept_as_they_were(center: TaskCenter) -> None:
    claimed = start(center, W1, *[new()] * len(NASTY))
    ends = [failed(one, error=f"E: {text}", traceback=text) for one, text in zip(claimed, NASTY, strict=True)]
    assert center.worker_desk(W1).finish(ends) == []
    runs = {run.task_id: run for run in center.read.runs([one.id for one in claimed])}
    assert [(runs[one.id].error, runs[one.id].traceback) for one in claimed] == [
        (f"E: {text}", text) for text in NASTY
    ]


def test_ends_that_are_alike_and_ends_that_are_not_leave_each_other_alone(center: TaskCenter) -> None:
    """Fifty that say the same, some that say something else, and one that failed, in one call."""
    claimed = start(center, W1, *[new()] * 60)
    ends = [succeeded(one, last_result="ok") for one in claimed[:50]]
    ends += [succeeded(one, result=str(one.id), last_result=str(one.id)) for one in claimed[50:59]]
    ends.append(failed(claimed[59], delay=30.0))
    assert center.worker_desk(W1).finish(ends[::-1]) == []
    found = center.read.tasks([one.id for one in claimed])
    assert [one.status for one in found] == [Status.SUCCESS] * 59 + [Status.FAILED]
    assert [one.last_result for one in found[:50]] == ["ok"] * 50
    assert [one.result for one in found[:59]] == [None] * 50 + [str(one.id) for one in claimed[50:59]]
    assert found[59].retry_count == 1
    assert sql(center, "SELECT COUNT(*) FROM task_run WHERE outcome = 'success'")[0][0] == 59


def test_instants_come_as_utc_also_where_the_database_let_a_zero_date_in(center: TaskCenter) -> None:
    """Our tables refuse it; a table that somebody restored without its checks does not."""
    (one,) = center.intake.insert([new()])
    batch = dispatch(center)
    if not center.database.sqlite:
        center.database.write(lambda c: _zero(c, one))
    (claimed,) = center.worker_desk(W1).claim(messages(batch)).won
    assert claimed.occurrence_at == (None if center.database.sqlite else EPOCH)
    assert claimed.claimed_at.tzinfo is UTC
    assert task(center, one).claimed_at == claimed.claimed_at


def _zero(connection: Connection, task_id: int) -> None:
    connection.exec_driver_sql("ALTER TABLE task_center DROP CONSTRAINT ck_occurrence_at_is_one")
    connection.exec_driver_sql("SET SESSION sql_mode = ''")
    connection.exec_driver_sql(f"UPDATE task_center SET occurrence_at = '0000-00-00' WHERE id = {task_id}")
