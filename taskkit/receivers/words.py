"""The words of messages in Chinese and English, instants in the receiver's zone, and lengths of time."""

from __future__ import annotations

from datetime import datetime, tzinfo

WORDS: dict[str, dict[str, str]] = {
    "en": {
        "note": "Note",
        "warning": "Warning",
        "critical": "Critical",
        "repeat": "Still firing",
        "resolved": "Resolved",
        "evidence": "Notebook",
        "since": "since",
        "until": "ended",
        "lasted": "lasted",
        "flaps": "came and went {n} times meanwhile",
        "forecast": "Forecast",
        "action": "Do first",
        "runbook": "Runbook",
        "link": "Details",
        "notebook": "Executed notebook",
        "on_host": " on host ",
        "anew": "Make it anew",
        "colon": ": ",
        "comma": ", ",
        "dot": " · ",
        "open": " (",
        "close": ")",
        "digest": "{n} alerts",
        "digest_firing": "{n} firing",
        "digest_resolved": "{n} resolved",
        "digest_evidence": "{n} with notebooks",
        "digest_more": "One by one",
        "cut": "… (cut)",
        "above": "Please look at the message above.",
        "everyone": "@all",
        "installation": "installation",
    },
    "zh": {
        "note": "提示",
        "warning": "警告",
        "critical": "严重",
        "repeat": "仍未恢复",
        "resolved": "已恢复",
        "evidence": "诊断笔记",
        "since": "始于",
        "until": "结束",
        "lasted": "持续",
        "flaps": "期间反复 {n} 次",
        "forecast": "预测",
        "action": "先做",
        "runbook": "处理手册",
        "link": "详情",
        "notebook": "已执行的诊断笔记",
        "on_host": " 所在主机 ",
        "anew": "重新生成",
        "colon": "：",
        "comma": "，",
        "dot": " · ",
        "open": "（",
        "close": "）",
        "digest": "{n} 条告警",
        "digest_firing": "未恢复 {n} 条",
        "digest_resolved": "已恢复 {n} 条",
        "digest_evidence": "诊断笔记 {n} 条",
        "digest_more": "逐条查看",
        "cut": "…(内容过长已截断)",
        "above": "请查看上面的消息。",
        "everyone": "@所有人",
        "installation": "整个系统",
    },
}
_UNITS = {
    "en": (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)),
    "zh": (("天", 86_400), ("小时", 3600), ("分钟", 60), ("秒", 1)),
}


def word(name: str, language: str, **values: object) -> str:
    """A word or a short sentence of the catalogue, with its values filled in."""
    text = WORDS[language][name]
    return text.format(**values) if values else text


def instant(moment: datetime, zone: tzinfo) -> str:
    """``2026-01-01 08:00:00 +08:00``."""
    told = moment.astimezone(zone).isoformat(" ", "seconds")
    return f"{told[:19]} {told[19:]}"


def lasting(seconds: float, language: str) -> str:
    """A length of time in its two largest units: ``3 h 5 min``, ``3 小时 5 分钟``."""
    left, units = max(0, round(seconds)), _UNITS[language]
    first = next((n for n, (_, size) in enumerate(units) if left >= size), len(units) - 1)
    told: list[str] = []
    for name, size in units[first : first + 2]:
        count, left = divmod(left, size)
        if count or not told:
            told.append(f"{count} {name}")
    return " ".join(told)
