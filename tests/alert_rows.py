"""Alerts for tests of what people see: one in any state, written into the book with what it says in both languages."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from taskkit.alerts import Alert, AlertChange, AlertState, Event, Item, Posting, Said
from taskkit.center import TaskCenter

SAID = {
    "en": Said(
        title="workers wait for a row lock",
        text="Connection 812 of report holds the lock.",
        figures=(("Last progress", "4.2 min"), ("CPU", "1 %"), ("Waiting", "412")),
        forecast=(("Drained", "never"),),
        actions=(("See the open transaction", "taskkit doctor"),),
    ),
    "zh": Said(
        title="worker 在等行锁",
        figures=(("上次进展", "4.2 分钟"),),
        actions=(("看打开的事务", "taskkit doctor"),),
    ),
}


def alert(at: datetime, **fields: Any) -> Alert:
    """An alert that fires since then and was told."""
    fixed = {
        "id": 0, "rule": "zombies", "object": "h:1:a", "state": AlertState.FIRING, "severity": "critical",
        "cause": "sql_row_lock", "value": 252.0, "unit": "s", "said": SAID, "since": at, "breach_at": at,
        "firing_at": at, "told_at": at,
    }  # fmt: skip
    return Alert(**(fixed | fields))


def written(center: TaskCenter, *receivers: str, **fields: Any) -> Alert:
    """The same in the book, with a notice to each of these receivers in the outbox."""
    at = fields.pop("at", center.now() - timedelta(minutes=5))
    one = alert(at, **fields)
    item = Item(
        alert_id=0, event=Event.FIRING, rule=one.rule, object=one.object, severity=one.severity, since=one.since,
        at=one.since, said=one.said, cause=one.cause, runbook="runbooks/zombies.md",
    )  # fmt: skip
    postings = tuple(Posting(name, item) for name in receivers)
    return replace(one, id=center.alerts.record([AlertChange(None, one, postings)])[0])


def ended(center: TaskCenter, before: Alert) -> Alert:
    """Its end, now."""
    after = replace(before, state=AlertState.RESOLVED, resolved_at=center.now())
    center.alerts.record([AlertChange(before, after)])
    return center.alerts.alert(before.id)
