"""The application of the lab: handlers with a real effect, a real fault, or a real lock to wait for.

An effect is a line in a file of the lab's folder, so that the truth does not come from what is to be diagnosed.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from taskkit import Taskkit, current_run

FOLDER = "LAB_FOLDER"
"""The variable that tells the handlers where the lab's files are."""
EFFECTS, PACE, LOCK, FIRST = "effects", "pace", "lock", "first"

kit = Taskkit()


def place(name: str) -> Path:
    """A file of the lab's folder."""
    return Path(os.environ[FOLDER]) / name


def effect() -> None:
    """What the world sees of a task: one line, at once and whole."""
    run = current_run()
    with place(EFFECTS).open("a", encoding="ascii") as file:
        file.write(f"{run.task_id} {run.attempt}\n")


@kit.task("push", timeout=60)
def push(number: int, seconds: float) -> int:
    """Send a push: the effect, after so many seconds of work."""
    time.sleep(seconds)
    effect()
    return number


@kit.task("sync_rows", timeout=120)
def sync_rows(number: int) -> int:
    """Update rows one by one; how long each takes says a file, as a table without an index would."""
    for _ in range(5):
        time.sleep(float(place(PACE).read_text(encoding="ascii")) / 5)
    return number


@kit.task("ask_partner", timeout=30, max_retry=12, retry_delays=(0.3,), jitter=0)
def ask_partner(number: int) -> None:
    """Ask another side that is down."""
    time.sleep(0.1)
    raise ConnectionError(f"the partner does not answer request {number}")


@kit.task("charge", timeout=60)
def charge(number: int, before_s: float, after_s: float, told: bool) -> int:
    """Charge a card between two waits; the first attempt of all waits as told, later ones do not.

    With ``told`` the run says in its progress that the effect has happened.
    """
    first = current_run().attempt == 1
    time.sleep(before_s if first else 0)
    effect()
    if told:
        current_run().progress(0.9, "charged")
    time.sleep(after_s if first else 0)
    return number


@kit.task("send_then_fail", timeout=30, max_retry=3, retry_delays=(0.3,), jitter=0)
def send_then_fail(number: int) -> int:
    """Send, and then meet an error the first time: the retry sends again."""
    effect()
    if current_run().attempt == 1:
        raise ConnectionError(f"the reply to request {number} did not come")
    return number


@kit.task("locked", timeout=600)
def locked(number: int) -> int:
    """Wait for a lock of a file that somebody holds."""
    with place(LOCK).open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
    return number


@kit.task("spin", timeout=600)
def spin(number: int) -> int:
    """A loop that does not end by itself."""
    while place(LOCK).exists():
        for _ in range(100_000):
            number += 1
    return number


@kit.task("report", timeout=600)
def report(number: int, seconds: float) -> int:
    """A long report: slow, and rightly so."""
    time.sleep(seconds)
    return number
