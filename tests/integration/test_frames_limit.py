"""A look that takes too long is ended by the server, and not asked again."""

from __future__ import annotations

import pymysql
import pytest
import sqlalchemy as sa

from taskkit.center import TaskCenter, frames
from taskkit.center.dialect import limited
from taskkit.center.faults import Fault, classify
from taskkit.center.statements import frames as sql
from taskkit.center.statements import frames_alerts, frames_load, frames_more
from taskkit.clock import monotonic
from taskkit.errors import DatabaseUnavailable, StoreError
from tests.waiting import wait_until

pytest_plugins = ["tests.center_fixtures"]
ENDLESS = "SELECT COUNT(*) AS tasks FROM {many} a, {many} b, {many} c, {many} d, {many} e".replace(
    "{many}", "information_schema.collations"
)
UNDER_WAY = "SELECT id FROM information_schema.processlist WHERE info LIKE '%collations a, information%' AND id <> CONNECTION_ID()"
SORTED = ENDLESS.replace("COUNT(*) AS tasks", "CONCAT(a.collation_name, b.id) AS tasks") + " ORDER BY tasks"
PATIENCE_S, SHARE = 20.0, 0.05


def span(center: TaskCenter) -> frames.FrameSpan:
    now = center.now()
    return frames.FrameSpan(now, now, now, 60)


@pytest.mark.parametrize("statement", [ENDLESS, SORTED])
def test_a_frame_that_takes_too_long_is_ended_by_the_server_and_asked_once(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    if center.database.sqlite:
        pytest.skip("an SQLite file has no server that would go on")
    hurried = center.apart(read_timeout=PATIENCE_S)
    monkeypatch.setattr(frames, "PLAIN", {"tasks": (statement,)})
    monkeypatch.setattr("taskkit.center.database.LOOK_SHARE", SHARE)
    began = monotonic()
    with pytest.raises(StoreError, match=r"time limit: look at a shorter time \(--since\)") as told:
        hurried.frames.rows("tasks", span(center))
    assert not isinstance(told.value, DatabaseUnavailable)
    assert hurried.database.counters == {"too_long": 1}
    assert monotonic() - began < PATIENCE_S, "we stopped waiting before the server did"
    wait_until(lambda: not center.database.read(lambda c: c.execute(sa.text(UNDER_WAY)).all()), 5)
    hurried.close()


def test_both_servers_are_told_the_limit_in_their_words() -> None:
    template = "\nSELECT SQL_BIG_RESULT a FROM (SELECT 1 AS a) b"
    assert (
        limited(template, 54.0, mariadb=True)
        == f"SET STATEMENT max_statement_time = 54 FOR {template.lstrip()}"
    )
    wanted = "SELECT /*+ MAX_EXECUTION_TIME(54000) */ SQL_BIG_RESULT a FROM (SELECT 1 AS a) b"
    assert limited(template, 54.0, mariadb=False) == wanted


def test_mysql_says_in_words_only_that_the_limit_met_a_sort() -> None:
    for words, fault in (
        ("maximum statement execution time exceeded", Fault.TOO_LONG),
        ("no room", Fault.OTHER),
    ):
        error = sa.exc.OperationalError("", {}, pymysql.err.OperationalError(1028, f"Sort aborted: {words}"))
        assert classify(error, sqlite=False) is fault


def test_every_statement_of_a_frame_begins_with_the_select_that_is_limited() -> None:
    found = {
        name: value
        for module in (sql, frames_alerts, frames_load, frames_more)
        for name, value in vars(module).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, str)
    }
    assert len(found) > 30
    assert [name for name, value in found.items() if not value.lstrip().startswith("SELECT")] == []
