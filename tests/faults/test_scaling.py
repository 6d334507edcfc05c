"""A worker whose number of children follows the load, while its broker is away or it is stopped itself."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskkit import Settings
from taskkit.states import Status
from tests.integration.test_worker_scaling import MOST, SCALING, changes, size
from tests.processes import Installation, Process
from tests.servers import Valkey, available
from tests.waiting import wait_until

pytestmark = pytest.mark.faults
AWAY_S = 4.0


@pytest.fixture
def broker() -> Iterator[Valkey]:
    """A server that a test may stop."""
    with available(Valkey) as server:
        yield server


@pytest.fixture
def home(tmp_path: Path, broker: Valkey) -> Iterator[Installation]:
    settings = Settings(
        home=tmp_path / "home", database_url=f"sqlite:///{tmp_path}/shared.db", redis_url=broker.url
    )
    with Installation(tmp_path, settings=settings, **SCALING) as one:
        yield one


def grown(home: Installation) -> tuple[Process, list[int]]:
    """A worker that has as many children as it may have, and tasks that wait."""
    home.begin("scheduler")
    worker = home.worker()
    ids = home.enqueue_many("nap", [{"seconds": 0.1}] * 150)
    wait_until(lambda: size(worker) == MOST, 60)
    return worker, ids


def test_nothing_is_known_and_nothing_changes_while_the_broker_is_away(
    home: Installation, broker: Valkey
) -> None:
    """Longer than the calm: no answer is no sign that nothing waits. Heartbeats go on."""
    worker, ids = grown(home)
    broker.kill()
    told = len(changes(worker))
    ended = time.monotonic() + AWAY_S
    while time.monotonic() < ended:
        row = worker.row()
        assert row is not None
        assert len(row["children"]) == MOST
        time.sleep(0.1)
    assert len(changes(worker)) == told
    broker.start()
    home.wait_all(ids, Status.SUCCESS, seconds=90)
    wait_until(lambda: size(worker) < MOST, 60)
    assert worker.stop() == 0


def test_a_worker_that_was_stopped_begins_to_count_anew(home: Installation) -> None:
    """What it saw before says nothing of what was needed while it stood still."""
    worker, ids = grown(home)
    home.wait_all(ids, Status.SUCCESS, seconds=90)
    worker.signal(signal.SIGSTOP)
    told = len(changes(worker))
    time.sleep(6)  # longer than the gap between two looks that still belong together
    worker.signal(signal.SIGCONT)
    began = time.monotonic()
    wait_until(lambda: len(changes(worker)) > told, 60)
    assert time.monotonic() - began >= SCALING["worker_calm_s"] - 1.5
    assert home.kit.center.read.counts()[Status.RUNNING] == 0
