"""Tasks that handlers enqueue: written in a thread of their own, since one may wait for somebody's unique key.

Ends of other tasks must not wait behind it.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from taskkit.center import TaskCenter
from taskkit.errors import InputError, TaskkitError
from taskkit.model import NewTask, Ring
from taskkit.shortway import ring_for
from taskkit.worker.frames import EnqueueAnswer
from taskkit.worker.watch import Call

log = logging.getLogger("taskkit.worker")


@dataclass(frozen=True, slots=True)
class EnqueueRequest:
    """A handler wants tasks to be written; ``reply`` takes the answer to it."""

    tasks: list[bytes]
    reply: Callable[[EnqueueAnswer], None]


class Enqueues:
    """One thread, which begins with the first request."""

    def __init__(self, center: TaskCenter, ring: Callable[[Ring], None]) -> None:
        self.center, self.ring = center, ring
        self.call = Call()
        self._requests: queue.SimpleQueue[EnqueueRequest | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, request: EnqueueRequest) -> None:
        """Write these tasks, soon; from the hub's thread."""
        self._requests.put(request)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="enqueues", daemon=True)
            self._thread.start()

    @property
    def ended(self) -> bool:
        """Whether it has begun and writes no more."""
        return self._thread is not None and not self._thread.is_alive()

    def finish(self, seconds: float | None = None) -> bool:
        """Answer what is left and end; False when that took longer than ``seconds``."""
        if self._thread is None:
            return True
        self._requests.put(None)
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (request := self._requests.get()) is not None:
            with self.call("writing a handler's tasks to SQL"):
                request.reply(self._write(request))

    def _write(self, request: EnqueueRequest) -> EnqueueAnswer:
        try:
            tasks = [msgspec.msgpack.decode(raw, type=NewTask) for raw in request.tasks]
            ids = self.center.intake.insert(tasks)
        except InputError as error:
            return EnqueueAnswer([], (type(error).__name__, error.field, error.problem))
        except TaskkitError as error:
            return EnqueueAnswer([], (type(error).__name__, "", str(error)))
        except Exception as error:
            log.exception("a handler's tasks could not be written")
            return EnqueueAnswer([], ("StoreError", "", f"{type(error).__name__}: {error}"))
        self.ring(ring_for(tasks, ids))
        return EnqueueAnswer(ids)
