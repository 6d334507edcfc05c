"""Log lines: every field where it belongs, nothing that raises, no password, and files that stay bounded."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from taskkit import logs
from taskkit.logs import bind, configure, handlers
from taskkit.settings import Settings

log = logging.getLogger("taskkit.worker")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def untouched_root() -> Iterator[None]:
    root = logging.getLogger()
    level = root.level
    yield
    logs.remove_handlers()
    logs.process_fields.clear()
    root.setLevel(level)


@pytest.fixture
def out() -> io.StringIO:
    stream = io.StringIO()
    configure(Settings.load({}), role="worker", stream=stream)
    return stream


def last(stream: io.StringIO) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(stream.getvalue().split("\n")[-2])
    return line


# ---- what a line says


def test_a_line_tells_when_what_where_and_about_which_task() -> None:
    stream = io.StringIO()
    configure(Settings.load({}), role="worker", stream=stream, worker="w1")
    with bind(task_id=7, task_code="mail", attempt=2, trace_id="t"):
        log.info("sent %d", 3, extra={"runtime_ms": 12})
    line = last(stream)
    assert datetime.fromisoformat(line.pop("time")).tzinfo is UTC
    assert (line.pop("host"), line.pop("pid")) != ("", 0)
    assert line == {
        "level": "info",
        "logger": "taskkit.worker",
        "message": "sent 3",
        "task_id": 7,
        "task_code": "mail",
        "attempt": 2,
        "worker": "w1",
        "trace_id": "t",
        "runtime_ms": 12,
    }


def test_the_time_is_utc_in_milliseconds(out: io.StringIO) -> None:
    record = logging.makeLogRecord({"created": 1772326800.0006, "msg": "x"})
    assert logs.lines.fields_of(record)["time"] == "2026-03-01T01:00:00.000Z"


def test_fields_are_gone_after_the_block_and_nest(out: io.StringIO) -> None:
    with bind(task_id=1, worker="a"):
        with bind(task_id=2):
            log.info("inside")
            assert (last(out)["task_id"], last(out)["worker"]) == (2, "a")
        log.info("outside of the inner one")
        assert last(out)["task_id"] == 1
    log.info("after")
    assert "task_id" not in last(out)


def test_tasks_of_asyncio_and_threads_do_not_share_their_fields(out: io.StringIO) -> None:
    async def one(number: int) -> None:
        with bind(task_id=number):
            await asyncio.sleep(0)
            log.info("%d", number)

    async def both() -> None:
        await asyncio.gather(one(1), one(2))

    asyncio.run(both())
    with bind(task_id=9):
        thread = threading.Thread(target=log.info, args=("none",))
        thread.start()
        thread.join()
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(line["message"], line.get("task_id")) for line in lines] == [("1", 1), ("2", 2), ("none", None)]


def test_an_extra_cannot_hide_what_the_line_says_itself(out: io.StringIO) -> None:
    log.info("x", extra={"time": "never", "host": "other", "task_id": 5})
    line = last(out)
    assert (line["time_"], line["host_"], line["task_id"]) == ("never", "other", 5)
    assert line["time"] != "never"


def test_an_exception_is_text_in_the_same_line(out: io.StringIO) -> None:
    try:
        raise ValueError("bad\nvalue")
    except ValueError:
        log.exception("failed")
    assert len(out.getvalue().splitlines()) == 1
    assert "ValueError: bad\nvalue" in last(out)["exception"]
    assert "Traceback" in last(out)["exception"]


def test_the_level_is_kept_and_httpx_is_silent(out: io.StringIO) -> None:
    log.debug("no")
    logging.getLogger("httpx").info("HTTP Request: POST https://robot/send?key=secret")
    assert out.getvalue() == ""


# ---- a log call never raises


class Bad:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def looped() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def deep() -> list[Any]:
    nest: list[Any] = []
    for _ in range(100_000):
        nest = [nest]
    return nest


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Path("/a"), "/a"),
        (object, "<class 'object'>"),
        (Bad(), "<unprintable Bad>"),
        ("a\udc80b", "a\\udc80b"),
        (["a\udc80b"], "['a\\udc80b']"),
        ({"\udc80": 1}, "{'\\udc80': 1}"),
        (looped(), "[[...]]"),
        (10**400, 10**400),
        (10**5000, "<unprintable int>"),
        (float("nan"), None),
        ({1, 2}, [1, 2]),
        (Decimal("1.5"), "1.5"),
        ("\x00\u2028", "\x00\u2028"),
        ({("a", 1): 2}, {"('a', 1)": 2}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_is_logged_becomes_one_line_of_json(out: io.StringIO, value: object, shown: object) -> None:
    log.info("x", extra={"odd": value, "fine": 1})
    assert len(out.getvalue().split("\n")) == 2
    line = last(out)
    assert line.get("odd") == shown
    assert line["fine"] == 1


def test_a_value_nested_without_end_is_unprintable_and_not_fatal(out: io.StringIO) -> None:
    nest = deep()
    log.info("x", extra={"odd": nest})
    assert last(out)["message"] == "x"
    while nest:
        nest = nest.pop()


@pytest.mark.parametrize(
    ("message", "args"),
    [
        ("%d", ("x",)),
        ("%s %s", ("x",)),
        ("%s", (Bad(),)),
        (Bad(), ()),
        ("lone \udc80", ()),
        (b"bytes", ()),
        (None, ()),
    ],
)
def test_a_message_that_cannot_be_formatted_is_logged_as_it_is(
    out: io.StringIO, message: Any, args: Any
) -> None:
    (handler,) = (own for own in logging.getLogger().handlers if isinstance(own, handlers.LineHandler))
    handler.handle(logging.LogRecord("x", logging.ERROR, "", 1, message, args, None))
    assert last(out)["level"] == "error"


def test_a_long_message_loses_its_middle(out: io.StringIO) -> None:
    log.info("a" * 1_000_000 + "end", extra={"odd": Bad()})
    assert len(out.getvalue()) < 20_000
    assert last(out)["message"].endswith("end")


def test_long_extras_and_tracebacks_are_bounded_too(out: io.StringIO) -> None:
    try:
        raise ValueError("x" * 1_000_000)
    except ValueError:
        log.exception("failed", extra={"text": "a" * 1_000_000, "numbers": list(range(1_000_000))})
    assert len(out.getvalue()) < 60_000
    assert last(out)["numbers"].startswith("[0, 1, 2")


def test_a_stream_that_knows_only_ascii_gets_escapes() -> None:
    raw = io.BytesIO()
    configure(Settings.load({}), role="x", stream=io.TextIOWrapper(raw, encoding="ascii"))
    log.info("grüß 任务")
    assert b"gr\\xfc\\xdf \\u4efb" in raw.getvalue()


def test_a_closed_stream_is_told_once_and_does_not_raise(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    configure(Settings.load({}), role="x", stream=stream)
    stream.close()
    log.info("one")
    log.info("two")
    assert capsys.readouterr().err.count("log lines are being lost") == 1


# ---- secrets


@pytest.mark.parametrize("form", ["json", "pretty"])
def test_no_password_of_a_url_reaches_a_log(form: str) -> None:
    stream = io.StringIO()
    configure(Settings.load({}, log_format=form), role="x", stream=stream)
    secret = 's3c"r@et'
    url = f"mysql://root:{secret}@db/x?ssl_key_password=s3cret"
    try:
        raise OSError(f"cannot reach {url}\nat all")
    except OSError:
        log.exception("to %s", url, extra={"url": url, "nested": {"a": [url, "b@c"]}})
    log.info("https://robot/send?access_token=s3cret&x=1", extra={"mail": "a@b"})
    text = stream.getvalue()
    assert "s3c" not in text
    assert "et@db" not in text
    assert "at all" in text
    assert "x=1" in text
    assert "a@b" in text
    if form == "json":
        assert [json.loads(line)["level"] for line in text.splitlines()] == ["error", "info"]


# ---- for people


def test_a_terminal_gets_pretty_lines_and_a_pipe_gets_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    configure(Settings.load({}), role="x", stream=stream)
    with bind(task_id=7):
        log.warning("evil \x1b[2J\r name\nnext", extra={"queue": "mail"})
    text = stream.getvalue()
    assert "\x1b[33mWARNING" in text
    assert "evil \\x1b[2J\\r name\\nnext" in text
    assert "task_id=7 queue=mail [taskkit.worker]" in text
    configure(Settings.load({}, log_format="json"), role="x", stream=stream)
    log.info("x")
    assert last(stream)["message"] == "x"


def test_a_pretty_exception_keeps_its_lines() -> None:
    stream = io.StringIO()
    configure(Settings.load({}, log_format="pretty"), role="x", stream=stream)
    try:
        raise ValueError("two\nlines")
    except ValueError:
        log.exception("failed")
    assert stream.getvalue().endswith("    ValueError: two\n    lines\n")
    assert "\x1b" not in stream.getvalue()
