"""Payloads: plain JSON passes unchanged, everything else is refused with its path."""

from __future__ import annotations

import json
import math
import uuid
from collections import OrderedDict
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskkit.errors import InputError, PayloadError
from taskkit.payload import DEEPEST, decode_payload, encode, encode_payload
from tests.naughty import naughty_strings

MOST = 262_144

texts = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
plain = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(texts, plain, max_size=5))
def test_plain_json_comes_back_unchanged(payload: dict[str, Any]) -> None:
    text = encode_payload(payload, MOST)
    assert decode_payload(text) == payload
    assert json.loads(text) == payload, "any other program reads the same"


@pytest.mark.parametrize("text", naughty_strings()[:60])
def test_texts_of_any_kind_come_back_byte_by_byte(text: str) -> None:
    assert decode_payload(encode_payload({text: text}, MOST)) == {text: text}


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


BAD: list[tuple[Any, str]] = [
    (math.nan, r"\$\.x is nan, which JSON does not have"),
    (math.inf, r"\$\.x is inf"),
    (-math.inf, r"\$\.x is -inf"),
    (datetime(2026, 1, 1, tzinfo=UTC), r"\$\.x is a datetime, which is not JSON; pass value.isoformat\(\)"),
    (datetime(2026, 1, 1), r"\$\.x is a datetime"),
    (date(2026, 1, 1), r"\$\.x is a date"),
    (Decimal("0.10"), r"\$\.x is a Decimal, which is not JSON; pass str\(value\)"),
    (b"\xff", r"\$\.x is a bytes, which is not JSON; pass base64 text"),
    (bytearray(b"x"), r"\$\.x is a bytearray"),
    ({1, 2}, r"\$\.x is a set, which is not JSON; pass a sorted list"),
    ((1, 2), r"\$\.x is a tuple, which is not JSON; pass a list"),
    (uuid.UUID(int=1), r"\$\.x is a UUID"),
    (object(), r"\$\.x is a object"),
    (Colour.RED, r"\$\.x is a Colour"),
    (Level.LOW, r"\$\.x is a Level"),
    (OrderedDict(a=1), r"\$\.x is a OrderedDict"),
    ({1: "a"}, r"\$\.x has the key 1, which is a int; keys are text"),
    ({None: "a"}, r"\$\.x has the key None, which is null"),
    ({"a": [0, {"b": math.nan}]}, r"\$\.x\.a\[1\]\.b is nan"),
    ("\ud800", r"\$\.x has a lone surrogate \('\\ud800'\)"),
    ({"\udfff": 1}, r"\$\.x key has a lone surrogate"),
    (2**64, r"\$\.x is an integer of more than 64 bits"),
    (-(2**63) - 1, r"\$\.x is an integer of more than 64 bits"),
]


@pytest.mark.parametrize(("value", "message"), BAD, ids=[str(n) for n in range(len(BAD))])
def test_what_is_no_json_is_refused_with_its_path(value: Any, message: str) -> None:
    with pytest.raises(PayloadError, match=f"^payload: {message}") as caught:
        encode_payload({"x": value}, MOST)
    assert caught.value.field == "payload"
    assert isinstance(caught.value, InputError)


@pytest.mark.parametrize("value", [None, [], "x", 5, 1.5, True, (1,), b"{}"])
def test_only_an_object_is_a_payload(value: object) -> None:
    with pytest.raises(PayloadError, match="must be a JSON object"):
        encode_payload(value, MOST)


@pytest.mark.parametrize(
    "text",
    ["", "x", "null", "[]", "5", '"x"', "{", '{"x": NaN}', '{"x": Infinity}', '{"x": 1e400}', '{"x": 01}', "{}{}",
     '{"x": 123456789012345678901234567890}', '{"x": "\\ud800"}', "\ufeff{}", '{"a":' * 200 + "1" + "}" * 200,
     '{"a":' * 100_000],
)  # fmt: skip
def test_text_that_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(PayloadError, match=r"^payload: "):
        decode_payload(text)


@pytest.mark.parametrize("raw", [b"\xff\xfe\x00", b"\x80abc", b'{"x": "\xff"}'])
def test_bytes_that_are_no_text_are_refused(raw: bytes) -> None:
    with pytest.raises(PayloadError, match=r"^payload: is not JSON"):
        decode_payload(raw)


def test_the_size_is_that_of_the_text_in_bytes() -> None:
    assert len(encode_payload({"x": "é" * 10}, 28)) == 18
    with pytest.raises(PayloadError, match="payload: has 28 bytes as JSON, more than the 27 allowed"):
        encode_payload({"x": "é" * 10}, 27)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_nesting_has_an_end() -> None:
    assert encode(nested(DEEPEST), MOST, "result").count("[") == DEEPEST
    with pytest.raises(PayloadError, match=r"result: .* is nested deeper than 100 levels"):
        encode(nested(DEEPEST + 1), MOST, "result")
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(PayloadError, match="nested deeper"):
        encode(endless, MOST, "result")
