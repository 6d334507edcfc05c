"""The producer: the row first, then the doorbell. Everything is validated before anything is written."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from taskkit import context
from taskkit.clock import as_utc
from taskkit.cron import parse, resolve_hash
from taskkit.errors import CronError, InputError
from taskkit.hints import suggest
from taskkit.limits import check_limit_key, fill_key
from taskkit.model import NewTask, Ring
from taskkit.names import (
    LONGEST_DELAY,
    LONGEST_TIMEOUT,
    check_name,
    check_seconds,
    check_whole,
    check_zone,
)
from taskkit.payload import encode_payload
from taskkit.registry import HandlerOptions, Registry, check_delays
from taskkit.shortway import ShortWay, ring_for
from taskkit.states import TaskType

if TYPE_CHECKING:
    from taskkit.center import TaskCenter

log = logging.getLogger("taskkit.producer")

OPTIONS = frozenset(
    (
        "delay at cron timezone priority timeout max_retry retry_delays queue unique_key limit_key expires_at misfire "
        "dst_gap dst_overlap trace_id"
    ).split()
)
MISFIRES = ("once", "skip", "all")


class Producer:
    """Writes tasks. ``center`` is opened when the first task is written, ``ring`` wakes a scheduler afterwards."""

    def __init__(
        self,
        center: Callable[[], TaskCenter],
        ring: Callable[[Ring], None],
        registry: Registry,
        *,
        default_zone: str = "UTC",
        default_queue: str | None = None,
        max_payload_bytes: int = 262_144,
        short: ShortWay | None = None,
    ) -> None:
        self._center, self._ring, self._registry = center, ring, registry
        self._zone, self._queue, self._max_bytes = default_zone, default_queue, max_payload_bytes
        self._short = short

    def enqueue(
        self,
        code: str,
        payload: Mapping[str, Any] | None = None,
        *,
        delay: float | None = None,
        at: datetime | None = None,
        cron: str | None = None,
        timezone: str | None = None,
        priority: int | None = None,
        timeout: int | None = None,
        max_retry: int | None = None,
        retry_delays: Sequence[float] | None = None,
        queue: str | None = None,
        unique_key: str | None = None,
        limit_key: str | None = None,
        expires_at: datetime | None = None,
        misfire: str = "once",
        dst_gap: str = "after",
        dst_overlap: str = "first",
        trace_id: str | None = None,
        connection: Any = None,
    ) -> int:
        """Write one task and return its id.

        ``delay``: start in so many seconds; ``at``: at an aware instant; ``cron`` with ``timezone``: again and
        again. With ``unique_key``, while a live task has it, that one's id comes back and nothing is added.
        ``connection``: a SQLAlchemy Connection or Session of yours; the task then exists if and only if you commit.
        Raises InputError (or PayloadError, CronError) that names the field; nothing is written then.
        """
        options = {name: value for name, value in locals().items() if name in OPTIONS}
        task = self._new(code, {} if payload is None else payload, options)
        return self._write([task], connection)[0]

    def enqueue_many(self, tasks: Sequence[Mapping[str, Any]], *, connection: Any = None) -> list[int]:
        """Write many tasks in one transaction, ``{"code": …, "payload": {…}, …options}`` each; ids in order."""
        found = []
        for index, item in enumerate(tasks):
            try:
                found.append(self._one_of_many(item))
            except InputError as error:
                raise type(error)(f"tasks[{index}].{error.field}", error.problem) from None
        return self._write(found, connection) if found else []

    def _now(self) -> datetime:
        """The clock that decides which fire time comes first: the database's."""
        return self._center().now()

    def _one_of_many(self, item: Mapping[str, Any]) -> NewTask:
        if not isinstance(item, Mapping):
            raise InputError("task", f"must be a dict with code and payload, not {type(item).__name__}")
        for name in item:
            if name not in OPTIONS and name not in {"code", "payload"}:
                raise InputError(str(name), f"is not an option{suggest(str(name), OPTIONS)}")
        if "code" not in item:
            raise InputError("code", "is missing")
        payload = item.get("payload")
        return self._new(item["code"], {} if payload is None else payload, item)

    def _write(self, tasks: Sequence[NewTask], connection: Any) -> list[int]:
        if connection is not None:
            return self._center().intake.insert_joined(caller_connection(connection), tasks)
        ids = self._short.write(tasks) if self._short is not None else None
        if ids is None:
            ids = self._center().intake.insert(tasks)
            self._ring(ring_for(tasks, ids))
        if log.isEnabledFor(logging.DEBUG):
            for task, task_id in zip(tasks, ids, strict=True):
                extra = {"task_id": task_id, "task_code": task.task_code, "trace_id": task.trace_id}
                log.debug("enqueued", extra=extra)
        return ids

    def _new(self, code: str, payload: object, options: Mapping[str, Any]) -> NewTask:
        check_name(code, "task_code")
        handler = self._registry.get(code)
        defaults = handler.defaults if handler is not None else HandlerOptions()
        text = encode_payload(payload, self._max_bytes)
        if handler is not None and isinstance(payload, dict):
            handler.check_payload(payload)
        expires_at, delays = options.get("expires_at"), check_delays(options.get("retry_delays"))
        unique_key = options.get("unique_key")
        return NewTask(
            task_code=code,
            payload=text,
            queue=check_name(_given(options, "queue", defaults.queue or self._queue or code), "queue"),
            priority=_or(options, "priority", defaults.priority, 0, 9),
            timeout=_or(options, "timeout", defaults.timeout, 1, LONGEST_TIMEOUT),
            max_retry=_or(options, "max_retry", defaults.max_retry, 0, 255),
            retry_delays=",".join(f"{delay:g}" for delay in delays) if delays else None,
            unique_key=None if unique_key is None else check_name(unique_key, "unique_key", 190),
            expires_at=None if expires_at is None else _aware(expires_at, "expires_at"),
            trace_id=self._trace_id(options.get("trace_id")),
            limit_key=_limit_key(options.get("limit_key"), defaults.limit_key, payload),
            **self._when(code, options),
        )

    def _trace_id(self, given: object) -> str:
        if given is None:
            given = context.trace_id()
        return secrets.token_hex(16) if given is None else check_name(given, "trace_id")

    def _when(self, code: str, options: Mapping[str, Any]) -> dict[str, Any]:
        given = [name for name in ("delay", "at", "cron") if options.get(name) is not None]
        if len(given) > 1:
            raise InputError(given[1], f"cannot be given together with {given[0]}")
        if options.get("timezone") is not None and given != ["cron"]:
            raise InputError("timezone", "goes with cron; an instant given by `at` carries its own")
        if given == ["cron"]:
            return self._periodic(code, options)
        if given == ["at"]:
            return {"task_type": TaskType.TIMED, "plan_next_run_at": _aware(options["at"], "at")}
        delay = options.get("delay")
        return {"delay": 0 if delay is None else check_seconds(delay, "delay", 0, LONGEST_DELAY)}

    def _periodic(self, code: str, options: Mapping[str, Any]) -> dict[str, Any]:
        misfire = _given(options, "misfire", "once")
        if misfire not in MISFIRES:
            raise CronError("misfire", f"must be one of {', '.join(MISFIRES)}, not {misfire!r}")
        zone = check_zone(_given(options, "timezone", self._zone))
        expression = options["cron"]
        if not isinstance(expression, str):
            raise CronError("cron", f"must be text such as '0 2 * * *', not {type(expression).__name__}")
        seed = f"{code}:{options.get('unique_key') or ''}"
        gap, overlap = _given(options, "dst_gap", "after"), _given(options, "dst_overlap", "first")
        schedule = parse(resolve_hash(expression, seed), zone, gap=gap, overlap=overlap)
        at = schedule.next(self._now())
        return {
            "task_type": TaskType.PERIODIC,
            "cron_expr": schedule.expression,
            "timezone": zone,
            "misfire": misfire,
            "dst_gap": gap,
            "dst_overlap": overlap,
            "plan_next_run_at": at,
            "next_fire_at": schedule.next(at),
        }


def _given(options: Mapping[str, Any], name: str, default: Any) -> Any:
    """An option, or its default where there is none; what is merely empty is checked like anything else."""
    value = options.get(name)
    return default if value is None else value


def _or(options: Mapping[str, Any], name: str, default: int, lowest: int, highest: int) -> int:
    value = options.get(name)
    return default if value is None else check_whole(value, name, lowest, highest)


def _limit_key(given: object, template: str | None, payload: object) -> str | None:
    """The key of the task itself, or that of its handler with the payload's values in it."""
    if given is None and template is None:
        return None
    return check_limit_key(fill_key(template or "", payload) if given is None else given)


def _aware(value: object, field: str) -> datetime:
    if not isinstance(value, datetime):
        raise InputError(field, f"must be a datetime with a time zone, not {type(value).__name__}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InputError(
            field,
            f"{value.isoformat()} has no time zone; use datetime.now(UTC) or datetime(…, tzinfo=ZoneInfo(…))",
        )
    return as_utc(value)


def caller_connection(given: Any) -> Any:
    """The SQLAlchemy Connection behind what a caller passed; refuses what cannot be joined."""
    from taskkit.center.joining import connection_of

    return connection_of(given)
