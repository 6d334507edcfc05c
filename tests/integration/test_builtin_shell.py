"""The built-in handler ``shell`` with real processes: endings, pipes, users, and nothing left behind."""

from __future__ import annotations

import json
import os
import pwd
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from taskkit.crontab import read
from taskkit.errors import PayloadError, TaskkitError
from taskkit.worker.builtin import HANDLERS, CommandFailed, shell

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")


def words(result: dict[str, Any]) -> list[str]:
    return str(result["output"]).split()


def test_the_worker_has_three_built_in_handlers() -> None:
    assert set(HANDLERS) == {"shell", "http", "taskkit.noop", "taskkit.nap"}
    assert HANDLERS["taskkit.noop"](any=1, thing=[2]) is None


# How a program ends


def test_output_and_errors_are_kept_in_order() -> None:
    result = shell(command="echo one; echo two >&2; echo 三")
    assert result | {"runtime_ms": 0} == {
        "exit_code": 0,
        "output": "one\ntwo\n三\n",
        "cut": False,
        "runtime_ms": 0,
    }
    assert result["runtime_ms"] >= 0
    json.dumps(result)


def test_argv_is_run_without_a_shell() -> None:
    assert shell(argv=["printf", "%s|", "a b", "$HOME", ""])["output"] == "a b|$HOME||"


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({"command": "echo first; seq 30; exit 3"}, "exit code 3; the last lines of its output:\n11\n12\n"),
        ({"command": "exit 7", "expect": [0, 3]}, "exit code 7 (expected 0, 3) and said nothing"),
        ({"command": "kill -9 $$"}, "killed by SIGKILL (signal 9)"),
        (
            {"command": "sh -c 'kill -15 $$'; exit $?"},
            "exit code 143, as a shell reports SIGTERM (signal 15)",
        ),
        ({"command": "no-such-program"}, "exit code 127, not found"),
        ({"argv": ["no-such-program"]}, "could not start 'no-such-program': No such file"),
        ({"argv": ["/"]}, "could not start '/': Permission denied"),
        ({"argv": ["true"], "cwd": "/no/such"}, "could not start in the folder '/no/such': No such file"),
        ({"command": "x", "shell": "/no/shell"}, "could not start '/no/shell'"),
        ({"argv": ["true"], "user": "no-such-user"}, "there is no user 'no-such-user'"),
    ],
)
def test_another_ending_than_expected_fails_with_what_happened(payload: dict[str, Any], text: str) -> None:
    with pytest.raises(CommandFailed) as caught:
        shell(**payload)
    assert text in str(caught.value)
    assert isinstance(caught.value, TaskkitError)


def test_expected_codes_and_signals_are_a_success() -> None:
    assert shell(command="exit 3", expect=[0, 3])["exit_code"] == 3
    assert shell(command="kill -15 $$", expect=[-15])["exit_code"] == -15


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({}, "command"),
        ({"argv": ["a"], "command": "a"}, "command"),
        ({"argv": []}, "argv"),
        ({"argv": "ls"}, "argv"),
        ({"argv": ["ls", 1]}, "argv[1]"),
        ({"argv": [""]}, "argv[0]"),
        ({"command": ""}, "command"),
        ({"command": "a\0b"}, "command"),
        ({"command": "a\ud800"}, "command"),
        ({"command": "x", "env": {"A=B": "c"}}, "env"),
        ({"command": "x", "env": {"A": 1}}, "env.A"),
        ({"command": "x", "env": ["A"]}, "env"),
        ({"command": "x", "cwd": ""}, "cwd"),
        ({"command": "x", "stdin": 1}, "stdin"),
        ({"command": "x", "user": ""}, "user"),
        ({"command": "x", "expect": []}, "expect"),
        ({"command": "x", "expect": ["0"]}, "expect"),
        ({"command": "x", "expect": 0}, "expect"),
        ({"command": "x", "output_limit": -1}, "output_limit"),
        ({"command": "x", "output_limit": True}, "output_limit"),
    ],
)
def test_a_payload_that_makes_no_sense_is_refused_by_its_field(payload: dict[str, Any], field: str) -> None:
    with pytest.raises(PayloadError) as caught:
        shell(**payload)
    assert caught.value.field == field


# Surroundings


def test_env_is_added_to_the_workers_or_to_a_clean_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_WORKER", "x")
    full = shell(argv=["env"], env={"MORE": "y"})["output"].splitlines()
    clean = shell(argv=["/usr/bin/env"], env={"MORE": "y"}, clean_env=True)["output"].splitlines()
    own = pwd.getpwuid(os.geteuid()).pw_name
    assert {"OF_THE_WORKER=x", "MORE=y"} <= set(full)
    assert {line.split("=")[0] for line in clean} == {"HOME", "LOGNAME", "SHELL", "PATH", "MORE"}
    assert {f"LOGNAME={own}", "PATH=/usr/bin:/bin", "SHELL=/bin/sh"} <= set(clean)


def test_the_folder_is_given_or_with_a_clean_environment_home(tmp_path: Path) -> None:
    home = str(tmp_path.resolve())
    assert words(shell(command="pwd", cwd="/usr")) == ["/usr"]
    assert words(shell(command="pwd", clean_env=True, env={"HOME": home})) == [home]
    assert words(shell(command="pwd", clean_env=True, env={"HOME": "/nonexistent"})) == ["/"]


def test_input_is_fed_and_need_not_be_read() -> None:
    assert words(shell(command="wc -c", stdin="é" * 500_000)) == ["1000000"]
    assert shell(command="cat")["output"] == shell(command="cat", stdin="")["output"] == ""
    assert shell(command="true", stdin="x" * 5_000_000)["exit_code"] == 0
    assert shell(command="exec 0<&-; echo done", stdin="x" * 5_000_000)["output"] == "done\n"


def test_the_program_stays_in_the_process_group_of_the_worker() -> None:
    printed = shell(argv=[sys.executable, "-c", "import os; print(os.getpgrp(), os.getsid(0))"])
    assert words(printed) == [str(os.getpgrp()), str(os.getsid(0))]


def test_ignored_and_blocked_signals_are_not_handed_down() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    try:
        result = shell(argv=["cat", "/proc/self/status"])
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
        signal.signal(signal.SIGTERM, before)
    masks = dict(
        line.split(":\t") for line in result["output"].splitlines() if line.startswith(("SigBlk", "SigIgn"))
    )
    assert int(masks["SigBlk"], 16) == 0
    assert not int(masks["SigIgn"], 16) & 1 << (signal.SIGTERM - 1)


@as_root
def test_root_becomes_another_user_as_cron_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKKIT_DATABASE_URL", "mysql://secret")
    nobody = pwd.getpwnam("nobody")
    result = shell(command="id -u; id -g; id -G; echo $LOGNAME $HOME; env", user="nobody", env={"MORE": "y"})
    uid, gid, groups, name, home = words(result)[:5]
    assert (int(uid), int(gid), name, home) == (nobody.pw_uid, nobody.pw_gid, "nobody", nobody.pw_dir)
    assert set(groups.split()) <= {str(group) for group in os.getgrouplist("nobody", nobody.pw_gid)}
    assert "MORE=y" in result["output"]
    assert "secret" not in result["output"]


def test_a_worker_that_is_not_root_says_that_it_may_not_become_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(CommandFailed, match="the worker runs as '12345' and may not become 'root'"):
        shell(command="true", user="root")


def test_ones_own_user_needs_no_right() -> None:
    own = pwd.getpwuid(os.geteuid())
    assert words(shell(command="echo $LOGNAME $HOME", user=own.pw_name)) == [own.pw_name, own.pw_dir]


def test_a_line_of_a_crontab_runs_as_under_cron() -> None:
    text = "GREETING='good  day'\n0 9 * * * cat; echo \"$GREETING\" \\%$PATH%one%two\n"
    (job,) = read(text, name="crontab", system=False, timezone="UTC").jobs
    assert shell(**job.payload)["output"] == "one\ntwo\ngood  day %/usr/bin:/bin\n"


def test_a_program_gets_the_workers_environment_without_the_settings_and_their_passwords(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TASKKIT_DATABASE_URL", "mysql://taskkit:s3cret@db/x")
    monkeypatch.setenv("TASKKIT_REDIS_URL", "redis://:s3cret@cache")
    monkeypatch.setenv("SHOP_REGION", "eu")
    output = str(shell(command="env")["output"])
    assert "SHOP_REGION=eu" in output
    assert "TASKKIT_" not in output
    assert "s3cret" not in output
    given = shell(command="echo $TASKKIT_HOME", env={"TASKKIT_HOME": "/srv/taskkit"})
    assert given["output"] == "/srv/taskkit\n"
