"""Results of handlers: kept as JSON up to a size, cut visibly beyond it, and told apart when they could not be kept."""

from __future__ import annotations

from typing import Any

import msgspec

from taskkit.errors import PayloadError, ResultError, TooLarge
from taskkit.payload import encode
from taskkit.texts import cut, cut_middle

CUTS = (32_768, 8_192, 2_048, 512, 128)
"""Bytes to which the texts of too large a result are cut, step by step until it fits."""
NOT_KEPT = "$taskkit_not_kept"


def encode_result(value: object, max_bytes: int) -> tuple[str | None, str]:
    """A handler's return value as (JSON text or None, a line for people).

    What is not JSON or too large does not fail the task, which has had its effect: the reason is kept instead.
    """
    if value is None:
        return None, "ok"
    try:
        text = _fitting(value, max_bytes)
    except (PayloadError, RecursionError) as error:
        note = {NOT_KEPT: str(error) or "nested too deeply", "beginning": cut(_shown(value), 1000)}
        return msgspec.json.encode(note).decode(), cut(f"ok, but the result was not kept: {error}", 1000)
    return text, cut(text, 1000)


def _fitting(value: object, max_bytes: int) -> str:
    """The value as JSON; its long texts are cut, visibly, when it is too large otherwise."""
    for longest in CUTS:
        try:
            return encode(value, max_bytes, "result")
        except PayloadError as error:
            if not isinstance(error, TooLarge):
                raise
        value = _shortened(value, longest)
    return encode(value, max_bytes, "result")


def _shortened(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return cut_middle(value, longest)
    if isinstance(value, list):
        return [_shortened(item, longest) for item in value]
    if isinstance(value, dict):
        return {key: _shortened(item, longest) for key, item in value.items()}
    return value


def decode_result(task_id: int, text: str | None) -> Any:
    """What a handler returned; raises ResultError with the reason when it could not be kept."""
    if text is None:
        return None
    value = msgspec.json.decode(text)
    if isinstance(value, dict) and NOT_KEPT in value:
        raise ResultError(f"task {task_id} succeeded, but its result was not kept: {value[NOT_KEPT]}")
    return value


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - a repr of the user's may raise anything
        return f"<{type(value).__name__}, whose repr raises {type(error).__name__}>"
