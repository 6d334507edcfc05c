"""``taskkit probe``: when the no-op does not arrive, it says which step is missing and what to look at."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from taskkit.beats import SchedulerBeat, WorkerBeat
from taskkit.center import TaskCenter
from tests import centers
from tests.commands import built, cli, refused
from tests.waiting import wait_until


@pytest.fixture
def center(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[TaskCenter]:
    """The embedded database and a broker that answers."""
    monkeypatch.setenv("TASKKIT_REDIS_URL", redis_url)
    monkeypatch.setenv("TASKKIT_SHORT_WAY", "false")
    built()
    found = TaskCenter(f"sqlite:///{tmp_path}/.taskkit/taskkit.db")
    yield found
    found.close()


def probe(queue: str = "mail") -> dict[str, Any]:
    """A probe that is to stop half-way."""
    answer = cli("probe", queue, "--deadline", "0.4", "--json")
    assert answer.code == 1, answer
    found: dict[str, Any] = answer.json
    assert not found["arrived"]
    assert [step["step"] for step in found["steps"]] == ["enqueue", "dispatch", "claim", "start", "finish"]
    return found


def add_scheduler(center: TaskCenter) -> None:
    center.nodes.enter_scheduler("host:8:b", "host", 8)
    center.nodes.beat_scheduler(SchedulerBeat("host:8:b", "host", 8, 5, 9, center.now(), 0.4, "2026a"))


def add_worker(center: TaskCenter, queues: str) -> None:
    center.nodes.enter_worker(WorkerBeat("host:7:a", "host", 7, queues, 4, 4, 0, 0, 0, None, 1, 1.0, [], []))
    centers.sql(center, "UPDATE task_worker SET busy = 4")


def meanwhile(center: TaskCenter, act: Callable[[int], None]) -> threading.Thread:
    """Do something with the probe's task as soon as it is there."""

    def run() -> None:
        (task,) = wait_until(lambda: centers.sql(center, "SELECT id FROM task_center WHERE status = 0"))
        act(task.id)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_no_scheduler(center: TaskCenter) -> None:
    found = probe()
    assert found["stopped_before"] == "dispatch"
    assert "no scheduler is alive: start one with `taskkit up`" in found["why"]


def test_a_scheduler_that_does_not_scan(center: TaskCenter) -> None:
    add_scheduler(center)
    assert "1 scheduler alive, the last scan" in probe()["why"]


def test_a_full_list(center: TaskCenter, monkeypatch: pytest.MonkeyPatch) -> None:
    add_scheduler(center)
    monkeypatch.setenv("TASKKIT_SCHEDULER_WINDOW", "3")
    center.intake.insert([centers.new("mail", queue="mail")] * 3)
    assert len(centers.dispatch(center, "mail").won) == 3
    assert "its list is full (3 wait in it, the window is 3)" in probe()["why"]


def test_no_worker(center: TaskCenter) -> None:
    add_scheduler(center)
    thread = meanwhile(center, lambda task_id: center.dispatch.claim([task_id]))
    found = probe()
    thread.join()
    assert found["stopped_before"] == "claim"
    assert "no worker is alive" in found["why"]


def test_no_worker_that_serves_the_queue(center: TaskCenter) -> None:
    add_scheduler(center)
    add_worker(center, "reports,images")
    thread = meanwhile(center, lambda task_id: center.dispatch.claim([task_id]))
    why = probe()["why"]
    thread.join()
    assert "no live worker serves the queue mail (served are: images, reports)" in why


def test_a_message_that_is_gone(center: TaskCenter) -> None:
    add_scheduler(center)
    add_worker(center, "mail")
    thread = meanwhile(center, lambda task_id: center.dispatch.claim([task_id]))
    why = probe()["why"]
    thread.join()
    assert "its message is in no list although 4 of 4 processes of its 1 worker are busy" in why


def test_a_worker_that_took_it_and_says_nothing(center: TaskCenter) -> None:
    def take(task_id: int) -> None:
        batch = center.dispatch.claim([task_id])
        center.worker_desk("host:7:a").claim(centers.messages(batch))

    thread = meanwhile(center, take)
    found = probe()
    thread.join()
    assert found["stopped_before"] == "start"
    assert "worker host:7:a has taken it and not finished it" in found["why"]


def test_the_broker_does_not_answer(center: TaskCenter, monkeypatch: pytest.MonkeyPatch) -> None:
    add_scheduler(center)
    monkeypatch.setenv("TASKKIT_REDIS_URL", "redis://127.0.0.1:1/0")
    assert "the broker does not answer: redis 127.0.0.1:1" in probe()["why"]


def test_the_embedded_broker_is_not_running(center: TaskCenter, monkeypatch: pytest.MonkeyPatch) -> None:
    add_scheduler(center)
    monkeypatch.delenv("TASKKIT_REDIS_URL")
    assert "the embedded broker in" in probe()["why"]


def test_a_probe_that_did_not_arrive_leaves_nothing_waiting(center: TaskCenter) -> None:
    task_id = probe()["task_id"]
    assert centers.task(center, task_id).status.label == "cancelled"


def test_the_page_for_people(center: TaskCenter) -> None:
    began = time.monotonic()
    answer = cli("probe", "mail", "--deadline", "0.5")
    assert time.monotonic() - began < 10
    assert answer.code == 1
    assert "it stopped before dispatch, 500 ms were not enough: no scheduler is alive" in answer.out


def test_a_queue_that_can_be_none(center: TaskCenter) -> None:
    assert "queue: has 65 letters" in refused("probe", "q" * 65)
