"""Fingerprints of errors: one cause gives one, whatever the values; another cause gives another."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from taskkit.fingerprints import LENGTH, fingerprint, normalised, place
from taskkit.states import Outcome
from tests.naughty import naughty_strings

ROOT = Path(__file__).parents[2]

SAME = [
    ("numbers", "ValueError: order 17 of 3", "ValueError: order 1700042 of 3.5"),
    ("ids", "LookupError: no customer cus_9s6XKzkNRiz8i3", "LookupError: no customer cus_Q2a77bKKp01zX9"),
    ("hex", "ValueError: commit 9fceb02d0ae598e9 is gone", "ValueError: commit 00112233 is gone"),
    (
        "uuids",
        "ValueError: user 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "ValueError: user 11111111-2222-3333-4444-555555555555",
    ),
    ("addresses", "TypeError: <shop.Order object at 0x7f3a12bc>", "TypeError: <shop.Order object at 0x55aa>"),
    (
        "dates",
        "ValueError: 2026-01-02T03:04:05.123456+08:00 is past",
        "ValueError: 1999-12-31T23:59:59Z is past",
    ),
    ("dates in words", "ValueError: on Sun, 29 Nov 2026", "ValueError: on Mon, 1 Jun 2020"),
    ("texts in quotes", "ValueError: not a number: 'abc'", "ValueError: not a number: 'größer'"),
    (
        "paths",
        "OSError: [Errno 2] No such file: '/tmp/tmpab12/x.csv'",
        "OSError: [Errno 2] No such file: '/data/in/y'",
    ),
    (
        "bare paths",
        "OSError: cannot read /tmp/tmpq1/x.csv now",
        "OSError: cannot read /srv/in/2026/b.csv now",
    ),
    ("mail", "SMTPError: bob@example.com bounced", "SMTPError: ann.lee@mail.example.org bounced"),
    (
        "IP addresses",
        "ConnectionError: no route to 10.0.0.3:6379",
        "ConnectionError: no route to 192.168.7.12:6380",
    ),
    ("IPv6", "ConnectionError: no route to fe80::1", "ConnectionError: no route to 2001:db8::8a2e:370:7334"),
    (
        "the path of a URL",
        "HTTPError: GET https://pay.example.com/o/17?x=1",
        "HTTPError: GET https://pay.example.com/o/9",
    ),
    ("lists of any length", "ValueError: missing ids 1, 2, 3", "ValueError: missing ids 17"),
    (
        "parameters",
        "DBError: SELECT x WHERE id IN (%s, %s, %s)",
        "DBError: SELECT x WHERE id IN (%s)",
    ),
    (
        "other languages",
        "ValueError: 订单 2024110100001 不存在",
        "ValueError: 订单 17 不存在",
    ),
]

DIFFERENT = [
    ("types", "ValueError: no", "TypeError: no"),
    ("types with numbers", "S3Error: no", "S4Error: no"),
    ("words", "ValueError: order 17 is paid", "ValueError: order 17 is cancelled"),
    ("error numbers", "OSError: [Errno 111] refused", "OSError: [Errno 110] refused"),
    ("exit codes", "CommandFailed: exit code 1", "CommandFailed: exit code 127"),
    ("signals", "killed by signal 9", "killed by signal 11"),
    ("HTTP statuses", "RequestFailed: answered 503", "RequestFailed: answered 404"),
    ("numbers of MySQL", "DBError: (1213, 'Deadlock')", "DBError: (1205, 'Lock wait')"),
    ("names in the code", "NameError: name 'foo' is not defined", "NameError: name 'bar' is not defined"),
    ("keys", "KeyError: 'user'", "KeyError: 'order'"),
    ("hosts", "HTTPError: https://a.example.com/x", "HTTPError: https://b.example.com/x"),
]


def of(error: str | None, traceback: str | None = None, outcome: Outcome = Outcome.FAILED) -> str | None:
    return fingerprint(outcome, "mail", error, traceback)


@pytest.mark.parametrize(("one", "other"), [case[1:] for case in SAME], ids=[case[0] for case in SAME])
def test_values_do_not_change_a_fingerprint(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)
    assert of(one) == of(other)


@pytest.mark.parametrize(
    ("one", "other"), [case[1:] for case in DIFFERENT], ids=[case[0] for case in DIFFERENT]
)
def test_another_cause_is_another_fingerprint(one: str, other: str) -> None:
    assert of(one) != of(other)


def test_a_message_stays_readable() -> None:
    told = normalised("KeyError: 'user_id' of order 17, see https://u:secret@pay.example.com:8443/o?t=secret")
    assert told == "KeyError: 'user_id' of order <n>, see https://pay.example.com:<n>/"


@pytest.mark.parametrize("outcome", Outcome)
def test_every_end_with_an_error_has_one_and_no_other(outcome: Outcome) -> None:
    found = fingerprint(outcome, "mail", "ValueError: no", None)
    if outcome in {Outcome.FAILED, Outcome.TIMEOUT, Outcome.LOST, Outcome.GIVEN_UP}:
        assert found is not None
        assert re.fullmatch(f"[0-9a-f]{{{LENGTH}}}", found)
    else:
        assert found is None


def test_without_a_traceback_the_code_is_the_place() -> None:
    text = "the child process was killed by signal 9 (SIGKILL)"
    assert fingerprint(Outcome.FAILED, "mail", text, None) != fingerprint(
        Outcome.FAILED, "export", text, None
    )
    assert fingerprint(Outcome.LOST, "mail", None, None) is not None


def test_where_a_timeout_struck_by_chance_does_not_matter() -> None:
    traces = [f'  File "/a/b.py", line 3, in {name}\n    x\n' for name in ("read", "write")]
    one, other = (of("timeout: still running after 30 s", t, Outcome.TIMEOUT) for t in traces)
    assert one == other == of("timeout: still running after 5 s", None, Outcome.TIMEOUT)


TRACE = """Traceback (most recent call last):
  File "{folder}/worker/perform.py", line 40, in perform
    value = handler.fn(**arguments)
            ^^^^^^^^^^^^^^^^^^^^^^^
  File "{folder}/shop/tasks.py", line {line}, in send
    json.loads(text)
  File "/usr/lib/python{python}/json/decoder.py", line 355, in raw_decode
    raise JSONDecodeError("Expecting value", s, err.value) from None
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
"""


def test_it_is_the_same_on_any_machine_after_any_deploy() -> None:
    one = TRACE.format(folder="/srv/releases/41/app", line=7, python="3.11")
    other = TRACE.format(folder="C:/apps/shop", line=99, python="3.13").replace("/", "\\")
    assert place(one) == place(other) == "tasks.py:send"
    assert of("JSONDecodeError: Expecting value: line 1", one) == of(
        "JSONDecodeError: Expecting value: line 9", other
    )


def test_the_place_is_the_innermost_frame_outside_of_the_standard_library() -> None:
    library = "/usr/lib/python3.11/site-packages/pymysql/connections.py"
    frames = [("/a/tasks.py", "send"), (library, "connect"), ("/usr/lib/python3.11/socket.py", "create")]
    trace = "".join(f'  File "{path}", line 1, in {name}\n    x\n' for path, name in frames)
    assert place(trace) == "connections.py:connect"
    assert place('  File "/usr/lib/python3.11/socket.py", line 1, in create\n') == "socket.py:create"
    assert place('  File "/a/shop/__init__.py", line 1, in send\n') == "shop/__init__.py:send"
    assert place("ValueError: no frame here") is None
    assert place(None) is None


def test_other_functions_are_other_places() -> None:
    one, other = ('  File "/a/b.py", line 3, in send\n', '  File "/a/b.py", line 3, in charge\n')
    assert of("ValueError: no", one) != of("ValueError: no", other)


SCRIPT = """
import asyncio, sys, traceback
from taskkit.fingerprints import fingerprint, normalised, place
from taskkit.states import Outcome

def inner(number):
    return [len(None) for _ in range(1)] if number else 0

def chained():
    try:
        inner(17)
    except TypeError as error:
        raise RuntimeError("order 17 is broken") from error

def handling():
    try:
        inner(17)
    except TypeError:
        chained()

async def fails(number):
    raise ValueError(f"order {number} fails")

async def group():
    async with asyncio.TaskGroup() as tasks:
        for number in range(int(sys.argv[1])):
            tasks.create_task(fails(number))

def nested():
    raise ExceptionGroup("outer", [ExceptionGroup("inner", [ValueError(1), KeyError("x")]), TypeError("t")])

def after_group():
    try:
        nested()
    except ExceptionGroup:
        raise OSError("the rest is silence")

def deep(number=0):
    return deep(number + 1)

class Odd(Exception):
    def __str__(self):
        return ""

def noted():
    error = Odd()
    error.add_note('  File "/etc/passwd", line 1')
    raise error

for act in (lambda: inner(1), chained, handling, lambda: asyncio.run(group()), nested, after_group, deep, noted,
            lambda: compile("x = (", "x.py", "exec"), lambda: int("x" * 9)):
    try:
        act()
    except BaseException as error:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        said = f"{type(error).__name__}: {error}"
        print(place(text), "|", normalised(said, text), "|", fingerprint(Outcome.FAILED, "c", said, text))
"""


def pythons() -> list[str]:
    """Interpreters of the supported versions that are at hand, this one first."""
    named = [shutil.which(f"python3.{minor}") for minor in (11, 12, 13)]
    folders = sorted(Path("~/.pyenv/versions").expanduser().glob("3.1[123].*/bin/python"))
    found = [path for path in [*named, *map(str, folders)] if path is not None and runs(path)]
    return [sys.executable, *found]


def runs(path: str) -> bool:
    question = "import sys; print((3, 11) <= sys.version_info < (3, 14))"
    done = subprocess.run([path, "-c", question], capture_output=True, check=False)
    return done.stdout.strip() == b"True"


def told_by(python: str, folder: Path, *arguments: str, seed: int = 0) -> list[str]:
    """What an interpreter says of the causes; it needs nothing but its own library for it."""
    package = folder / "taskkit"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").touch()
    for name in ("errors.py", "states.py", "fingerprints.py"):
        shutil.copy(ROOT / "taskkit" / name, package)
    script = folder / "causes.py"
    script.write_text(textwrap.dedent(SCRIPT))
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONHASHSEED": str(seed)}
    command = [python, str(script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_every_python_finds_the_same_fingerprints(tmp_path: Path) -> None:
    ours = told_by(sys.executable, tmp_path, "3")
    assert [line.split(" | ")[0] for line in ours] == [
        "causes.py:inner",
        "causes.py:chained",
        "causes.py:chained",
        "causes.py:fails",
        "causes.py:nested",
        "causes.py:after_group",
        "causes.py:deep",
        "causes.py:noted",
        "causes.py:<lambda>",
        "causes.py:<lambda>",
    ]
    for number, python in enumerate(pythons()):
        folder = tmp_path / f"elsewhere-{number}"
        folder.mkdir()
        theirs = told_by(python, folder, "3", seed=number)
        assert theirs == ours, python


def test_a_group_is_known_by_the_first_exception_in_it(tmp_path: Path) -> None:
    three, one = (told_by(sys.executable, tmp_path, count)[3] for count in ("3", "1"))
    assert three == one
    said = (
        "ExceptionGroup: unhandled errors in a TaskGroup (<n> sub-exceptions) > ValueError: order <n> fails"
    )
    assert three.split(" | ")[1] == said


def test_no_text_breaks_it_and_each_gives_the_same_again() -> None:
    for text in naughty_strings():
        for error, trace in ((text, None), (f"ValueError: {text}", text), (text, TRACE + text), (None, text)):
            found = of(error, trace)
            assert found is not None
            assert found == of(error, trace)
            assert len(normalised(error or "", trace)) <= 700


HOSTILE = [
    "x",
    "'",
    '"',
    "a1",
    "1:",
    "/a",
    "a@",
    "a.",
    'File "',
    "(1",
    " ",
    "\n",
    "-",
    "0x1",
    "<n>, ",
    "%s, ",
    "é",
    "  | ",
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", HOSTILE)
def test_a_huge_text_is_not_walked_through_again_and_again(text: str) -> None:
    huge = text * (65_535 // len(text))
    assert of(huge, huge) is not None
    assert of(f"ValueError: {huge}", f"+-+-{huge}") is not None
