"""Text that fits and does no harm: cut at whole characters, visibly, by bytes; nothing that moves a terminal."""

from __future__ import annotations

import unicodedata

TEXT_BYTES = 65_535
"""What a MySQL TEXT column holds."""
_BIDI = frozenset("\u200e\u200f\u061c\u2028\u2029") | {
    chr(c) for c in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
}


def encodable(text: str) -> str:
    """The text with lone surrogates, which no database takes, written out as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def harmless(text: str, *, keep: str = "") -> str:
    r"""The text without anything that could move a terminal's cursor or turn its direction: written out as ``\x1b``.

    The characters of ``keep`` stay, such as line breaks where they may stand.
    """
    if text.isprintable() and text.isascii():
        return text
    return "".join(c if c in keep or not _harmful(c) else c.encode("unicode_escape").decode() for c in text)


def _harmful(character: str) -> bool:
    return character in _BIDI or unicodedata.category(character) in {"Cc", "Cs"}


def cut(text: str, limit: int) -> str:
    """The beginning of ``text``, at most ``limit`` UTF-8 bytes, with a visible mark when something was cut."""
    raw = encodable(text).encode()
    if len(raw) <= limit:
        return raw.decode()
    mark = _mark(f"… [cut, {len(raw)} bytes in all]", limit)
    return _whole(raw[: limit - len(mark.encode())]) + mark


def cut_middle(text: str, limit: int) -> str:
    """Head and tail of ``text``, at most ``limit`` UTF-8 bytes, with a visible mark between them."""
    raw = encodable(text).encode()
    if len(raw) <= limit:
        return raw.decode()
    mark = _mark(f"\n… [{len(raw)} bytes in all, the middle is cut] …\n", limit)
    half = (limit - len(mark.encode())) // 2
    return _whole(raw[:half]) + mark + (_whole(raw[-half:]) if half else "")


def _mark(mark: str, limit: int) -> str:
    """The mark, or less of it where even that does not fit."""
    return mark if len(mark.encode()) <= limit else "…"[: limit // len("…".encode())]


def _whole(raw: bytes) -> str:
    return raw.decode("utf-8", "ignore")
