"""A webhook that takes what Prometheus' Alertmanager sends: JSON, version 4. Any 2xx is a success."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from hashlib import sha256
from typing import Any

from taskkit.alerts import Event, Item, Notice
from taskkit.clock import utc_now
from taskkit.receivers.addressed import AtAddress
from taskkit.receivers.addresses import NOTHING, Hidden
from taskkit.receivers.answers import JSON, encoded
from taskkit.receivers.calling import Heard, post
from taskkit.receivers.finals import final_states
from taskkit.receivers.message import words_of
from taskkit.receivers.protocol import USUAL, Form, Payload, Reply, Verdict
from taskkit.texts import encodable

NEVER = "0001-01-01T00:00:00Z"
"""The end of what has not ended, as Alertmanager writes it."""
TEMPORARY = frozenset({408, 425, 429})
MISPLACED = frozenset({401, 403, 404, 405, 410})
PAUSE_S, LONGEST_PAUSE_S = 60.0, 3600.0


@dataclass(frozen=True, slots=True)
class Webhook(AtAddress):
    """A URL that takes alerts as JSON."""

    token: Hidden = NOTHING
    kind: str = "webhook"
    budget: int | None = None
    month: int | None = field(default=None)

    def payloads(
        self, notice: Notice, form: Form = USUAL, *, language: str, zone: tzinfo
    ) -> Sequence[Payload]:
        """One call with all alerts; instants are in UTC, as Alertmanager's consumers want them."""
        items = final_states(notice.items)
        alerts = [_alert(item, language) for item in items] or [_message(notice)]
        firing = any(alert["status"] == "firing" for alert in alerts)
        body = {
            "version": "4",
            "groupKey": "taskkit/" + (notice.uuid if len(alerts) > 1 else alerts[0]["fingerprint"]),
            "truncatedAlerts": 0,
            "status": "firing" if firing else "resolved",
            "receiver": self.name,
            "groupLabels": _common(alerts, "labels", ("alertname",)),
            "commonLabels": _common(alerts, "labels"),
            "commonAnnotations": _common(alerts, "annotations"),
            "externalURL": next((item.link for item in items if item.link), ""),
            "alerts": alerts,
        }
        return [Payload(body=encoded(_encodable(body)), kind="json")]

    def send(self, payload: Payload, *, uuid: str, now: datetime) -> Reply:
        """Send; ``uuid`` goes along as the header Idempotency-Key."""
        headers = {**JSON, "Idempotency-Key": uuid}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token.reveal()}"
        return self._judged(
            post(self.address.url.reveal(), payload.body, headers, timeout=self.options.timeout)
        )

    def _judged(self, heard: Heard) -> Reply:
        text = "" if 200 <= heard.status < 300 else self.address.redact(heard.text)
        verdict = verdict_of(heard.status)
        pause = _pause(heard) if verdict is Verdict.PAUSE else 0.0
        return Reply(verdict, heard.code, text, pause)


def verdict_of(status: int) -> Verdict:
    """What an HTTP status means for a call that must not be repeated for nothing; 0 is none."""
    if 200 <= status < 300:
        return Verdict.SENT
    if status == 429:
        return Verdict.PAUSE
    if status >= 500 or status < 200 or status in TEMPORARY:
        return Verdict.RETRY
    return Verdict.MISCONFIGURED if status < 400 or status in MISPLACED else Verdict.BROKEN


def _pause(heard: Heard) -> float:
    wait = (heard.headers or {}).get("retry-after", "").strip()
    seconds = float(wait[:9]) if wait.isascii() and wait.isdigit() else PAUSE_S
    return min(max(seconds, 1.0), LONGEST_PAUSE_S)


def _alert(item: Item, language: str) -> dict[str, Any]:
    said = words_of(item, language)
    labels = {"alertname": item.rule, "severity": item.severity, "object": item.object, "service": "taskkit"}
    annotations = {
        "summary": said.title,
        "description": said.text,
        "cause": item.cause,
        "figures": ", ".join(f"{name} {value}" for name, value in said.figures),
        "forecast": ", ".join(f"{name} {value}" for name, value in said.forecast),
        "action": said.actions[0][1] if said.actions else "",
        "runbook_url" if "://" in item.runbook else "runbook": item.runbook,
        "alert_id": str(item.alert_id),
        "event": item.event.value,
    }
    over = item.event is Event.RESOLVED
    return {
        "status": "resolved" if over else "firing",
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {name: value for name, value in annotations.items() if value},
        "startsAt": _instant(item.since),
        "endsAt": _instant(item.at) if over else NEVER,
        "generatorURL": item.link,
        "fingerprint": sha256(encodable(f"{item.rule}\0{item.object}").encode()).hexdigest()[:16],
    }


def _message(notice: Notice) -> dict[str, Any]:
    """What is no alert, in the form of one."""
    return {
        "status": "firing",
        "labels": {"alertname": "taskkit_message", "severity": "note", "service": "taskkit"},
        "annotations": {"summary": notice.subject, "description": notice.text},
        "startsAt": _instant(utc_now()),
        "endsAt": NEVER,
        "generatorURL": "",
        "fingerprint": sha256(encodable(notice.subject).encode()).hexdigest()[:16],
    }


def _common(alerts: list[dict[str, Any]], table: str, names: Sequence[str] = ()) -> dict[str, str]:
    """What all alerts have alike."""
    first: dict[str, str] = alerts[0][table]
    return {
        name: value
        for name, value in first.items()
        if (not names or name in names) and all(alert[table].get(name) == value for alert in alerts)
    }


def _encodable(value: Any) -> Any:
    """The value with every text in it as JSON can hold it: an error's text may have half a letter in it."""
    if isinstance(value, dict):
        return {name: _encodable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_encodable(inner) for inner in value]
    return encodable(value) if isinstance(value, str) else value


def _instant(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
