"""Handlers: what a call makes of its arguments, what is refused when they are registered, and what a type checker sees."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from taskkit import Taskkit
from taskkit.errors import InputError, NotFound, PayloadError
from taskkit.registry import HandlerOptions, Registry, check_delays

Call = tuple[str, dict[str, Any], dict[str, Any]]


class Written:
    """Stands for the producer: remembers what would have been written."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def enqueue(self, code: str, payload: dict[str, Any], **options: Any) -> int:
        self.calls.append((code, payload, options))
        return len(self.calls)


@pytest.fixture
def written() -> Written:
    return Written()


@pytest.fixture
def kit(written: Written) -> Taskkit:
    found = Taskkit()
    found.producer = written  # type: ignore[assignment]
    return found


def test_a_handler_stays_a_function(kit: Taskkit) -> None:
    @kit.task("double")
    def double(n: int) -> int:
        """Twice as much."""
        return 2 * n

    assert double(4) == 8
    assert (double.code, double.__doc__, repr(double)) == ("double", "Twice as much.", "<Handler double>")
    assert kit.registry["double"] is double
    assert list(kit.registry) == [double]
    assert not double.is_async


def test_arguments_become_a_payload_by_their_names(kit: Taskkit, written: Written) -> None:
    @kit.task("mail")
    def mail(to: str, subject: str = "none", *, copies: int = 1, **more: Any) -> None: ...

    assert mail.enqueue("a") == 1
    mail.enqueue("a", "b", copies=2)
    mail.enqueue(to="a", colour="red", more=1)
    assert [payload for _, payload, _ in written.calls] == [
        {"to": "a"},
        {"to": "a", "subject": "b", "copies": 2},
        {"to": "a", "colour": "red", "more": 1},
    ]


def test_options_go_to_the_producer_and_only_those_given(kit: Taskkit, written: Written) -> None:
    @kit.task("mail")
    def mail(to: str) -> None: ...

    mail.options(delay=0, priority=0, unique_key="k", max_retry=0).enqueue(to="a")
    mail.cron("@daily", timezone="UTC", to="b", task_options={"priority": 1})
    assert written.calls[0] == (
        "mail",
        {"to": "a"},
        {"delay": 0, "priority": 0, "unique_key": "k", "max_retry": 0},
    )
    assert written.calls[1] == (
        "mail",
        {"to": "b"},
        {
            "priority": 1,
            "cron": "@daily",
            "timezone": "UTC",
            "misfire": "once",
            "dst_gap": "after",
            "dst_overlap": "first",
        },
    )


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ({}, "the argument 'to' is missing"),
        ({"to": "a", "cc": "b"}, "there is no argument 'cc'"),
        ({"To": "a"}, "there is no argument 'To'; did you mean 'to'?"),
        ({"sbj": "a"}, "there is no argument 'sbj'"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_names(
    kit: Taskkit, written: Written, call: dict[str, Any], says: str
) -> None:
    @kit.task("mail")
    def mail(to: str, subject: str = "") -> None: ...

    untyped: Callable[..., int] = mail.enqueue
    with pytest.raises(PayloadError, match=r"payload: does not fit mail: .*; it takes to, subject") as raised:
        untyped(**call)
    assert says in str(raised.value)
    with pytest.raises(PayloadError):
        mail.check_payload(call)
    assert written.calls == []


def positional(a: int, /) -> None: ...
def variable(*a: int) -> None: ...


@pytest.mark.parametrize("fn", [positional, variable])
def test_a_function_that_no_json_object_can_call_is_refused(kit: Taskkit, fn: Callable[..., None]) -> None:
    with pytest.raises(InputError, match=r"handler: x\(.*: a payload is a JSON object, so 'a' cannot be"):
        kit.task("x")(fn)
    assert len(kit.registry) == 0


def test_a_code_stands_for_one_function(kit: Taskkit) -> None:
    kit.task("x")(lambda: None)
    with pytest.raises(InputError, match=r"task_code: 'x' is taken: .*<lambda> has it, .*<lambda> wants it"):
        kit.task("x")(lambda: None)

    def again() -> None: ...

    kit.task("y")(again)
    kit.task("y")(again)


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("queue", {"queue": ""}),
        ("priority", {"priority": 10}),
        ("timeout", {"timeout": 0}),
        ("max_retry", {"max_retry": 256}),
        ("retry_delays", {"retry_delays": ()}),
        ("retry_delays", {"retry_delays": (float("nan"),)}),
        ("jitter", {"jitter": -1}),
    ],
)
def test_wrong_defaults_are_refused_where_they_stand(field: str, options: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        HandlerOptions(**options)
    assert caught.value.field == field


def test_a_wrong_code_is_refused(kit: Taskkit) -> None:
    for code in ("", "x" * 65, " x", "a\tb"):
        with pytest.raises(InputError) as caught:
            kit.task(code)(lambda: None)
        assert caught.value.field == "task_code"


def test_delays_are_seconds() -> None:
    assert check_delays(None) is None
    assert check_delays([5, 30, 120.5]) == (5.0, 30.0, 120.5)
    for wrong in ("5", 5, [], [True], [-1], ["5"], [10**10], list(range(1000, 1100))):
        with pytest.raises(InputError, match=r"^retry_delays: "):
            check_delays(wrong)


def test_an_unknown_code_is_told_with_what_is_close() -> None:
    registry = Registry()
    assert registry.get("x") is None
    with pytest.raises(NotFound, match="no handler is registered for the code 'x'"):
        registry["x"]


TYPED = """
from taskkit import Taskkit
kit = Taskkit()

@kit.task("send_email", timeout=30, max_retry=5)
def send_email(to: str, subject: str = "") -> int:
    return 7

@kit.task("later")
async def later(n: int) -> None: ...

a: int = send_email.enqueue(to="a@example.com")
b: int = send_email.options(delay=60, priority=0).enqueue("a", subject="b")
c: int = send_email("here and now")
d: int = later.enqueue(n=1)
send_email.enqueue(too="a")
send_email.enqueue(to=1)
send_email.enqueue()
send_email.options(dealy=60)
send_email.options(priority=0).enqueue(to="a", cc="b")
later.enqueue(n="1")
"""


MYPY = """
[mypy]
strict = true
[mypy-taskkit.*]
follow_imports = silent
[mypy-sqlalchemy.*,redis.*,httpx.*,alembic.*,croniter.*,rich.*,click.*]
follow_imports = skip
follow_imports_for_stubs = true
"""


def test_a_type_checker_knows_the_signature(tmp_path: Path) -> None:
    """A wrong keyword is an error before anything runs, and an editor completes the right one."""
    (tmp_path / "typed.py").write_text(TYPED)
    (tmp_path / "mypy.ini").write_text(MYPY)
    root = Path(__file__).parents[2]
    cache = str(root / ".mypy_cache" / "typed")
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir", cache, "typed.py"]
    surroundings = {"MYPYPATH": str(root), "PATH": ""}
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, env=surroundings
    )
    errors = [line for line in done.stdout.splitlines() if " error: " in line]
    first = TYPED.splitlines().index('send_email.enqueue(too="a")') + 1
    assert [int(line.split(":")[1]) for line in errors] == [*range(first, first + 6)], (
        done.stdout + done.stderr
    )
    for line, word in zip(errors, ("too", "arg-type", "call-arg", "dealy", "cc", "arg-type"), strict=True):
        assert word in line
