"""Messages as small JSON that a person can read and push by hand; reading is strict and never crashes."""

from __future__ import annotations

import base64
import json
from typing import Annotated, Any

import msgspec

from taskkit.clock import parse_instant
from taskkit.model import NO_TASK, DeadMessage, Message, Ring
from taskkit.texts import encodable

MAX_BYTES = 4096
"""Longer ones are not our messages; also what is kept of each that could not be read."""

MAX_ID = 2**63 - 1
MAX_ATTEMPT = 2**31 - 1
BOM = b"\xef\xbb\xbf"


class _Doorbell(msgspec.Struct, frozen=True):
    task_id: Annotated[int, msgspec.Meta(ge=1, le=MAX_ID)]
    task_code: str = ""
    attempt: Annotated[int, msgspec.Meta(ge=1, le=MAX_ATTEMPT)] | None = None
    dispatched_at: Annotated[str, msgspec.Meta(max_length=64)] = ""


class _Bell(msgspec.Struct, frozen=True):
    task_id: Annotated[int, msgspec.Meta(ge=1, le=MAX_ID)]
    queue: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    priority: Annotated[int, msgspec.Meta(ge=0, le=9)]


class _Grave(msgspec.Struct, frozen=True, omit_defaults=True):
    reason: str
    queue: str
    buried_at: str
    size: int
    raw: str | None = None
    raw_base64: str | None = None


_encoder = msgspec.json.Encoder()
_doorbell = msgspec.json.Decoder(_Doorbell)
_bell = msgspec.json.Decoder(_Bell)
_grave = msgspec.json.Decoder(_Grave)


def encode(message: Message) -> bytes:
    """``{"task_id":7,"task_code":"email","attempt":1,"dispatched_at":"…"}``."""
    return _encoder.encode(message)


def decode(raw: bytes) -> Message:
    """Read a message; raises ValueError with a short reason. Fields that this version does not know are ignored."""
    if len(raw) > MAX_BYTES:
        raise ValueError(f"{len(raw):,} bytes long, a message has at most {MAX_BYTES:,}")
    try:
        seen = _doorbell.decode(raw)
        if _encoder.encode(seen) != raw:
            _check_foreign(raw)
        _check_instant(seen.dispatched_at)
    except (ValueError, RecursionError) as error:
        raise ValueError(_reason(raw, error)) from None
    return Message(seen.task_id, seen.task_code, seen.attempt, seen.dispatched_at)


def _check_foreign(raw: bytes) -> None:
    """What msgspec lets pass in fields it skips: bytes that are not UTF-8, and keys that stand twice."""
    json.loads(raw.decode("utf-8"), object_pairs_hook=_refuse_twins)


def _refuse_twins(pairs: list[tuple[str, Any]]) -> None:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key stands twice")


def _check_instant(text: str) -> None:
    if not text:
        return
    try:
        parse_instant(text)
    except (ValueError, OverflowError):
        raise ValueError("dispatched_at is not an instant like 2026-03-01T01:00:00.000000Z") from None


def _reason(raw: bytes, error: Exception) -> str:
    if not raw:
        return "empty"
    if raw.startswith(BOM):
        return "not JSON: begins with a byte order mark"
    if not _is_utf8(raw):
        return "not UTF-8 text"
    if isinstance(error, RecursionError):
        return "not a message: nested too deeply"
    if isinstance(error, msgspec.DecodeError) and not isinstance(error, msgspec.ValidationError):
        return f"not JSON: {error}"
    return f"not a message: {error}"


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def encode_ring(ring: Ring) -> bytes:
    """``{"task_id":7,"queue":"mail","priority":5}``, or ``1`` for one that names no task."""
    return _encoder.encode(ring) if ring.task_id else b"1"


def decode_ring(raw: bytes) -> Ring:
    """Read a ring; whatever cannot be read is one that names no task."""
    try:
        seen = _bell.decode(raw)
    except (ValueError, RecursionError):
        return NO_TASK
    return Ring(seen.task_id, seen.queue, seen.priority)


def encode_dead(dead: DeadMessage, buried_at: str) -> bytes:
    """A dead message as JSON: its reason, queue, size, and its first bytes as text, or as base64 if it is none."""
    kept = dead.raw[:MAX_BYTES]
    text = kept.decode("utf-8") if _is_utf8(kept) else None
    return _encoder.encode(
        _Grave(
            reason=encodable(dead.reason),
            queue=encodable(dead.queue),
            buried_at=buried_at,
            size=len(dead.raw),
            raw=text,
            raw_base64=None if text is not None else base64.b64encode(kept).decode(),
        )
    )


def decode_dead(entry: bytes) -> DeadMessage:
    """Read what encode_dead wrote; what somebody else put there comes back as it is."""
    try:
        grave = _grave.decode(entry)
        raw = base64.b64decode(grave.raw_base64 or "") if grave.raw is None else grave.raw.encode()
    except (ValueError, RecursionError):
        return DeadMessage(entry, "not written by taskkit", "")
    return DeadMessage(raw, grave.reason, grave.queue)
