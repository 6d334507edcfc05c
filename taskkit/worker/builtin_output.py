"""Keeps the head and the tail of a stream of any length in bounded memory."""

from __future__ import annotations

import codecs
from bisect import bisect_right
from json import dumps

from taskkit.errors import PayloadError

USUAL = 60_000
"""Leaves room for the rest of the result within the 65,536 bytes that are kept of one by default."""
MOST = 16 * 1024 * 1024
SLACK = 65536


class Kept:
    """The first and the last bytes of a stream, together at most ``limit``; the rest is counted and dropped."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self.total += len(data)
        room = self.limit // 2 - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > self._tail_size + SLACK:
            self._trim()

    def text(self, encoding: str = "utf-8") -> tuple[str, bool]:
        """What was kept, and whether it was cut: then a mark stands in the middle.

        Bytes of no meaning are written as ``\\xff``. The text takes at most ``limit`` bytes, mark apart, when it is
        written as JSON, since that is what a result is measured by.
        """
        if self.total <= self.limit:
            whole = _decode(bytes(self._head + self._tail), encoding)
            if _written(whole) <= self.limit:
                return whole, False
            head = tail = whole
        else:
            self._trim()
            head, tail = _decode_start(bytes(self._head), encoding), _decode_end(bytes(self._tail), encoding)
        mark = f"\n… [the middle of {self.total} bytes is cut] …\n"
        return _first(head, self.limit // 2) + mark + _last(tail, self._tail_size), True

    @property
    def _tail_size(self) -> int:
        return self.limit - self.limit // 2

    def _trim(self) -> None:
        del self._tail[: max(0, len(self._tail) - self._tail_size)]


def checked_limit(limit: object) -> int:
    """The ``output_limit`` of a payload; raises PayloadError."""
    if not isinstance(limit, int) or isinstance(limit, bool) or not 0 <= limit <= MOST:
        raise PayloadError("output_limit", f"must be a number of bytes from 0 to {MOST}")
    return limit


def _decode(data: bytes, encoding: str) -> str:
    """Text that JSON can hold, whatever the bytes are."""
    try:
        text = data.decode(encoding, "backslashreplace")
    except (LookupError, UnicodeError):
        text = data.decode("utf-8", "backslashreplace")
    return text.encode("utf-8", "backslashreplace").decode()


def _decode_start(data: bytes, encoding: str) -> str:
    """As `_decode`, without the beginning of a character at the end."""
    if encoding.lower().replace("_", "-") not in ("utf-8", "utf8"):
        return _decode(data, encoding)
    return codecs.getincrementaldecoder("utf-8")("backslashreplace").decode(data)


def _decode_end(data: bytes, encoding: str) -> str:
    """As `_decode`, without the rest of a character at the start."""
    skip = next((n for n, byte in enumerate(data[:3]) if byte & 0xC0 != 0x80), 3)
    return _decode(data[skip:], encoding)


def _written(text: str) -> int:
    """The bytes of a text within a JSON document."""
    return len(dumps(text, ensure_ascii=False).encode()) - 2


def _first(text: str, room: int) -> str:
    """The longest beginning that takes no more than ``room`` bytes as JSON."""
    return text[: bisect_right(range(len(text) + 1), room, key=lambda n: _written(text[:n])) - 1]


def _last(text: str, room: int) -> str:
    size = bisect_right(range(len(text) + 1), room, key=lambda n: _written(text[len(text) - n :])) - 1
    return text[len(text) - size :]
