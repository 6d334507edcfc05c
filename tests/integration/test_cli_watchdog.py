"""``taskkit watchdog``: what is wrong in its files is said with every line; looking changes nothing; up starts one."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskkit.alerts import AlertState
from taskkit.center import TaskCenter
from taskkit.watchdog.rules import read_rules, shipped
from tests.alert_rows import written
from tests.centers import new, sql
from tests.commands import built, cli, done, refused, running
from tests.robots import WeComRobot, wecom_robot
from tests.waiting import wait_until

OPS = '[[receiver]]\nname = "ops"\nkind = "wecom"\nurl_env = "OPS_URL"\n'


@pytest.fixture
def center(tmp_path: Path) -> Iterator[TaskCenter]:
    built()
    found = TaskCenter(f"sqlite:///{tmp_path}/.taskkit/taskkit.db")
    yield found
    found.close()


@pytest.fixture
def robot(monkeypatch: pytest.MonkeyPatch) -> Iterator[WeComRobot]:
    with wecom_robot() as found:
        monkeypatch.setenv("OPS_URL", found.url)
        yield found


def lay(rules: str = "", receivers: str = "") -> None:
    folder = Path("alerting")
    folder.mkdir(exist_ok=True)
    (folder / "rules.toml").write_text(rules)
    (folder / "receivers.toml").write_text(receivers)


def checks(*words: object) -> dict[str, dict[str, Any]]:
    return {one["rule"]: one for one in done("watchdog", "check", *words, "--json").json["checks"]}


def test_every_problem_of_both_files_is_said_with_its_line_and_the_exit_code_is_2(robot: WeComRobot) -> None:
    lay(
        '[defaults]\nevry = "5s"\n\n[[rule]]\nid = "backlog"\nabove = -1\n\n[[rule]]\nid = "mine"\nsignal = "backlok"\n',
        f'{OPS}\n[[receiver]]\nname = "two"\nkind = "dingtalkk"\n\n[[receiver]]\nname = "three"\nkind = "webhook"\n'
        'url_env = "OPS_URL"\nseverty = "note"\n',
    )
    answer = cli("watchdog", "check")
    assert answer.code == 2
    lines = answer.err.splitlines()
    for place, words in (
        ("rules.toml:2", "did you mean 'every'?"),
        ("rules.toml:6", "above"),
        ("rules.toml:10", "did you mean 'backlog'?"),
        ("receivers.toml line 8", "did you mean 'dingtalk'?"),
        ("receivers.toml line 14", "did you mean 'severity'?"),
    ):
        assert [line for line in lines if place in line and words in line], (place, answer.err)
    assert len(lines) == 5, answer.err
    assert robot.key not in answer.err


def test_a_rule_may_only_name_receivers_that_there_are(robot: WeComRobot) -> None:
    lay('[[rule]]\nid = "backlog"\nreceivers = ["opps"]\n', OPS)
    answer = cli("watchdog", "check")
    assert answer.code == 2
    assert (
        "rules.toml:3: rule backlog: there is no receiver 'opps'; did you mean 'ops'? in receivers.toml"
        in answer.err
    )
    assert cli("watchdog", "rules").code == 0, "rules alone need no receivers"


def test_two_receivers_of_one_name_and_a_secret_that_is_not_there_are_said(robot: WeComRobot) -> None:
    lay(receivers=OPS + OPS)
    assert "two receivers named 'ops'" in refused("watchdog", "check")
    lay(receivers=OPS.replace("OPS_URL", "NOWHERE_URL"))
    assert "line 4: receiver 'ops': url_env = 'NOWHERE_URL': there is no such environment" in refused(
        "watchdog", "check"
    )


def test_files_are_found_right_before_anything_is_installed(robot: WeComRobot) -> None:
    lay(receivers=OPS)
    answer = cli("watchdog", "check")
    assert answer.code == 1
    assert "rules and receivers are right: 13 rules, alerts go to ops" in answer.err
    assert "nothing is installed in" in answer.err


def test_receivers_of_one_address_are_named(robot: WeComRobot) -> None:
    lay(receivers=OPS + OPS.replace('"ops"', '"oncall"'))
    said = cli("watchdog", "check").err
    assert "alerts go to ops, oncall; ops and oncall are one place, which is told once" in said


def test_what_fires_now_is_shown_and_nothing_is_written_or_sent(
    center: TaskCenter, robot: WeComRobot
) -> None:
    lay('[[rule]]\nid = "backlog"\nabove = 3\nfor = "0s"\n', OPS)
    center.intake.insert([new() for _ in range(5)])
    found = checks()
    assert found["backlog"]["wrong"][0]["result"] == "fires"
    assert found["scheduler"]["wrong"][0]["result"] == "over its limit, fires after 10 s"
    assert found["success_rate"]["no_data"]
    assert found["given_up"]["wrong"] == []
    shown = done("watchdog", "check").out
    assert "rules and receivers are right: 13 rules, alerts go to ops" in shown
    assert cli("watchdog", "check", "--strict").code == 1
    assert cli("watchdog", "check", "given_up", "--strict").code == 0
    for table in ("task_alert", "task_notice", "task_rule", "task_robot"):
        assert sql(center, f"SELECT COUNT(*) FROM {table}")[0][0] == 0, table
    assert robot.calls == []


def test_a_dry_run_shows_the_message_that_each_receiver_would_get(
    center: TaskCenter, robot: WeComRobot
) -> None:
    lay('[[rule]]\nid = "backlog"\nabove = 3\nfor = "0s"\n', f'{OPS}language = "zh"\n')
    center.intake.insert([new() for _ in range(5)])
    shown = done("watchdog", "check", "backlog", "--dry-run").out
    assert "── backlog → ops (wecom markdown" in shown
    assert "严重 · backlog" in shown
    (message,) = done("watchdog", "check", "backlog", "--dry-run", "--json").json["messages"]
    assert (message["rule"], message["receiver"], len(message["calls"])) == ("backlog", "ops", 1)
    lay('[[rule]]\nid = "backlog"\nabove = 3\n')
    assert "no receiver takes it" in done("watchdog", "check", "backlog", "--dry-run").out
    assert "nobody would be told" in done("watchdog", "check", "given_up", "--dry-run").out


def test_what_another_alert_explains_or_a_silence_covers_is_said(center: TaskCenter) -> None:
    assert checks("scheduler")["scheduler"]["wrong"][0]["result"] == "over its limit, fires after 10 s"
    silence = center.alerts.silence(center.now().replace(year=2037), "ada", "moving", rule="scheduler")
    assert checks("scheduler")["scheduler"]["wrong"][0]["result"] == f"silence {silence}"
    center.alerts.end_silence(silence, "ada")
    written(center, rule="stores", object="redis")
    assert checks("scheduler")["scheduler"]["wrong"][0]["result"] == "explained by stores:redis"


def test_an_alert_that_fires_already_is_named(center: TaskCenter) -> None:
    one = written(center, rule="worker_dead", object="workers", state=AlertState.FIRING)
    assert f"alert {one.id}" in checks("worker_dead")["worker_dead"]["wrong"][0]["result"]


def test_a_rule_that_does_not_exist_is_refused_with_a_suggestion(center: TaskCenter) -> None:
    assert "did you mean 'backlog'?" in refused("watchdog", "check", "backlok")


def test_rules_are_shown_as_they_hold_here() -> None:
    lay(
        '[[rule]]\nid = "backlog"\nabove = 500\nreceivers = ["ops"]\n\n[[rule]]\nid = "slow"\nenabled = false\n'
    )
    shown = done("watchdog", "rules").out
    lines = {line.split()[0]: line for line in shown.splitlines() if line}
    assert "above 500" in lines["backlog"]
    assert "ops" in lines["backlog"]
    assert " off " in lines["slow"]
    assert "disk_left 1 GiB" in lines["stores"]
    shapes = {one["id"]: one for one in done("watchdog", "rules", "--json").json}
    assert (shapes["backlog"]["above"], shapes["backlog"]["for"]) == (500, 300.0)
    assert list(shapes) == [rule.id for rule in shipped()]


def test_both_files_are_laid_out_and_what_is_there_is_left_alone(
    center: TaskCenter, robot: WeComRobot
) -> None:
    assert "alerting/rules.toml" in done("watchdog", "init").out
    text = Path("alerting/rules.toml").read_text()
    assert read_rules(text) == shipped(), "all of it is a comment"
    bare = "\n".join(line.removeprefix("# ") if line.startswith(("# [[", "# id", "# above")) else line for line in text.splitlines())  # fmt: skip
    assert len(read_rules(bare)) == len(shipped()), "and can be taken in"
    Path("alerting/receivers.toml").write_text(OPS)
    assert cli("watchdog", "check").code == 0
    Path("alerting/rules.toml").write_text("# mine\n")
    assert "was there already" in done("watchdog", "init").out
    assert Path("alerting/rules.toml").read_text() == "# mine\n"
    told = done("watchdog", "init", "--dir", "elsewhere").out
    assert 'alerting = "elsewhere"' in told


def test_the_word_watchdog_leads_to_its_help() -> None:
    assert "python -m taskkit.watchdog" in done("watchdog", "--help").out


def test_up_starts_a_watchdog_where_receivers_are_configured(tmp_path: Path, robot: WeComRobot) -> None:
    rules = '[[rule]]\nid = "worker_dead"\nfor = "0s"\nevery = "0.5s"\ngroup_wait = "0s"\nlimit = "20s"\n'
    lay(rules, OPS)
    words = ("up", "--workers", "0")
    with running(*words, folder=tmp_path, OPS_URL=robot.url) as up:
        up.wait_for("ready after")
        assert up.role("watchdog")
        wait_until(lambda: any("worker_dead" in one.text for one in robot.messages), 40)
        assert up.end(signal.SIGTERM) == 0
    assert robot.key not in up.said + up.out.read_text()


def test_up_refuses_receivers_that_are_wrong_unless_told_to_do_without(tmp_path: Path) -> None:
    lay(receivers=OPS)
    told = refused("up")
    assert "there is no such environment variable" in told
    assert "--no-watchdog starts without alerts" in told
    assert not (tmp_path / ".taskkit").exists()
