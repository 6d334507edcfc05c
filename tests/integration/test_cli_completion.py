"""Tab: codes, queues, time zones and task ids, from what there is; and never an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskkit.center import TaskCenter
from taskkit.states import Status
from tests import centers
from tests.commands import built, cli, done

APP = """
from taskkit import Taskkit

print("loud")
kit = Taskkit()

@kit.task("send_email")
def send_email(to: str) -> None:
    pass
"""


def offered(monkeypatch: pytest.MonkeyPatch, words: str) -> list[str]:
    """What bash is offered for the last of these words."""
    with monkeypatch.context() as during:
        during.setenv("_TASKKIT_COMPLETE", "bash_complete")
        during.setenv("COMP_WORDS", words)
        during.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
        answer = cli()
    assert answer.err == ""
    return [line.removeprefix("plain,") for line in answer.out.split()]


def test_ids_of_the_status_that_a_verb_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    built()
    center = TaskCenter(f"sqlite:///{tmp_path}/.taskkit/taskkit.db")
    number = {status: str(centers.in_status(center, status)) for status in Status}
    center.close()
    assert offered(monkeypatch, "taskkit tasks resume ") == [number[Status.HELD]]
    assert set(offered(monkeypatch, "taskkit tasks retry ")) == {
        number[Status.GIVEN_UP],
        number[Status.CANCELLED],
    }
    assert number[Status.RUNNING] in offered(monkeypatch, "taskkit tasks cancel ")
    assert number[Status.SUCCESS] not in offered(monkeypatch, "taskkit tasks cancel ")
    assert len(offered(monkeypatch, "taskkit tasks show ")) == len(Status)


def test_codes_queues_and_zones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done("enqueue", "report", "--queue", "nightly")
    assert offered(monkeypatch, "taskkit enqueue ") == [
        "http",
        "report",
        "shell",
        "taskkit.nap",
        "taskkit.noop",
    ]
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "loud_app.py").write_text(APP)
    monkeypatch.setenv("TASKKIT_APP", "loud_app:kit")
    assert offered(monkeypatch, "taskkit enqueue s") == ["send_email", "shell"]
    assert offered(monkeypatch, "taskkit tasks list --code r") == ["report"]
    assert offered(monkeypatch, "taskkit probe n") == ["nightly"]
    assert offered(monkeypatch, "taskkit cron explain x --tz asia/sh") == ["Asia/Shanghai"]
    assert "Europe/Berlin" in offered(monkeypatch, "taskkit import-crontab - --tz Europe/B")


@pytest.mark.parametrize(
    "words", ["taskkit tasks show ", "taskkit enqueue x --queue ", "taskkit tasks list --status zz"]
)
def test_where_nothing_is_installed_or_reached_nothing_is_said(
    words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert offered(monkeypatch, words) == []
    monkeypatch.setenv("TASKKIT_DATABASE_URL", "mysql://me:x@127.0.0.1:1/shop")
    assert offered(monkeypatch, words) == []
    monkeypatch.setenv("TASKKIT_DATABASE_URL", "nonsense")
    assert offered(monkeypatch, words) == []
    assert not list(tmp_path.iterdir())


def test_help_mentions_it() -> None:
    assert "taskkit completion --help" in " ".join(done("--help").out.split())
