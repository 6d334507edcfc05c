"""``taskkit watchdog check``: are rules and receivers right, what fires now, and what would be told."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from taskkit.cli.conduct import BAD_INPUT, Failed, say
from taskkit.cli.front import Front, pass_front
from taskkit.cli.options import json_option
from taskkit.errors import InputError, NotFound

if TYPE_CHECKING:
    from taskkit.alerts import Alert, Notice
    from taskkit.center import TaskCenter
    from taskkit.receivers.protocol import Receiver
    from taskkit.watchdog.checking import Looked
    from taskkit.watchdog.policy import Policy
    from taskkit.watchdog.signals import Rule
    from taskkit.watchdog.step import Turn

WHAT_LETTERS = 120


def refuse_problems(front: Front, *, receivers: bool = True) -> None:
    """Say each problem of the two files on a line of its own, and end with exit code 2 when there is one."""
    from taskkit.watchdog.checking import problems

    found = problems(front.settings, os.environ if receivers else None)
    for line in found:
        say(line)
    if found:
        raise Failed(BAD_INPUT)


@click.command(name="check")
@click.argument("rule", required=False, metavar="[RULE]")
@click.option("--dry-run", is_flag=True, help="Also show the message that each receiver would get now.")
@click.option("--strict", is_flag=True, help="Exit code 1 when anything is over its limit, or a check fails.")
@json_option
@pass_front
def command(front: Front, rule: str | None, dry_run: bool, strict: bool, as_json: bool) -> None:
    """Say whether rules.toml and receivers.toml are right, and what fires now. Nothing is written, nobody is told.

    Every problem is named with its line; the exit code is 2 then. Otherwise each check runs once, as a watchdog would
    run it, and the table says what would come of it. Before the first `taskkit up` there is nothing to look at yet.

    \b
      taskkit watchdog check
      taskkit watchdog check backlog --dry-run
    """
    from taskkit.render import to_json
    from taskkit.watchdog.__main__ import need_parts
    from taskkit.watchdog.checking import look
    from taskkit.watchdog.policy import load_policy

    refuse_problems(front)
    policy = load_policy(front.settings)
    chosen = _chosen(policy, rule)
    need_parts()
    found = look(front.settings, _center(front, policy), chosen)
    messages = list(_messages(front, policy, found)) if dry_run else []
    if as_json:
        shape = {"checks": [_shape(one) for one in found]}
        click.echo(to_json(shape | ({"messages": [one.shape(front) for one in messages]} if dry_run else {})))
    else:
        _show(front, policy, found, messages if dry_run else None)
    if strict and any(one.outcome.error or one.wrong for one in found):
        raise Failed


def _center(front: Front, policy: Policy) -> TaskCenter:
    """The task center; where nothing is installed yet the files are right all the same, and that is said."""
    try:
        return front.center
    except NotFound:
        say(_right(policy))
        raise


def _right(policy: Policy) -> str:
    names = [one.name for one in policy.receivers]
    told = f"alerts go to {', '.join(names)}" if names else "no receiver: alerts stand in the log and in SQL"
    rules = "1 rule" if len(policy.enabled) == 1 else f"{len(policy.enabled)} rules"
    told += "".join(f"; {' and '.join(some)} are one place, which is told once" for some in _twins(policy))
    return f"rules and receivers are right: {rules}, {told}"


def _twins(policy: Policy) -> list[list[str]]:
    """The names of receivers that have one address."""
    robots: dict[str, list[str]] = {}
    for one in policy.receivers:
        robots.setdefault(one.robot, []).append(one.name)
    return [names for names in robots.values() if len(names) > 1]


def _chosen(policy: Policy, rule: str | None) -> Sequence[Rule]:
    from taskkit.hints import suggest

    if rule is None:
        return policy.enabled
    found = [one for one in policy.rules if one.id == rule]
    if not found:
        raise InputError(
            "RULE", f"there is no rule {rule!r}{suggest(rule, [one.id for one in policy.rules])}"
        )
    return found


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What a receiver would get of one alert; there may be no receiver at all."""

    alert: Alert
    notice: Notice
    receiver: Receiver | None

    def parts(self, front: Front) -> Iterator[tuple[str, str]]:
        """A heading and a text for each call."""
        from taskkit.cli.messages import calls_of, plain_text, text_of

        about = f"{self.alert.rule}{' ' + self.alert.object if self.alert.object else ''}"
        if self.receiver is None:
            yield f"{about} → nobody: no receiver takes it", plain_text(self.notice, front.settings)
            return
        for call in calls_of(self.receiver, self.notice, front.settings):
            heading = (
                f"{about} → {self.receiver.name} ({self.receiver.kind} {call.kind}, {len(call.body):,} B)"
            )
            yield heading, text_of(call, self.receiver.kind)

    def shape(self, front: Front) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "rule": self.alert.rule,
            "object": self.alert.object,
            "receiver": self.receiver and self.receiver.name,
            "calls": [text for _, text in self.parts(front)],
        }


def _messages(front: Front, policy: Policy, found: Sequence[Looked]) -> Iterator[Rehearsed]:
    """For each object over its limit that nothing keeps quiet: what would be told when it fires."""
    from taskkit.alerts import Event, Notice
    from taskkit.watchdog.post import Post

    post = Post(policy.receivers, front.settings.watchdog.console_url)
    receivers = {one.name: one for one in policy.receivers}
    for one in found:
        for turn in one.wrong:
            alert = turn.after
            if alert is None or alert.inhibited_by or alert.silence_id:
                continue
            item = post.item(alert, Event.FIRING, one.rule, one.now)
            names = [posting.receiver for posting in post.postings(alert, Event.FIRING, one.rule, one.now)]
            for name in names or [""]:
                yield Rehearsed(
                    alert, Notice(uuid="dry-run", receiver=name, items=(item,)), receivers.get(name)
                )


def result_of(turn: Turn, rule: Rule) -> str:
    """What a watchdog would make of a breach now."""
    from taskkit.alerts import AlertState
    from taskkit.render import duration, local

    after, before = turn.after, turn.before
    if after is None:
        return "well"
    if after.inhibited_by:
        return f"explained by {after.inhibited_by}"
    if after.silence_id:
        return f"silence {after.silence_id}"
    if after.state is AlertState.PENDING:
        return f"over its limit, fires after {duration(rule.hold)}"
    if before is not None and before.state is AlertState.FIRING:
        return f"fires since {local(before.firing_at)}, alert {before.id}"
    return "fires"


def _shape(one: Looked) -> dict[str, Any]:
    from taskkit.cli.alerts_shown import alert_shape

    return {
        "rule": one.rule.id,
        "error": one.outcome.error,
        "no_data": one.blind,
        "took_ms": round(one.outcome.took_ms, 1),
        "wrong": [
            {"result": result_of(turn, one.rule), **alert_shape(turn.after)}
            for turn in one.wrong
            if turn.after
        ],
    }


def _rows(one: Looked, language: str) -> list[tuple[object, ...]]:
    from taskkit.cli.alerts_shown import words_of
    from taskkit.render import milliseconds, one_line

    took = milliseconds(one.outcome.took_ms)
    if one.outcome.error is not None:
        return [(one.rule.id, "-", "the check fails", one_line(one.outcome.error, WHAT_LETTERS), took)]
    if one.blind:
        return [(one.rule.id, "-", "no data", "nothing to judge by", took)]
    rows = [
        (
            one.rule.id,
            turn.after.object or "-",
            result_of(turn, one.rule),
            one_line(words_of(turn.after, language).title, WHAT_LETTERS),
            took,
        )
        for turn in one.wrong
        if turn.after is not None
    ]
    return [*rows] or [(one.rule.id, "-", "well", "-", took)]


def _show(
    front: Front, policy: Policy, found: Sequence[Looked], messages: Sequence[Rehearsed] | None
) -> None:
    from taskkit.render import show, table

    language = front.settings.watchdog.language
    rows = [row for one in found for row in _rows(one, language)]
    columns = ("rule", "object", "now", "what", ">took")
    show(table(columns, rows, keep=("rule", "now"), excerpts=("object", "what")))
    show("", _right(policy))
    if messages is not None:
        _show_messages(front, messages)


def _show_messages(front: Front, messages: Sequence[Rehearsed]) -> None:
    from taskkit.render import show

    if not messages:
        show("", "nobody would be told of anything now")
    for message in messages:
        for heading, text in message.parts(front):
            show("", f"── {heading}", *text.splitlines())
