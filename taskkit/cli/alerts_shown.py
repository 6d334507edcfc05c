"""How alerts look: the shapes of ``--json``, the table of a list, and the whole life of one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from taskkit.alerts import Alert, AlertState, Said, Silence
from taskkit.render import counted, duration, facts, local, local_with_age, one_line, show, table

LONGEST_TITLE = 120


def alert_shape(alert: Alert) -> dict[str, Any]:
    """An alert for scripts: its columns, and what it says by language."""
    found = {item.name: getattr(alert, item.name) for item in dataclasses.fields(alert)}
    return found | {"said": {name: msgspec.to_builtins(said) for name, said in alert.said.items()}}


def silence_shape(silence: Silence) -> dict[str, Any]:
    """A silence for scripts."""
    return {item.name: getattr(silence, item.name) for item in dataclasses.fields(silence)}


def words_of(alert: Alert, language: str) -> Said:
    """What an alert says in this language, else in any, else its cause alone."""
    known = alert.said.get(language) or next(iter(alert.said.values()), None)
    return known or Said(title=alert.cause or alert.rule)


def quiet(alert: Alert) -> str:
    """Who or what keeps an alert from being told, or looks after it."""
    told = (
        f"silence {alert.silence_id}" if alert.silence_id else "",
        f"explained by {alert.inhibited_by}" if alert.inhibited_by else "",
        f"acked by {alert.acked_by}" if alert.acked_by else "",
    )
    return ", ".join(filter(None, told))


def alerts_table(alerts: Iterable[Alert], language: str, now: datetime) -> object:
    """One line an alert."""
    rows = [
        (
            alert.id,
            alert.severity,
            alert.rule,
            alert.object or "-",
            alert.state.value,
            f"{local(alert.since)} ({duration(((alert.resolved_at or now) - alert.since).total_seconds())})",
            one_line(words_of(alert, language).title, LONGEST_TITLE),
            local(alert.told_at),
            quiet(alert) or "-",
        )
        for alert in alerts
    ]
    columns = (">id", "severity", "rule", "object", "state", "since", "what", "told", "quiet")
    return table(columns, rows, keep=("id", "severity", "rule"), excerpts=("object", "what", "quiet"))


def silences_table(silences: Iterable[Silence], now: datetime) -> object:
    """One line a silence."""
    rows = [
        (
            one.id,
            one.rule or "all",
            one.object or "all",
            local(one.starts_at),
            f"{local(one.ends_at)} (in {duration((one.ends_at - now).total_seconds())})",
            one.author,
            one.reason,
        )
        for one in silences
    ]
    return table((">id", "rule", "object", "from", "until", "author", "reason"), rows, keep=("id",))


def show_life(
    alert: Alert, told: Sequence[Mapping[str, Any]], silences: Iterable[Silence], language: str
) -> None:
    """An alert from its first breach to its end: what it said, and each notice with its calls."""
    said = words_of(alert, language)
    show(f"{alert.severity} · {alert.rule}{' · ' + alert.object if alert.object else ''} · #{alert.id}")
    show(said.title, *said.text.splitlines())
    show("", facts(_figures(alert, said)), "", facts(_life(alert, silences)))
    if not told:
        show("", f"nobody was told{_why(alert)}")
        return
    show("", _notices(told))
    calls = [call for notice in told for call in notice["calls"]]
    if calls:
        show("", _calls({call["id"]: call for call in calls}.values()))


def _figures(alert: Alert, said: Said) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = [*said.figures]
    found += [(f"{name} (forecast)", value) for name, value in said.forecast]
    for what, command in said.actions:
        found.append((what, command))
    return found or [("cause", alert.cause)]


def _life(alert: Alert, silences: Iterable[Silence]) -> list[tuple[str, object]]:
    silence = next((one for one in silences if one.id == alert.silence_id), None)
    return [
        ("state", alert.state.value),
        ("since", local_with_age(alert.since)),
        ("fires since", alert.firing_at and local_with_age(alert.firing_at)),
        ("told last", alert.told_at and local_with_age(alert.told_at)),
        ("ended", alert.resolved_at and local_with_age(alert.resolved_at)),
        ("came and went", counted(alert.flaps, "time") if alert.flaps else None),
        ("under its limit since", _under(alert)),
        ("explained by", alert.inhibited_by),
        ("silenced by", _silenced(alert, silence)),
        ("acked by", alert.acked_by and f"{alert.acked_by}, {local_with_age(alert.acked_at)}"),
    ]


def _under(alert: Alert) -> str | None:
    over = alert.under_at is None or alert.state is AlertState.RESOLVED
    return None if over else local_with_age(alert.under_at)


def _silenced(alert: Alert, silence: Silence | None) -> str | None:
    if silence is None:
        return f"silence {alert.silence_id}" if alert.silence_id else None
    return f"silence {silence.id} of {silence.author} until {local(silence.ends_at)}: {silence.reason}"


def _why(alert: Alert) -> str:
    if alert.state is AlertState.PENDING:
        return " yet: it does not fire yet"
    return f": {quiet(alert)}" if alert.silence_id or alert.inhibited_by else ": no receiver takes it"


def _notices(told: Sequence[Mapping[str, Any]]) -> object:
    rows = [
        (
            one["id"],
            one["receiver"],
            one["event"],
            f"merged into {one['merged_into']}" if one["merged_into"] else one["state"],
            local(one["sent_at"] or one["created_at"]),
            one["attempts"],
            one["code"] or "-",
            one_line(one["reply"] or "-", 80),
        )
        for one in told
    ]
    columns = (">notice", "receiver", "event", "state", "when", ">attempts", "code", "reply")
    return table(columns, rows, keep=("notice", "receiver"), excerpts=("reply",))


def _calls(calls: Iterable[Mapping[str, Any]]) -> object:
    rows = [
        (
            one["notice_id"],
            one["receiver"],
            local(one["at"]),
            one["kind"],
            one["verdict"] or "under way",
            one["code"] or "-",
            duration(None if one["took_ms"] is None else one["took_ms"] / 1000),
        )
        for one in calls
    ]
    columns = (">notice", "receiver", "call at", "kind", "verdict", "code", ">took")
    return table(columns, rows, keep=("notice", "receiver"))
