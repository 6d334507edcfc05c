"""A look that takes too long is ended by the server, and not asked again."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from taskkit.center import TaskCenter, frames
from taskkit.center.dialect import limited
from taskkit.clock import monotonic
from taskkit.errors import DatabaseUnavailable, StoreError
from tests.waiting import wait_until

pytest_plugins = ["tests.center_fixtures"]
ENDLESS = "SELECT COUNT(*) AS tasks FROM {many} a, {many} b, {many} c, {many} d, {many} e".replace(
    "{many}", "information_schema.collations"
)
UNDER_WAY = "SELECT id FROM information_schema.processlist WHERE info LIKE '%collations a, information%' AND id <> CONNECTION_ID()"
PATIENCE_S = 2.0


def span(center: TaskCenter) -> frames.FrameSpan:
    now = center.now()
    return frames.FrameSpan(now, now, now, 60)


def test_a_frame_that_takes_too_long_is_ended_by_the_server_and_asked_once(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    if center.database.sqlite:
        pytest.skip("an SQLite file has no server that would go on")
    hurried = center.apart(read_timeout=PATIENCE_S)
    monkeypatch.setattr(frames, "PLAIN", {"tasks": (ENDLESS,)})
    began = monotonic()
    with pytest.raises(StoreError, match=r"time limit: look at a shorter time \(--since\)") as told:
        hurried.frames.rows("tasks", span(center))
    assert not isinstance(told.value, DatabaseUnavailable)
    assert hurried.database.counters == {"too_long": 1}
    assert monotonic() - began < PATIENCE_S * 2, "it was asked again"
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


def test_every_statement_of_a_frame_can_be_limited() -> None:
    templates = [template for every in frames.PLAIN.values() for template in every]
    assert [one for one in templates if not one.lstrip().startswith("SELECT")] == []
