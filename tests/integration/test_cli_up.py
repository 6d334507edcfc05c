"""``taskkit up`` with its real processes: it starts all, starts again what dies, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from tests.commands import Running, cli, done, program, refused, running
from tests.pids import alive
from tests.waiting import wait_until

READY = "ready after"


def gone(command: Running) -> bool:
    return not command.left()


def waits(task_id: int, status: str) -> dict[str, object]:
    def ended() -> dict[str, object] | None:
        task: dict[str, object] = done("tasks", "show", task_id, "--json").json
        return task if task["status_name"] == status else None

    return wait_until(ended, 30, every=0.1) or {}


def test_everything_starts_works_and_stops(tmp_path: Path) -> None:
    with running("up", "--processes", "1", folder=tmp_path) as up:
        up.wait_for(READY)
        assert f"SQLite {tmp_path}/.taskkit/taskkit.db" in up.said
        task_id = done("enqueue", "shell", "--payload", '{"command": "echo $((6 * 7))"}', "--json").json["id"]
        assert "42" in str(waits(task_id, "success")["result"])
        found = done("probe", "shell", "--json").json
        assert found["arrived"]
        assert all(step["at"] for step in found["steps"])
        assert cli("probe", "shell").code == 0
        status = done("status", "--json").json
        assert [node["alive"] for node in status["schedulers"] + status["workers"]] == [True, True]
        assert status["stores"]["broker"]["running"] is True
        assert up.end(signal.SIGTERM) == 0
        assert "everything has stopped" in up.said
        wait_until(lambda: gone(up))
        lines = [json.loads(line) for line in up.out.read_text().splitlines()]
        assert any(line.get("task_id") == task_id for line in lines)
    assert not list((tmp_path / ".taskkit").glob("*.sock"))
    assert done("status", "--json").json["stores"]["broker"]["running"] is False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_ctrl_c_and_a_closed_terminal_stop_it_in_order(number: int, tmp_path: Path) -> None:
    with running("up", "--processes", "1", "--workers", "0", folder=tmp_path) as up:
        up.wait_for(READY)
        assert up.end(number) == 0
        wait_until(lambda: gone(up))


@pytest.mark.faults
def test_what_dies_is_started_again(tmp_path: Path) -> None:
    with running("up", "--processes", "1", folder=tmp_path) as up:
        up.wait_for(READY)
        os.kill(up.role("worker 1"), signal.SIGKILL)
        os.kill(up.role("scheduler 1"), signal.SIGKILL)
        up.wait_for("worker 1 was ended by SIGKILL; it starts again in 0.5 s")
        up.wait_for("worker 1 starts again")
        up.wait_for("scheduler 1 starts again")
        task_id = done("enqueue", "shell", "--payload", '{"command": "true"}', "--json").json["id"]
        waits(task_id, "success")
        assert up.end() == 0
        wait_until(lambda: gone(up))


@pytest.mark.faults
def test_a_kill_of_all_leaves_nothing_and_the_next_start_works(tmp_path: Path) -> None:
    with running("up", "--processes", "1", folder=tmp_path) as up:
        up.wait_for(READY)
        assert up.end(signal.SIGKILL) == -signal.SIGKILL
        wait_until(lambda: gone(up), 20)
    with running("up", "--processes", "1", folder=tmp_path) as again:
        again.wait_for(READY)
        assert again.end() == 0


def test_an_application_that_does_not_load_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise RuntimeError('no luck')")
    (tmp_path / "dying.py").write_text("import os\nos._exit(3)")
    for app, says in (
        ("nowhere:kit", "there is no module 'nowhere'"),
        ("broken", "RuntimeError: no luck"),
        ("dying", "python ended with exit code 3"),
    ):
        found = program("up", "--app", app, cwd=tmp_path)
        assert (found.returncode, found.stdout) == (2, "")
        assert found.stderr.startswith("taskkit: ")
        assert found.stderr.count("\n") == 1
        assert says in found.stderr
    assert not (tmp_path / ".taskkit").exists()


def test_ctrl_c_while_the_application_is_tried(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import os, pathlib, time\npathlib.Path('pid').write_text(str(os.getpid()))\ntime.sleep(60)\n"
    )
    with running("up", "--app", "slow", folder=tmp_path) as up:
        pid = tmp_path / "pid"
        wait_until(lambda: pid.exists() and pid.read_text(), 30)
        up.note()
        os.killpg(up.process.pid, signal.SIGINT)
        assert up.process.wait(20) == 130
        assert up.said.strip() == ""
        assert not alive(int(pid.read_text()))
    assert not (tmp_path / ".taskkit").exists()


def test_a_role_that_cannot_start_stops_all(tmp_path: Path) -> None:
    found = program("up", "--workers", "1", "--queue", "q" * 65, cwd=tmp_path)
    assert found.returncode == 2
    assert "queue: has 65 letters" in found.stderr
    assert "worker 1 could not start, see above; stopping" in found.stderr


def test_there_must_be_something_to_start() -> None:
    assert "nothing to start" in refused("up", "--schedulers", "0", "--workers", "0")


def test_an_old_schema_of_a_real_database_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKKIT_DATABASE_URL", f"sqlite:///{tmp_path}/own.db")
    done("db", "upgrade")
    with sqlite3.connect(tmp_path / "own.db") as file:
        file.execute("UPDATE task_schema SET version_num = '0000'")
    file.close()
    assert "run `taskkit db upgrade`" in refused("up", code=1)


@pytest.mark.faults
def test_a_second_signal_stops_it_at_once(tmp_path: Path) -> None:
    with running("up", "--processes", "1", folder=tmp_path, TASKKIT_WORKER_GRACE_S="60") as up:
        up.wait_for(READY)
        task_id = done("enqueue", "shell", "--payload", '{"command": "sleep 300"}', "--json").json["id"]
        waits(task_id, "running")
        up.send(signal.SIGINT)
        up.wait_for("taskkit: stopping")
        began = time.monotonic()
        assert up.end(signal.SIGINT) in {0, 1}
        assert time.monotonic() - began < 50
        wait_until(lambda: gone(up))
