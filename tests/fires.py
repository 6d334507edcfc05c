"""A worker of its own for tests that hurt it: with the handlers of sample_fire, on the shared servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from taskkit.states import Status
from tests import sample_fire
from tests.processes import Installation, Process

APP = f"{sample_fire.__name__}:kit"


@contextmanager
def burning(home: Installation, queue: str, *arguments: str, **environment: Any) -> Iterator[Process]:
    """A worker that serves only ``queue``; at the end it must live still, and stop in order."""
    worker = home.begin("worker", "--app", APP, "--queue", queue, *arguments, **environment).ready()
    yield worker
    assert worker.popen.poll() is None, worker.err.read_text()[-2000:]
    assert worker.stop() == 0


def works(home: Installation, queue: str, slots: int = 1) -> None:
    """Every slot of the worker that serves ``queue`` takes a task and finishes it, by itself."""
    folder = home.folder / f"meeting-{home.enqueue('echo', queue='nobody')}"
    folder.mkdir()
    ids = home.enqueue_many("meet", [{"folder": str(folder), "n": slots}] * slots, queue=queue, max_retry=3)
    assert {task.status for task in home.wait_all(ids)} == {Status.SUCCESS}


def pids(notes: Path) -> list[int]:
    """The numbers in a file of notes."""
    return [int(word) for word in notes.read_text().split() if word.isdigit()]
