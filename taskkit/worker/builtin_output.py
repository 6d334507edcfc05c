"""Keeps the head and the tail of a stream of any length in bounded memory."""

from __future__ import annotations

import codecs

from taskkit.errors import PayloadError

MOST = 16 * 1024 * 1024
SLACK = 65536


class Kept:
    """The first and the last bytes of a stream, together at most ``limit``; the rest is counted and dropped."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._head = bytearray()
        self._tail = bytearray()

    @property
    def cut(self) -> bool:
        """Whether something was dropped."""
        return self.total > self.limit

    def add(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self.total += len(data)
        room = self.limit // 2 - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > self._tail_size + SLACK:
            self._trim()

    def text(self, encoding: str = "utf-8") -> str:
        """What was kept, with a visible mark where it was cut; bytes of no meaning are written as ``\\xff``."""
        if not self.cut:
            return _decode(bytes(self._head + self._tail), encoding)
        self._trim()
        mark = f"\n… [{self.total - self.limit} of {self.total} bytes cut] …\n"
        return _decode_start(bytes(self._head), encoding) + mark + _decode_end(bytes(self._tail), encoding)

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
