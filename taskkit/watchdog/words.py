"""What the watchdog says of itself: a check that fails or finds nothing, and the daily line."""

from __future__ import annotations

from datetime import datetime

from taskkit.alerts import LANGUAGES, Said
from taskkit.center import TaskCenter
from taskkit.texts import cut
from taskkit.watchdog.rounds import CheckState
from taskkit.watchdog.signals import Rule

ERROR_BYTES = 300
CHECK = {
    ("en", "failed"): (
        "the check of rule {rule} fails",
        "Nothing is known of {rule} since {since}: neither that it is well nor that it is not. {error}",
    ),
    ("zh", "failed"): (
        "规则 {rule} 的检查失败",
        "自 {since} 起无法判断 {rule} 是否正常。{error}",
    ),
    ("en", "no_data"): (
        "the check of rule {rule} finds nothing to judge by",
        "There has been no data for {rule} since {since}. That is not the same as well.",
    ),
    ("zh", "no_data"): (
        "规则 {rule} 没有数据可供判断",
        "自 {since} 起没有 {rule} 的数据。没有数据不等于正常。",
    ),
}
LASTED = {"en": "for", "zh": "已持续"}
LOOK = {"en": "See what the check needs", "zh": "查看检查所需的条件"}
DAILY = {
    "en": ("taskkit watches", "{rules} rules looked after, {firing} alerts fire, {waiting} notices wait."),
    "zh": ("taskkit 正在值守", "正在检查 {rules} 条规则，{firing} 条告警触发中，{waiting} 条通知待发送。"),
}


def about_check_said(rule: Rule, check: CheckState, now: datetime) -> dict[str, Said]:
    """What is told of a check that does not fare well; nothing of one that does."""
    if check.state == "ok":
        return {}
    since = check.since.strftime("%Y-%m-%d %H:%M:%S UTC")
    values = {"rule": rule.id, "since": since, "error": cut(check.error, ERROR_BYTES)}
    lasted = f"{(now - check.since).total_seconds():.0f} s"
    found = {}
    for language in LANGUAGES:
        title, text = CHECK[language, check.state]
        found[language] = Said(
            title=title.format(**values),
            text=text.format(**values).strip(),
            figures=((LASTED[language], lasted),),
            actions=((LOOK[language], f"taskkit watchdog check {rule.id}"),),
        )
    return found


def daily_line(center: TaskCenter, language: str) -> tuple[str, str]:
    """Title and text of the daily line."""
    firing = sum(alert.state == "firing" for alert in center.alerts.open())
    waiting = sum(count for count, _ in center.outbox.depth().values())
    title, text = DAILY[language]
    return title, text.format(rules=len(center.watchdogs.rules()), firing=firing, waiting=waiting)
