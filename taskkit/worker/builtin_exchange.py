"""One HTTP exchange with httpx, in an event loop of its own: only so a total time can be kept in every phase."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

import httpx

from taskkit.errors import Interrupted
from taskkit.logs.quiet import unlogged
from taskkit.worker.builtin_output import Kept
from taskkit.worker.builtin_request import Request

T = TypeVar("T")


async def exchange(request: Request, kept: Kept, *, follow_redirects: bool, verify: bool) -> httpx.Response:
    """Send a request and read the answer to its end into ``kept``; raises TimeoutError when its time is over."""
    needs_tls = follow_redirects or request.url.lower().startswith("https:")
    limit = request.timeout
    async with asyncio.timeout(limit):
        client = httpx.AsyncClient(
            verify=verify and needs_tls, follow_redirects=follow_redirects, timeout=limit
        )
        async with client, _stream(client, request) as answer:
            async for piece in answer.aiter_bytes():
                kept.add(piece)
    return answer


def _stream(
    client: httpx.AsyncClient, request: Request
) -> contextlib.AbstractAsyncContextManager[httpx.Response]:
    headers = [(name.encode("ascii"), value.encode("latin-1")) for name, value in request.headers.items()]
    return client.stream(request.method, request.url, headers=headers, content=request.content)


def run_alone(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a loop of its own, without the log lines that would hold its URL.

    Unlike ``asyncio.run`` it does not wait for the thread of a name look-up that hangs, and `Interrupted` comes
    out of it wherever it was raised.
    """
    loop = asyncio.new_event_loop()
    stray: list[Interrupted] = []
    loop.set_exception_handler(lambda loop, context: _stop(loop, context.get("exception"), stray))
    with unlogged():
        try:
            return loop.run_until_complete(coroutine)
        except BaseException as failure:
            if found := _interrupted(failure, stray):
                raise found from None
            raise
        finally:
            _cancel_all(loop)
            loop.close()


def _stop(loop: asyncio.AbstractEventLoop, failure: BaseException | None, stray: list[Interrupted]) -> None:
    """A loop swallows what is raised in a callback of its own; an interruption must not get lost there."""
    if isinstance(failure, Interrupted):
        stray.append(failure)
        loop.stop()


def _interrupted(failure: BaseException, stray: list[Interrupted]) -> Interrupted | None:
    if stray:
        return stray[0]
    grouped = failure.subgroup(Interrupted) if isinstance(failure, BaseExceptionGroup) else None
    return Interrupted("while a request was under way") if grouped else None


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """What was interrupted from outside closes its connections."""
    if tasks := asyncio.all_tasks(loop):
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
