"""WeCom's robot: what is sent, who is called, what each answer leads to."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from pathlib import Path

import pytest

from taskkit.alerts import Event
from taskkit.receivers import Form, Verdict, next_form
from tests.notices import T0, bodies, item, notice, payloads, receiver, saying, sent, text
from tests.robots import wecom_robot

URL = "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=693axxx6-7aoc-4bc4-97a0-0ec2sifa5aaa"


def test_bot_01_a_long_message_is_cut_at_a_letter_with_its_header_and_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one, told = receiver("wecom", url=URL), saying("告" * 1667, title="", uuid="bot-01")
    with caplog.at_level(logging.WARNING):
        calls = payloads(one, told)
        payloads(one, told)
    assert len(calls) == 1
    content = json.loads(calls[0].body)["markdown"]["content"]
    assert len(content.encode()) <= 4096
    assert len(content.encode()) > 4090
    mark = "…(内容过长已截断)"
    assert content.endswith("告" + mark)
    whole = "\n".join(content.splitlines()[:2]) + "\n" + "告" * 1667
    assert whole.startswith(content.removesuffix(mark))
    assert content.startswith('### <font color="warning">严重 · backlog · mail</font> #12\n')
    assert "始于 2026-01-01 08:00:00 +08:00" in content
    [record] = caplog.records
    assert str(len(whole.encode())) in record.getMessage()


def test_what_to_do_and_the_people_survive_the_cut_of_a_long_text() -> None:
    one = receiver("wecom", 'mentions = { users = ["zhangsan"] }', url=URL)
    said = {
        "zh": item().said["zh"].__class__(title="长", text="告" * 3000, actions=(("做", "taskkit status"),))
    }
    content = text(bodies(one, notice(item(said=said)))[0])
    assert len(content.encode()) <= 4096
    assert "告…(内容过长已截断)\n先做：做\n`taskkit status`\n[详情](https://" in content
    assert content.endswith("\n<@zhangsan>")


@pytest.mark.parametrize("limit", [*range(150, 480, 7)])
def test_a_cut_never_breaks_marks(limit: int) -> None:
    one = receiver("wecom", url=URL)
    content = text(bodies(one, notice(item()), Form(limit=limit))[0])
    assert len(content.encode()) <= limit
    assert content.count("**") % 2 == content.count("`") % 2 == 0
    assert content.count("<font") == content.count("</font>")
    assert content.count("](") == content.count("](https://console.example.com/alerts/12)")
    assert "…(内容过长已截断)" in content


def test_bot_13_people_are_called_as_the_robot_demands() -> None:
    people = 'mentions = { users = ["zhangsan"], mobiles = ["13800000000"], all = true }'
    [message, second] = bodies(receiver("wecom", people, url=URL), notice(item()))
    assert message["markdown"].keys() == {"content"}
    assert message["markdown"]["content"].endswith("\n<@zhangsan>")
    assert second["text"] == {
        "content": "请查看上面的消息。", "mentioned_list": ["@all"], "mentioned_mobile_list": ["13800000000"],
    }  # fmt: skip
    [v2, second] = bodies(receiver("wecom", people + '\nformat = "markdown_v2"', url=URL), notice(item()))
    assert v2["markdown_v2"].keys() == {"content"}
    assert "<@" not in v2["markdown_v2"]["content"]
    assert second["text"]["mentioned_list"] == ["zhangsan", "@all"]
    [only] = bodies(receiver("wecom", people + '\nformat = "text"', url=URL), notice(item()))
    assert only["text"]["mentioned_list"] == ["zhangsan", "@all"]
    assert only["text"]["mentioned_mobile_list"] == ["13800000000"]


def test_a_user_alone_needs_no_second_message_and_nobody_is_called_for_what_is_over() -> None:
    one = receiver("wecom", 'mentions = { users = ["zhangsan"], severity = "warning" }', url=URL)
    assert len(bodies(one, notice(item()))) == 1
    for told in (
        notice(item(event=Event.RESOLVED)),
        notice(item(severity="note")),
        notice(subject="x", mentions=False),
    ):
        assert "<@" not in text(bodies(one, told)[0])
    both = notice(item(), item(event=Event.RESOLVED))
    assert "<@" not in text(bodies(one, both)[0])
    assert "<@zhangsan>" in text(bodies(one, notice(subject="a test"))[0])


def test_too_many_people_for_a_message_are_called_by_the_second_one() -> None:
    users = [f"user-with-a-long-name-{number:03d}" for number in range(60)]
    [message, second] = bodies(
        receiver("wecom", f"mentions = {{ users = {users} }}".replace("'", '"'), url=URL), notice(item())
    )
    assert "<@" not in text(message)
    assert second["text"]["mentioned_list"] == users


def test_the_robot_shows_what_is_sent_and_calls_whom_it_should() -> None:
    with wecom_robot() as robot:
        one = receiver(
            "wecom", 'mentions = { users = ["zhangsan"], mobiles = ["13800000000"] }', url=robot.url
        )
        replies = sent(one, notice(item()))
        assert [reply.verdict for reply in replies] == [Verdict.SENT, Verdict.SENT]
        assert [robot.called(call) for call in robot.messages] == [{"zhangsan"}, {"13800000000"}]
        assert robot.messages[0].ids == [12]
        assert robot.messages[1].ids == []


@pytest.mark.parametrize(
    ("code", "verdict", "pause"),
    [
        (0, Verdict.SENT, 0), ("0", Verdict.SENT, 0), (-1, Verdict.RETRY, 0), (45033, Verdict.RETRY, 0),
        (45009, Verdict.PAUSE, 65), (40058, Verdict.SHRINK, 0), (40008, Verdict.BROKEN, 0), (40033, Verdict.BROKEN, 0),
        (44004, Verdict.BROKEN, 0), (93000, Verdict.MISCONFIGURED, 0), (93004, Verdict.MISCONFIGURED, 0),
        (93008, Verdict.MISCONFIGURED, 0), (12345, Verdict.RETRY, 0), (40001, Verdict.RETRY, 0),
    ],
)  # fmt: skip
def test_every_code_of_wecom_has_its_verdict(code: int | str, verdict: Verdict, pause: float) -> None:
    with wecom_robot() as robot:
        robot.answers([{"errcode": code, "errmsg": "said"}])
        [reply] = sent(receiver("wecom", url=robot.url), notice(item()))
    assert (reply.verdict, reply.pause_s, reply.code) == (verdict, pause, str(code))


def test_too_long_is_shrunk_once_and_then_plain() -> None:
    form = next_form(Form(), Verdict.SHRINK, 4000)
    assert form == Form(limit=2000)
    form = next_form(form, Verdict.SHRINK, 2000)
    assert form == Form(limit=2000, plain=True)
    assert next_form(form, Verdict.SHRINK, 2000) is None
    assert next_form(Form(), Verdict.SHRINK, 300) == Form(plain=True)
    assert next_form(Form(), Verdict.RETRY, 300) is None


def test_plain_text_has_no_marks_and_keeps_its_own_limit() -> None:
    one = receiver("wecom", url=URL)
    [body] = bodies(one, saying("告" * 3000), Form(plain=True))
    assert body["msgtype"] == "text"
    assert 2040 < len(text(body).encode()) <= 2048
    [body] = bodies(one, notice(item()), Form(plain=True))
    assert not set("*`<[") & set(text(body))
    assert "详情: https://console.example.com/alerts/12" in text(body)


def test_a_notebook_is_uploaded_and_sent_as_a_file(tmp_path: Path) -> None:
    page = tmp_path / "backlog-12.html"
    page.write_text("<html>告</html>", encoding="utf-8")
    evidence = item(event=Event.EVIDENCE, at=T0 + timedelta(minutes=1), file=str(page))
    with wecom_robot() as robot:
        one = receiver("wecom", url=robot.url)
        told = notice(evidence)
        assert [call.kind for call in payloads(one, told)] == ["markdown", "file"]
        assert [reply.verdict for reply in sent(one, told)] == [Verdict.SENT, Verdict.SENT]
        assert list(robot.uploads.values()) == [page.read_bytes()]
        assert robot.messages[-1].body["msgtype"] == "file"
        robot.answers([45009])
        assert one.send(payloads(one, told)[1], uuid="u", now=T0).verdict is Verdict.PAUSE
        page.unlink()
        assert one.send(payloads(one, told)[1], uuid="u", now=T0).verdict is Verdict.BROKEN


def test_the_servers_words_are_kept_without_ip_and_key() -> None:
    with wecom_robot() as robot:
        robot.answers([93000])
        [reply] = sent(receiver("wecom", url=robot.url), notice(item()))
        assert robot.key not in reply.text
    assert "203.0.113.7" not in reply.text
    assert "key=693a…" in reply.text
