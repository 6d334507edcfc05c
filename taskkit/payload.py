"""Payloads and results: plain JSON and nothing else, refused with the path of what is not."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from taskkit.errors import PayloadError, TooLarge

LOWEST, HIGHEST = -(2**63), 2**64 - 1
DEEPEST = 100
_encoder = msgspec.json.Encoder()


def encode_payload(payload: object, max_bytes: int, field: str = "payload") -> str:
    """A JSON object as text; raises PayloadError naming the field and the path of the bad value."""
    if not isinstance(payload, dict):
        raise PayloadError(field, f"must be a JSON object (a dict), not {_kind(payload)}")
    return encode(payload, max_bytes, field)


def encode(value: object, max_bytes: int, field: str) -> str:
    """Any JSON value as text, at most ``max_bytes`` UTF-8 bytes."""
    check(value, "$", field)
    raw = _encoder.encode(value)
    if len(raw) > max_bytes:
        raise TooLarge(
            field,
            f"has {len(raw)} bytes as JSON, more than the {max_bytes} allowed; "
            "store the data elsewhere and pass a reference to it",
        )
    return raw.decode()


def decode_payload(text: str | bytes, field: str = "payload") -> dict[str, Any]:
    """Read JSON text that must be an object of plain values; for what people and other programs write."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PayloadError(field, f"is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise PayloadError(field, f"must be a JSON object, not {_kind(value)}")
    check(value, "$", field)
    return value


def check(value: object, path: str, field: str, depth: int = 0) -> None:
    """Raise PayloadError at the first value that JSON cannot hold unchanged."""
    if value is None or value is True or value is False:
        return
    kind = type(value)
    if kind is str:
        _check_text(value, path, field)  # type: ignore[arg-type]
    elif kind is int:
        if not LOWEST <= value <= HIGHEST:  # type: ignore[operator]
            raise PayloadError(field, f"{path} is an integer of more than 64 bits; pass it as text")
    elif kind is float:
        if not math.isfinite(value):  # type: ignore[arg-type]
            raise PayloadError(field, f"{path} is {value}, which JSON does not have; use null or text")
    elif kind is dict or kind is list:
        _check_inside(value, path, field, depth)  # type: ignore[arg-type]
    else:
        raise PayloadError(field, f"{path} is {_kind(value)}, which is not JSON; {_advice(value)}")


def _check_inside(value: dict[Any, Any] | list[Any], path: str, field: str, depth: int) -> None:
    if depth >= DEEPEST:
        raise PayloadError(field, f"{path[:60]}… is nested deeper than {DEEPEST} levels")
    if isinstance(value, list):
        for index, item in enumerate(value):
            check(item, f"{path}[{index}]", field, depth + 1)
        return
    for key, item in value.items():
        if type(key) is not str:
            raise PayloadError(field, f"{path} has the key {key!r}, which is {_kind(key)}; keys are text")
        _check_text(key, f"{path} key", field)
        check(item, f"{path}.{key}", field, depth + 1)


def _check_text(value: str, path: str, field: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise PayloadError(
            field, f"{path} has a lone surrogate ({value[error.start]!a}), which is not text"
        ) from None


def _kind(value: object) -> str:
    name = type(value).__name__
    return {"NoneType": "null", "dict": "an object", "list": "a list", "str": "text"}.get(name, f"a {name}")


def _advice(value: object) -> str:
    advice = {
        "datetime": "pass value.isoformat()",
        "date": "pass value.isoformat()",
        "Decimal": "pass str(value)",
        "bytes": "pass base64 text",
        "set": "pass a sorted list",
        "tuple": "pass a list",
        "UUID": "pass str(value)",
    }
    return advice.get(type(value).__name__, "pass plain dicts, lists, text, numbers, true, false or null")
