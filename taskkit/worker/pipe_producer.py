"""Enqueuing in a handler: its child validates, and the parent writes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from taskkit import errors
from taskkit.clock import utc_now
from taskkit.errors import StoreError, TaskkitError
from taskkit.kit import Taskkit
from taskkit.model import NewTask
from taskkit.producer import Producer
from taskkit.worker.frames import Enqueue, EnqueueAnswer


class PipeProducer(Producer):
    """The producer inside a child: validates here, and lets the parent write."""

    def __init__(self, kit: Taskkit, ask: Callable[[Enqueue], EnqueueAnswer]) -> None:
        settings = kit.settings
        super().__init__(
            lambda: kit.center,
            lambda _: None,
            kit.registry,
            default_zone=settings.timezone,
            default_queue=settings.default_queue,
            max_payload_bytes=settings.max_payload_bytes,
        )
        self._ask, self._pid = ask, os.getpid()

    def _write(self, tasks: Sequence[NewTask], connection: Any) -> list[int]:
        if connection is not None or os.getpid() != self._pid:  # a process that the handler forked
            return super()._write(tasks, connection)
        answer = self._ask(Enqueue([msgspec.msgpack.encode(task) for task in tasks]))
        if answer.error is not None:
            raise _error(*answer.error)
        return answer.ids

    def _now(self) -> datetime:
        return utc_now()


def _error(name: str, field: str, message: str) -> TaskkitError:
    """The parent's error, as the class it was there where that is one of ours."""
    kind = getattr(errors, name, StoreError)
    if isinstance(kind, type) and issubclass(kind, errors.InputError):
        return kind(field, message)
    with contextlib.suppress(TypeError):
        return kind(message)  # type: ignore[no-any-return]
    return StoreError(message)
