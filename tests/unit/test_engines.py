"""The switch of an SQLite file to WAL, which SQLite refuses at once where several try it on a new file."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from taskkit.center import engines


class Cursor:
    """Refuses as SQLite does, so many times."""

    def __init__(self, refusals: int, words: str = "database is locked") -> None:
        self.refusals, self.words, self.tried = refusals, words, 0

    def execute(self, statement: str) -> None:
        assert statement == "PRAGMA journal_mode = WAL"
        self.tried += 1
        if self.tried <= self.refusals:
            raise sqlite3.OperationalError(self.words)


@pytest.fixture(autouse=True)
def _no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "LOOK_S", 0.0)


def switch(cursor: Any) -> int:
    engines._write_ahead(cursor)
    return int(cursor.tried)


def test_the_switch_is_tried_until_the_others_are_through() -> None:
    assert switch(Cursor(3)) == 4
    assert switch(Cursor(0)) == 1


def test_it_is_not_tried_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "LOCKED_S", 0.0)
    cursor = Cursor(1_000_000)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        switch(cursor)
    assert cursor.tried < 1_000_000


def test_another_refusal_is_told_at_once() -> None:
    cursor = Cursor(1, "unable to open database file")
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        switch(cursor)
    assert cursor.tried == 1
