"""``taskkit tasks retry --fingerprint``: all that gave up for one cause, at a pace, until the failures come back."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

import click

from taskkit.cli.conduct import Failed, say
from taskkit.cli.front import Front
from taskkit.cli.options import SPAN
from taskkit.cli.select import Wanted, instant_of
from taskkit.cli.tasks_touch import SHOWN, show_before, touched
from taskkit.errors import NotFound, TaskkitError
from taskkit.pacing import PaceRules

if TYPE_CHECKING:
    from taskkit.retrying import PacedRetry, PacedTally, RetryOutcome

C = TypeVar("C", bound=Callable[..., Any])
ALL = 1_000_000
WAIT_S = 300.0
MOST_A_SECOND = 1000.0
HEX = frozenset("0123456789abcdef")


def options(command: C) -> C:
    """The options of a paced retry."""
    rules = PaceRules()
    for option in (
        click.option(
            "--wait",
            type=SPAN,
            metavar="S",
            help=f"With --fingerprint: stop when nothing has ended for so long (default {WAIT_S:g} s).",
        ),
        click.option(
            "--stop-at",
            type=click.FloatRange(0, 100, min_open=True),
            metavar="PERCENT",
            help=f"With --fingerprint: stop when so many percent of the last {rules.window} that ended failed again, "
            f"judged once {rules.least} have ended; above 0, at most 100 (default {rules.share * 100:g}).",
        ),
        click.option(
            "--rate",
            type=click.FloatRange(0, MOST_A_SECOND, min_open=True),
            metavar="N",
            help=f"With --fingerprint: retry so many a second, at most {MOST_A_SECOND:g} (default {rules.rate:g}).",
        ),
        click.option(
            "--fingerprint",
            metavar="F",
            callback=_hex,
            help="All that gave up for this cause, as `taskkit tasks dead` shows it, at a pace; stops by "
            "itself when the failures come back.",
        ),
    ):
        command = option(command)
    return command


def _hex(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    text = None if value is None else value.strip().lower()
    if text is not None and not (0 < len(text) <= 32 and set(text) <= HEX):
        raise click.BadParameter(
            f"{value!r} is no fingerprint; `taskkit tasks dead` shows those there are", context, parameter
        )
    return text


@dataclass(frozen=True, slots=True)
class Paced:
    """What the options of a paced retry say; None where one was not given."""

    fingerprint: str | None = None
    rate: float | None = None
    stop_at: float | None = None
    wait: float | None = None

    @classmethod
    def taken_from(cls, chosen: dict[str, Any], ids: Sequence[int]) -> Paced:
        """Take these options out of all that were given; raises UsageError where they do not go together."""
        found = cls(**{item.name: chosen.pop(item.name, None) for item in fields(cls)})
        context = click.get_current_context()
        if found.fingerprint is None and found != cls():
            raise click.UsageError("--rate, --stop-at and --wait need --fingerprint", context)
        if found.fingerprint is not None and (ids or chosen["status"] or chosen["periodic"] is not None):
            raise click.UsageError(
                "--fingerprint means given up tasks; choose among them with --code, --queue, --since", context
            )
        return found

    def rules(self) -> PaceRules:
        """Rate and share, the usual ones where none was given."""
        given = {"rate": self.rate, "share": None if self.stop_at is None else self.stop_at / 100}
        return PaceRules(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]


def retry_paced(
    front: Front, paced: Paced, wanted: Wanted, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Retry the tasks that gave up with this fingerprint; raises Failed unless all of them were seen through."""
    assert paced.fingerprint is not None  # noqa: S101 - the caller's condition
    rules = paced.rules()
    members = _members(front, paced.fingerprint, wanted)
    ids = [task_id for task_id, _ in members]
    if dry_run:
        _preview(front, ids, as_json)
        return
    if not yes and not _agreed(front, ids, rules):
        say("nothing was done")
        raise Failed
    from taskkit.retrying import PacedRetry

    retry = PacedRetry(
        front.center,
        front.kit.operations,
        paced.fingerprint,
        members,
        rules,
        wait=WAIT_S if paced.wait is None else paced.wait,
    )
    _run(retry, as_json)


def _members(front: Front, fingerprint: str, wanted: Wanted) -> list[tuple[int, int]]:
    from taskkit.center import DeadFilter

    only = DeadFilter(wanted.code, wanted.queue, instant_of(front.center, wanted.since))
    found = front.center.dead.members(fingerprint, only, wanted.limit)
    if not found:
        raise NotFound(
            f"no given up task that matches has the fingerprint {fingerprint}; `taskkit tasks dead` shows those "
            "there are (an occurrence of a periodic task is run again by `taskkit tasks run-now ID`)"
        )
    return found


def _preview(front: Front, ids: list[int], as_json: bool) -> None:
    from taskkit.render import counted, show, to_json

    if as_json:
        click.echo(to_json([{"id": task_id, "status_name": "given_up"} for task_id in ids]))
        return
    show(touched(front.center.read.tasks(ids[:SHOWN])))
    if len(ids) > SHOWN:
        show(f"and {len(ids) - SHOWN} more")
    show(f"{counted(len(ids), 'task')}; nothing was done")


def _agreed(front: Front, ids: list[int], rules: PaceRules) -> bool:
    """A person sees what is meant and is asked once; a script that names a fingerprint means it."""
    from taskkit.render import counted

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    show_before(front.center.read.tasks(ids[:SHOWN]), len(ids))
    return click.confirm(f"retry {counted(len(ids), 'task')}, {rules.rate:g} a second?", err=True)


def _run(retry: PacedRetry, as_json: bool) -> None:
    """Run it and tell what was done, also when it is interrupted or the database goes away in the middle."""
    from taskkit.render import progress
    from taskkit.retrying import INTERRUPTED

    try:
        with _heeding_ctrl_c(retry), progress("retry", retry.tally.total) as bar:
            shown = 0

            def tell(tally: PacedTally) -> None:
                nonlocal shown
                done = tally.total - tally.left
                bar.step(_brief(tally), done - shown)
                shown = done

            retry.run(tell)
    except TaskkitError as error:
        retry.tally.stopped = str(error)
    _tell(retry.tally, as_json)
    if retry.tally.stopped == INTERRUPTED:
        raise KeyboardInterrupt
    if retry.tally.stopped or retry.tally.refused:
        raise Failed


@contextmanager
def _heeding_ctrl_c(retry: PacedRetry) -> Iterator[None]:
    """The first Ctrl-C ends the retry in order, the second one at once."""
    usual = signal.getsignal(signal.SIGINT)

    def interrupt(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, usual)
        retry.interrupt()

    ours = threading.current_thread() is threading.main_thread() and callable(usual)
    if not ours:
        yield
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


def _brief(tally: PacedTally) -> str:
    failed = _failed(tally.answers)
    said = f"retry, {tally.shape()['succeeded']} ok"
    return said + (f", {failed} failed again" if failed else "")


def _failed(answers: dict[RetryOutcome, int]) -> int:
    return sum(count for answer, count in answers.items() if answer.value.startswith("failed"))


def _tell(tally: PacedTally, as_json: bool) -> None:
    from taskkit.render import counted, show, to_json

    if as_json:
        click.echo(to_json(tally.shape()))
    else:
        show(*_lines(tally))
    for _, error in tally.refusals:
        say(error)
    if tally.refused > len(tally.refusals):
        say(f"and {tally.refused - len(tally.refusals)} more were refused")
    if tally.stopped:
        say(f"stopped: {tally.stopped}; {counted(tally.left, 'task')} left as they were")


def _lines(tally: PacedTally) -> list[str]:
    from taskkit.render import counted

    said = tally.shape()
    parts = (
        ("succeeded", "succeeded"),
        ("failed again", "failed_again"),
        ("failed in another way", "failed_otherwise"),
        ("taken away by a person", "taken_away"),
        ("under way", "under_way"),
    )
    told = ", ".join(f"{said[key]} {words}" for words, key in parts if said[key] or key == "succeeded")
    lines = [f"retried {tally.retried} of {tally.total}: {told}"]
    if tally.skipped:
        lines.append(f"{counted(tally.skipped, 'task')} had been retried or moved by somebody else")
    if tally.refused:
        lines.append(f"{counted(tally.refused, 'task')} could not be retried")
    if tally.sample_failure is not None:
        lines.append(f"one that failed: taskkit tasks show {tally.sample_failure}")
    return lines
