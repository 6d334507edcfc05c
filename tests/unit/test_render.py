"""How things look: lengths of time, instants, tables, JSON; and that nothing harms a terminal."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from taskkit.render import (
    distance,
    duration,
    facts,
    local,
    local_with_age,
    milliseconds,
    one_line,
    plain,
    progress,
    show,
    table,
    to_json,
)
from taskkit.states import Outcome

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "-"),
        (0, "0 ms"),
        (0.0004, "0 ms"),
        (0.32, "320 ms"),
        (0.9996, "1 s"),
        (4.24, "4.2 s"),
        (59.94, "59.9 s"),
        (59.96, "1m"),
        (200, "3m 20s"),
        (3600, "1h"),
        (7500, "2h 5m"),
        (86_399.9, "1d"),
        (6 * 86_400 + 3600, "6d 1h"),
        (-5, "-5 s"),
        (10**9, "11574d 1h"),
    ],
)
def test_a_length_of_time(seconds: float | None, shown: str) -> None:
    assert duration(seconds) == shown


def test_run_times() -> None:
    assert (milliseconds(None), milliseconds(12), milliseconds(61_000)) == ("-", "12 ms", "1m 1s")


def test_instants_are_shown_where_the_reader_is(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    assert local(NOW, now=NOW) == "12:00:00"
    assert local(NOW - timedelta(days=1), now=NOW) == "2026-02-28 12:00:00"
    assert local(None) == "-"
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    assert local(NOW, now=NOW) == "20:00:00"
    assert local_with_age(NOW, now=NOW + timedelta(minutes=3)) == "2026-03-01 20:00:00 CST (3m ago)"
    monkeypatch.undo()
    time.tzset()


def test_distances() -> None:
    assert distance(NOW + timedelta(seconds=4), now=NOW) == "in 4 s"
    assert distance(NOW - timedelta(hours=2), now=NOW) == "2h ago"
    assert distance(NOW, now=NOW) == "now"


def test_nothing_moves_the_cursor_or_turns_the_text() -> None:
    assert plain("a\x1b[2Jb\x00\x9b\u202ec\ud800") == "a\\x1b[2Jb\\x00\\x9b\\u202ec\\ud800"
    assert plain("one\ntwo\tthree") == "one\\ntwo\\tthree"
    assert plain("one\ntwo\r", lines=True) == "one\ntwo\\r"
    assert plain("付款😀👨‍👩‍👧‍👦") == "付款😀👨‍👩‍👧‍👦"


def test_the_first_line_of_a_text() -> None:
    assert one_line("short") == "short"
    assert one_line("first\nsecond") == "first…"
    assert one_line("x" * 50, 10) == "x" * 9 + "…"


def test_json_for_scripts() -> None:
    text = to_json(
        {"at": NOW, "outcome": Outcome.LOST, "path": Path("/tmp"), "for": timedelta(seconds=2), "text": "付"}
    )
    assert '"at": "2026-03-01T12:00:00.000000Z"' in text
    assert '"outcome": "lost"' in text
    assert '"for": 2.0' in text
    assert '"text": "付"' in text
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json(float("nan"))
    with pytest.raises(TypeError, match="Decimal is not JSON"):
        to_json(Decimal(1))


def page(*things: object) -> str:
    stream = io.StringIO()
    show(*things, stream=stream)
    return stream.getvalue()


def test_a_page_that_is_no_terminal_is_as_wide_as_need_be() -> None:
    shown = page(table(("a", "b"), [("x" * 300, "word " * 100)]), facts([("payload", "y " * 300)]))
    assert len(shown.splitlines()) == 4
    assert not any(line != line.rstrip() for line in shown.splitlines())


def test_words_are_not_cut_while_other_columns_can_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = [
        "2026-11-28 16:12:03",
        "America/Argentina/Buenos_Aires",
        "shop-3:12345:0a1b2c3d",
        "some text " * 9,
    ]
    shown = page(table((">id", "last run", "zone", "worker", "error"), [(17, *words)], keep=("id",)))
    assert max(map(len, shown.splitlines())) <= 80
    for word in (*words[:3], words[3]):
        assert all(part in shown.split() for part in word.split())
    shown = page(table(("a", "b", "c"), [("z" * 100, "short", "2026-11-28 16:12:03")]))
    assert max(map(len, shown.splitlines())) <= 80
    assert {"short", "2026-11-28"} <= set(shown.split())


def test_a_table_fits_into_80_columns_and_keeps_what_must_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = page(table((">id", "text"), [(1, "word " * 40), (1234567890, "x" * 200)], keep=("id",)))
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80
    assert not any(line != line.rstrip() for line in lines)
    assert "1234567890" in shown
    assert shown.replace("\n", "").count("x") == 201  # and one in the heading


def test_what_looks_like_markup_is_text() -> None:
    shown = page(table(("a",), [("[bold]no[/bold] :smile:",)]), facts([("[red]", "[/red]")]), "[link]")
    assert "[bold]no[/bold] :smile:" in shown
    assert "[red]  [/red]" in shown
    assert "[link]" in shown


def test_facts_leave_out_what_is_not_there() -> None:
    assert page(facts([("one", 1), ("none", None), ("empty", ""), ("zero", 0)])) == "one   1\nzero  0\n"


def test_lines_are_never_cut() -> None:
    assert page("y" * 300) == "y" * 300 + "\n"


def test_progress_is_silent_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("work", 3) as bar:
        bar.step("one")
        bar.step(count=2)
    assert capsys.readouterr() == ("", "")
