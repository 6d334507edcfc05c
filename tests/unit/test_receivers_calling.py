"""Calls to servers that may do anything: bounded in time and size, judged by their code, and nothing secret in any log."""

from __future__ import annotations

import logging
import time
import traceback
from datetime import timedelta
from typing import Any

import httpx
import pytest

from taskkit.errors import SettingsError
from taskkit.receivers import Receiver, Reply, Verdict
from taskkit.receivers.calling import failure_word, post, within
from tests.notices import item, notice, payloads, receiver, sent
from tests.robots import Robot, Trouble, dingtalk_robot, wecom_robot

LIMIT = 'timeout = "1s"\n'


def told(one: Receiver) -> tuple[Reply, float]:
    began = time.monotonic()
    [reply] = sent(one, notice(item()))
    return reply, time.monotonic() - began


@pytest.mark.parametrize(
    ("answer", "verdict", "code"),
    [
        ({"errcode": 0}, Verdict.SENT, "0"),
        ({"errcode": 310000, "errmsg": "sign not match"}, Verdict.MISCONFIGURED, "310000"),
        ({"errcode": 300001, "errmsg": "token is not exist"}, Verdict.MISCONFIGURED, "300001"),
        ({"errcode": 40058}, Verdict.BROKEN, "40058"),
        ({"errcode": 45009}, Verdict.RETRY, "45009"),
        (Trouble.HTML, Verdict.PAUSE, "http 200"),
        (Trouble.EMPTY, Verdict.RETRY, "http 200"),
        (Trouble.REDIRECT, Verdict.RETRY, "http 302"),
        ((403, "forbidden"), Verdict.RETRY, "http 403"),
        ((500, "oops"), Verdict.RETRY, "http 500"),
        ((502, "oops"), Verdict.RETRY, "http 502"),
        (Trouble.CLOSE, Verdict.RETRY, "connection lost"),
        (Trouble.HANG, Verdict.RETRY, "timeout"),
        (Trouble.DRIP, Verdict.RETRY, "timeout"),
        (Trouble.HUGE, Verdict.RETRY, "http 200"),
        ((200, "[" * 60_000), Verdict.RETRY, "http 200"),
        ((200, '{"errcode": 0'), Verdict.RETRY, "http 200"),
        ((200, '{"errcode": null}'), Verdict.RETRY, "http 200"),
        ((200, '{"errcode": true}'), Verdict.RETRY, "http 200"),
        ((200, '"0"'), Verdict.RETRY, "http 200"),
        ((302, '{"errcode": 0}'), Verdict.RETRY, "http 302"),
    ],
    ids=str,
)
def test_dog_04_only_errcode_0_is_sent_whatever_a_server_does(
    answer: Any, verdict: Verdict, code: str
) -> None:
    with dingtalk_robot() as robot:
        robot.answers([answer])
        reply, took = told(receiver("dingtalk", LIMIT, url=robot.url, secret=robot.secret))
        assert (reply.verdict, reply.code) == (verdict, code)
        assert len(reply.text.encode()) <= 240
        assert took < 5
        assert [call.path for call in robot.calls] == [robot.path]


@pytest.mark.parametrize(("code", "verdict"), [(40058, Verdict.SHRINK), (45009, Verdict.PAUSE)])
def test_dog_04_codes_of_wecom_have_wecoms_meaning(code: int, verdict: Verdict) -> None:
    with wecom_robot() as robot:
        robot.answers([code])
        assert told(receiver("wecom", url=robot.url))[0].verdict is verdict


def test_dog_04_a_refused_connection_and_bad_tls_are_failures() -> None:
    with wecom_robot() as robot:
        one = receiver("wecom", url=robot.url)
        with robot.refusing():
            reply, _ = told(one)
            assert (reply.verdict, reply.code) == (Verdict.RETRY, "refused")
        assert told(one)[0].verdict is Verdict.SENT
    with wecom_robot(tls=True) as robot:
        reply, _ = told(receiver("wecom", url=robot.url))
        assert (reply.verdict, reply.code) == (Verdict.RETRY, "tls")
        assert robot.calls == []


def test_dog_04_each_send_is_signed_for_its_own_time() -> None:
    with dingtalk_robot() as robot:
        one = receiver("dingtalk", url=robot.url, secret=robot.secret)
        now = robot.now()
        assert sent(one, notice(item()), now=now)[0].verdict is Verdict.SENT
        robot.ahead = timedelta(hours=2)
        assert sent(one, notice(item(13), uuid="b"), now=now + timedelta(hours=2))[0].verdict is Verdict.SENT
        assert len({call.query["sign"] for call in robot.messages}) == 2


def test_a_name_that_nobody_knows_is_a_failure_and_a_slow_one_does_not_hold_us() -> None:
    reply, _ = told(receiver("wecom", url="http://no-such-host.invalid/send?key=693a12345678901234567890"))
    assert reply.verdict is Verdict.RETRY
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        within(0.1, lambda: time.sleep(2))
    assert time.monotonic() - began < 1.5


def test_a_call_may_be_made_where_an_event_loop_runs_already() -> None:
    import asyncio

    async def inside() -> Reply:
        with wecom_robot() as robot:
            return sent(receiver("wecom", url=robot.url), notice(item()))[0]

    assert asyncio.run(inside()).verdict is Verdict.SENT


def test_failures_are_told_by_their_cause_and_never_by_a_librarys_words() -> None:
    assert failure_word(httpx.ConnectTimeout("https://x?key=secret")) == "timeout"
    assert failure_word(httpx.InvalidURL("https://x?key=secret")) == "not a url"
    assert failure_word(ValueError("secret")) == "ValueError"
    assert post("http://[::1", b"", {}, timeout=1).failure
    assert post("gopher://x", b"", {}, timeout=1).failure


def everything_said(caplog: pytest.LogCaptureFixture, *more: object) -> str:
    """Every log line with its arguments and traceback, and whatever else people might see."""
    lines = []
    for record in caplog.records:
        lines += [record.getMessage(), str(record.__dict__)]
        if record.exc_info and record.exc_info[1]:
            lines += traceback.format_exception(record.exc_info[1])
    return "\n".join([*lines, *(f"{one!r} {one}" for one in more)])


def robots() -> list[tuple[str, Robot]]:
    return [("wecom", wecom_robot()), ("dingtalk", dingtalk_robot())]


@pytest.mark.parametrize("kind", ["wecom", "dingtalk"])
def test_bot_14_no_secret_is_in_any_log_reply_or_repr(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger().setLevel(logging.DEBUG)
    with wecom_robot() if kind == "wecom" else dingtalk_robot() as robot:
        token = robot.key if kind == "wecom" else robot.token  # type: ignore[attr-defined]
        secret = getattr(robot, "secret", "")
        one = receiver(kind, LIMIT, url=robot.url, **({"secret": secret} if secret else {}))
        echo = f"no such robot: {token} at {robot.url}&sign=a%2Bb= {secret}"
        robot.answers(
            [0, (500, echo), Trouble.HANG, {"errcode": 93000, "errmsg": echo}, {"errcode": 300001, "errmsg": echo},
             {"errcode": 310000, "errmsg": f"sign not match {echo}"}, (404, f"<html>{robot.url}</html>")]
        )  # fmt: skip
        replies = [told(one)[0] for _ in range(7)]
        with robot.refusing():
            replies.append(told(one)[0])
        stored = [call.body for call in payloads(one, notice(item()))]
        signs = [call.query.get("sign", "-" * 20) for call in robot.calls]
    lost = receiver(kind, url=robot.url.replace("127.0.0.1", "no-such-host.invalid"))
    replies.append(told(lost)[0])
    said = everything_said(caplog, one, one.options, *replies, *stored, next(iter(vars_of(one))))
    for hidden in (token, secret, *signs):
        assert not hidden or hidden not in said
    assert f"{token[:4]}…" in said


def vars_of(one: Receiver) -> list[str]:
    """What a debugger's or a traceback's look at a receiver shows."""
    return [" ".join(f"{name}={getattr(one, name)!r}" for name in one.__slots__)]  # type: ignore[attr-defined]


def test_bot_14_bad_settings_are_told_without_what_they_hold() -> None:
    url = "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=693axxx6-7aoc-4bc4-97a0-0ec2sifa5aaa"
    for kind, bad in [
        ("wecom", url.replace("key=", "keys=")), ("wecom", url.replace("https://", "htps://")),
        ("dingtalk", url), ("wecom", "693axxx6-7aoc-4bc4-97a0-0ec2sifa5aaa"), ("webhook", url.replace("//", "//a b:")),
        ("webhook", url.replace(".com", ".com:99999")),
    ]:  # fmt: skip
        with pytest.raises(SettingsError) as problem:
            receiver(kind, url=bad)
        assert "7aoc" not in str(problem.value)
        assert "OPS_URL" in str(problem.value)


def test_the_loggers_of_httpx_speak_again_afterwards(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "httpx")
    with wecom_robot() as robot:
        told(receiver("wecom", url=robot.url))
        assert caplog.records == []
        httpx.post(f"{robot.base}/other")
    assert caplog.records
