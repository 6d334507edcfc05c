"""One HTTP call within a whole time, to a server that may do anything; its address reaches no log."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from taskkit.logs.quiet import unlogged

T = TypeVar("T")
MOST_BYTES = 65_536
"""Of an answer, that are read: the rest is of no use."""
GRACE_S = 0.5
"""How much later than its own limit a call is left to itself: a look-up of a name cannot be broken off."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What came back: a status with the beginning of its body, or why nothing did (``failure``, a word or two)."""

    status: int = 0
    body: bytes = b""
    failure: str = ""
    headers: Mapping[str, str] | None = None

    @property
    def code(self) -> str:
        """``http 502`` or ``timeout``, for replies without a code of their own."""
        return self.failure or f"http {self.status}"

    @property
    def text(self) -> str:
        """The body as text, whatever it is."""
        return self.body.decode("utf-8", "replace")


def post(url: httpx.URL | str, content: bytes, headers: Mapping[str, str], *, timeout: float) -> Heard:
    """POST and read the answer. Follows no redirect, takes no compression, and never raises."""
    try:
        return within(timeout + GRACE_S, lambda: _alone(_exchange(url, content, headers, timeout)))
    except Exception as failure:  # noqa: BLE001 - whatever a library makes of a hostile answer is a failed call
        return Heard(failure=failure_word(failure))


async def _exchange(url: httpx.URL | str, content: bytes, headers: Mapping[str, str], limit: float) -> Heard:
    asked = {"Accept-Encoding": "identity", "User-Agent": "taskkit", **headers}
    async with asyncio.timeout(limit):
        secure = httpx.URL(url).scheme == "https"
        client = httpx.AsyncClient(verify=secure, follow_redirects=False, timeout=limit)
        async with client, client.stream("POST", url, content=content, headers=asked) as answer:
            return Heard(answer.status_code, await _beginning(answer), headers=answer.headers)


async def _beginning(answer: httpx.Response) -> bytes:
    read = bytearray()
    async with contextlib.aclosing(answer.aiter_raw()) as pieces:  # type: ignore[type-var]
        async for piece in pieces:
            read += piece
            if len(read) >= MOST_BYTES:
                break
    return bytes(read[:MOST_BYTES])


def within(seconds: float, work: Callable[[], T]) -> T:
    """What ``work`` returns, done in a thread of its own that is left to itself when its time is over: TimeoutError."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as failure:  # noqa: BLE001 - raised again where somebody waits
            future.set_exception(failure)

    threading.Thread(target=run, daemon=True, name="taskkit-receiver").start()
    return future.result(timeout=seconds)


def _alone(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run in an event loop of its own, without the log lines that would hold its URL."""
    loop = asyncio.new_event_loop()
    try:
        with unlogged():
            return loop.run_until_complete(coroutine)
    finally:
        with contextlib.suppress(Exception):
            loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


_WORDS: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str], ...] = (
    ((TimeoutError, httpx.TimeoutException, asyncio.CancelledError), "timeout"),
    (ssl.SSLError, "tls"),
    (socket.gaierror, "name not found"),
    (ConnectionRefusedError, "refused"),
    (ConnectionError, "connection lost"),
    (httpx.ConnectError, "cannot connect"),
    ((httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError, httpx.DecodingError), "connection lost"),
    ((httpx.InvalidURL, httpx.UnsupportedProtocol), "not a url"),
)


def failure_word(failure: BaseException) -> str:
    """What went wrong, by the innermost cause that has a word; never the library's own text, which may hold the URL."""
    chain = list(_causes(failure))
    for kinds, word in _WORDS:
        if any(isinstance(one, kinds) for one in chain):
            return word
    return type(failure).__name__


def _causes(failure: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = [failure]
    while seen and (one := seen.pop(0)) is not None:
        yield one
        seen += [inner for inner in (one.__cause__, one.__context__) if inner is not None][:1]
        seen += one.exceptions if isinstance(one, BaseExceptionGroup) else ()
