"""Names, numbers and zones: what passes, and the field that is named when something does not."""

from __future__ import annotations

from typing import Any

import pytest

from taskkit.errors import CronError, InputError
from taskkit.hints import suggest
from taskkit.names import check_name, check_seconds, check_whole, check_zone
from tests.naughty import naughty_strings

GOOD = [
    "a",
    "send_email",
    "send.email:v2",
    "队列",
    "a b",
    "x" * 64,
    "{}",
    "%s",
    "'; DROP TABLE x; --",
    "😀",
    "-",
]
BAD: list[tuple[Any, str]] = [
    (None, "must be text, not NoneType"),
    (7, "must be text, not int"),
    (b"x", "must be text, not bytes"),
    ("", "must not be empty"),
    ("x" * 65, "has 65 letters, at most 64 fit"),
    (" x", "must not begin or end with white space"),
    ("x\n", "must not begin or end with white space"),
    ("x\u3000", "must not begin or end with white space"),
    ("a\nb", "must not contain control characters"),
    ("a\0b", "must not contain control characters"),
    ("a\x1b[31mb", "must not contain control characters"),
    ("a\x7fb", "must not contain control characters"),
    ("a\ud800b", "must not contain control characters"),
]


@pytest.mark.parametrize("name", GOOD)
def test_a_name_is_any_text_that_can_be_shown_in_a_line(name: str) -> None:
    assert check_name(name, "queue") == name


@pytest.mark.parametrize(("name", "problem"), BAD, ids=[str(n) for n in range(len(BAD))])
def test_other_names_are_refused_by_their_field(name: Any, problem: str) -> None:
    for _ in range(2):
        with pytest.raises(InputError, match=problem) as caught:
            check_name(name, "task_code")
        assert caught.value.field == "task_code"
        assert "\n" not in str(caught.value)


def test_the_length_is_the_columns(longest: int = 190) -> None:
    assert check_name("é" * longest, "unique_key", longest)
    with pytest.raises(InputError, match="at most 190 fit"):
        check_name("é" * (longest + 1), "unique_key", longest)


def test_naughty_names_pass_or_are_refused() -> None:
    for text in naughty_strings():
        try:
            assert check_name(text, "queue") == text
        except InputError as error:
            assert error.field == "queue"


@pytest.mark.parametrize("value", [0, 5, 9])
def test_a_whole_number_passes(value: int) -> None:
    assert check_whole(value, "priority", 0, 9) == value


@pytest.mark.parametrize("value", [-1, 10, 2**70, True, False, 1.0, "5", None, float("nan")])
def test_what_is_no_whole_number_within_bounds_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match=r"^priority: must be "):
        check_whole(value, "priority", 0, 9)


@pytest.mark.parametrize("value", [0, 0.5, 60])
def test_seconds_pass(value: float) -> None:
    assert check_seconds(value, "delay", 0, 60) == value


@pytest.mark.parametrize("value", [-0.1, 60.1, float("nan"), float("inf"), True, "5", None])
def test_what_are_no_seconds_within_bounds_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match=r"^delay: must be "):
        check_seconds(value, "delay", 0, 60)


def test_zones_are_known_or_refused_with_a_suggestion() -> None:
    assert check_zone("Asia/Shanghai") == "Asia/Shanghai"
    with pytest.raises(
        CronError, match=r"there is no time zone 'Asia/Shangai'; did you mean '?Asia/Shanghai'?"
    ):
        check_zone("Asia/Shangai")
    for wrong in ("../../etc/passwd", "/etc/localtime", "Europe", "GMT+25", "x" * 65, "", None, 8):
        with pytest.raises(InputError) as caught:
            check_zone(wrong)
        assert caught.value.field == "timezone"


def test_a_suggestion_only_where_something_is_close() -> None:
    assert suggest("send_emial", ["send_email", "reports"]).startswith("; did you mean ")
    assert suggest("cmd", ["cwd", "command", "argv"]) == "; did you mean 'command'?"
    assert suggest("nam", ["name", "nap"]) == "; did you mean 'name'?"
    assert suggest("zzz", ["send_email"]) == ""
