"""The application under chaos: handlers whose effect is a start and an end in the ledger, and every way to fail between."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.chaos import ledger
from taskkit import RunContext, Taskkit, current_run

LEDGER = "CHAOS_LEDGER"
RETRIES = (0.2, 1.0, 2.0)
PATIENT = 12
"""Retries of tasks that are meant to succeed: more than an adversary should be able to use up."""
QUICK, LONG = 25, 600.0

kit = Taskkit()
pen: ledger.Pen | None = None
worker_id = sys.argv[-1] if len(sys.argv) > 4 else "nobody"


def _born() -> None:
    """In a worker's child, before its first task: so that its death can be watched for."""
    if pen is not None:
        pen.write(ledger.BIRTH, worker_id)


if os.environ.get(LEDGER):
    pen = ledger.Pen(Path(os.environ[LEDGER]))
    os.register_at_fork(after_in_child=_born)


def note(kind: str, run: RunContext, extra: str = ledger.NONE) -> None:
    """One line about a run."""
    if pen is not None:
        pen.write(kind, worker_id, run.task_id, run.attempt, run.task_code, extra)


@contextmanager
def effect() -> Iterator[RunContext]:
    """What happens inside is the effect of this attempt: its start and its end are in the ledger."""
    run = current_run()
    at = run.occurrence_at
    note(ledger.START, run, ledger.NONE if at is None else str(int(at.timestamp())))
    how = "ok"
    try:
        yield run
    except BaseException as error:
        how = type(error).__name__
        raise
    finally:
        note(ledger.END, run, how)


@kit.task("fast", queue="bulk", timeout=QUICK, max_retry=PATIENT, retry_delays=RETRIES)
def fast() -> None:
    """Nothing but the effect."""
    with effect():
        pass


@kit.task("swift", timeout=QUICK, max_retry=PATIENT, retry_delays=RETRIES)
async def swift() -> None:
    """The same, async."""
    with effect():
        await asyncio.sleep(0)


@kit.task("nap", timeout=QUICK, max_retry=PATIENT, retry_delays=RETRIES)
def nap(ms: int) -> None:
    """Keeps its child for a while."""
    with effect():
        time.sleep(ms / 1000)


@kit.task("doze", timeout=QUICK, max_retry=PATIENT, retry_delays=RETRIES)
async def doze(ms: int) -> None:
    """Waits in the event loop."""
    with effect():
        await asyncio.sleep(ms / 1000)


@kit.task("rest", timeout=QUICK, max_retry=PATIENT, retry_delays=RETRIES, blocking=True)
def rest(ms: int) -> None:
    """Waits in a thread beside others."""
    with effect():
        time.sleep(ms / 1000)


@kit.task("stumble", timeout=QUICK, max_retry=PATIENT, retry_delays=RETRIES)
def stumble() -> None:
    """Fails in its first attempt."""
    with effect() as run:
        if run.attempt == 1:
            raise ValueError("the first attempt fails")


@kit.task("doomed", timeout=QUICK, max_retry=2, retry_delays=(0.2, 0.5))
def doomed() -> None:
    """Fails always."""
    with effect():
        raise ValueError("every attempt fails")


@kit.task("overrun", timeout=1, max_retry=PATIENT, retry_delays=RETRIES)
def overrun() -> None:
    """Exceeds its time limit in its first attempt."""
    with effect() as run:
        if run.attempt == 1:
            time.sleep(LONG)


@kit.task("endless", timeout=1, max_retry=1, retry_delays=(0.2,))
async def endless() -> None:
    """Exceeds its time limit always."""
    with effect():
        await asyncio.sleep(LONG)


@kit.task("crash", timeout=QUICK, max_retry=PATIENT, retry_delays=RETRIES)
def crash(how: str) -> None:
    """Takes its child along in its first attempt: by a signal, or by leaving without a word."""
    with effect() as run:
        if run.attempt == 1:
            note(ledger.CRASH, run, how)
            os.kill(os.getpid(), signal.SIGKILL) if how == "kill" else os._exit(3)


@kit.task("long", timeout=QUICK, max_retry=PATIENT, retry_delays=RETRIES, blocking=True)
def long(ms: int) -> None:
    """Still runs when a worker that was frozen and declared dead comes back."""
    with effect():
        time.sleep(ms / 1000)


@kit.task("single", timeout=QUICK, max_retry=PATIENT, retry_delays=RETRIES)
def single() -> None:
    """Enqueued with a unique key."""
    with effect():
        time.sleep(random.uniform(0, 0.3))


@kit.task("once", timeout=QUICK, max_retry=0)
def once(ms: int) -> None:
    """Allows no retry: whatever ends it, it is not to start again."""
    with effect():
        time.sleep(ms / 1000)


@kit.task("brood", timeout=60, max_retry=PATIENT, retry_delays=RETRIES)
def brood(children: int) -> None:
    """Enqueues further tasks."""
    with effect() as run:
        for _ in range(children):
            note(ledger.CHILD, run, str(fast.enqueue()))


@kit.task("tick", queue="tick", timeout=QUICK, max_retry=PATIENT, retry_delays=RETRIES)
def tick(ms: int) -> None:
    """The periodic tasks."""
    with effect():
        time.sleep(ms / 1000)
