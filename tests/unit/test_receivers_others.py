"""Webhook, Feishu and mail; and the fake robots themselves."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from taskkit.alerts import Event, Said
from taskkit.receivers import Form, Receiver, Verdict, next_form
from taskkit.receivers.feishu import signature
from tests.notices import T0, bodies, item, notice, payloads, receiver, saying, sent
from tests.robots import Trouble, dingtalk_robot, feishu_robot, ids_of, webhook, wecom_robot
from tests.smtp import SmtpServer

# webhook


def test_a_webhook_gets_what_alertmanager_sends() -> None:
    with webhook() as server:
        one = receiver("webhook", url=server.url, token="bearer-token-0123456789")
        told = notice(item(), item(13, Event.RESOLVED, object="pay", severity="warning"))
        assert [reply.verdict for reply in sent(one, told, language="en")] == [Verdict.SENT]
        [call] = server.calls
    body = call.body
    assert call.headers["Idempotency-Key"] == "9f1c"
    assert call.headers["Authorization"] == "Bearer bearer-token-0123456789"
    assert (body["version"], body["status"], body["receiver"], body["truncatedAlerts"]) == (
        "4",
        "firing",
        "ops",
        0,
    )
    assert body["commonLabels"] == {"alertname": "backlog", "service": "taskkit"}
    firing, resolved = body["alerts"]
    assert firing["labels"] == {
        "alertname": "backlog",
        "severity": "critical",
        "object": "mail",
        "service": "taskkit",
    }
    assert firing["annotations"]["summary"] == "No worker is alive"
    assert firing["annotations"]["action"] == "taskkit worker --queues mail"
    assert firing["annotations"]["alert_id"] == "12"
    assert (firing["startsAt"], firing["endsAt"]) == ("2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z")
    assert (resolved["status"], resolved["endsAt"]) == ("resolved", "2026-01-01T01:05:00Z")
    assert all(
        isinstance(text, str)
        for alert in body["alerts"]
        for text in [*alert["labels"].values(), *alert["annotations"].values()]
    )


def test_firing_and_resolved_of_one_alert_have_one_fingerprint() -> None:
    with webhook() as server:
        one = receiver("webhook", url=server.url)
        for event in (Event.FIRING, Event.RESOLVED):
            sent(one, notice(item(event=event)))
        sent(one, notice(subject="a test", text="it works"))
        first, second, test = (call.body for call in server.calls)
    assert first["alerts"][0]["fingerprint"] == second["alerts"][0]["fingerprint"]
    assert (first["groupKey"], first["status"], second["status"]) == (
        second["groupKey"],
        "firing",
        "resolved",
    )
    assert test["alerts"][0]["annotations"]["summary"] == "a test"


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ((200, ""), Verdict.SENT), ((204, ""), Verdict.SENT), ((500, "x"), Verdict.RETRY), ((503, "x"), Verdict.RETRY),
        ((408, ""), Verdict.RETRY), ((429, ""), Verdict.PAUSE), ((400, "bad"), Verdict.BROKEN), ((422, ""), Verdict.BROKEN),
        ((401, ""), Verdict.MISCONFIGURED), ((404, ""), Verdict.MISCONFIGURED), (Trouble.REDIRECT, Verdict.MISCONFIGURED),
        (Trouble.CLOSE, Verdict.RETRY), (Trouble.HTML, Verdict.SENT),
    ],
    ids=str,
)  # fmt: skip
def test_a_webhooks_status_has_its_verdict(answer: Any, verdict: Verdict) -> None:
    with webhook() as server:
        server.answers([answer])
        [reply] = sent(receiver("webhook", url=server.url), notice(item()))
        assert reply.verdict is verdict
        assert (reply.pause_s > 0) == (verdict is Verdict.PAUSE)
        assert len(server.calls) == 1


# Feishu


def test_feishu_is_signed_in_the_body_and_afresh() -> None:
    assert signature("demo", 1599360473) == "l1N0gAcBjdwBvGm1xMjOF0XSyaLRpR7tuO5dHfhAYc8="
    with feishu_robot(secret="feishu-secret-0123456789") as robot:
        lines = 'mentions = { users = ["ou_1"], all = true }\nkeywords = ["监控"]'
        one = receiver("feishu", lines, url=robot.url, secret=robot.secret)
        assert sent(one, notice(item()))[0].verdict is Verdict.SENT
        robot.ahead = timedelta(hours=2)
        assert sent(one, notice(item()))[0].verdict is Verdict.RESIGN
        assert sent(one, notice(item()), now=robot.now())[0].verdict is Verdict.SENT
        page = robot.messages[0].body["content"]["post"]["zh_cn"]
    assert page["title"] == "严重 · backlog · mail #12"
    assert [{"tag": "at", "user_id": "ou_1"}, {"tag": "at", "user_id": "all"}] in page["content"]
    assert [{"tag": "text", "text": "监控"}] in page["content"]
    assert {"tag": "a", "text": "详情", "href": "https://console.example.com/alerts/12"} in page["content"][
        -3
    ]


def test_feishu_fits_and_may_be_plain() -> None:
    with feishu_robot() as robot:
        one = receiver("feishu", url=robot.url)
        assert sent(one, saying("告" * 9000))[0].verdict is Verdict.SENT
        assert 18_000 < robot.messages[0].size <= 19_000
        [call] = payloads(one, notice(item()), Form(plain=True))
        assert one.send(call, uuid="u", now=robot.now()).verdict is Verdict.SENT
        assert robot.messages[1].body["msg_type"] == "text"


@pytest.mark.parametrize(
    ("code", "verdict"),
    [(0, "sent"), (11232, "pause"), (9499, "shrink"), (19001, "misconfigured"), (19021, "resign"), (19022, "misconfigured"),
     (19024, "misconfigured"), (19036, "shrink"), (5, "retry")],
)  # fmt: skip
def test_every_code_of_feishu_has_its_verdict(code: int, verdict: str) -> None:
    with feishu_robot() as robot:
        robot.answers([{"code": code, "msg": "said"}])
        [reply] = sent(receiver("feishu", url=robot.url), notice(item()))
    assert (reply.verdict, reply.code) == (Verdict(verdict), str(code))


@pytest.mark.parametrize("kind", ["post", "text"])
@pytest.mark.parametrize("keyword", ["[告警]", "a_b", "mail *"])
def test_a_keyword_of_feishu_arrives_letter_by_letter(kind: str, keyword: str) -> None:
    one = receiver(
        "feishu", f'format = "{kind}"\nkeywords = ["{keyword}"]', url="https://open.feishu.cn/hook/x"
    )
    for told in (saying("all is well"), saying(f"look at {keyword}", title=keyword)):
        [body] = bodies(one, told)
        assert keyword in json.dumps(body, ensure_ascii=False)


def test_a_keyword_of_feishu_that_the_text_has_is_not_added() -> None:
    one = receiver("feishu", 'keywords = ["告警"]', url="https://open.feishu.cn/hook/x")
    assert json.dumps(bodies(one, saying("有 告警"))[0], ensure_ascii=False).count("告警") == 1


# mail


def mailer(server: SmtpServer, *more: str) -> Receiver:
    lines = (
        f'server = "127.0.0.1:{server.port}"\ntls = "none"\ntimeout = "1s"\nfrom = "taskkit@example.com"\n'
    )
    return receiver("mail", lines + 'to = ["a@example.com", "b@example.com"]\n' + "\n".join(more))


def test_a_mail_arrives_with_its_subject_text_and_notebook(tmp_path: Path) -> None:
    page = tmp_path / "backlog.html"
    page.write_text("<html></html>")
    with SmtpServer() as server:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        assert sent(mailer(server), notice(item(file=str(page))), now=now)[0].verdict is Verdict.SENT
        [mail] = server.mails
    assert (mail.sender, mail.to) == ("taskkit@example.com", ["a@example.com", "b@example.com"])
    assert mail.message["Subject"] == "[taskkit] 严重 · backlog · mail #12"
    assert mail.message["Message-ID"] == "<9f1c@taskkit>"
    assert mail.message["Date"] == "Thu, 01 Jan 2026 00:00:00 +0000"
    body = mail.message.get_body()
    assert body is not None
    assert "taskkit worker --queues mail" in body.get_content()
    assert [part.get_filename() for part in mail.message.iter_attachments()] == ["backlog.html"]


def test_a_mails_subject_begins_no_other_header() -> None:
    evil = "x\r\nBcc: thief@example.com\r\n\r\nhello\x00"
    with SmtpServer() as server:
        told = notice(item(object=evil, said={"zh": Said(title=evil)}), uuid="u\r\nBcc: a@b.c")
        assert sent(mailer(server), told)[0].verdict is Verdict.SENT
        assert sent(mailer(server), notice(subject=evil, uuid="2"))[0].verdict is Verdict.SENT
        for mail in server.mails:
            assert mail.message["Bcc"] is None
            assert set(mail.message.keys()) == {
                "Date", "Message-ID", "Subject", "From", "To", "Auto-Submitted", "Content-Type",
                "Content-Transfer-Encoding", "MIME-Version",
            }  # fmt: skip
            assert mail.to == ["a@example.com", "b@example.com"]


@pytest.mark.parametrize(
    ("refusals", "verdict"),
    [
        ({"MAIL": "451 later"}, Verdict.RETRY), ({"RCPT": "450 greylisted"}, Verdict.RETRY),
        ({"RCPT": "550 nobody 10.0.0.1"}, Verdict.MISCONFIGURED), ({"DATA": "554 spam"}, Verdict.BROKEN),
        ({"EHLO": "500 what", "HELO": "421 busy"}, Verdict.RETRY),
    ],
)  # fmt: skip
def test_a_mail_servers_reply_has_its_verdict(refusals: dict[str, str], verdict: Verdict) -> None:
    with SmtpServer(refusals) as server:
        [reply] = sent(mailer(server), notice(item()))
        assert reply.verdict is verdict
        assert "10.0.0.1" not in reply.text
        assert server.mails == []


@pytest.mark.parametrize("trouble", [{"hang": "RCPT"}, {"drip": True}])
def test_a_mail_server_that_hangs_or_drips_does_not_hold_us(trouble: Any) -> None:
    with SmtpServer(**trouble) as server:
        began = time.monotonic()
        [reply] = sent(mailer(server), notice(item()))
        assert (reply.verdict, reply.code) == (Verdict.RETRY, "timeout")
        assert time.monotonic() - began < 4
    with SmtpServer() as server:
        one = mailer(server)
    assert sent(one, notice(item()))[0].code == "refused"


@pytest.mark.parametrize("trouble", [{"refusals": {"QUIT": "421 busy"}}, {"hang": "QUIT"}])
def test_a_mail_that_was_accepted_has_arrived_whatever_comes_of_the_good_bye(trouble: Any) -> None:
    with SmtpServer(**trouble) as server:
        [reply] = sent(mailer(server), notice(item()))
        assert (reply.verdict, reply.code) == (Verdict.SENT, "250")
        assert len(server.mails) == 1


@pytest.mark.parametrize("trouble", [{"most": 100_000}, {"hang": "DATA"}])
def test_a_notebook_that_is_too_large_for_a_server_is_left_out(trouble: Any, tmp_path: Path) -> None:
    page = tmp_path / "backlog.html"
    page.write_bytes(b"x" * 200_000)
    with SmtpServer(**trouble) as server:
        one = mailer(server)
        told = notice(item(event=Event.EVIDENCE, link="", file=str(page)))
        [call] = payloads(one, told)
        reply = one.send(call, uuid=told.uuid, now=T0)
        assert reply.verdict is Verdict.SHRINK
        form = next_form(Form(), reply.verdict, len(call.body))
        assert form is not None
        server.hang = ""
        [shorter] = payloads(one, told, form)
        assert one.send(shorter, uuid=told.uuid, now=T0).verdict is Verdict.SENT
        [mail] = server.mails
    assert list(mail.message.iter_attachments()) == []
    body = mail.message.get_body()
    assert body is not None
    assert "backlog.html" in body.get_content(), "it says where the notebook lies"


def test_a_mail_server_without_tls_gets_no_password() -> None:
    with SmtpServer() as server:
        lines = f'server = "127.0.0.1:{server.port}"\nfrom = "taskkit@example.com"\nto = ["a@example.com"]\nuser = "ops"'
        one = receiver("mail", lines, password="a-long-password-0123456789")
        [reply] = sent(one, notice(item()))
        assert reply.verdict is Verdict.MISCONFIGURED
        assert "a-long-password" not in repr(one) + repr(reply)


# the fake robots


@pytest.mark.parametrize(("kind", "code", "ban_s"), [("wecom", "45009", 60), ("dingtalk", "130101", 600)])
def test_the_fake_robot_bans_who_sends_too_often_and_lets_him_in_again(
    kind: str, code: str, ban_s: float
) -> None:
    with wecom_robot() if kind == "wecom" else dingtalk_robot(secret="") as robot:
        one = receiver(kind, url=robot.url)

        def told(number: int) -> str:
            return sent(one, notice(item(number), uuid=str(number)))[0].code

        assert [told(number) for number in range(1, 24)] == ["0"] * 20 + [code] * 3
        robot.skip(ban_s - 10)
        assert told(24) == code
        robot.skip(10)
        assert told(25) == "0"
        assert ids_of(robot.messages) == [*range(1, 21), 25]
        assert len(robot.calls_in_ban) == 4
        assert robot.most_in() >= 23


def test_the_fake_robots_refuse_as_documented() -> None:
    with wecom_robot(limited=False) as robot:
        other = receiver("wecom", url=robot.url[:-4] + "0000")
        assert sent(other, notice(item()))[0].verdict is Verdict.MISCONFIGURED
        [call] = payloads(receiver("wecom", url=robot.url), notice(item()))
        long = call.body.replace("没有".encode(), "告".encode() * 1400)
        assert (
            receiver("wecom", url=robot.url)
            .send(type(call)(body=long, kind="markdown"), uuid="u", now=T0)
            .code
            == "40058"
        )
    with dingtalk_robot() as ding:
        wrong = receiver("dingtalk", url=ding.url, secret="SECwrong000000000")
        assert sent(wrong, notice(item()))[0].text.startswith("sign:")
        assert sent(wrong, notice(item()), now=T0)[0].verdict is Verdict.RESIGN
