"""The kinds of values that commands take, each refusing what is wrong with a sentence that says what to write."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from taskkit.clock import parse_instant, parse_span
from taskkit.states import Status

F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING:
    Kind = click.ParamType[Any]
else:
    Kind = click.ParamType  # older releases of click do not subscript it

LARGEST_ID = 2**63 - 1

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")


class Span(Kind):
    """A length of time: plain seconds, or with units."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, int | float):
            return float(value)
        try:
            return parse_span(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class WholeSpan(Span):
    """A length of time in whole seconds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = super().convert(value, param, ctx)
        if found != int(found):
            self.fail(f"{value!r} is no whole number of seconds", param, ctx)
        return int(found)


class Instant(Kind):
    """A moment with its offset from UTC."""

    name = "instant"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return parse_instant(value)
        except OverflowError:
            self.fail(f"{value!r} is outside the years that can be kept", param, ctx)
        except ValueError as error:
            if "time zone" in str(error):
                self.fail(f"{value!r} {error}", param, ctx)
        self.fail(
            f"{value!r} is no instant; write 2026-03-01T09:00:00+08:00 or 2026-03-01T01:00:00Z", param, ctx
        )


class StatusName(Kind):
    """A status by its name or number."""

    name = "status"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Status:
        if isinstance(value, Status):
            return value
        name = value.strip().lower().replace("-", "_").replace(" ", "_")
        for status in Status:
            if name in {status.label, str(int(status))}:
                return status
        self.fail(f"{value!r} is no status; there are {', '.join(s.label for s in Status)}", param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        names = [status.label for status in Status if status.label.startswith(incomplete)]
        return [click.shell_completion.CompletionItem(name) for name in names]


class Payload(Kind):
    """A JSON object, written out, from a file (``@file``) or from stdin (``-``)."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        try:
            found = strict_json(_text(value))
        except RecursionError:
            self.fail("is nested too deeply", param, ctx)
        except (OSError, ValueError) as problem:
            self.fail(_problem(problem), param, ctx)
        if not isinstance(found, dict):
            self.fail("""is no JSON object; write for example '{"to": "a@example.com"}'""", param, ctx)
        return found


def _problem(problem: Exception) -> str:
    if isinstance(problem, OSError):
        return f"{problem.filename}: {problem.strerror or problem}"
    if isinstance(problem, UnicodeDecodeError):
        return "is not UTF-8 text"
    text = str(problem)
    return f"is not JSON: {text[:1].lower()}{text[1:]}" if isinstance(problem, json.JSONDecodeError) else text


def _text(value: str) -> str:
    if value == "-":
        return sys.stdin.buffer.read().decode("utf-8-sig")
    if value.startswith("@"):
        return Path(value[1:]).expanduser().read_bytes().decode("utf-8-sig")
    return value


def strict_json(text: str) -> Any:
    """JSON as its standard has it: no NaN, no number beyond a double, no key twice. Raises ValueError."""
    return json.loads(text, object_pairs_hook=_no_twins, parse_constant=_no_constant, parse_float=_finite)


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} stands twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON; write null or text")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is too large for a JSON number; write it as text")
    return number


class TaskId(Kind):
    """The number of a task."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip()
        if text.isascii() and text.isdecimal() and len(text) < 20 and 1 <= int(text) <= LARGEST_ID:
            return int(text)
        self.fail(f"{value!r} is no task id; write its number, as `taskkit tasks list` shows it", param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        from taskkit.cli.complete import ids

        return ids(ctx, incomplete)


SPAN, WHOLE_SPAN, INSTANT, STATUS, PAYLOAD, TASK_ID = (
    Span(),
    WholeSpan(),
    Instant(),
    StatusName(),
    Payload(),
    TaskId(),
)


def window_options(use: str = "") -> Callable[[F], F]:
    """Which window is looked at; ``use`` is the verb of ``--bundle``, for commands that take one as well."""
    since = click.option(
        "--since", type=SPAN, default="1h", show_default=True, metavar="AGE", help="The last 30m, 1h, 2d."
    )
    until = click.option(
        "--until", type=INSTANT, metavar="INSTANT", help="Up to this instant instead of now."
    )
    bundle = click.option("--bundle", metavar="FILE", help=f"{use} a bundle instead of the live database.")

    def add(command: F) -> F:
        return since(until(bundle(command) if use else command))

    return add
