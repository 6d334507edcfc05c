"""Text that must fit a column: by bytes, at whole characters, with a visible mark."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskkit.texts import TEXT_BYTES, cut, cut_middle, encodable


@pytest.mark.parametrize("trim", [cut, cut_middle])
@pytest.mark.parametrize(
    "text",
    ["", "short", "支付😀完成", "a\0b", "\u202e", "x" * TEXT_BYTES, "😀" * 16_383],
    ids=["empty", "short", "mixed", "nul", "override", "full", "full of emoji"],
)
def test_what_fits_is_left_alone(trim: Callable[[str, int], str], text: str) -> None:
    assert trim(text, TEXT_BYTES) == text


@pytest.mark.parametrize(
    "text",
    ["x" * 65_536, "😀" * 16_384, "错" * 30_000, "é" * 40_000, "a😀" * 20_000],
    ids=["ascii", "emoji", "chinese", "accents", "mixed"],
)
def test_what_does_not_fit_a_text_column_is_cut_at_a_character_with_a_mark(text: str) -> None:
    """65,535 bytes, whatever the alphabet."""
    short = cut(text, TEXT_BYTES)
    assert TEXT_BYTES - 4 < len(short.encode()) <= TEXT_BYTES
    assert short.endswith(f"… [cut, {len(text.encode())} bytes in all]")
    assert text.startswith(short[: short.rindex("…")])


def test_head_and_tail_of_a_traceback_are_kept() -> None:
    text = "HEAD first\n" + "  File 错误.py\n" * 20_000 + "ValueError: the TAIL"
    short = cut_middle(text, TEXT_BYTES)
    assert len(short.encode()) <= TEXT_BYTES
    assert short.startswith("HEAD first\n")
    assert short.endswith("ValueError: the TAIL")
    assert f"… [{len(text.encode())} bytes in all, the middle is cut] …" in short


@pytest.mark.parametrize("trim", [cut, cut_middle])
@settings(max_examples=50, deadline=None)
@given(text=st.text(max_size=300), limit=st.integers(0, 200))
def test_nothing_is_ever_longer_than_its_limit_or_breaks_a_character(
    trim: Callable[[str, int], str], text: str, limit: int
) -> None:
    short = trim(text, limit)
    assert len(short.encode()) <= limit
    assert ("\ufffd" in short) <= ("\ufffd" in text)


def test_a_lone_surrogate_is_written_out() -> None:
    assert encodable("a\ud800b😀") == "a\\ud800b😀"
    assert cut("\ud800", 10) == "\\ud800"
