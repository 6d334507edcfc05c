"""Crontabs as whole files: every line accounted for, nothing crashes, keys that stay."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskkit.crontab import Crontab, decode, read

DATA = Path(__file__).parents[3] / "shared" / "data"
CRONTABS = sorted((DATA / "crontabs").glob("*")) if DATA.is_dir() else []
FILES = [pytest.param(path, id=path.name) for path in CRONTABS]

needs_data = pytest.mark.skipif(not CRONTABS, reason="the shared crontabs are not here")


def own(text: str, timezone: str = "UTC") -> Crontab:
    """A user's own crontab."""
    return read(text, name="crontab.txt", system=False, timezone=timezone)


@needs_data
@pytest.mark.parametrize("path", FILES)
def test_every_line_of_a_real_crontab_ends_as_exactly_one_line(path: Path) -> None:
    text = decode(path.read_bytes())
    lines = read(text, name=path.name, timezone="UTC")
    raw = text.split("\n")[:-1]
    assert [line.number for line in lines] == list(range(1, len(raw) + 1))
    assert [line.text for line in lines] == raw
    assert [line.kind for line in lines] == [expected_kind(line) for line in raw]
    assert all(line.reason for line in lines if line.kind == "refused")
    assert all((line.job is not None) == (line.kind == "job") for line in lines)


def expected_kind(raw: str) -> str:
    """What a well-formed line is, told by a far simpler look than the reader's."""
    bare = raw.strip()
    if not bare or bare.startswith("#"):
        return "comment" if bare else "blank"
    if bare.startswith("@reboot"):
        return "refused"
    return "env" if re.match(r"[A-Z]+=", bare) else "job"


@needs_data
@pytest.mark.parametrize("path", FILES)
def test_the_user_column_of_a_real_crontab_is_found(path: Path) -> None:
    crontab = read(decode(path.read_bytes()), name=path.name, timezone="UTC")
    assert crontab.detected.sure
    for line in crontab:
        if line.job is None:
            continue
        words = re.split(r"[ \t]+", line.text.strip(), maxsplit=2 if line.text.startswith("@") else 6)
        assert crontab.detected.system
        assert line.job.expression == " ".join(words[:-2])
        assert (line.job.user, line.job.stdin) == (words[-2], None)
        assert line.job.command == words[-1]


@needs_data
def test_the_real_crontabs_hold_the_jobs_that_cron_itself_sees() -> None:
    lines = [
        line for path in CRONTABS for line in read(decode(path.read_bytes()), name=path.name, timezone="UTC")
    ]
    kinds = [line.kind for line in lines]
    assert {kind: kinds.count(kind) for kind in ("job", "refused", "env")} == {
        "job": 46,
        "refused": 2,
        "env": 20,
    }
    assert len({line.job.unique_key for line in lines if line.job}) == 46


@needs_data
def test_naughty_strings_are_read_as_lines_and_never_crash() -> None:
    for text in json.loads((DATA / "naughty-strings.json").read_text()):
        for line in (
            "* * * * * " + text,
            text,
            "A=" + text,
            text + "=1",
            f"{text} * * * * x",
            "@daily " + text,
        ):
            crontab = own(line)
            assert [found.number for found in crontab] == list(range(1, len(crontab) + 1))
            json.dumps([one.payload for one in crontab.jobs]).encode()


def test_carriage_returns_are_tolerated_and_noted() -> None:
    text = "A=b\r\n\r\n# c\r\n* * * * * x\r\n"
    crontab = own(text)
    assert [line.kind for line in crontab] == ["env", "blank", "comment", "job"]
    assert (crontab.jobs[0].command, crontab.jobs[0].env["A"]) == ("x", "b")
    assert any("CR LF" in note for note in crontab.notes)
    assert crontab.jobs[0].unique_key == own(text.replace("\r", "")).jobs[0].unique_key


def test_a_last_line_without_a_line_break_is_imported_with_a_note() -> None:
    crontab = own("* * * * * a\n* * * * * b")
    assert [bool(entry.notes) for entry in crontab.jobs] == [False, True]
    assert any("does not end with a line break" in note for note in crontab.notes)


def test_only_a_line_feed_ends_a_line() -> None:
    assert len(own("* * * * * a\x0b\x0c\x1c\x85\u2028b\r\n")) == 1
    assert own("") == []
    assert [line.kind for line in own("\n\n")] == ["blank", "blank"]


def test_bytes_that_are_no_text_refuse_their_line_only() -> None:
    crontab = own(decode("\ufeff* * * * * a\n".encode() + b"* * * * * caf\xe9\n* * * * * c\n"))
    assert [line.kind for line in crontab] == ["job", "refused", "job"]
    assert crontab[1].text == r"* * * * * caf\xe9"
    assert any("byte order mark" in note for note in crontab.notes)


def test_what_is_different_for_every_job_is_said_once() -> None:
    crontab = own("* * * * * a\n* * * * * b\n")
    assert any("exit code" in note for note in crontab.notes)
    assert any("worker's own user" in note for note in crontab.notes)
    assert own("# nothing\n").notes == ()


@given(st.text(alphabet=st.characters(), max_size=200), st.booleans())
@settings(max_examples=150, deadline=None)
def test_no_text_makes_the_reader_fail(text: str, system: bool) -> None:
    crontab = read(text, name="x", system=system, timezone="UTC")
    assert [line.number for line in crontab] == list(range(1, len(crontab) + 1))
    json.dumps([line.text for line in crontab]).encode()


def keys(text: str, name: str = "/etc/cron.d/shop") -> list[str]:
    return [entry.unique_key for entry in read(text, name=name, system=True, timezone="UTC").jobs]


def test_a_key_is_the_same_when_the_file_is_read_again_or_was_moved() -> None:
    text = "* * * * * root a\n0 1 * * * root b\n"
    assert keys(text) == keys(text) == keys(text, "/backup/cron.d/shop") == keys(text, "shop")
    assert keys(text) != keys(text, "/etc/cron.d/other")


def test_a_line_that_stands_twice_is_two_jobs() -> None:
    first, second = keys("* * * * * root a\n*  * * * *\troot a \n")
    assert second == first + ":2"


def test_a_key_depends_on_no_other_line() -> None:
    before = keys("A=1\n0 1 * * * root a\n0 2 * * * root b\n")
    after = keys("# new\nA=2\n0 3 * * * root c\n0 1 * * * root changed\n0 2 * * * root b\n")
    assert before[1] == after[2]
    assert len({*before, *after}) == 4


def test_a_key_depends_on_time_user_command_input_and_cron_tz() -> None:
    lines = [
        "1 * * * * root a",
        "2 * * * * root a",
        "1 * * * * lp a",
        "1 * * * * root b",
        "1 * * * * root a%x",
    ]
    found = keys("\n".join(lines) + "\nCRON_TZ=Asia/Tokyo\n1 * * * * root a\n")
    assert len(set(found)) == 6
    assert all(re.fullmatch(r"crontab:shop:[0-9a-f]{24}", key) for key in found)
    assert keys("* * * * * root a\n", "/x/" + "长 name" * 20)[0].isascii()
