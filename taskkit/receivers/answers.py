"""Reading the answers of chat robots: JSON with a code in it, whatever the HTTP status says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from taskkit.receivers.addresses import Address
from taskkit.receivers.calling import Heard
from taskkit.receivers.protocol import Reply, Verdict

JSON = {"Content-Type": "application/json; charset=utf-8"}


def encoded(value: object) -> bytes:
    """Compact JSON in raw UTF-8; no letter becomes ``\\uXXXX``."""
    return msgspec.json.encode(value)


def decoded(body: bytes) -> dict[str, Any]:
    """The JSON object of a body; empty when it is none."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def code_of(answer: dict[str, Any], keys: Sequence[str] = ("errcode",)) -> int | None:
    """The code in an answer, which may be a string; None when there is none."""
    for key in keys:
        value = answer.get(key)
        if isinstance(value, bool) or not isinstance(value, int | str):
            continue
        try:
            return int(value)
        except ValueError:
            continue
    return None


def counted(heard: Heard, code: int | None) -> int | None:
    """The code, where it says something: not under a status of trouble, and no success beside a status that is none."""
    return None if heard.status >= 500 or (code == 0 and heard.status >= 300) else code


def no_code(heard: Heard, address: Address) -> Reply:
    """The reply for an answer without a code, or for none: to be tried again."""
    return Reply(Verdict.RETRY, heard.code, address.redact(heard.text) if heard.body else "")


def said(answer: dict[str, Any], address: Address, keys: Sequence[str] = ("errmsg",)) -> str:
    """The other side's words, fit to be stored."""
    return address.redact(next((str(answer[key]) for key in keys if answer.get(key)), ""))


def looks_like_html(heard: Heard) -> bool:
    """Whether a page came where JSON was wanted."""
    return heard.body.lstrip()[:1] == b"<"
