"""The handlers of an application: code → function with its options, typed so that calls are checked in an editor."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, ParamSpec, TypeVar

from taskkit.errors import InputError, NotFound
from taskkit.hints import suggest
from taskkit.limits import PLACES, check_limit_key
from taskkit.names import LONGEST_TIMEOUT, check_name, check_seconds, check_whole
from taskkit.signatures import Parameters

P = ParamSpec("P")
R = TypeVar("R")
Hook = Callable[..., AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class HandlerOptions:
    """What tasks of a code get unless an enqueue says otherwise."""

    queue: str | None = None
    priority: int = 5
    timeout: int = 300
    max_retry: int = 3
    retry_delays: tuple[float, ...] | None = None
    jitter: float = 0.1
    blocking: bool = False
    limit_key: str | None = None

    def __post_init__(self) -> None:
        if self.queue is not None:
            check_name(self.queue, "queue")
        if self.limit_key is not None:
            check_limit_key(self.limit_key)
        check_whole(self.priority, "priority", 0, 9)
        check_whole(self.timeout, "timeout", 1, LONGEST_TIMEOUT)
        check_whole(self.max_retry, "max_retry", 0, 255)
        check_seconds(self.jitter, "jitter", 0, 10)
        check_delays(self.retry_delays)


def check_delays(value: object) -> tuple[float, ...] | None:
    """Back-off delays in seconds, at least one; None keeps the default 5, 30, 120."""
    if value is None:
        return None
    if isinstance(value, str | bytes) or not isinstance(value, Sequence) or not value:
        raise InputError("retry_delays", f"must be a list of seconds such as [5, 30, 120], not {value!r}")
    delays = tuple(float(check_seconds(delay, "retry_delays", 0, LONGEST_TIMEOUT)) for delay in value)
    if len(",".join(f"{delay:g}" for delay in delays)) > 100:
        raise InputError("retry_delays", "has too many delays; the last one repeats")
    return delays


class Configured(Generic[P]):
    """A handler with options for the next enqueue."""

    def __init__(self, write: Callable[P, int]) -> None:
        self._write = write

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> int:
        """Write a task of this handler with these options; returns its id."""
        return self._write(*args, **kwargs)


class Handler(Generic[P, R]):
    """A function that runs the tasks of one code. Calling it calls the function, here and now."""

    def __init__(
        self, code: str, fn: Callable[P, R], options: HandlerOptions, enqueue: Callable[..., int]
    ) -> None:
        self.code = check_name(code, "task_code")
        self.fn = fn
        self.defaults = options
        self.is_async = inspect.iscoroutinefunction(fn)
        self._write = enqueue
        self._parameters = Parameters(code, fn)
        for name in PLACES.findall(options.limit_key or ""):
            self._parameters.check_known(name, "limit_key")
        self.__doc__ = fn.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Handler {self.code}>"

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> int:
        """Write a task that runs this handler as soon as possible; returns its id."""
        return self._enqueue(self.payload(*args, **kwargs), {})

    def options(
        self,
        *,
        delay: float | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        timeout: int | None = None,
        max_retry: int | None = None,
        retry_delays: Sequence[float] | None = None,
        queue: str | None = None,
        unique_key: str | None = None,
        expires_at: datetime | None = None,
        limit_key: str | None = None,
        trace_id: str | None = None,
        connection: Any = None,
    ) -> Configured[P]:
        """Options for one enqueue: ``send_email.options(delay=60, priority=0).enqueue(to=…)``."""
        given = {name: value for name, value in locals().items() if name != "self" and value is not None}

        def write(*args: P.args, **kwargs: P.kwargs) -> int:
            return self._enqueue(self.payload(*args, **kwargs), given)

        return Configured(write)

    def cron(
        self,
        expression: str,
        *,
        timezone: str | None = None,
        misfire: str = "once",
        dst_gap: str = "after",
        dst_overlap: str = "first",
        task_options: Mapping[str, Any] | None = None,
        **payload: Any,
    ) -> int:
        """Write a periodic task of this handler; returns its id. ``task_options`` as in :meth:`options`."""
        options = dict(task_options or {})
        policies = {"misfire": misfire, "dst_gap": dst_gap, "dst_overlap": dst_overlap}
        self.check_payload(payload)
        return self._enqueue(payload, {**options, "cron": expression, "timezone": timezone, **policies})

    def payload(self, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The arguments of a call as a payload; raises PayloadError when they do not fit the function."""
        return self._parameters.bind(*args, **kwargs)

    def check_payload(self, payload: Mapping[str, Any]) -> None:
        """Raise PayloadError unless the function can be called with these names, and values of their types."""
        if any(type(key) is not str for key in payload):
            return
        self._parameters.check(payload)

    def _enqueue(self, payload: dict[str, Any], options: dict[str, Any]) -> int:
        return self._write(self.code, payload, **options)


class Registry:
    """All handlers of an application, by code, and the hooks around their runs."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler[..., Any]] = {}
        self.hooks: list[Hook] = []

    def add(self, handler: Handler[..., Any]) -> None:
        """Register a handler; a code stands for one function."""
        known = self._handlers.get(handler.code)
        if known is not None and known.fn is not handler.fn:
            here, there = _place(handler.fn), _place(known.fn)
            raise InputError("task_code", f"{handler.code!r} is taken: {there} has it, {here} wants it")
        self._handlers[handler.code] = handler

    def get(self, code: str) -> Handler[..., Any] | None:
        """The handler of a code, or None."""
        return self._handlers.get(code)

    def __getitem__(self, code: str) -> Handler[..., Any]:
        found = self._handlers.get(code)
        if found is None:
            raise NotFound(f"no handler is registered for the code {code!r}{suggest(code, self._handlers)}")
        return found

    def __iter__(self) -> Iterator[Handler[..., Any]]:
        return iter(self._handlers.values())

    def __len__(self) -> int:
        return len(self._handlers)


def _place(fn: Callable[..., Any]) -> str:
    return f"{getattr(fn, '__module__', '?')}.{getattr(fn, '__qualname__', repr(fn))}"
