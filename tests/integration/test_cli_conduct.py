"""The command line behaves: help for newcomers, one-line errors, exit codes, quiet pipes, no secrets."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from taskkit.cli.root import cli as root
from tests.commands import PROGRAM, cli, done, program, refused

SECRET = "hunter2"


def commands(
    group: click.Group, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


ALL = dict(commands(root))


def test_the_promised_commands_are_there() -> None:
    names = {" ".join(path) for path in ALL}
    tasks = {f"tasks {verb}" for verb in "list show dead retry run-now pause resume give-up cancel".split()}
    single = {
        "up",
        "demo",
        "status",
        "enqueue",
        "probe",
        "cron explain",
        "import-crontab",
        "db upgrade",
        "db status",
        "doctor",
        "drill",
        "prune",
        "limits set",
        "limits remove",
        "shards set",
    }
    incidents = {
        "diagnose",
        "whatif",
        "bundle create",
        "bundle open",
        "runbook list",
        "runbook show",
        "runbook run",
    }
    incidents |= {
        f"alerts {verb}" for verb in "list show silence silences unsilence ack test preview receivers".split()
    }
    incidents |= {"watchdog check", "watchdog rules", "watchdog init"}
    lab = {f"lab {name}" for name in ("backlog", "duplicates", "lost", "zombies", "list", "score")}
    groups = {
        "tasks",
        "cron",
        "db",
        "limits",
        "shards",
        "completion",
        "bundle",
        "runbook",
        "lab",
        "alerts",
        "watchdog",
    }
    assert names == tasks | single | incidents | lab | groups


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_has_help_with_an_example(path: tuple[str, ...]) -> None:
    answer = done(*path, "--help")
    assert answer.err == ""
    assert re.search(r"^ +.*taskkit .*" + re.escape(path[-1]), answer.out, re.MULTILINE)
    assert all(option.help for option in ALL[path].params if isinstance(option, click.Option))
    assert max(map(len, answer.out.splitlines())) <= 110


def test_help_names_every_command_and_is_quick() -> None:
    began = time.monotonic()
    answer = program("--help")
    assert answer.returncode == 0
    assert all(path[0] in answer.stdout for path in ALL)
    assert time.monotonic() - began < 10  # a generous bound for a busy machine


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from taskkit.cli.conduct import run; run(['enqueue', '--help']); "
        "sys.exit(','.join(sorted({'sqlalchemy', 'redis', 'rich', 'httpx', 'alembic', 'psutil'} & set(sys.modules))) or 0)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nonsense"], "there is no command 'nonsense'"),
        (["enqueu"], "did you mean 'enqueue'?"),
        (["enqueue"], "missing argument 'CODE'; see `taskkit enqueue --help`"),
        (["enqueue", "a", "--dealy", "5"], "--dealy"),
        (["tasks", "show", "abc"], "'abc' is no task id; write its number"),
        (["tasks", "show", "0"], "'0' is no task id"),
        (["tasks", "show", str(2**63)], "is no task id"),
        (["worker"], "a worker alone is `python -m taskkit.worker`"),
        (["scheduler"], "a scheduler alone is `python -m taskkit.scheduler`"),
        (["start"], "did you mean `taskkit up`?"),
        (["list"], "did you mean `taskkit tasks list`?"),
        (["show", "5"], "did you mean `taskkit tasks show 5`?"),
        (["cancel", "5", "6"], "did you mean `taskkit tasks cancel 5 6`?"),
        (["tasks", "list", "--status", "done"], "'done' is no status; there are pending, dispatched,"),
        (["tasks", "list", "--since", "yesterday"], "write seconds (90) or units (90s, 15m, 1h30m, 2d)"),
        (["cron", "explain", "61 * * * *"], "cron: '61 * * * *'"),
        (["cron", "explain", "0", "2", "*", "*", "*"], "unexpected extra arguments"),
        (["cron", "explain", "* * * * *", "--tz", "Mars/Olympus"], "Mars/Olympus"),
        (["cron", "explain", "* * * * *", "--count", "0"], "0 is not in the range"),
        (["--config", "nowhere.toml", "status"], "nowhere.toml: cannot be read"),
        (["completion", "tcsh"], "'tcsh' is not one of"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], says: str, tmp_path: Path) -> None:
    assert says in refused(*arguments)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("TASKKIT_DATABSE_URL", "x", "did you mean 'TASKKIT_DATABASE_URL'?"),
        ("TASKKIT_DATABASE_URL", f"postgres://me:{SECRET}@db/shop", "write mysql://"),
        ("TASKKIT_REDIS_URL", f"http://me:{SECRET}@db", "write redis://"),
        ("TASKKIT_TIMEZONE", "Mars/Olympus", "there is no time zone"),
    ],
)
@pytest.mark.parametrize("command", ["status", "up", "enqueue mail"])
def test_wrong_settings_are_one_line(
    command: str, name: str, value: str, says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(name, value)
    line = refused(*command.split())
    assert says in line
    assert SECRET not in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["up", "enqueue mail", "tasks list", "db upgrade", "probe mail"])
def test_an_unreachable_database_is_one_line(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKKIT_DATABASE_URL", f"mysql://me:{SECRET}@127.0.0.1:1/shop")
    line = refused(*command.split(), code=1)
    assert "127.0.0.1:1/shop" in line
    assert "TASKKIT_DATABASE_URL" in line
    assert SECRET not in line


@pytest.mark.parametrize(
    "command", ["status", "tasks list", "tasks show 1", "tasks retry 1", "probe mail", "db status"]
)
def test_looking_makes_no_installation(command: str, tmp_path: Path) -> None:
    assert "nothing is installed in" in refused(*command.split(), code=1)
    assert not list(tmp_path.iterdir())


def test_a_home_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "file" in refused("--home", tmp_path / "file" / "home", "enqueue", "mail", code=1)


def test_an_error_nobody_thought_of_is_one_line_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("strange\nredis://me:hunter2@db")

    monkeypatch.setattr("taskkit.cron.explain", fail)
    line = refused("cron", "explain", "* * * * *", code=1)
    assert (
        "unexpected ZeroDivisionError: strange redis://me:***@db; run it again with TASKKIT_DEBUG=1" in line
    )
    monkeypatch.setenv("TASKKIT_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        cli("cron", "explain", "* * * * *")


def test_the_name_that_the_package_installs_is_this_program() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    module, _, name = project["project"]["scripts"]["taskkit"].partition(":")
    code = f"import sys, {module}; sys.exit(' '.join(m for m in sys.modules if m.startswith('taskkit') or m == 'click'))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr
    assert loaded.split() == ["taskkit", "taskkit.cli"], (
        "what is loaded before Ctrl-C is seen to is next to nothing"
    )
    assert name == "main"


def test_a_reader_that_goes_away_is_not_an_error() -> None:
    command = " ".join([*PROGRAM, "cron", "explain", "'* * * * * *'", "--count", "1000"])
    found = subprocess.run(
        ["bash", "-c", f"{command} | head -1"], capture_output=True, text=True, check=False
    )
    assert found.stdout.count("\n") == 1
    assert found.stderr == ""


def test_pages_fit_into_80_columns_or_are_as_wide_as_need_be(monkeypatch: pytest.MonkeyPatch) -> None:
    done("enqueue", "mail" * 16, "--queue", "q" * 64)
    assert max(map(len, done("status").out.splitlines())) > 80
    monkeypatch.setenv("COLUMNS", "80")
    for command in ("status", "tasks list", "tasks show 1", "cron explain @daily"):
        lines = done(*command.split()).out.splitlines()
        assert max(map(len, lines)) <= 80, command
        assert not any("\x1b" in line or line != line.rstrip() for line in lines)


def test_output_that_the_terminal_cannot_show_is_escaped() -> None:
    done("enqueue", "付款")
    found = program("tasks", "list", env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert (found.returncode, found.stderr) == (0, "")
    assert "\\u4ed8\\u6b3e" in found.stdout


def test_control_characters_reach_no_terminal() -> None:
    payload = '{"text": "\\u001b[2J\\u202e"}'
    done("enqueue", "mail", "--payload", payload)
    shown = done("tasks", "show", "1").out
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_completion_scripts_and_values(monkeypatch: pytest.MonkeyPatch) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "_TASKKIT_COMPLETE" in done("completion", shell).out
    monkeypatch.setenv("_TASKKIT_COMPLETE", "bash_complete")
    for words, number, expected in (
        ("taskkit tasks re", "2", ["plain,resume", "plain,retry"]),
        ("taskkit tasks list --status giv", "4", ["plain,given_up"]),
        ("taskkit imp", "1", ["plain,import-crontab"]),
    ):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", number)
        assert sorted(cli().out.split()) == expected
