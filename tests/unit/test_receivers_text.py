"""What a message says, in Chinese and English, and that nothing from task names and errors means anything in it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from email import message_from_bytes, policy

import pytest

from taskkit.alerts import Event, Notice, Said
from taskkit.receivers import Form, Receiver
from taskkit.receivers.escaping import header, inert, inert_code, inert_line, link_target
from taskkit.receivers.words import WORDS, instant, lasting
from tests.naughty import naughty_strings
from tests.notices import SAID, SHANGHAI, T0, bodies, item, notice, payloads, receiver, saying, text
from tests.robots import DingTalkRobot, WeComRobot

WECOM = "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=693axxx6-7aoc-4bc4-97a0-0ec2sifa5aaa"
DINGTALK = "https://oapi.dingtalk.com/robot/send?access_token=" + "5f" * 32
EVIL = [
    "@all", "<@all>", "<@zhangsan>", "@所有人", "@13800000000", "](http://evil.example)", "[x](http://evil.example)",
    '<font color="warning">x</font>', "</font>", "**x**", "`x` <@all> `", "# heading", "> quote", "- list", "1. x",
    "x\r\nBcc: a@b.c", "x\n# heading\n<@all>", "![x](http://evil.example/x.png)", "<a href='http://evil.example'>x</a>",
    "https://evil.example", "&lt;@all&gt;", "<at user_id=\"all\"></at>", "\u202e@all", "___", "```\n<@all>\n```", "|a|b|\n|-|-|",
]  # fmt: skip


def channels() -> list[Receiver]:
    mail = 'server = "localhost:25"\ntls = "none"\nfrom = "taskkit@example.com"\nto = ["ops@example.com"]'
    return [
        *(receiver("wecom", f'format = "{form}"', url=WECOM) for form in ("markdown", "markdown_v2", "text")),
        *(receiver("dingtalk", f'format = "{form}"', url=DINGTALK) for form in ("markdown", "text")),
        *(receiver("feishu", f'format = "{form}"', url="https://open.feishu.cn/hook/12345678901234567890") for form in ("post", "text")),
        receiver("mail", mail),
    ]  # fmt: skip


def read(one: Receiver, told: Notice, language: str = "zh") -> str:
    """Everything of the first call that a client reads."""
    [call, *_] = payloads(one, told, language=language)
    if call.kind == "mail":
        mail = message_from_bytes(call.body, policy=policy.default)
        assert not {"Bcc", "Cc"} & set(mail.keys())
        body = mail.get_body()
        assert body is not None
        return f"{mail['Subject']}\n{body.get_content()}"
    return call.body.decode()


def evil_notice(evil: str, *, digest: bool = False) -> Notice:
    said = Said(
        title=evil,
        text=f"{evil}\n{evil}",
        figures=((evil, evil),),
        forecast=((evil, evil),),
        actions=((evil, evil),),
    )
    bad = [
        item(number, object=evil, said={"zh": said, "en": said}, runbook="", link="") for number in (12, 13)
    ]
    return notice(*bad[: 2 if digest else 1])


CALLING = ("<@", "@all", "@所有人", "@138", "<font", "</font", "<a ", "<at ")
MARKING = ("](", "://", "**", "\n# ", "\n> ", "`")


@pytest.mark.parametrize("evil", EVIL, ids=ascii)
def test_what_came_from_tasks_is_inert_in_every_channel(evil: str) -> None:
    for one in channels():
        for digest in (False, True):
            found = read(one, evil_notice(evil, digest=digest))
            usual = read(one, evil_notice("x", digest=digest))
            outside = [re.sub(r"`[^`]+`", "", content) for content in (found, usual)]
            assert not [sign for sign in CALLING if found.count(sign) != usual.count(sign)], (one.kind, found)
            command = one.kind == "mail" or getattr(one, "format", "") in (
                "text",
                "post",
            )  # there without backticks
            if not command or digest:
                assert not [sign for sign in MARKING if outside[0].count(sign) != outside[1].count(sign)], (
                    found
                )
            assert "\u202e" not in found


@pytest.mark.parametrize("evil", EVIL, ids=ascii)
def test_the_robots_would_call_nobody_for_it(evil: str) -> None:
    for robot, one in (
        (WeComRobot(), channels()[0]),
        (WeComRobot(), channels()[2]),
        (DingTalkRobot(), channels()[3]),
    ):
        with robot:
            near = receiver(one.kind, f'format = "{one.format}"', url=robot.url)  # type: ignore[attr-defined]
            for call in payloads(near, evil_notice(evil)):
                near.send(call, uuid="u", now=robot.now())
            assert [robot.called(call) for call in robot.calls] == [set()]


def test_half_a_letter_in_an_error_stops_no_message() -> None:
    hook = receiver("webhook", url="http://localhost/hook")
    told = evil_notice("half \udc80 of it")
    linked = notice(item(link="https://a.example/\udc80", runbook="r\udc80"), subject="\udc80")
    for one in (*channels(), hook):
        assert "udc80" in read(one, told)
        assert read(one, linked)


def test_lines_of_a_text_begin_no_heading_list_or_rule() -> None:
    said = Said(title="t", text="# a\n> b\n- c\n---\n=== \n+ d\n|e|")
    content = text(bodies(channels()[3], notice(item(said={"zh": said}, runbook="", link="")))[0])
    assert not re.search(r"(?m)^\s*([-+=|]|#(?!##))", content.partition("**t**")[2].partition("等待")[0])


@pytest.mark.parametrize("odd", naughty_strings()[:400])
def test_any_text_makes_a_message_of_one_block_without_control_characters(odd: str) -> None:
    for one in (channels()[0], channels()[3]):
        content = text(bodies(one, evil_notice(odd))[0])
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e]", content)
        assert content.count("`") in (0, 2)
        assert content.encode()


def test_names_stay_as_they_are_where_they_do_no_harm() -> None:
    for plain in (
        "send_mail",
        "order.created:v2",
        "50 % (3/6)",
        "支付-回调",
        "a=b",
        "C:/x",
        "#12",
        "it's",
        "10:30",
    ):
        assert inert(plain) == plain
    for command in (
        "taskkit tasks list --status given_up",
        "GRANT x TO 'a'@'%'",
        "mysql -u x < f.sql",
        "a@b.example",
        "x_*",
    ):
        assert inert_code(command) == command
    assert inert_line("- x") == "‐ x"
    assert header("a\r\nBcc: x\x00") == "a Bcc: x\\x00"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://a.example/x?a=1&b=2#c", "https://a.example/x?a=1&b=2#c"),
        ("https://a.example/x)(<b>'", "https://a.example/x%29%28%3Cb%3E%27"),
        ("javascript:alert(1)", ""), ("https://a.example/x y", ""), ("https://u:p@a.example", ""), ("/path", ""),
        ("http://[::1/x", ""), ("https://控制台.example/任务", "https://%E6%8E%A7%E5%88%B6%E5%8F%B0.example/%E4%BB%BB%E5%8A%A1"),
    ],
)  # fmt: skip
def test_links_lead_to_http_only_and_cannot_be_left(url: str, shown: str) -> None:
    assert link_target(url) == shown


def test_a_firing_alert_says_all_that_somebody_needs_in_english() -> None:
    content = text(
        bodies(channels()[0], notice(item(runbook="https://wiki.example.com/backlog")), language="en")[0]
    )
    assert content.splitlines() == [
        '### <font color="warning">Critical · backlog · mail</font> #12',
        "**No worker is alive**",
        '<font color="comment">since 2026-01-01 08:00:00 +08:00</font>',
        "12,345 tasks of mail wait, and no worker has a fresh heartbeat.",
        "waiting **12,345** · oldest **3.3 h** · workers alive **0**",
        "Forecast: drained never at the present rate",
        "Do first: start a worker",
        "`taskkit worker --queues mail`",
        "[Details](https://console.example.com/alerts/12) · [Runbook](https://wiki.example.com/backlog)",
    ]


def test_a_resolved_alert_says_from_when_to_when_in_chinese() -> None:
    content = text(bodies(channels()[0], notice(item(event=Event.RESOLVED, flaps=3)))[0])
    assert content.splitlines()[0] == '### <font color="info">已恢复 · 严重 · backlog · mail</font> #12'
    assert (
        "始于 2026-01-01 08:00:00 +08:00 · 结束 2026-01-01 09:05:00 +08:00 · 持续 1 小时 5 分钟 · 期间反复 3 次"
        in content
    )
    assert "先做" not in content
    assert "0001" not in content


def test_a_runbook_that_comes_with_the_package_is_a_command_and_any_other_stays_as_it_is() -> None:
    ops = receiver("wecom", url=WECOM)
    for language, runbook, shown in (
        ("en", "runbooks/backlog.md", "Runbook `taskkit runbook show backlog`"),
        ("zh", "runbooks/backlog.md", "处理手册 `taskkit runbook show backlog --lang zh`"),
        ("en", "ops/mail.md", "Runbook `ops/mail.md`"),
    ):
        assert shown in text(bodies(ops, notice(item(runbook=runbook, link="")), language=language)[0])


def test_a_repeated_alert_and_its_notebook_say_so() -> None:
    again = text(bodies(channels()[0], notice(item(event=Event.REPEAT)), language="en")[0])
    assert "Still firing · Critical · backlog · mail" in again
    assert "lasted 1 h 5 min" in again
    evidence = item(event=Event.EVIDENCE, link="", file="/srv/notebooks/backlog-12.html")
    told = text(bodies(channels()[3], notice(evidence), language="en")[0])
    assert "Executed notebook `/srv/notebooks/backlog-12.html`" in told


def test_a_notebook_that_has_no_link_is_found_by_its_host_or_made_anew_by_a_command() -> None:
    values = {"event": Event.EVIDENCE, "file": "/srv/12-backlog.html", "host": "web-1", "command": "taskkit runbook run backlog"}  # fmt: skip
    bare, linked = item(link="", **values), item(**values)
    for one, place, anew in (
        ("en", "Executed notebook `/srv/12-backlog.html` on host `web-1`", "Make it anew: "),
        ("zh", "已执行的诊断笔记 `/srv/12-backlog.html` 所在主机 `web-1`", "重新生成："),
    ):
        told = text(bodies(channels()[3], notice(bare), language=one)[0])
        assert place in told
        assert f"{anew}`taskkit runbook run backlog`" in told
        told = text(bodies(channels()[3], notice(linked), language=one)[0])
        assert "/srv/" not in told
        assert "runbook run" not in told


def test_an_alert_without_this_language_speaks_the_other_and_one_without_words_names_its_rule() -> None:
    assert "No worker is alive" in read(channels()[0], notice(item(said={"en": SAID["en"]})))
    assert "**backlog**" in read(channels()[0], notice(item(said={})))


def test_a_digest_has_each_alert_once_in_its_final_state_the_worst_first() -> None:
    later = T0 + timedelta(minutes=5)
    told = notice(
        item(1, severity="note"), item(2), item(3), item(3, Event.RESOLVED, at=later), item(2, Event.EVIDENCE, at=later),
        item(4, severity="warning", object="支付"), item(5, Event.EVIDENCE, at=later),
    )  # fmt: skip
    content = text(bodies(channels()[0], told)[0])
    assert [int(number) for number in re.findall(r"#(\d+)", content)] == [2, 4, 1, 3, 5]
    rows = content.splitlines()
    assert rows[0] == '### <font color="warning">5 条告警：未恢复 3 条，已恢复 1 条，诊断笔记 1 条</font>'
    assert rows[1].startswith(
        '<font color="warning">严重</font> #2 backlog · mail：没有存活的 worker（始于 2026-01-01 08:00:00'
    )
    assert rows[4].startswith(
        '<font color="info">已恢复</font> #3 backlog · mail：没有存活的 worker（持续 5 分钟）'
    )
    assert rows[-1] == "逐条查看：`taskkit alerts list`"


@pytest.mark.parametrize("count", [2, 40, 90, 300])
@pytest.mark.parametrize("number", range(8))
def test_a_digest_leaves_no_alert_out(count: int, number: int) -> None:
    one = channels()[number]
    told = notice(*(item(n + 1, object=f"队列-{n}" * 4) for n in range(count)))
    found = re.findall(r"#(\d+)", read(one, told))
    assert sorted(map(int, found)) == list(range(1, count + 1))
    assert f"{count} 条告警" in read(one, told)


def test_what_is_no_alert_is_told_with_its_subject_and_text() -> None:
    told = notice(subject="taskkit: a test", text="It works.\n\nReally @all.")
    assert text(bodies(channels()[0], told)[0]) == "### taskkit: a test\nIt works.\nReally ＠all."
    assert text(bodies(channels()[2], told)[0]) == "taskkit: a test\nIt works.\nReally ＠all."


def test_a_smaller_form_cuts_even_the_header_rather_than_being_too_long() -> None:
    for limit in (60, 100, 140):
        assert len(text(bodies(channels()[0], notice(item()), Form(limit=limit))[0]).encode()) <= limit


def test_a_cut_goes_between_letters_that_belong_together() -> None:
    family, accent = "👨‍👩‍👧", "e\u0301"
    for limit in range(230, 330):
        for sign in (family, accent):
            said = Said(title="t", text=sign * 60)
            content = text(
                bodies(
                    channels()[0], notice(item(said={"zh": said}, runbook="", link="")), Form(limit=limit)
                )[0]
            )
            kept = content.splitlines()[-1].removesuffix("…(内容过长已截断)")
            assert kept.count(sign) * len(sign) == len(kept)


def test_instants_and_lengths_of_time() -> None:
    assert instant(T0, SHANGHAI) == "2026-01-01 08:00:00 +08:00"
    assert (
        instant(datetime(2026, 7, 1, 12, 0, 0, 999, tzinfo=UTC), timezone(timedelta(hours=-9, minutes=-30)))
        == "2026-07-01 02:30:00 -09:30"
    )
    assert [lasting(s, "en") for s in (-1, 0.4, 59, 60, 3900, 90_000)] == [
        "0 s",
        "0 s",
        "59 s",
        "1 min",
        "1 h 5 min",
        "1 d 1 h",
    ]
    assert lasting(3661, "zh") == "1 小时 1 分钟"


def test_both_languages_have_the_same_words() -> None:
    assert WORDS["en"].keys() == WORDS["zh"].keys()
    for name, english in WORDS["en"].items():
        assert re.findall(r"\{\w+\}", english) == re.findall(r"\{\w+\}", WORDS["zh"][name])


@pytest.mark.parametrize("text", ["  # heading", " - list", "\u3000# heading", "   === ", "\t> quote"])
@pytest.mark.parametrize("kind", ["wecom", "dingtalk"])
def test_no_line_begins_with_a_mark_behind_white_space(kind: str, text: str) -> None:
    url = {"wecom": "https://h.example.com/?key=0123456789abcdef", "dingtalk": "https://h.example.com/?access_token=0123456789abcdef"}  # fmt: skip
    said = bodies(receiver(kind, url=url[kind]), saying(f"one\n{text}"))[0]["markdown"]
    last = str(said.get("text") or said["content"]).splitlines()[-1]
    assert not last.strip().startswith(("#", "- ", "==", ">"))
