"""The audit of the chaos run: triggers that write down each transition once, on every database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from bench.chaos import audit
from bench.chaos.evidence import Move
from taskkit.center import TaskCenter
from tests.centers import dispatch, messages, new, periodic, start, succeeded
from tests.schemas import build

A, B = "host:1:aa", "host:2:bb"


@pytest.fixture
def center(database_url: str) -> Iterator[TaskCenter]:
    """A task center with the audit, in a database of its own, since triggers stay."""
    build(database_url)
    opened = TaskCenter(database_url)
    for statement in audit.statements("sqlite" if opened.database.sqlite else "mysql"):
        rows(opened, statement)
    yield opened
    opened.close()


def rows(center: TaskCenter, statement: str) -> Sequence[Sequence[Any]]:
    with center.database.engine.connect() as connection, connection.begin():
        result = connection.exec_driver_sql(statement)
        return result.all() if result.returns_rows else []


def audited(center: TaskCenter) -> list[Move]:
    return audit.read(lambda statement: rows(center, statement), 0.0)


def test_each_transition_of_a_life_is_written_down_once(center: TaskCenter) -> None:
    ids = center.intake.insert([new(), new()])
    desk = center.worker_desk(A)
    won = desk.claim(messages(dispatch(center))).won
    assert desk.finish([succeeded(task) for task in won]) == []
    moves = audited(center)
    assert [m.seq for m in moves] == sorted({m.seq for m in moves})
    for task_id in ids:
        mine = [m for m in moves if m.task == task_id]
        assert [(m.old, m.new) for m in mine] == [(None, 0), (0, 1), (1, 2), (2, 3)]
        assert [m.attempt_new for m in mine] == [0, 1, 1, 1]
        assert [m.worker_new for m in mine] == [None, None, A, A]
        assert abs(mine[-1].at - center.now().timestamp()) < 30


def test_the_ids_of_new_tasks_are_not_those_of_the_audit(center: TaskCenter) -> None:
    first = center.intake.insert([new()] * 5)
    assert center.intake.insert([new()]) == [first[-1] + 1]
    assert center.intake.insert([new(unique_key="k")]) == [first[-1] + 2]


def test_what_is_rolled_back_or_changes_nothing_is_not_written_down(center: TaskCenter) -> None:
    (task_id,) = center.intake.insert([new()])
    before = audited(center)
    with center.database.engine.connect() as connection:
        with connection.begin() as transaction:
            connection.execute(sa.text("UPDATE task_center SET status = 6 WHERE id = :id"), {"id": task_id})
            transaction.rollback()
        with connection.begin():
            connection.execute(sa.text("UPDATE task_center SET held_at = held_at"))
            connection.execute(sa.text("UPDATE task_center SET priority = 4"))
    assert audited(center) == before


def test_changes_behind_the_back_of_the_rules_are_written_down(center: TaskCenter) -> None:
    (claimed,) = start(center, A)
    for change in ("worker_id = 'host:2:bb'", "attempt = 7"):
        rows(center, f"UPDATE task_center SET {change}")
    rows(center, "DELETE FROM task_center")
    stolen, renumbered, deleted = audited(center)[-3:]
    assert (stolen.old, stolen.new, stolen.worker_old, stolen.worker_new) == (2, 2, A, B)
    assert (renumbered.attempt_old, renumbered.attempt_new) == (1, 7)
    assert (deleted.task, deleted.old, deleted.new) == (claimed.id, 2, None)


def test_the_first_attempt_of_an_occurrence_is_its_firing(center: TaskCenter) -> None:
    (task_id,) = center.intake.insert([periodic(center.now())])
    now = center.now().replace(second=0, microsecond=0)
    instant = center.database.dialect.bind(now)
    rows(center, f"UPDATE task_center SET occurrence_at = '{instant}', plan_next_run_at = '{instant}'")
    dispatch(center)
    desk = center.worker_desk(A)
    (won,) = desk.claim(messages_of(center, task_id)).won
    assert won.occurrence_at == now
    assert [m.firing for m in audited(center) if m.firing] == [int(now.timestamp())]
    assert [m for m in audited(center) if m.undone] == []


def test_a_firing_that_was_put_back_is_undone(center: TaskCenter) -> None:
    center.intake.insert([periodic(center.now())])
    now = center.now().replace(second=0, microsecond=0)
    instant = center.database.dialect.bind(now)
    rows(center, f"UPDATE task_center SET occurrence_at = '{instant}', plan_next_run_at = '{instant}'")
    refused = dispatch(center)
    assert center.dispatch.put_back(refused.won, refused.token) == 1
    dispatch(center)
    told = [(m.firing, m.undone) for m in audited(center) if m.firing or m.undone]
    at = int(now.timestamp())
    assert told == [(at, None), (None, at), (at, None)]


def messages_of(center: TaskCenter, task_id: int) -> list[Any]:
    from taskkit.model import Message

    return [Message(task_id)]
