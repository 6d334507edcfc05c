"""``taskkit enqueue``: what is written, what is refused, and what it says."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from taskkit.beats import WorkerBeat
from taskkit.center import TaskCenter
from taskkit.center.reading import ReadDesk
from taskkit.clock import parse_instant
from taskkit.model import Task
from tests import centers
from tests.commands import built, cli, done, refused

APP = """
from taskkit import Taskkit

kit = Taskkit()

@kit.task("send_email", timeout=30, max_retry=5, queue="mail", priority=2)
def send_email(to: str, subject: str = "") -> None:
    pass
"""


def test_the_json_is_the_task() -> None:
    task = done("enqueue", "mail", "--payload", '{"to": "a@example.com", "n": [1, 2.5, null]}', "--json").json
    assert task["id"] == 1
    assert task["task_code"] == task["queue"] == "mail"
    assert (task["status"], task["status_name"]) == (0, "pending")
    assert task["payload"] == {"to": "a@example.com", "n": [1, 2.5, None]}
    assert task["added"] is True
    assert "runs" not in task


def test_options_reach_the_row() -> None:
    options = "--priority 0 --timeout 1m30s --max-retry 7 --queue fast --unique-key k --delay 2h"
    task = done("enqueue", "mail", *options.split(), "--json").json
    assert (task["priority"], task["timeout"], task["max_retry"]) == (0, 90, 7)
    assert (task["queue"], task["unique_key"], task["task_type"]) == ("fast", "k", 0)
    due = parse_instant(task["plan_next_run_at"]) - parse_instant(task["created_at"])
    assert abs(due - timedelta(hours=2)) < timedelta(seconds=1)


def test_an_instant_and_a_schedule() -> None:
    at = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0)
    timed = done("enqueue", "mail", "--at", at.isoformat(), "--json").json
    assert (timed["task_type"], parse_instant(timed["plan_next_run_at"])) == (2, at)
    periodic = done("enqueue", "mail", "--cron", "0 2 * * *", "--tz", "Asia/Shanghai", "--json").json
    assert (periodic["task_type"], periodic["cron_expr"]) == (1, "0 2 * * *")
    assert periodic["timezone"] == "Asia/Shanghai"
    assert parse_instant(periodic["plan_next_run_at"]).hour == 18


def test_what_is_printed_is_what_was_asked_for_not_what_became_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker may have run the task before the program reads its row."""
    built()
    center = TaskCenter(f"sqlite:///{tmp_path}/.taskkit/taskkit.db")
    read = ReadDesk.task

    def late(desk: ReadDesk, task_id: int) -> Task:
        centers.sql(
            center,
            "UPDATE task_center SET status = CASE WHEN task_type = 1 THEN 0 ELSE 3 END, attempt = 1, last_result = 'ok', result = '1', last_run_at = {now}, "
            "plan_next_run_at = '2031-01-01 00:00:00.000000', updated_at = '2031-01-01 00:00:00.000000'",
        )
        return read(desk, task_id)

    monkeypatch.setattr(ReadDesk, "task", late)
    assert ", due now\n" in done("enqueue", "mail").out
    assert ", due in 10 s\n" in done("enqueue", "mail", "--delay", 10).out
    assert "next 2031" not in done("enqueue", "mail", "--cron", "@daily").out
    task = done("enqueue", "mail", "--json").json
    assert (task["status_name"], task["attempt"], task["result"], task["last_result"]) == (
        "pending",
        0,
        None,
        None,
    )
    assert task["plan_next_run_at"] == task["created_at"] == task["updated_at"]
    center.close()


def test_a_key_that_is_taken_adds_nothing() -> None:
    first = done("enqueue", "mail", "--unique-key", "k", "--json").json
    second = done("enqueue", "mail", "--unique-key", "k", "--json").json
    assert (first["added"], second["added"]) == (True, False)
    assert first["id"] == second["id"]
    assert "nothing was added" in done("enqueue", "mail", "--unique-key", "k").out


@pytest.mark.parametrize(
    "stdin", ['{"to": "付款😀"}', b'\xef\xbb\xbf{"to": "\xe4\xbb\x98\xe6\xac\xbe\xf0\x9f\x98\x80"}']
)
def test_the_payload_comes_from_stdin_or_a_file(stdin: str | bytes, tmp_path: Path) -> None:
    assert done("enqueue", "mail", "--payload", "-", "--json", stdin=stdin).json["payload"] == {
        "to": "付款😀"
    }
    (tmp_path / "payload.json").write_bytes(stdin.encode() if isinstance(stdin, str) else stdin)
    assert done("enqueue", "mail", "--payload", "@payload.json", "--json").json["payload"] == {"to": "付款😀"}


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        ("not json", "is not JSON"),
        ("", "is not JSON"),
        ("[1]", "is no JSON object"),
        ("null", "is no JSON object"),
        ('{"x": NaN}', "NaN is not JSON"),
        ('{"x": -Infinity}', "-Infinity is not JSON"),
        ('{"x": 1e400}', "1e400 is too large"),
        ('{"x": {"y": 1, "y": 2}}', "the key 'y' stands twice"),
        ('{"x": "\\ud800"}', "lone surrogate"),
        ('{"x": 123456789012345678901234567890}', "more than 64 bits"),
        ('{"x": %s}' % ("9" * 5000), "Exceeds the limit"),
        ('{"x": ' + "[" * 200 + "1" + "]" * 200 + "}", "nested deeper than"),
        ('{"x": ' + "[" * 100000 + "1" + "]" * 100000 + "}", "nested too deeply"),
        ('{"x": "%s"}' % ("y" * 300000), "more than the 262144 allowed"),
        ("@nowhere.json", "nowhere.json: No such file"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_bad_payload_is_refused_and_nothing_written(payload: str, says: str) -> None:
    built()
    assert says in refused("enqueue", "mail", f"--payload={payload}")
    assert done("tasks", "list", "--json").json == []


def test_bytes_that_are_not_text_are_refused() -> None:
    assert "is not UTF-8 text" in refused("enqueue", "mail", "--payload", "-", stdin=b'{"x": "\xff"}')


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--delay", "-5"], "is no length of time"),
        (["--delay", "1e400"], "is no length of time"),
        (["--delay", "99999d"], "delay: must be from 0"),
        (["--delay", "5", "--at", "2030-01-01T00:00:00Z"], "at: cannot be given together with delay"),
        (["--delay", "5", "--cron", "@daily"], "cron: cannot be given together with delay"),
        (["--at", "2030-01-01T09:00:00"], "has no time zone; write 2026-03-01T09:00:00+08:00"),
        (["--at", "tomorrow"], "is no instant; write 2026-03-01T09:00:00+08:00"),
        (["--at", "0001-01-01T00:00:00+14:00"], "outside the years"),
        (["--tz", "UTC"], "timezone: goes with cron"),
        (["--cron", "0 0 30 2 *"], "never fires"),
        (["--cron", "@reboot"], "cron:"),
        (["--cron", "@daily", "--tz", "Asia/Beijing"], "there is no time zone 'Asia/Beijing'"),
        (["--priority", "10"], "10 is not in the range 0<=x<=9"),
        (["--timeout", "0"], "timeout: must be from 1"),
        (["--timeout", "1.5"], "no whole number of seconds"),
        (["--max-retry", "256"], "256 is not in the range"),
        (["--queue", "q" * 65], "queue: has 65 letters, at most 64 fit"),
        (["--unique-key", "a\nb"], "unique_key: must not contain control characters"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_bad_options_are_refused_by_name(options: list[str], says: str) -> None:
    assert says in refused("enqueue", "mail", *options)


def test_built_in_handlers_are_checked_without_an_application() -> None:
    line = refused("enqueue", "shell", "--payload", '{"cmd": "date"}')
    assert (
        "does not fit shell: there is no argument 'cmd'; did you mean 'command'?; it takes argv, command,"
        in line
    )
    done("enqueue", "shell", "--payload", '{"command": "date"}')
    done("enqueue", "http", "--payload", '{"url": "http://127.0.0.1/"}')


def test_an_application_checks_code_and_payload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "checked_app.py").write_text(APP)
    app = ("--app", "checked_app:kit")
    task = done("enqueue", "send_email", *app, "--payload", '{"to": "a"}', "--json").json
    assert (task["queue"], task["priority"], task["timeout"], task["max_retry"]) == ("mail", 2, 30, 5)
    assert "the argument 'to' is missing; it takes to, subject" in refused("enqueue", "send_email", *app)
    wrong = refused("enqueue", "send_email", *app, "--payload", '{"subjct": "x"}')
    assert "there is no argument 'subjct'; did you mean 'subject'?" in wrong
    assert "has no handler 'send_mail'; did you mean 'send_email'?" in refused("enqueue", "send_mail", *app)
    assert "there is no module 'nowhere'" in refused("enqueue", "send_email", "--app", "nowhere:kit")
    monkeypatch.setenv("TASKKIT_APP", "checked_app:kit")
    assert "--unchecked" in refused("enqueue", "other")
    done("enqueue", "other", "--unchecked")


def test_it_says_when_nothing_will_run_the_task() -> None:
    answer = cli("enqueue", "mail")
    assert answer.code == 0
    assert (
        answer.err
        == "taskkit: note: no scheduler is alive, so nothing will start it: start one with `taskkit up`\n"
    )


def test_it_says_when_the_workers_that_live_serve_other_queues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if a scheduler dispatched the task before the program reads its row."""
    built()
    with contextlib.closing(TaskCenter(f"sqlite:///{tmp_path}/.taskkit/taskkit.db")) as center:
        center.nodes.enter_scheduler("host:8:b", "host", 8)
        center.nodes.enter_worker(
            WorkerBeat("host:7:a", "host", 7, "images,reports", 1, 0, 0, 0, 0, None, 0, 0.0, [], [])
        )
        read = ReadDesk.task

        def late(desk: ReadDesk, task_id: int) -> Task:
            center.dispatch.claim([task_id])
            return read(desk, task_id)

        monkeypatch.setattr(ReadDesk, "task", late)
        assert cli("enqueue", "mail").err == (
            "taskkit: note: no live worker serves the queue mail (served are: images, reports), so nothing will "
            "run it: start one with `python -m taskkit.worker --app … --queue mail`\n"
        )
        assert cli("enqueue", "mail", "--queue", "reports").err == ""
        (watched,) = center.recovery.watched()
        center.recovery.declare_dead(watched)
        assert "no worker is alive" in cli("enqueue", "mail").err
