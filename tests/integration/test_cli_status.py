"""``taskkit status`` and ``taskkit db``."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from taskkit.beats import SchedulerBeat, WorkerBeat
from taskkit.center import TaskCenter
from taskkit.center.schema import HEAD
from taskkit.clock import parse_instant
from taskkit.states import Status
from tests import centers
from tests.alert_rows import written
from tests.commands import built, cli, done, refused


@pytest.fixture
def center(tmp_path: Path) -> Iterator[TaskCenter]:
    built()
    found = TaskCenter(f"sqlite:///{tmp_path}/.taskkit/taskkit.db")
    yield found
    found.close()


def worker(worker_id: str, queues: str, pid: int = 7) -> WorkerBeat:
    return WorkerBeat(worker_id, "host", pid, queues, 4, 1, 10, 2, 0, None, 50 << 20, 1.0, [], [])


def test_the_shape_of_the_json(center: TaskCenter) -> None:
    for status in Status:
        centers.in_status(center, status, queue="mail")
    center.nodes.enter_worker(worker("host:7:a", "mail,reports"))
    center.nodes.enter_scheduler("host:8:b", "host", 8)
    center.nodes.beat_scheduler(SchedulerBeat("host:8:b", "host", 8, 5, 9, center.now(), 0.4, "2026a"))
    found = done("status", "--json").json
    assert list(found) == [
        "stores", "schedulers", "workers", "queues", "limits", "tasks", "watchdogs", "alerts", "alerting",
    ]  # fmt: skip
    assert found["stores"]["database"]["ok"]
    assert found["stores"]["broker"]["running"] is False
    (queue,) = found["queues"]
    assert list(queue)[:5] == ["queue", "due", "queued", "running", "oldest_age_s"]
    assert (queue["queue"], queue["queued"], queue["running"], queue["held"]) == ("mail", 1, 1, 1)
    assert queue["oldest_age_s"] >= 0
    assert found["tasks"] == dict.fromkeys((status.label for status in Status), 1)
    (scheduler,), (one,) = found["schedulers"], found["workers"]
    assert (scheduler["pid"], scheduler["alive"], scheduler["dispatched"]) == (8, True, 5)
    assert (one["queues"], one["processes"], one["alive"]) == (["mail", "reports"], 4, True)


def test_a_worker_whose_children_follow_the_load_says_between_which_numbers(center: TaskCenter) -> None:
    center.nodes.enter_worker(replace(worker("host:7:a", "mail"), min_processes=2, max_processes=8))
    center.nodes.beat_worker(worker("host:7:a", "mail"))
    assert "1 of 4 (2 to 8)" in done("status").out
    (node,) = done("status", "--json").json["workers"]
    assert (node["processes"], node["min_processes"], node["max_processes"]) == (4, 2, 8)
    center.nodes.enter_worker(worker("host:8:b", "mail", 8))
    assert done("status", "--json").json["workers"][1]["max_processes"] is None


def test_the_page_names_what_is_missing(center: TaskCenter) -> None:
    centers.in_status(center, Status.GIVEN_UP)
    shown = done("status").out
    assert "no scheduler is alive: start one with `taskkit up`" in shown
    assert "no worker is alive: start one with `taskkit up`" in shown
    assert "1 given_up" in shown
    assert "taskkit tasks list --status given_up" in shown


def test_a_node_without_heartbeat_is_silent(center: TaskCenter) -> None:
    center.nodes.enter_worker(worker("host:7:a", "mail"))
    centers.sql(center, "UPDATE task_worker SET heartbeat_at = '2026-01-01 00:00:00.000000'")
    assert done("status", "--json").json["workers"][0]["alive"] is False
    assert "silent for" in done("status").out


def test_a_worker_that_was_declared_dead_says_so_until_it_beats_again(center: TaskCenter) -> None:
    center.nodes.enter_worker(worker("host:7:a", "mail"))
    assert done("status", "--json").json["workers"][0]["lost_at"] is None
    (watched,) = center.recovery.watched()
    assert center.recovery.declare_dead(watched)
    (node,) = done("status", "--json").json["workers"]
    assert node["alive"] is False
    assert parse_instant(node["lost_at"]) >= parse_instant(node["heartbeat_at"])
    assert "dead, silent for" in done("status").out
    centers.sql(center, "UPDATE task_worker SET lost_at = '2026-01-01 00:00:00.000000'")
    (node,) = done("status", "--json").json["workers"]
    assert (node["alive"], node["lost_at"]) == (True, None)
    assert "dead" not in done("status").out


def test_the_page_names_the_queues_that_no_live_worker_serves(center: TaskCenter) -> None:
    centers.in_status(center, Status.PENDING, queue="mail")
    centers.in_status(center, Status.DISPATCHED, queue="mail")
    for n in range(6):
        centers.in_status(center, Status.PENDING, queue=f"other {n}")
    assert "no live worker serves" not in done("status").out, "that no worker is alive says it all"
    center.nodes.enter_worker(worker("host:7:a", "other 0,reports"))
    shown = done("status").out
    assert (
        "no live worker serves the queue mail: 2 tasks wait there; "
        "start one: python -m taskkit.worker --app … --queue mail\n"
    ) in shown
    assert "serves the queue other 1: 1 task waits there; start one: " in shown
    assert "--queue 'other 1'\n" in shown
    assert "the queue other 0" not in shown
    assert "so it is with 1 more queue\n" in shown


def test_what_a_drill_left_behind_needs_no_worker(center: TaskCenter) -> None:
    centers.in_status(center, Status.PENDING, queue="taskkit.drill-0a1b2c")
    center.nodes.enter_worker(worker("host:7:a", "mail"))
    shown = done("status").out
    assert "a drill runs in taskkit.drill-0a1b2c, or was cut short: `taskkit drill --clean` removes" in shown
    assert "no live worker serves" not in shown


def test_a_broker_that_does_not_answer_is_exit_code_1(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKKIT_REDIS_URL", "redis://:hunter2@127.0.0.1:1/0")
    answer = cli("status", "--json")
    assert answer.code == 1
    assert answer.json["stores"]["database"]["ok"]
    assert not answer.json["stores"]["broker"]["ok"]
    assert "127.0.0.1:1" in answer.json["stores"]["broker"]["problem"]
    assert "hunter2" not in answer.out + answer.err


def test_a_database_that_does_not_answer_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKKIT_DATABASE_URL", "mysql://me:hunter2@127.0.0.1:1/shop")
    answer = cli("status", "--json")
    assert (answer.code, answer.err) == (1, "")
    assert "127.0.0.1:1/shop" in answer.json["stores"]["database"]["problem"]
    assert "hunter2" not in answer.out


def test_the_schema_is_made_once() -> None:
    first = done("db", "upgrade", "--json").json
    assert (first["before"], first["after"]) == (None, HEAD)
    assert done("db", "upgrade", "--json").json["before"] == HEAD
    found = done("db", "status", "--json").json
    assert (found["schema"], found["needed"], found["ok"]) == (HEAD, HEAD, True)


@pytest.mark.parametrize(("revision", "says"), [("0000", "run `taskkit db upgrade`"), ("0009", "too new")])
def test_another_schema_is_refused_everywhere(revision: str, says: str, tmp_path: Path) -> None:
    built()
    with sqlite3.connect(tmp_path / ".taskkit" / "taskkit.db") as file:
        file.execute("UPDATE task_schema SET version_num = ?", (revision,))
    file.close()
    for command in ("tasks list", "enqueue mail", "probe mail"):
        assert says in refused(*command.split(), code=1)
    answer = cli("db", "status", "--json")
    assert (answer.code, answer.json["ok"]) == (1, False)
    assert says in answer.json["problem"]
    assert cli("status").code == 1


def test_the_other_databases(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKKIT_DATABASE_URL", database_url)
    assert "run `taskkit db upgrade`" in refused("tasks", "list", code=1)
    assert done("db", "upgrade", "--json").json["after"] == HEAD
    done("enqueue", "mail", "--unique-key", "k")
    assert "nothing was added" in done("enqueue", "mail", "--unique-key", "k").out
    done("tasks", "cancel", 1)
    assert [task["id"] for task in done("tasks", "list", "--since", "1h", "--json").json] == [1]
    found = done("status", "--json").json
    assert found["tasks"]["cancelled"] == 1
    assert ":taskkit@" not in str(found)


def test_it_says_which_watchdog_works_and_what_is_open_since_when(center: TaskCenter) -> None:
    assert "alerts" not in done("status").out, "nobody watches here, and nobody says so"
    for number in (7, 8, 9):
        center.watchdogs.enter(f"dog:{number}:a", "dog", number)
    center.watchdogs.leave("dog:9:a")
    assert center.nodes.take_lease("watchdog", "dog:8:a", 600)
    assert "alerts: none" in done("status").out
    written(center, at=center.now() - timedelta(hours=3))
    written(center, object="other", severity="note")
    found = done("status", "--json").json
    assert {one["watchdog_id"]: (one["alive"], one["leads"]) for one in found["watchdogs"]} == {
        "dog:7:a": (True, False),
        "dog:8:a": (True, True),
    }
    assert found["alerts"]["firing"] == {"critical": 1, "note": 1}
    assert (found["alerts"]["oldest"]["rule"], found["alerts"]["oldest"]["object"]) == ("zombies", "h:1:a")
    assert found["alerts"]["oldest"]["age_s"] == pytest.approx(10_800, abs=600)
    shown = done("status").out
    assert "alerts: 1 critical, 1 note; the oldest for 3h" in shown
    assert shown.count("looks and tells") == shown.count("stands by") == 1
    assert "no watchdog is alive" not in shown
    centers.sql(center, "UPDATE task_watchdog SET heartbeat_at = '2026-01-01', started_at = '2026-01-01'")
    assert "no watchdog is alive, so nobody is told" in done("status").out


def test_it_says_when_nobody_could_be_told_of_an_alert(
    center: TaskCenter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "alerting").mkdir()
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "alerting" / "receivers.toml"
    path.write_text('[[receiver]]\nname = "ops"\nkind = "webhook"\nurl_env = "OPS_URL"\n')
    shown = done("status").out
    assert "cannot be told" not in shown, "the secret need not be known in this shell"
    assert "no watchdog is alive" in shown
    path.write_text('[[receiver]]\nname = "ops"\nkind = "webhok"\n')
    shown = " ".join(done("status").out.split())
    assert "alerts cannot be told" in shown
    assert "receivers.toml line 3" in shown
    assert "did you mean 'webhook'" in done("status", "--json").json["alerting"]["problem"]
    assert done("doctor", "--json").code == 0
    finding = next(
        one for one in done("doctor", "--json").json["findings"] if one["id"] == "alerting.receivers"
    )
    assert (finding["level"], "line 3" in finding["what"]) == ("warning", True)
