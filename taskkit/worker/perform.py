"""Performing one attempt: payload in, hooks around, and every way a function can end turned into one answer."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from taskkit import context, logs
from taskkit.context import RunContext
from taskkit.errors import Interrupted, NeverRetry, RetryLater
from taskkit.payload import decode_payload
from taskkit.registry import Handler, Hook
from taskkit.results import encode_result
from taskkit.states import Outcome
from taskkit.texts import cut, cut_middle, encodable

ERROR_BYTES = 8_192
TRACEBACK_BYTES = 60_000
FRAMES = 100


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended, as its child saw it."""

    outcome: Outcome
    result: str | None = None
    line: str | None = None
    error: str | None = None
    traceback: str | None = None
    delay: float | None = None


def perform(
    handler: Handler[..., Any], run: RunContext, payload: str, hooks: Sequence[Hook], max_result: int
) -> Ended:
    """Run a plain handler in this thread; only Interrupted passes through."""
    with logs.bind(**_fields(run)):
        context.enter(run)
        try:
            with _around(hooks, run):
                value = _refuse_unawaited(handler.fn(**_arguments(handler, payload)))
            return _success(value, max_result)
        except Interrupted:
            raise
        except BaseException as error:  # noqa: BLE001 - every end of a handler is an answer
            return failure(error)
        finally:
            context.enter(None)


async def perform_async(
    handler: Handler[..., Any], run: RunContext, payload: str, hooks: Sequence[Hook], max_result: int
) -> Ended:
    """Run an async handler in this event loop; a cancellation passes through."""
    with logs.bind(**_fields(run)):
        context.enter(run)
        try:
            with _around(hooks, run):
                value = await handler.fn(**_arguments(handler, payload))
            return _success(value, max_result)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - every end of a handler is an answer
            return failure(error)


def _refuse_unawaited(value: object) -> object:
    """What a plain function returned; a coroutine has not run, and must not pass for the work of a success."""
    if not inspect.isawaitable(value):
        return value
    if inspect.iscoroutine(value):
        value.close()
    raise NeverRetry(
        f"the handler is a plain function and returned a {type(value).__name__}, which nobody awaits: "
        "make it `async def`, also what its decorators make of it"
    )


def _success(value: object, max_result: int) -> Ended:
    result, line = encode_result(value, max_result)
    return Ended(Outcome.SUCCESS, result, line)


def failure(error: BaseException) -> Ended:
    """What an exception out of a handler means."""
    if isinstance(error, SystemExit) and error.code in {0, None}:
        return Ended(Outcome.SUCCESS, None, "ok (the handler called sys.exit)")
    text = tell(error)
    trace = _traceback(error)
    if isinstance(error, RetryLater):
        return Ended(Outcome.FAILED, error=text, traceback=trace, delay=max(0.0, error.seconds))
    outcome = Outcome.GIVEN_UP if isinstance(error, NeverRetry) else Outcome.FAILED
    return Ended(outcome, error=text, traceback=trace)


def tell(error: BaseException) -> str:
    """The type and message of an error; never empty, whatever its ``__str__`` does."""
    name = type(error).__name__
    try:
        text = encodable(str(error)).replace("\0", "\\0").strip()
    except BaseException as problem:  # noqa: BLE001 - an exception of the user's may do anything
        text = f"(its text cannot be shown: {type(problem).__name__})"
    return cut(f"{name}: {text}" if text else name, ERROR_BYTES)


def _traceback(error: BaseException) -> str:
    try:
        lines = traceback.format_exception(type(error), error, error.__traceback__, limit=FRAMES)
        return cut_middle("".join(lines).replace("\0", "\\0"), TRACEBACK_BYTES)
    except BaseException as problem:  # noqa: BLE001 - as in tell
        return f"(no traceback: {type(problem).__name__})"


def _arguments(handler: Handler[..., Any], payload: str) -> dict[str, Any]:
    arguments = decode_payload(payload or "{}")
    handler.check_payload(arguments)
    return arguments


def _around(hooks: Sequence[Hook], run: RunContext) -> ExitStack:
    stack = ExitStack()
    try:
        for hook in hooks:
            stack.enter_context(hook(run))
    except BaseException:
        stack.close()
        raise
    return stack


def _fields(run: RunContext) -> dict[str, Any]:
    return {
        "task_id": run.task_id,
        "task_code": run.task_code,
        "attempt": run.attempt,
        "trace_id": run.trace_id,
    }
