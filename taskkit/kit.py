"""The application's object: settings, handlers, and doors that open when they are first needed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from taskkit.beats import FRESH_S
from taskkit.coordination import FenceDesk, Locking, MemoryTokens, RedisTokens, Tokens
from taskkit.errors import BrokerUnavailable, NotFound, ResultTimeout, StoreError, TaskCancelled, TaskFailed
from taskkit.model import NO_TASK, Ring
from taskkit.operations import Operations
from taskkit.producer import Producer
from taskkit.registry import Handler, HandlerOptions, Hook, Registry
from taskkit.settings import Settings
from taskkit.shortway import ShortWay
from taskkit.states import Status

if TYPE_CHECKING:
    from taskkit.center import TaskCenter
    from taskkit.queues import Asker, Keys, Queue

P = ParamSpec("P")
R = TypeVar("R")
log = logging.getLogger("taskkit")
RING_PAUSE = 5.0


class Taskkit(Locking):
    """One installation as an application sees it: ``kit = Taskkit()`` takes the environment and taskkit.toml."""

    def __init__(self, settings: Settings | None = None, **overrides: Any) -> None:
        self._settings, self._overrides = settings, overrides
        self._explicit = settings is not None
        self._lock = threading.RLock()
        self._center: TaskCenter | None = None
        self._queue: Queue | None = None
        self._asker: Asker | None = None
        self._memory: MemoryTokens | None = None
        self._silent_until = 0.0
        self.connections = 5, 2
        """How many connections to SQL are kept, and how many more there may be for moments."""
        self._producer: Producer | None = None
        self.registry = Registry()
        self.operations = Operations(lambda: self.center, self._ring)

    def __repr__(self) -> str:
        return f"<Taskkit {len(self.registry)} handlers>"

    @property
    def settings(self) -> Settings:
        """The settings; read when first asked for, so that importing an application needs none."""
        if self._settings is None:
            self._settings = Settings.load(**self._overrides)
        return self._settings

    @property
    def has_own_settings(self) -> bool:
        """Whether the application brought settings of its own instead of leaving them to the environment."""
        return bool(self._overrides) or self._explicit

    @property
    def center(self) -> TaskCenter:
        """The task center; raises SchemaError when its schema does not fit."""
        with self._lock:
            if self._center is None:
                from taskkit.doors import open_center

                kept, more = self.connections
                self._center = open_center(self.settings, pool_size=kept, overflow=more)
            return self._center

    @property
    def queue(self) -> Queue | None:
        """The broker; None while the embedded one is not running."""
        with self._lock:
            if self._queue is None:
                from taskkit.doors import peek_queue

                self._queue = peek_queue(self.settings, self.center)
            return self._queue

    @property
    def producer(self) -> Producer:
        """Writes tasks by code; inside a running task it goes through the worker's parent."""
        if self._producer is None:
            settings = self.settings
            self._producer = Producer(
                lambda: self.center,
                self._ring,
                self.registry,
                default_zone=settings.timezone,
                default_queue=settings.default_queue,
                max_payload_bytes=settings.max_payload_bytes,
                short=self._short_way(),
            )
        return self._producer

    @producer.setter
    def producer(self, value: Producer) -> None:
        self._producer = value

    def task(
        self,
        code: str,
        *,
        queue: str | None = None,
        priority: int = 5,
        timeout: int = 300,
        max_retry: int = 3,
        retry_delays: Sequence[float] | None = None,
        jitter: float = 0.1,
        blocking: bool = False,
        limit_key: str | None = None,
    ) -> Callable[[Callable[P, R]], Handler[P, R]]:
        """Register a function as the handler of ``code``: ``@kit.task("send_email", timeout=30)``.

        ``timeout`` in seconds; ``retry_delays`` in seconds, the last one repeats; ``blocking`` marks a plain
        function that mostly waits and may share its child with others of its kind, each in a thread. Tasks with the
        same ``limit_key`` share its limit; ``{name}`` in it stands for an argument: ``customer:{customer_id}``.
        """
        options = HandlerOptions(
            queue=queue,
            priority=priority,
            timeout=timeout,
            max_retry=max_retry,
            retry_delays=None if retry_delays is None else tuple(retry_delays),
            jitter=jitter,
            blocking=blocking,
            limit_key=limit_key,
        )

        def register(fn: Callable[P, R]) -> Handler[P, R]:
            handler = Handler(code, fn, options, self._enqueue)
            self.registry.add(handler)
            return handler

        return register

    def around(self, hook: Callable[..., Iterator[None]]) -> Callable[..., Iterator[None]]:
        """Register a generator function that runs around every attempt: before its ``yield``, and after it.

        It gets the RunContext; an exception of the handler is raised at the ``yield``.
        """
        wrapped: Hook = contextmanager(hook)
        self.registry.hooks.append(wrapped)
        return hook

    def result(self, task_id: int, timeout: float | None = None) -> Any:
        """What the handler returned, waiting up to ``timeout`` seconds for it (None: as long as it takes).

        Raises ResultTimeout, TaskFailed, TaskCancelled or NotFound.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 0.005
        while True:
            ended, value = self._look(task_id)
            if ended:
                return value
            left = pause if deadline is None else min(pause, deadline - time.monotonic())
            if left <= 0:
                why = self._nobody() if timeout else ""
                raise ResultTimeout(
                    f"task {task_id} had not ended after {timeout} s{why}; `taskkit tasks show {task_id}`"
                )
            time.sleep(left)
            pause = min(0.25, pause * 1.5)

    def once(self, connection: Any, key: str) -> bool:
        """Whether ``key`` is new: then do the effect in this same transaction of yours, and commit both.

        ``connection`` is your SQLAlchemy Connection or Session on the task center's database. A second one waits
        for the first one's commit and gets False; a rollback takes the key back.
        """
        from taskkit.doors import once_within

        return once_within(connection, key)

    def live(self, seconds: float = 60.0, every: float = 2.0) -> None:
        """Show queues, workers and running tasks with their progress, renewed every so many seconds, for so long.

        In Jupyter the view stays in its place; elsewhere it is printed. An interrupt ends it.
        """
        from taskkit.views import follow, look

        follow(lambda: look(self.center), seconds, every)

    def _repr_html_(self) -> str:
        from taskkit.views import look

        return look(self.center)._repr_html_()

    def replace_doors(
        self, center: TaskCenter | None, queue: Queue | None
    ) -> tuple[TaskCenter | None, Queue | None]:
        """Use this task center and broker from now on; returns those that were in use. For tests."""
        with self._lock:
            before = self._center, self._queue
            self._center, self._queue = center, queue
            self._memory = None
            return before

    def close(self) -> None:
        """Close the doors that were opened."""
        with self._lock:
            for door in (self._asker, self._queue, self._center):
                if door is not None:
                    door.close()
            self._asker = self._queue = self._center = None

    def _short_way(self) -> ShortWay | None:
        if not self.settings.short_way:
            return None
        windows = self.settings.scheduler
        doors = (lambda: self.center, lambda: self.queue, self._leave_broker_alone)
        return ShortWay(*doors, windows.window, windows.queue_window)

    def _lock_desk(self) -> FenceDesk:
        return self.center.locks

    def _tokens(self) -> tuple[Tokens, Keys]:
        from taskkit.queues import Keys, MemoryQueue

        with self._lock:
            if isinstance(self._queue, MemoryQueue):
                self._memory = self._memory or MemoryTokens()
                return self._memory, Keys()
            if self._asker is None:
                from taskkit.doors import open_asker

                self._asker = open_asker(self.settings, self.center)
            return RedisTokens(self._asker.ask), self._asker.keys

    def _look(self, task_id: int) -> tuple[bool, Any]:
        found = self.center.read.statuses([task_id]).get(task_id)
        if found is None:
            raise NotFound(f"there is no task {task_id}")
        status, result, last_result = found
        if status is Status.GIVEN_UP:
            raise TaskFailed(f"task {task_id} was given up: {last_result}")
        if status is Status.CANCELLED:
            raise TaskCancelled(f"task {task_id} was cancelled: {last_result}")
        if status is not Status.SUCCESS:
            return False, None
        from taskkit.results import decode_result

        return True, decode_result(task_id, result)

    def _nobody(self) -> str:
        """Which kind of process nobody runs, for the sentence about a result that did not come."""
        try:
            nodes = {
                "scheduler": self.center.nodes.schedulers(),
                "worker": self.center.nodes.workers(),
            }
        except StoreError:
            return ""
        missing = [
            role
            for role, known in nodes.items()
            if not any((node["heartbeat_age_s"] or 0.0) <= FRESH_S for node in known)
        ]
        return f": no {' and no '.join(missing)} is alive, `taskkit up` starts them" if missing else ""

    def _enqueue(self, code: str, payload: dict[str, Any], **options: Any) -> int:
        return self.producer.enqueue(code, payload, **options)

    def _ring(self, ring: Ring = NO_TASK) -> None:
        """Wake a scheduler; only a hint, so trouble with the broker never fails an enqueue."""
        if time.monotonic() < self._silent_until:
            return
        try:
            queue = self.queue
            if queue is not None:
                queue.ring(ring, wait=False)
        except BrokerUnavailable as error:
            self._leave_broker_alone()
            log.debug("the scheduler was not woken, it will look by itself: %s", error)

    def _leave_broker_alone(self) -> None:
        self._silent_until = time.monotonic() + RING_PAUSE
