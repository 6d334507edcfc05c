"""DingTalk's robot: signatures, sizes, mentions, keywords, and what each answer leads to."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest

from taskkit.alerts import Event
from taskkit.receivers import Form, Verdict, next_form
from taskkit.receivers.dingtalk import signature
from tests.notices import T0, bodies, item, notice, payloads, receiver, saying, sent, text
from tests.robots import Trouble, dingtalk_robot

URL = "https://oapi.dingtalk.com/robot/send?access_token=" + "5f" * 32
SECRET = "SECtaskkit0000example1111made2222up3333secret4444"


@pytest.mark.parametrize(
    ("secret", "timestamp", "encoded"),
    [
        (SECRET, 1767225600000, "cpEHai383Rhw%2FXGVurq7tk8PSBb%2BmUGUeLcIGXhGUYA%3D"),
        (SECRET, 1767225600001, "sck0fBOR0O6AhzVhsGLov8HE49UXD%2Fr%2BAlDTcvP9o%2FQ%3D"),
        ("SEC000000", 1767225600000, "a7CFPf4U1GWmA1owa%2BxFEefNireMy2qzOgb43Uu%2Fe5c%3D"),
    ],
)
def test_bot_08_signatures_are_those_of_the_worked_examples(
    secret: str, timestamp: int, encoded: str
) -> None:
    assert quote(signature(secret, timestamp), safe="") == encoded
    with dingtalk_robot(secret=secret) as robot:
        robot.ahead = datetime.fromtimestamp(timestamp / 1000, UTC) - datetime.now(UTC)
        one = receiver("dingtalk", url=robot.url, secret=secret)
        [reply] = sent(one, notice(item()), now=datetime.fromtimestamp(timestamp / 1000, UTC))
        assert reply.verdict is Verdict.SENT
        assert robot.calls[0].query["timestamp"] == str(timestamp)
        assert quote(robot.calls[0].query["sign"], safe="") == encoded
        assert robot.calls[0].query["access_token"] == robot.token


def test_bot_08_a_retry_after_70_minutes_is_signed_afresh_and_keeps_its_uuid() -> None:
    with dingtalk_robot() as robot:
        one = receiver("dingtalk", url=robot.url, secret=robot.secret)
        [call] = payloads(one, notice(item()))
        robot.answers([Trouble.CLOSE])
        now = robot.now()
        assert one.send(call, uuid="9f1c", now=now).verdict is Verdict.RETRY
        robot.ahead = timedelta(minutes=70)
        assert one.send(call, uuid="9f1c", now=now).verdict is Verdict.RESIGN
        assert one.send(call, uuid="9f1c", now=now + timedelta(minutes=70)).verdict is Verdict.SENT
        first, _, last = robot.calls
        assert first.query["timestamp"] != last.query["timestamp"]
        assert first.query["sign"] != last.query["sign"]
        assert [one.body["msgUuid"] for one in robot.calls] == ["9f1c"] * 3
        assert one.send(call, uuid="9f1c", now=robot.now()).verdict is Verdict.SENT
        assert len(robot.messages) == 1


def test_bot_10_6000_letters_go_out_whole_and_7000_are_cut() -> None:
    with dingtalk_robot() as robot:
        one = receiver("dingtalk", url=robot.url, secret=robot.secret)
        replies = sent(one, saying("告" * 6000, title="")) + sent(
            one, saying("告" * 7000, title="", uuid="2")
        )
        assert {reply.verdict for reply in replies} == {Verdict.SENT}
        whole, cut = robot.messages
        assert whole.text.count("告") == 6000
        assert b"\\u" not in whole.raw
        assert 18_000 < whole.size < cut.size <= 19_000
        assert cut.text.endswith("告…(内容过长已截断)")


def test_bot_10_a_body_that_we_thought_fit_is_shrunk() -> None:
    with dingtalk_robot() as robot:
        one = receiver("dingtalk", url=robot.url, secret=robot.secret)
        told = saying("告" * 6000)
        robot.answers([460101])
        [call] = payloads(one, told)
        reply = one.send(call, uuid="u", now=robot.now())
        assert reply.verdict is Verdict.SHRINK
        form = next_form(Form(), reply.verdict, len(call.body))
        assert form is not None
        [smaller] = payloads(one, told, form)
        assert len(smaller.body) < len(call.body) / 2
        assert one.send(smaller, uuid="u", now=robot.now()).verdict is Verdict.SENT


@pytest.mark.parametrize("told", [saying("告" * 9000), notice(subject="a test"), notice(item(), item(13))])
def test_bot_12_the_people_are_in_the_text_after_cutting_whatever_is_sent(told: object) -> None:
    with dingtalk_robot() as robot:
        people = 'mentions = { mobiles = ["13800000000"], users = ["manager4220"] }'
        one = receiver("dingtalk", people, url=robot.url, secret=robot.secret)
        sent(one, told)  # type: ignore[arg-type]
        [call] = robot.messages
        assert call.body["at"] == {
            "atMobiles": ["13800000000"],
            "atUserIds": ["manager4220"],
            "isAtAll": False,
        }
        assert robot.called(call) == {"13800000000", "manager4220"}


def test_bot_12_of_51_people_50_are_called_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    mobiles = [f"138000000{number:02d}" for number in range(51)]
    one = receiver("dingtalk", f"mentions = {{ mobiles = {json.dumps(mobiles)} }}", url=URL)
    assert "51 people" in caplog.text
    [body] = bodies(one, notice(item()))
    assert body["at"]["atMobiles"] == mobiles[:50]
    assert f"@{mobiles[50]}" not in text(body)


def test_everybody_is_called_unless_the_group_forbids_it() -> None:
    with dingtalk_robot() as robot:
        one = receiver("dingtalk", "mentions = { all = true }", url=robot.url, secret=robot.secret)
        robot.answers([450103, 400004])
        for _ in range(2):
            [reply] = sent(one, notice(item()))
            assert reply.verdict is Verdict.NO_MENTION_ALL
        form = next_form(Form(), Verdict.NO_MENTION_ALL, 100)
        assert form is not None
        [body] = bodies(one, notice(item()), form)
        assert "at" not in body
        assert "@" not in text(body)


@pytest.mark.parametrize(
    ("keywords", "added"), [(["监控"], True), (["backlog"], False), (["x", "mail"], False)]
)
def test_a_keyword_is_added_where_the_text_lacks_it(keywords: list[str], added: bool) -> None:
    with dingtalk_robot(keywords=tuple(keywords)) as robot:
        lines = f"keywords = {json.dumps(keywords, ensure_ascii=False)}"
        one = receiver("dingtalk", lines, url=robot.url, secret=robot.secret)
        assert {reply.verdict for reply in sent(one, notice(item()))} == {Verdict.SENT}
        assert {reply.verdict for reply in sent(one, saying("告" * 9000))} == {Verdict.SENT}
        assert robot.messages[0].text.endswith("监控") == added
        without = receiver("dingtalk", url=robot.url, secret=robot.secret)
        assert sent(without, saying("x"))[0].verdict is (Verdict.MISCONFIGURED if added else Verdict.SENT)


@pytest.mark.parametrize(
    ("code", "verdict", "pause"),
    [
        (0, Verdict.SENT, 0), ("0", Verdict.SENT, 0), (-1, Verdict.RETRY, 0), ("-1", Verdict.RETRY, 0),
        (130101, Verdict.PAUSE, 610), ("130101", Verdict.PAUSE, 610), (410100, Verdict.PAUSE, 610),
        (90002, Verdict.RETRY, 0), (90018, Verdict.RETRY, 0), (90030, Verdict.QUOTA, 0),
        (460101, Verdict.SHRINK, 0), (101002, Verdict.SHRINK, 0),
        (450103, Verdict.NO_MENTION_ALL, 0), (400004, Verdict.NO_MENTION_ALL, 0),
        (430101, Verdict.NO_LINKS, 0), (430102, Verdict.NO_LINKS, 0), (430103, Verdict.NO_LINKS, 0),
        (430104, Verdict.NO_LINKS, 0),
        (300001, Verdict.MISCONFIGURED, 0), (300005, Verdict.MISCONFIGURED, 0), (400101, Verdict.MISCONFIGURED, 0),
        (400013, Verdict.MISCONFIGURED, 0), (400102, Verdict.MISCONFIGURED, 0), (400106, Verdict.MISCONFIGURED, 0),
        (40035, Verdict.BROKEN, 0), (43002, Verdict.BROKEN, 0), (43004, Verdict.BROKEN, 0), (400105, Verdict.BROKEN, 0),
        (40058, Verdict.BROKEN, 0), (777, Verdict.RETRY, 0), (45009, Verdict.RETRY, 0),
    ],
)  # fmt: skip
def test_every_code_of_dingtalk_has_its_verdict(code: int | str, verdict: Verdict, pause: float) -> None:
    with dingtalk_robot() as robot:
        robot.answers([{"errcode": code, "errmsg": "said"}])
        [reply] = sent(receiver("dingtalk", url=robot.url), notice(item()))
    assert (reply.verdict, reply.pause_s, reply.code) == (verdict, pause, str(code))


@pytest.mark.parametrize(
    ("said", "verdict", "meaning"),
    [
        ("keywords not in content, more: [https://ding-doc.dingtalk.com]", Verdict.MISCONFIGURED, "keywords"),
        ("description:关键词不匹配;solution:请联系群管理员", Verdict.MISCONFIGURED, "keywords"),
        ("sign not match, more: [https://ding-doc.dingtalk.com]", Verdict.MISCONFIGURED, "sign"),
        ("description:机器人发送签名不匹配;solution:请确认签名和时间戳", Verdict.MISCONFIGURED, "sign"),
        ("invalid timestamp, more: [https://ding-doc.dingtalk.com]", Verdict.RESIGN, "timestamp"),
        ("description:机器人发送签名过期;solution:签名生成时间和发送时间", Verdict.RESIGN, "timestamp"),
        ("ip 203.0.113.7 not in whitelist, more: [https://ding-doc]", Verdict.MISCONFIGURED, "ip"),
        ("description:IP地址203.0.113.7不在白名单", Verdict.MISCONFIGURED, "ip"),
        ("something new", Verdict.MISCONFIGURED, "something new"),
    ],
)
def test_310000_is_four_things(said: str, verdict: Verdict, meaning: str) -> None:
    with dingtalk_robot() as robot:
        robot.answers([{"errcode": 310000, "errmsg": said}])
        [reply] = sent(receiver("dingtalk", url=robot.url), notice(item()))
    assert (reply.verdict, reply.code) == (verdict, "310000")
    assert reply.text.startswith(meaning)
    assert "203.0.113.7" not in reply.text


@pytest.mark.parametrize(
    ("answer", "verdict", "pause"),
    [
        ({"status": 1111, "wait": 5}, Verdict.PAUSE, 310),
        (Trouble.HTML, Verdict.PAUSE, 310),
        ((403, "<html>too many</html>"), Verdict.PAUSE, 310),
        ((502, "<html>bad gateway</html>"), Verdict.RETRY, 0),
        (Trouble.EMPTY, Verdict.RETRY, 0),
        ({"errmsg": "ok"}, Verdict.RETRY, 0),
        ((500, {"errcode": 0}), Verdict.RETRY, 0),
    ],
)
def test_an_answer_without_errcode_is_never_sent(answer: object, verdict: Verdict, pause: float) -> None:
    with dingtalk_robot() as robot:
        robot.answers([answer])  # type: ignore[list-item]
        [reply] = sent(receiver("dingtalk", url=robot.url), notice(item()))
    assert (reply.verdict, reply.pause_s) == (verdict, pause)


def test_without_links_none_is_left() -> None:
    one = receiver("dingtalk", url=URL)
    [body] = bodies(
        one, notice(item(event=Event.REPEAT, runbook="https://wiki.example.com/x")), Form(links=False)
    )
    assert "http" not in json.dumps(body)


def test_the_month_is_the_organisations() -> None:
    assert receiver("dingtalk", url=URL).month == 3000
    assert receiver("dingtalk", "month = 0", url=URL).month is None
    assert receiver("dingtalk", "month = 50000", url=URL).month == 50_000
    assert (
        receiver("dingtalk", url=URL).robot == receiver("dingtalk", 'format = "text"', url=URL + "&x=1").robot
    )


def test_dates_are_shown_in_the_zone() -> None:
    [body] = bodies(
        receiver("dingtalk", url=URL),
        notice(item(event=Event.RESOLVED, since=T0, at=T0 + timedelta(minutes=5))),
    )
    assert "> 始于 2026-01-01 08:00:00 +08:00 · 结束 2026-01-01 08:05:00 +08:00 · 持续 5 分钟" in text(body)
