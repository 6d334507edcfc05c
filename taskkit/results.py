"""Results of handlers: kept as JSON up to a size, cut visibly beyond it, and told apart when they could not be kept."""

from __future__ import annotations

from typing import Any

import msgspec

from taskkit.errors import PayloadError, ResultError
from taskkit.payload import encode
from taskkit.texts import cut

NOT_KEPT = "$taskkit_not_kept"


def encode_result(value: object, max_bytes: int) -> tuple[str | None, str]:
    """A handler's return value as (JSON text or None, a line for people).

    What is not JSON or too large does not fail the task, which has had its effect: the reason is kept instead.
    """
    if value is None:
        return None, "ok"
    try:
        text = encode(value, max_bytes, "result")
    except (PayloadError, RecursionError) as error:
        note = {NOT_KEPT: str(error) or "nested too deeply", "beginning": cut(_shown(value), 1000)}
        return msgspec.json.encode(note).decode(), cut(f"ok, but the result was not kept: {error}", 1000)
    return text, cut(text, 1000)


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
