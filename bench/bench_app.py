"""The application that the measurements run."""

from __future__ import annotations

import asyncio
import time

from bench.peers import worklib
from taskkit import Taskkit

kit = Taskkit()


@kit.task("noop", timeout=30, max_retry=0)
def noop() -> None:
    """Nothing, in a child process."""


@kit.task("noop_async", timeout=30, max_retry=0)
async def noop_async() -> None:
    """Nothing, in a child's event loop beside others."""


@kit.task("noop_thread", timeout=30, max_retry=0, blocking=True)
def noop_thread() -> None:
    """Nothing, in one of a child's threads."""


@kit.task("nap", timeout=30, max_retry=0)
def nap(ms: int) -> None:
    """Keeps a child process."""
    time.sleep(ms / 1000)


@kit.task("nap_async", timeout=30, max_retry=0)
async def nap_async(ms: int) -> None:
    """Waits in a child's event loop beside others."""
    await asyncio.sleep(ms / 1000)


@kit.task("nap_thread", timeout=30, max_retry=0, blocking=True)
def nap_thread(ms: int) -> None:
    """Keeps one of a child's threads."""
    time.sleep(ms / 1000)


@kit.task("mark", timeout=30, max_retry=12, retry_delays=(0.2, 1.0, 2.0))
def mark(number: int, sent: float) -> None:
    """Records when it began, with when it was sent, in the file that BENCH_RECORDS names."""
    worklib.noop(number, sent)
