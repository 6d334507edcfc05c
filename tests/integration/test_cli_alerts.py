"""``taskkit alerts``: what is listed and shown, who may be quiet and until when, and whether a receiver works."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from taskkit import Settings, Taskkit
from taskkit.alerts import AlertState
from taskkit.center import TaskCenter
from taskkit.center.outbox import Robot
from taskkit.errors import InputError, NotFound
from taskkit.operations import default_actor
from taskkit.watchdog.rules import shipped
from tests.alert_rows import ended, written
from tests.centers import sql
from tests.commands import built, cli, done, refused
from tests.robots import Trouble, WeComRobot, wecom_robot

RULES = [rule.id for rule in shipped()]


@pytest.fixture
def center(tmp_path: Path) -> Iterator[TaskCenter]:
    built()
    found = TaskCenter(f"sqlite:///{tmp_path}/.taskkit/taskkit.db")
    yield found
    found.close()


@pytest.fixture
def robot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WeComRobot]:
    """A group's robot, which receivers.toml calls ``ops``; ``mail`` is a second receiver, which nobody answers."""
    with wecom_robot() as found:
        monkeypatch.setenv("OPS_URL", found.url)
        folder = tmp_path / "alerting"
        folder.mkdir()
        text = '[[receiver]]\nname = "ops"\nkind = "wecom"\nurl_env = "OPS_URL"\n'
        (folder / "receivers.toml").write_text(text)
        yield found


def actions(center: TaskCenter) -> list[tuple[str, str, str]]:
    return [tuple(row) for row in sql(center, "SELECT actor, action, detail FROM task_action ORDER BY id")]


def test_open_alerts_are_listed_and_with_all_those_that_are_over(center: TaskCenter) -> None:
    assert "no alert is open, but no watchdog is alive" in done("alerts", "list").out
    over = ended(center, written(center, rule="lost", object=""))
    live = written(center)
    pending = written(center, rule="backlog", state=AlertState.PENDING, firing_at=None, told_at=None)
    assert [one["id"] for one in done("alerts", "list", "--json").json] == [pending.id, live.id]
    assert [one["id"] for one in done("alerts", "list", "--all", "--json").json] == [
        pending.id,
        live.id,
        over.id,
    ]
    assert [
        one["rule"] for one in done("alerts", "list", "--since", "1h", "--rule", "lost", "--json").json
    ] == ["lost"]
    shown = done("alerts", "list").out
    assert "workers wait for a row lock" in shown
    assert "worker 在等行锁" in done("alerts", "list", "--lang", "zh").out
    assert "no alert matches" in done("alerts", "list", "--rule", "slow").out


def test_that_nothing_is_wrong_is_said_only_where_a_watchdog_looks(center: TaskCenter) -> None:
    center.watchdogs.enter("h:1:a", "h", 1)
    assert done("alerts", "list").out == "no alert is open\n"
    center.watchdogs.leave("h:1:a")
    assert "no watchdog is alive" in done("alerts", "list").out


def test_the_whole_life_of_an_alert_is_shown(center: TaskCenter, robot: WeComRobot) -> None:
    one = written(center, "ops", flaps=2)
    assert cli("alerts", "test", "ops").code == 0  # the courier takes what stands before it along
    shown = done("alerts", "show", one.id).out
    for words in ("critical · zombies · h:1:a", "holds the lock", "Last progress", "Drained (forecast)", "taskkit doctor", "2 times", "markdown", "sent"):  # fmt: skip
        assert words in shown, words
    shape = done("alerts", "show", one.id, "--json").json
    assert shape["said"]["zh"]["title"] == "worker 在等行锁"
    (notice,) = shape["notices"]
    assert (notice["receiver"], notice["event"], notice["state"], notice["code"]) == (
        "ops",
        "firing",
        "sent",
        "0",
    )
    assert [(call["kind"], call["verdict"]) for call in notice["calls"]] == [("markdown", "sent")]
    assert "worker 在等行锁" in done("alerts", "show", one.id, "--lang", "zh").out
    assert "there is no alert 99" in refused("alerts", "show", 99, code=1)


def test_why_nobody_was_told_is_said(center: TaskCenter) -> None:
    pending = written(center, state=AlertState.PENDING, firing_at=None, told_at=None)
    assert "nobody was told yet: it does not fire yet" in done("alerts", "show", pending.id).out
    root = written(center, rule="backlog", inhibited_by="stores:redis", told_at=None)
    assert "nobody was told: explained by stores:redis" in done("alerts", "show", root.id).out


def test_a_silence_has_an_end_an_author_and_a_reason_and_is_recorded(center: TaskCenter) -> None:
    one = written(center)
    made = done("alerts", "silence", "--rule", "zombies", "--object", "h:*", "--for", "2h", "--reason", "report runs", "--json").json  # fmt: skip
    assert made["covers"] == [one.id]
    (silence,) = center.alerts.silences()
    assert (silence.rule, silence.object, silence.author, silence.reason) == ("zombies", "h:*", default_actor(), "report runs")  # fmt: skip
    assert timedelta(hours=1.99) < silence.ends_at - center.now() <= timedelta(hours=2)
    assert "report runs" in done("alerts", "silences").out
    assert done("alerts", "silences", "--json").json[0]["id"] == silence.id
    assert "has ended" in done("alerts", "unsilence", silence.id).out
    assert center.alerts.silences() == []
    assert "there is no silence" in done("alerts", "silences").out
    first, second = actions(center)
    assert first[:2] == (default_actor(), "silence")
    assert re.fullmatch(r"zombies, h:\*, until \S+Z: report runs", first[2])
    assert second == (default_actor(), "unsilence", f"silence {silence.id}")
    assert f"no silence {silence.id} that lasts" in refused("alerts", "unsilence", silence.id, code=1)
    assert len(actions(center)) == 2, "what was not done is not recorded"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--rule", "zombies", "--reason", "x"], "--for"),
        (["--rule", "zombies", "--for", "2h"], "--reason"),
        (["--for", "2h", "--reason", "x"], "say what: --rule, --object, or --everything"),
        (["--rule", "zombis", "--for", "2h", "--reason", "x"], "did you mean 'zombies'?"),
        (["--everything", "--for", "0", "--reason", "x"], "a silence must end"),
        (["--everything", "--for", "9000d", "--reason", "x"], "at most a year"),
        (["--everything", "--for", "2h", "--reason", "  "], "say why"),
        (["--everything", "--for", "2h", "--reason", "x" * 200], "at most 190 letters"),
    ],
)
def test_a_silence_that_means_nothing_is_refused(center: TaskCenter, words: list[str], told: str) -> None:
    assert told in refused("alerts", "silence", *words)
    assert center.alerts.silences() == []


def test_an_acknowledged_alert_says_who_looks_after_it(center: TaskCenter) -> None:
    one = written(center)
    assert "is looked after by" in done("alerts", "ack", one.id).out
    acked = center.alerts.alert(one.id)
    assert acked.acked_by == default_actor()
    assert acked.acked_at is not None
    assert f"acked by {default_actor()}" in done("alerts", "list").out
    ended(center, acked)
    assert "no open alert" in refused("alerts", "ack", one.id, code=1)
    assert [action for _, action, _ in actions(center)] == ["ack"]


def test_programs_do_the_same(tmp_path: Path) -> None:
    with_kit = Taskkit(Settings(home=tmp_path / "home"))
    operations, center = with_kit.operations, with_kit.center
    one = written(center)
    silence_id = operations.silence(3600, "import", rule="backlog", actor="ada")
    assert [(s.id, s.author) for s in center.alerts.silences()] == [(silence_id, "ada")]
    operations.unsilence(silence_id, "ada")
    assert operations.ack(one.id, "ada").acked_by == "ada"
    with pytest.raises(InputError, match="must end"):
        operations.silence(0, "import")
    with pytest.raises(NotFound):
        operations.unsilence(silence_id)
    assert [action for _, action, _ in actions(center)] == ["silence", "unsilence", "ack"]
    with_kit.close()


def test_a_test_message_goes_the_way_of_real_alerts(center: TaskCenter, robot: WeComRobot) -> None:
    answer = done("alerts", "test", "ops")
    assert re.match(r"ops took it: markdown 0 in \d", answer.out), answer
    (message,) = robot.messages
    assert "a test message" in message.text
    assert default_actor().partition("@")[0] in message.text
    rows = sql(
        center,
        "SELECT n.state, d.verdict, d.code FROM task_notice n JOIN task_delivery d ON d.notice_id = n.id",
    )
    assert [tuple(row) for row in rows] == [("sent", "sent", "0")]


def test_a_receiver_that_was_stopped_is_free_again_after_a_test_that_arrives(
    center: TaskCenter, robot: WeComRobot
) -> None:
    robot.answers([93000])
    answer = cli("alerts", "test", "ops")
    assert answer.code == 1
    assert "ops did not take it: the answer was 93000" in answer.out
    assert robot.key not in answer.out + answer.err
    (shape,) = done("alerts", "receivers", "--json").json
    assert (shape["state"], shape["waiting"]) == ("misconfigured", 0), (
        "a test that failed does not come later"
    )
    assert "misconfigured for" in done("alerts", "receivers").out
    assert done("alerts", "test", "ops", "--json").json["sent"]
    (shape,) = done("alerts", "receivers", "--json").json
    assert (shape["state"], shape["calls_60s"], shape["calls_month"]) == ("ok", 2, 1)


def test_a_robot_that_is_banned_is_not_called_by_a_test(center: TaskCenter, robot: WeComRobot) -> None:
    receiver = done("alerts", "receivers", "--json").json[0]
    center.outbox.pause(Robot(receiver["robot"], ("ops",), 18), 600, "45009 too often")
    answer = cli("alerts", "test", "ops")
    assert answer.code == 1
    assert "paused for" in answer.out
    assert "45009 too often" in answer.out
    assert robot.calls == []


def test_a_robot_that_does_not_answer_is_said_to(center: TaskCenter, robot: WeComRobot) -> None:
    robot.answers([Trouble.HTML])
    answer = cli("alerts", "test", "ops", "--json")
    assert answer.code == 1
    assert answer.json["sent"] is False
    assert answer.json["calls"][0]["verdict"] == "retry"
    assert [state for (state,) in sql(center, "SELECT state FROM task_notice")] == ["dropped"]


def test_receivers_are_shown_without_their_secrets(center: TaskCenter, robot: WeComRobot) -> None:
    written(center, "ops")
    shown = done("alerts", "receivers").out
    assert robot.key not in shown
    assert f"key={robot.key[:4]}…" in shown
    (shape,) = done("alerts", "receivers", "--json").json
    assert (shape["name"], shape["kind"], shape["waiting"], shape["budget_60s"]) == ("ops", "wecom", 1, 18)
    assert "did you mean 'ops'?" in refused("alerts", "test", "opps")


def test_where_there_is_no_receiver_the_way_to_one_is_said(center: TaskCenter) -> None:
    assert "taskkit watchdog init" in refused("alerts", "receivers", code=1)


@pytest.mark.parametrize("rule", RULES)
def test_an_alert_of_each_rule_can_be_looked_at_before_there_is_one(rule: str) -> None:
    for language in ("en", "zh"):
        shape = done("alerts", "preview", rule, "--lang", language, "--json").json
        assert [one["kind"] for one in shape["messages"]] == ["wecom", "dingtalk"]
        for one in shape["messages"]:
            (text,) = one["calls"]
            assert rule in text
            assert "n/a" not in text.partition("\n")[0]
            assert ("Do first" if language == "en" else "先做") in text


def test_an_alert_that_is_open_is_shown_in_place_of_an_example(center: TaskCenter, robot: WeComRobot) -> None:
    one = written(center)
    shown = done("alerts", "preview", "zombies").out
    assert "an alert that is open" in shown
    assert f"#{one.id}" in shown
    assert "ops (wecom markdown" in shown
    assert robot.calls == []


def test_a_page_of_html_shows_it_as_in_the_chat(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done("alerts", "preview", "backlog", "--lang", "zh", "--kind", "dingtalk", "--out", page)
    text = page.read_text(encoding="utf-8")
    assert "48,213" in text
    assert "钉钉" in text
    assert "did you mean 'backlog'?" in refused("alerts", "preview", "backlok")
