"""Log files: dated, bounded, kept n days, shared by processes; a full disk is told and stops nobody."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from taskkit import logs
from taskkit.errors import SettingsError
from taskkit.logs import configure, handlers
from taskkit.logs.handlers import DatedFiles
from taskkit.settings import Settings

log = logging.getLogger("taskkit.worker")


@pytest.fixture(autouse=True)
def untouched_root() -> Iterator[None]:
    root = logging.getLogger()
    level = root.level
    yield
    logs.remove_handlers()
    logs.process_fields.clear()
    root.setLevel(level)


def test_log_dir_gets_dated_files_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(Settings.load({}, log_dir=tmp_path / "a" / "b"), role="worker")
    log.info("x")
    (path,) = (tmp_path / "a" / "b").iterdir()
    assert path.name == f"worker-{datetime.now(UTC).date()}.log"
    assert json.loads(path.read_text())["message"] == "x"
    assert capsys.readouterr().out == ""


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def record(text: str) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": text})


@pytest.fixture
def today(monkeypatch: pytest.MonkeyPatch) -> list[date]:
    """The day of the files, which a test may change."""
    days = [date(2026, 3, 1)]
    monkeypatch.setattr(handlers, "utc_day", lambda: days[-1])
    return days


def test_a_full_part_is_followed_by_the_next_one(tmp_path: Path, today: list[date]) -> None:
    one = DatedFiles(tmp_path, "w", days=2, part_bytes=100)
    two = DatedFiles(tmp_path, "w", days=2, part_bytes=100)
    for _ in range(5):
        one.emit(record("x" * 39))
        two.emit(record("y" * 39))
    one.emit(record("z" * 500))
    one.close()
    two.close()
    assert files(tmp_path) == [*(f"w-2026-03-01.{part}.log" for part in range(2, 7)), "w-2026-03-01.log"]
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert sorted(sizes) == [80, 80, 80, 80, 80, 501]


def test_a_new_process_goes_on_in_the_part_with_room(tmp_path: Path, today: list[date]) -> None:
    for _ in range(3):
        handler = DatedFiles(tmp_path, "w", days=2, part_bytes=100)
        handler.emit(record("x" * 60))
        handler.close()
    assert len(files(tmp_path)) == 3


def test_a_new_day_has_a_new_file_and_old_days_go(tmp_path: Path, today: list[date]) -> None:
    others = ["other-2020-01-01.log", "w-x.log", "w-2020-01-01.log.gz"]
    for name in others:
        (tmp_path / name).touch()
    handler = DatedFiles(tmp_path, "w", days=2)
    for _ in range(4):
        handler.emit(record("x"))
        today.append(today[-1] + timedelta(days=1))
    handler.close()
    assert files(tmp_path) == sorted([*others, "w-2026-03-03.log", "w-2026-03-04.log"])


def test_a_file_that_was_removed_is_made_again(tmp_path: Path, today: list[date]) -> None:
    handler = DatedFiles(tmp_path, "a/b:c", days=2)
    handler.emit(record("one"))
    (tmp_path / "a_b_c-2026-03-01.log").unlink()
    handler.emit(record("two"))
    handler.close()
    assert (tmp_path / "a_b_c-2026-03-01.log").read_text() == "two\n"


def test_a_log_dir_that_cannot_be_made_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        SettingsError, match=r"^log_dir = '.*/file/logs': cannot be written: Not a directory$"
    ):
        configure(Settings.load({}, log_dir=tmp_path / "file" / "logs"), role="x")


def test_lines_that_cannot_be_written_are_told_and_do_not_raise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(Settings.load({}, log_dir=tmp_path), role="x")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(handlers.os, "write", full)
    log.info("x")
    monkeypatch.undo()
    assert "No space left" in capsys.readouterr().err
