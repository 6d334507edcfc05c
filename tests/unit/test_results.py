"""Results: kept as JSON, shortened visibly, or told apart; what a handler has done is never undone by them."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from taskkit.errors import ResultError
from taskkit.results import decode_result, encode_result
from tests.naughty import naughty_strings

MOST = 65_536


@pytest.mark.parametrize(
    "value", [0, "", [], {}, False, 1.5, {"a": [None, True]}, "😀", *naughty_strings()[:30]]
)
def test_json_is_kept(value: Any) -> None:
    text, line = encode_result(value, MOST)
    assert decode_result(7, text) == value
    assert line


def test_nothing_is_nothing() -> None:
    assert encode_result(None, MOST) == (None, "ok")
    assert decode_result(7, None) is None


class Awkward:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Surrogate:
    def __repr__(self) -> str:
        return "\ud800"


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)
NOT_JSON = [math.nan, {1, 2}, b"\xff", datetime(2026, 1, 1, tzinfo=UTC), {1: 2}, (1, 2), Awkward(), Surrogate(), "\ud800",
            2**70, ENDLESS, {"a": {"b": object()}}]  # fmt: skip


@pytest.mark.parametrize("value", NOT_JSON, ids=[str(n) for n in range(len(NOT_JSON))])
def test_what_is_no_json_is_told_apart_and_raises_when_asked_for(value: Any) -> None:
    text, line = encode_result(value, MOST)
    assert line.startswith("ok, but the result was not kept: result: $")
    with pytest.raises(ResultError, match=r"task 7 succeeded, but its result was not kept: result: \$"):
        decode_result(7, text)


def test_long_texts_are_shortened_and_say_so() -> None:
    text, _ = encode_result({"n": 1, "out": ["€" * 100_000]}, MOST)
    assert text is not None
    assert len(text.encode()) <= MOST
    kept = decode_result(7, text)
    assert kept["n"] == 1
    assert "300000 bytes in all, the middle is cut" in kept["out"][0]


def test_what_cannot_be_shortened_is_not_kept() -> None:
    text, line = encode_result(list(range(100_000)), MOST)
    assert "bytes as JSON, more than the 65536 allowed" in line
    assert text is not None
    assert len(text.encode()) < 2_000


def test_the_line_for_people_is_short() -> None:
    assert len(encode_result("x" * 5_000, MOST)[1].encode()) <= 1_000
