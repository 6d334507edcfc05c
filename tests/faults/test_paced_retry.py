"""Paced retries of dead letters, with a real scheduler and worker: mended, not mended, killed, and two at once."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from taskkit.model import DeadGroup
from taskkit.states import Status
from tests import centers
from tests.commands import Running
from tests.processes import Stack
from tests.waiting import wait_until

pytest_plugins = ["tests.stacks"]
pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]
QUEUE = "letters"
EACH, FEW = 100, 50


class Letters:
    """Dead letters of two causes, ``bank`` and ``shop``, in one installation; a file mends them."""

    def __init__(self, stack: Stack, folder: Path, each: int, queue: str) -> None:
        self.home, self.folder, self.queue = stack.home, folder, queue
        self.file = folder / "mended"
        self.file.touch()
        self.ids: dict[str, list[int]] = {}
        for cause in ("bank", "shop"):
            payloads = [{"path": str(self.file), "cause": cause}] * each
            self.ids[cause] = self.home.enqueue_many("mendable", payloads, queue=queue)
        self.home.wait_all([i for ids in self.ids.values() for i in ids], Status.GIVEN_UP, seconds=90)

    def group(self, cause: str) -> DeadGroup:
        from taskkit.center import DeadFilter

        groups = self.home.kit.center.dead.groups(DeadFilter(queue=self.queue))
        (found,) = [group for group in groups if cause in group.message]
        return found

    def mend(self, cause: str) -> None:
        self.file.write_text(cause)

    def retry(self, cause: str, *arguments: str) -> Running:
        """``taskkit tasks retry`` as a process; its summary is JSON."""
        print_ = str(self.group(cause).fingerprint)
        number = len(list(self.folder.glob("cli-*")))
        folder = self.folder / f"cli-{number}"
        folder.mkdir()
        command = ("tasks", "retry", "--fingerprint", print_, "--queue", self.queue, "--json", *arguments)
        environment = {k: v for k, v in self.home.environment.items() if k.startswith(("TASKKIT_", "PYTHON"))}
        return Running(*command, folder=folder, **environment)

    def statuses(self, cause: str) -> Counter[str]:
        found = self.home.kit.center.read.statuses(self.ids[cause])
        return Counter(status.label for status, _, _ in found.values())

    def runs_of_each(self, cause: str) -> Counter[int]:
        """How many tasks have how many runs."""
        runs = Counter(run.task_id for run in self.home.kit.center.read.runs(self.ids[cause]))
        return Counter(runs.values())

    def retries(self, cause: str) -> int:
        """How many retries of persons are recorded."""
        low, high = self.ids[cause][0], self.ids[cause][-1]
        statement = (
            "SELECT COUNT(*) FROM task_action WHERE action = 'retry' AND task_id BETWEEN :low AND :high"
        )
        return int(centers.sql(self.home.kit.center, statement, low=low, high=high)[0][0])


def ended(command: Running, seconds: float = 90) -> tuple[int, dict[str, Any]]:
    """The exit code and the summary of a retry that comes to its end by itself."""
    code = command.process.wait(seconds)
    said = command.out.read_text()
    assert said, f"exit code {code}, and nothing was said: {command.err.read_text()[-1000:]}"
    return code, json.loads(said)


def test_a_mended_cause_is_retried_whole_and_one_that_is_not_stops_by_itself(
    stack: Stack, tmp_path: Path
) -> None:
    worker = stack.home.worker("--queue", QUEUE, "--processes", "2")
    letters = Letters(stack, tmp_path, EACH, QUEUE)
    assert letters.group("bank").count == letters.group("shop").count == EACH
    letters.mend("bank")

    code, said = ended(letters.retry("bank", "--rate", "50"))
    assert code == 0, said
    assert (said["meant"], said["retried"], said["succeeded"]) == (EACH, EACH, EACH)
    assert (said["under_way"], said["left"], said["stopped"]) == (0, 0, None)
    assert letters.statuses("bank") == {"success": EACH}
    assert letters.runs_of_each("bank") == {2: EACH}
    assert letters.statuses("shop") == {"given_up": EACH}

    ids = letters.ids["shop"]
    centers.sql(
        stack.home.kit.center,
        "UPDATE task_center SET max_retry = 3 WHERE id BETWEEN :low AND :high AND task_code = 'mendable'",
        low=ids[0],
        high=ids[-1],
    )
    code, said = ended(letters.retry("shop", "--rate", "50"))
    assert code == 1, said
    assert "failed again" in said["stopped"]
    assert 5 <= said["retried"] <= 20
    assert said["left"] == EACH - said["retried"]
    assert said["failed_again"] >= 5
    assert said["succeeded"] == 0
    statuses = letters.statuses("shop")
    assert statuses["given_up"] == said["left"], (
        "those left are as they were; the others wait for their back-off"
    )
    assert letters.runs_of_each("shop")[1] >= said["left"]
    assert worker.stop() == 0


def test_a_killed_retry_loses_nothing_and_the_next_one_takes_the_rest(
    server_stack: Stack, tmp_path: Path
) -> None:
    queue = f"{QUEUE}-killed"
    worker = server_stack.home.worker("--queue", queue, "--processes", "2")
    letters = Letters(server_stack, tmp_path, FEW, queue)
    letters.mend("bank shop")
    first = letters.retry("bank", "--rate", "20")
    wait_until(lambda: letters.retries("bank") >= 5, 60)
    first.end(signal.SIGKILL)
    done = letters.retries("bank")
    wait_until(lambda: letters.statuses("bank") == {"success": done, "given_up": FEW - done}, 60)
    code, said = ended(letters.retry("bank", "--rate", "200"))
    assert (code, said["retried"], said["succeeded"]) == (0, FEW - done, FEW - done)
    assert letters.runs_of_each("bank") == {2: FEW}
    assert worker.stop() == 0


def test_two_at_once_retry_no_task_twice(server_stack: Stack, tmp_path: Path) -> None:
    queue = f"{QUEUE}-two"
    worker = server_stack.home.worker("--queue", queue, "--processes", "2")
    letters = Letters(server_stack, tmp_path, FEW, queue)
    letters.mend("bank")
    first = letters.retry("bank", "--rate", "5")
    wait_until(lambda: letters.retries("bank") >= 1, 60)
    first.process.send_signal(signal.SIGSTOP)
    before = letters.retries("bank")
    second = letters.retry("bank", "--rate", "100")
    wait_until(lambda: letters.retries("bank") > before, 60)
    first.process.send_signal(signal.SIGCONT)
    answers = [ended(command) for command in (first, second)]
    assert sum(said["retried"] for _, said in answers) == FEW == letters.retries("bank")
    assert [code for code, _ in answers] == [0, 0], answers
    assert letters.runs_of_each("bank") == {2: FEW}
    assert letters.statuses("bank") == {"success": FEW}
    assert worker.stop() == 0


def test_ctrl_c_says_what_was_done_so_far(server_stack: Stack, tmp_path: Path) -> None:
    queue = f"{QUEUE}-stopped"
    worker = server_stack.home.worker("--queue", queue, "--processes", "2")
    letters = Letters(server_stack, tmp_path, 30, queue)
    letters.mend("bank")
    command = letters.retry("bank", "--rate", "5")
    wait_until(lambda: letters.retries("bank") >= 3, 60)
    assert command.end(signal.SIGINT) == 130
    said = json.loads(command.out.read_text())
    assert said["stopped"] == "interrupted"
    assert said["retried"] == letters.retries("bank") >= 3
    assert said["left"] == 30 - said["retried"]
    assert worker.stop() == 0


def test_where_no_worker_answers_it_waits_no_longer_than_it_was_told(
    server_stack: Stack, tmp_path: Path
) -> None:
    queue = f"{QUEUE}-silent"
    worker = server_stack.home.worker("--queue", queue, "--processes", "2")
    letters = Letters(server_stack, tmp_path, 30, queue)
    assert worker.stop() == 0
    code, said = ended(letters.retry("bank", "--rate", "100", "--wait", "1s"))
    assert code == 1
    assert (said["retried"], said["under_way"], said["left"]) == (20, 20, 10)
    assert said["stopped"] == "none of the 20 that are under way has ended for 1 s"


def test_every_failure_of_a_real_worker_has_a_fingerprint(server_stack: Stack) -> None:
    home, queue = server_stack.home, f"{QUEUE}-kinds"
    worker = home.worker("--queue", queue, "--processes", "1")
    ids = [
        home.enqueue("odd", {"how": "killed"}, queue=queue, max_retry=0),
        home.enqueue("nap", {"seconds": 60}, queue=queue, max_retry=0, timeout=1),
        home.enqueue("never", queue=queue),
        home.enqueue("nobody_knows_this", queue=queue, max_retry=0),
    ]
    good = home.enqueue("echo", queue=queue)
    home.wait_all(ids, Status.GIVEN_UP, seconds=60)
    found = [home.runs(task_id)[-1].fingerprint for task_id in ids]
    assert None not in found
    assert len(set(found)) == 4
    home.wait(good)
    assert home.runs(good)[-1].fingerprint is None
    assert worker.stop() == 0
