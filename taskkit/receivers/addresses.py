"""Addresses and secrets of receivers: used in full, shown only masked, and taken out of whatever others say."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import sha256
from urllib.parse import parse_qsl, quote, quote_plus, urlsplit

from taskkit.texts import cut, harmless

SHOWN_BYTES = 240
SHORTEST_SECRET, SHORTEST_PIECE = 8, 16
_PARAMETER = re.compile(
    r"((?:access_token|token|key|sign|secret|password)=)([^\s&\"'<>,;\]})]+)", re.IGNORECASE
)
_SECRET = re.compile(r"\bSEC[0-9A-Za-z]{6,}")
_IPV4 = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")
_IPV6 = re.compile(r"(?<![\w:])[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{0,4}){3,7}(?![\w:])")


class Hidden:
    """A secret: its text is had by ``reveal()`` alone, everything else shows a few letters at most."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The secret itself."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return masked(self._text)

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a secret is not stored")


NOTHING = Hidden("")


def masked(text: str) -> str:
    """``693a…``: enough to tell two keys apart; nothing of a short one."""
    return f"{text[:4]}…" if len(text) >= 16 else "…" if text else ""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a receiver is called. ``shown`` is for people; ``robot`` tells whether two are the same place."""

    url: Hidden = field(repr=False)
    shown: str
    robot: str
    secrets: tuple[Hidden, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, url: str, *secrets: Hidden, token: str = "") -> Address:
        """The address of a URL whose secret is its parameter ``token``; without one everything after the host is secret."""
        parts = urlsplit(url)
        value = dict(parse_qsl(parts.query)).get(token, "") if token else ""
        host = parts.netloc.rpartition("@")[2]
        shown = (
            f"{parts.scheme}://{host}{parts.path}?{token}={masked(value)}"
            if value
            else f"{parts.scheme}://{host}/…"
        )
        hidden = tuple(map(Hidden, _secret_parts(url)))
        return cls(Hidden(url), shown, fingerprint(value or url), (Hidden(url), *hidden, *secrets))

    def redact(self, text: str) -> str:
        """What somebody else said, short and on one line, without our secrets and our place in the network."""
        return redacted(text, self.secrets)


def _secret_parts(url: str) -> list[str]:
    """What in a URL may be a secret: its password, the values of its query, long pieces of its path."""
    parts = urlsplit(url)
    values = [value for _, value in parse_qsl(parts.query) if len(value) >= SHORTEST_SECRET]
    pieces = [piece for piece in parts.path.split("/") if len(piece) >= SHORTEST_PIECE]
    return [*([parts.password] if parts.password else []), *values, *pieces]


def fingerprint(text: str) -> str:
    """Twelve hex digits that stand for a secret and tell nothing of it."""
    return sha256(text.encode()).hexdigest()[:12]


def redacted(text: str, secrets: tuple[Hidden, ...] = ()) -> str:
    """The text on one line of at most 240 bytes, with secrets and IP addresses masked."""
    for secret in secrets:
        value = secret.reveal()
        for form in {value, quote(value, safe=""), quote_plus(value)} if len(value) >= 4 else ():
            text = text.replace(form, masked(value))
    text = _PARAMETER.sub(
        lambda found: found[1] + (found[2] if found[2].endswith("…") else masked(found[2])), text
    )
    text = _SECRET.sub("SEC…", text)
    text = _IPV6.sub("(ip)", _IPV4.sub("(ip)", text))
    return cut(harmless(" ".join(text.split())), SHOWN_BYTES)
