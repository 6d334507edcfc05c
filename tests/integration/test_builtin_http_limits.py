"""The built-in handler ``http`` holds its limits: size, time, broken answers, interruption."""

from __future__ import annotations

import json
import resource
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from taskkit.errors import Interrupted, TaskkitError
from taskkit.worker.builtin import RequestFailed, http
from tests.integration.answers import serving


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def failure(**payload: Any) -> RequestFailed:
    with pytest.raises(RequestFailed) as caught:
        http(**payload)
    assert isinstance(caught.value, TaskkitError)
    return caught.value


def test_a_huge_answer_is_read_to_its_end_and_kept_in_part(server: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = http(url=f"{server}/huge", output_limit=1000)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert (result["cut"], len(result["body"]) < 1100) == (True, True)
    assert "[the middle of 50000000 bytes is cut]" in result["body"]
    assert grown_kib < 30_000


def test_an_answer_that_unpacks_to_far_more_is_bounded_too(server: str) -> None:
    assert len(http(url=f"{server}/bomb", output_limit=1000)["body"]) < 1100


@pytest.mark.parametrize("path", ["drip", "drip?head=1", "never"])
def test_the_time_holds_however_slowly_an_answer_comes(server: str, path: str) -> None:
    started = time.monotonic()
    error = failure(url=f"{server}/{path}", timeout=0.5)
    assert "no complete answer within 0.5 s" in str(error)
    assert error.can_retry
    assert time.monotonic() - started < 30


def test_the_time_holds_when_nobody_takes_the_connection() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        port = listening.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            assert "within 0.3 s" in str(failure(url=f"http://127.0.0.1:{port}/", timeout=0.3))
            assert "within 0.3 s" in str(failure(url=f"https://127.0.0.1:{port}/", timeout=0.3))


@pytest.mark.parametrize(
    ("path", "text"), [("broken", "RemoteProtocolError"), ("nonsense", "RemoteProtocolError")]
)
def test_an_answer_that_breaks_off_or_is_none_fails(server: str, path: str, text: str) -> None:
    error = failure(url=f"{server}/{path}")
    assert text in str(error)
    assert (error.status, error.can_retry) == (None, True)


def test_a_server_that_is_not_there_fails_with_the_cause(server: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        error = failure(url=f"http://127.0.0.1:{unused.getsockname()[1]}/x")
    assert "[Errno 111]" in str(error)
    assert "ConnectError" in str(failure(url=server.replace("http", "https")))


@pytest.mark.parametrize(
    ("payload", "body"),
    [
        ("hex=ff41", "\\xff41".replace("41", "A")),
        ("hex=e4&type=text/plain;charset=latin-1", "ä"),
        ("hex=d6d0&type=text/plain;charset=gbk", "中"),
        ("hex=41&type=text/plain;charset=no-such", "A"),
        ("hex=41&type=text/plain;charset=zlib", "A"),
        ("hex=5c7564383030&type=text/plain;charset=unicode_escape", "\\ud800"),
    ],
)
def test_any_bytes_become_text_that_json_can_hold(server: str, payload: str, body: str) -> None:
    result = http(url=f"{server}/bytes?{payload.replace(';', '%3B')}")
    assert result["body"] == body
    json.dumps(result, ensure_ascii=False).encode()


def test_an_interruption_comes_out_at_once(server: str) -> None:
    def interrupt(*_: object) -> None:
        raise Interrupted("time is over")

    before = signal.signal(signal.SIGALRM, interrupt)
    started = time.monotonic()
    try:
        for path in ("never", "drip"):
            signal.setitimer(signal.ITIMER_REAL, 0.4)
            with pytest.raises(Interrupted):
                http(url=f"{server}/{path}")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("in_callback", [True, False])
def test_an_interruption_is_not_swallowed_by_the_event_loop(in_callback: bool) -> None:
    import asyncio

    from taskkit.worker.builtin_exchange import run_alone

    def interrupt() -> None:
        raise Interrupted("in a callback")

    async def interrupted() -> None:
        if in_callback:
            asyncio.get_running_loop().call_soon(interrupt)
            await asyncio.sleep(30)
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(30))
            interrupt()

    with pytest.raises(Interrupted):
        run_alone(interrupted())


def test_many_threads_call_at_once(server: str) -> None:
    bodies: list[str] = []
    threads = [
        threading.Thread(target=lambda: bodies.append(http(url=f"{server}/echo")["body"])) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(bodies) == 8
