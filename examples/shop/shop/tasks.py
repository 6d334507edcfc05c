"""The handlers of the shop: plain typed functions. Their calls are checked in your editor and when they are written."""

from __future__ import annotations

import asyncio
import random
import time

from taskkit import NeverRetry, RetryLater, Taskkit, current_run

kit = Taskkit()  # settings come from the environment and taskkit.toml


@kit.task("send_email", timeout=30, max_retry=5)
def send_email(to: str, subject: str = "") -> str:
    """Send one email."""
    if "@" not in to:
        raise NeverRetry(f"{to!r} is no address: trying again cannot help")
    time.sleep(0.05)
    return f"sent {subject!r} to {to}"


@kit.task("flaky", timeout=10, max_retry=3, retry_delays=(2, 5, 10))
def flaky(chance: float = 0.5) -> str:
    """Call a service that is often down; the failed attempts stand in ``taskkit tasks show``."""
    if random.random() < chance:
        raise ConnectionError("the other side hung up")
    return f"worked at attempt {current_run().attempt}"


@kit.task("slow", timeout=60)
def slow(seconds: float = 10) -> None:
    """Take a while, and say how far it is; stop ``taskkit up`` meanwhile: the task is handed back and runs again."""
    run = current_run()
    for step in range(100):
        time.sleep(seconds / 100)
        run.progress((step + 1) / 100, f"step {step + 1} of 100")


@kit.task("fetch", timeout=30)
async def fetch(host: str = "example.com", port: int = 80) -> str:
    """Ask a web server who it is; hundreds of async tasks share one process."""
    try:
        reader, writer = await asyncio.open_connection(host, port)
    except OSError as problem:
        raise RetryLater(30, f"{host}: {problem}") from problem
    writer.write(f"HEAD / HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
    answer = await reader.read(1000)
    writer.close()
    return answer.decode("latin-1").splitlines()[0]


@kit.task("order_placed", timeout=30)
def order_placed(order: int, to: str) -> int:
    """A task may write others: they carry its trace id."""
    current_run().log.info("order %s is being confirmed", order)
    return send_email.options(unique_key=f"confirmation:{order}").enqueue(
        to=to, subject=f"Your order {order}"
    )


@kit.task("report", queue="reports", timeout=300)
def report(day: str = "yesterday") -> str:
    """What the shop sold; scheduled by ``python schedule.py``."""
    return f"{random.randrange(100)} orders {day}"
