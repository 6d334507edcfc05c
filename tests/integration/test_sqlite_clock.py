"""SQLite's clock stands still within a statement, as that of the servers does."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from taskkit.center import TaskCenter
from tests.centers import instant


class Ticking:
    """A clock that is a second later whenever it is read."""

    def __init__(self) -> None:
        self.at = instant(2026, 6, 1, 12)

    def __call__(self) -> datetime:
        self.at += timedelta(seconds=1)
        return self.at


def test_all_parts_of_a_statement_see_the_same_instant_and_the_next_sees_a_later_one(tmp_path: Path) -> None:
    center = TaskCenter(f"sqlite:///{tmp_path}/center.db", clock=Ticking())
    text = center.database.text("SELECT {now} AS at UNION ALL SELECT {now} UNION ALL SELECT {after(0)}")
    first = [row.at for row in center.database.read(lambda c: c.execute(text).all())]
    second = [row.at for row in center.database.read(lambda c: c.execute(text).all())]
    assert first[0] < second[0]
    assert [len(set(first)), len(set(second))] == [1, 1]
    center.close()
