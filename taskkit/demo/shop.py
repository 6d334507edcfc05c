"""The handlers of the demonstration: a small shop."""

from __future__ import annotations

import asyncio
import http.client
import time
from urllib.parse import urlsplit

from taskkit import Taskkit

kit = Taskkit()


@kit.task("send_email", timeout=10)
def send_email(to: str, subject: str = "") -> str:
    """Send nothing, but take as long as a mail server."""
    time.sleep(0.02)
    return f"sent to {to}"


@kit.task("flaky", timeout=10, max_retry=3, retry_delays=(1, 1, 1), jitter=0)
def flaky(url: str) -> str:
    """Ask a server that is down at first."""
    parts = urlsplit(url)
    link = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=5)
    link.request("GET", parts.path)
    status = link.getresponse().status
    link.close()
    if status != http.HTTPStatus.OK:
        raise ConnectionError(f"the other side answered {status}")
    return "worked in the end"


@kit.task("slow", timeout=1, max_retry=0)
def slow(seconds: float) -> None:
    """Take longer than allowed."""
    time.sleep(seconds)


@kit.task("fetch", timeout=10)
async def fetch(url: str, times: int) -> str:
    """Ask a web server for a page so many times at once."""
    answers = await asyncio.gather(*(_get(url) for _ in range(times)))
    return f"{sum('200' in answer for answer in answers)} of {times} pages at once"


async def _get(url: str) -> str:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(f"GET {parts.path} HTTP/1.0\r\nHost: {parts.netloc}\r\n\r\n".encode())
    status = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return status.decode()


@kit.task("tick", timeout=5)
def tick() -> str:
    """Run every two seconds."""
    return "tick"
