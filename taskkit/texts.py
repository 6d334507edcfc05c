"""Text that fits: cut at whole characters, visibly, by bytes."""

from __future__ import annotations

TEXT_BYTES = 65_535
"""What a MySQL TEXT column holds."""


def encodable(text: str) -> str:
    """The text with lone surrogates, which no database takes, written out as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


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
