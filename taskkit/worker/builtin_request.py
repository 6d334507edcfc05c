"""The payload of the handler ``http``, checked, and shown without its secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from json import dumps
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from taskkit import __version__
from taskkit.errors import PayloadError

TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
STATUSES = re.compile(r"([1-5])xx|([1-5][0-9]{2})(?:-([1-5][0-9]{2}))?", re.IGNORECASE)
SECRET_HEADER = re.compile(r"auth|cookie|token|key|secret|password|signature", re.IGNORECASE)
LONGEST_S = 86_400
LONGEST_PATH = 200
SHORTEST_SECRET = 4
"""Characters; shorter values are still left out of the shown URL, but not looked for in other texts."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The statuses that are a success."""

    statuses: frozenset[int]

    def __contains__(self, status: int) -> bool:
        return status in self.statuses

    @classmethod
    def of(cls, expect: object) -> Expected:
        """Read ``[200, 404]`` or ``"2xx,404,500-503"``; raises PayloadError."""
        if isinstance(expect, list) and expect and all(type(status) is int for status in expect):
            return cls(frozenset(expect))
        if isinstance(expect, str):
            return cls(frozenset().union(*(_statuses(item.strip()) for item in expect.split(","))))
        raise PayloadError(
            "expect", 'must be a list of statuses such as [200, 404], or a text such as "2xx,404"'
        )


def _statuses(item: str) -> frozenset[int]:
    match = STATUSES.fullmatch(item)
    if match is None:
        raise PayloadError("expect", f"{item[:20]!r} is no status; write 200, 2xx or 200-204")
    if match[1]:
        return frozenset(range(int(match[1]) * 100, int(match[1]) * 100 + 100))
    return frozenset(range(int(match[2]), int(match[3] or match[2]) + 1))


@dataclass(frozen=True, slots=True, repr=False)
class Request:
    """One request that was checked; ``shown`` is its method and URL as errors may show them."""

    method: str
    url: str
    headers: dict[str, str]
    content: bytes | None
    timeout: float
    shown: str
    secrets: tuple[str, ...]

    @classmethod
    def of(
        cls, url: object, method: object, headers: object, body: object, json: Any, timeout: object
    ) -> Request:
        """Check a payload; raises PayloadError, whose text holds no value."""
        parts = _parts(url)
        if not isinstance(method, str) or not TOKEN.fullmatch(method):
            raise PayloadError("method", "must be a method such as GET or POST")
        sent = _headers(headers)
        content = _content(body, json, sent)
        return cls(
            method=method.upper(),
            url=str(url).strip(),
            headers=sent,
            content=content,
            timeout=_seconds(timeout),
            shown=f"{method.upper()} {_shown(parts)}",
            secrets=_secrets(parts, sent),
        )

    def scrub(self, text: str) -> str:
        """The text without the secrets of this request, should an answer or an error repeat them."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def _parts(url: object) -> SplitResult:
    if not isinstance(url, str):
        raise PayloadError("url", "must be a text")
    try:
        parts = urlsplit(url.strip())
        url.encode()
        _ = parts.port
    except ValueError:
        raise PayloadError("url", "is not a URL that can be read") from None
    if parts.scheme.lower() not in ("http", "https"):
        raise PayloadError("url", "must begin with http:// or https://")
    if not parts.hostname:
        raise PayloadError("url", "names no host")
    return parts


def _headers(headers: object) -> dict[str, str]:
    """The headers to send, with names in lower case and our own defaults."""
    if headers is not None and not isinstance(headers, dict):
        raise PayloadError("headers", "must be an object of names and texts")
    sent = {"user-agent": f"taskkit/{__version__}", "accept-encoding": "identity"}
    for name, value in (headers or {}).items():
        if not TOKEN.fullmatch(name):
            raise PayloadError("headers", "a name holds characters that no header may have")
        if not isinstance(value, str) or re.search(r"[^\t\x20-\x7e\x80-\xff]", value):
            raise PayloadError(f"headers.{name}", "must be a text on one line, in Latin-1")
        sent[name.lower()] = value.strip()
    return sent


def _content(body: object, json: Any, headers: dict[str, str]) -> bytes | None:
    if body is not None and json is not None:
        raise PayloadError("json", "give body or json, not both")
    try:
        if json is not None:
            headers.setdefault("content-type", "application/json")
            return dumps(json, ensure_ascii=False, allow_nan=False).encode()
        if body is None:
            return None
        if isinstance(body, str):
            return body.encode()
    except (TypeError, ValueError, RecursionError):
        raise PayloadError(
            "body" if json is None else "json", "cannot be sent: not JSON, or not text"
        ) from None
    raise PayloadError("body", "must be a text; give an object as json")


def _seconds(timeout: object) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= LONGEST_S:
        raise PayloadError("timeout", f"must be more than 0 and at most {LONGEST_S} seconds")
    return float(timeout)


def _shown(parts: SplitResult) -> str:
    """The URL without userinfo, fragment and the values of the query."""
    place = parts.netloc.rpartition("@")[2]
    names = [
        f"{pair.partition('=')[0]}=***" if "=" in pair else "***" for pair in parts.query.split("&") if pair
    ]
    return f"{parts.scheme}://{place}{parts.path[:LONGEST_PATH]}" + (f"?{'&'.join(names)}" if names else "")


def _secrets(parts: SplitResult, headers: dict[str, str]) -> tuple[str, ...]:
    """Every secret in the spellings in which it may come back, the longest first."""
    found = [parts.username or "", parts.password or "", parts.query]
    for pair in parts.query.split("&"):
        found += [pair.partition("=")[2] or pair]
    found += [value for _, value in parse_qsl(parts.query)]
    for name, value in headers.items():
        if SECRET_HEADER.search(name):
            found += [value, value.rpartition(" ")[2]]
    spelled = {*found, *map(unquote, found)}
    return tuple(sorted((text for text in spelled if len(text) >= SHORTEST_SECRET), key=len, reverse=True))
