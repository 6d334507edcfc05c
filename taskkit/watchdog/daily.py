"""The daily line, by which the watchdog says that it is still here."""

from __future__ import annotations

from taskkit.analytics.wording import Value
from taskkit.center import TaskCenter

DAILY = {
    "en": (
        "taskkit watches",
        "{rules:rule|rules} looked after, {firing:alert fires|alerts fire}, {waiting:notice waits|notices wait}.",
    ),
    "zh": ("taskkit 正在值守", "正在检查 {rules} 条规则，{firing} 条告警触发中，{waiting} 条通知待发送。"),
}


def daily_line(center: TaskCenter, language: str) -> tuple[str, str]:
    """Title and text of the daily line."""
    firing = sum(alert.state == "firing" for alert in center.alerts.open())
    waiting = sum(count for count, _ in center.outbox.depth().values())
    title, text = DAILY[language]
    counts = {"rules": len(center.watchdogs.rules()), "firing": firing, "waiting": waiting}
    return title, text.format_map({name: Value(str(count)) for name, count in counts.items()})
