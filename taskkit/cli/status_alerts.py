"""What ``taskkit status`` says of watchdogs and alerts: who looks, what is open, and whether anybody would be told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from taskkit.cli.life import is_fresh
from taskkit.errors import SettingsError

if TYPE_CHECKING:
    from taskkit.alerts import Alert
    from taskkit.center import TaskCenter
    from taskkit.settings import Settings

LEASE = "watchdog"
START = "python -m taskkit.watchdog"
NONE: dict[str, Any] = {"watchdogs": [], "alerts": {"firing": {}, "pending": 0, "oldest": None}}


def watched(center: TaskCenter) -> dict[str, Any]:
    """``watchdogs`` that have not signed off, and ``alerts``: how many fire, by severity, and the oldest."""
    from taskkit.alerts import AlertState
    from taskkit.scheduler.guard import silent_ones

    rows = [row for row in center.watchdogs.all() if row["stopped_at"] is None]
    silent = [row["watchdog_id"] for row in silent_ones(rows)]
    holder = center.nodes.lease_holder(LEASE)
    found = center.alerts.open()
    firing = [one for one in found if one.state is AlertState.FIRING]
    return {
        "watchdogs": [
            _watchdog(row, holder) for row in rows if is_fresh(row) or row["watchdog_id"] in silent
        ],
        "alerts": {
            "firing": dict(Counter(one.severity for one in firing)),
            "pending": len(found) - len(firing),
            "oldest": _shape(min(firing, key=lambda one: one.since), center) if firing else None,
        },
    }


def _watchdog(row: dict[str, Any], holder: str | None) -> dict[str, Any]:
    shown = {name: value for name, value in row.items() if name != "stopped_at"}
    return shown | {"alive": is_fresh(row), "leads": row["watchdog_id"] == holder}


def _shape(alert: Alert, center: TaskCenter) -> dict[str, Any]:
    said = alert.said.get("en")
    return {
        "id": alert.id,
        "rule": alert.rule,
        "object": alert.object,
        "severity": alert.severity,
        "since": alert.since,
        "age_s": (center.now() - alert.since).total_seconds(),
        "title": said.title if said else alert.cause,
    }


def alerting(settings: Settings) -> dict[str, Any]:
    """``receivers``: whether there is a file of them; ``problem``: what is wrong with it, but for secrets that only others have."""
    from taskkit.settings.alerting import receivers_file

    there = False
    try:
        there = receivers_file(settings) is not None
        if there:
            from taskkit.receivers.loading import load_receivers

            load_receivers(settings)
    except SettingsError as error:
        from taskkit.receivers.config import NOT_SET

        return {"receivers": there, "problem": None if str(error).endswith(NOT_SET) else str(error)}
    return {"receivers": there, "problem": None}


def table_of(watchdogs: list[dict[str, Any]]) -> object:
    """Who looks, and who stands by."""
    from taskkit.render import duration, table

    rows = [
        (
            f"{one['host']}:{one['pid']}",
            duration(one["heartbeat_age_s"])
            if one["alive"]
            else f"silent for {duration(one['heartbeat_age_s'])}",
            "looks and tells" if one["leads"] else "stands by" if one["alive"] else "-",
            one["rounds"],
            duration(one["round_age_s"]),
        )
        for one in watchdogs
    ]
    return table(("watchdog", "heartbeat", "does", ">rounds", ">last round"), rows)


def lines_of(found: dict[str, Any]) -> Iterator[str]:
    """What is open, and what keeps it from being told; nothing where nobody watches and nothing fires."""
    alerts, watchdogs, told = found["alerts"], found["watchdogs"], found["alerting"]
    if alerts["firing"]:
        yield _open(alerts)
    elif watchdogs:
        yield "alerts: none"
    if not any(one["alive"] for one in watchdogs) and (watchdogs or told["receivers"]):
        yield f"no watchdog is alive, so nobody is told of what goes wrong: start one with `{START}`"
    if told["problem"]:
        yield f"alerts cannot be told: {told['problem']} (`taskkit watchdog check` shows all that is wrong)"


def _open(alerts: dict[str, Any]) -> str:
    from taskkit.alerts import SEVERITIES
    from taskkit.render import duration, one_line

    counts = [f"{alerts['firing'][name]} {name}" for name in reversed(SEVERITIES) if name in alerts["firing"]]
    oldest = alerts["oldest"]
    name = " ".join(filter(None, (oldest["rule"], oldest["object"])))
    title = one_line(oldest["title"], 80)
    age = duration(oldest["age_s"])
    return f"alerts: {', '.join(counts)}; the oldest for {age}: {name}, {title} (taskkit alerts list)"
