"""One diagnosis as terminal text, HTML, chat markdown and plain values, all from the same parts."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from taskkit.analytics.diagnosis import Diagnosis, Figure
from taskkit.analytics.wording import catalogue, sentences, shown, word
from taskkit.clock import iso
from taskkit.texts import cut, encodable

COLOURS = {"ok": "green", "note": "cyan", "warning": "yellow", "critical": "red"}
HTML_COLOURS = {"ok": "#1a7f37", "note": "#0969da", "warning": "#9a6700", "critical": "#cf222e"}
CHAT_COLOURS = {"ok": "info", "note": "comment", "warning": "warning", "critical": "warning"}
CHAT_BYTES = 3600
CHAT_FOUND = 5
SHOWN = 20
BOLD = "**"


@dataclass(frozen=True, slots=True)
class Parts:
    """A diagnosis in words."""

    heading: str
    title: str
    text: str
    meta: str
    evidence: Sequence[tuple[str, str]]
    forecast: Sequence[tuple[str, str]]
    found: Sequence[tuple[str, str, str]]
    actions: Sequence[tuple[str, str]]
    against: str
    heads: dict[str, str]


def parts(diagnosis: Diagnosis, language: str) -> Parts:
    """All words of a diagnosis."""
    heads = catalogue(language)["heads"]

    def lines(figures: Sequence[Figure]) -> list[tuple[str, str]]:
        return [(word("figures", one.name, language), shown(one, language)) for one in figures]

    return Parts(
        heading=f"{catalogue(language)[diagnosis.rule]['title']} · {word('severities', diagnosis.severity, language)}",
        title=sentences(diagnosis, "title", language),
        text=sentences(diagnosis, "text", language),
        meta=_meta(diagnosis, language, heads),
        evidence=lines(diagnosis.evidence),
        forecast=lines(diagnosis.forecast),
        found=[
            (
                one.subject,
                word("causes", one.cause, language),
                ", ".join(f"{n} {v}" for n, v in lines(one.figures)),
            )
            for one in diagnosis.found[:SHOWN]
        ],
        actions=[(word("actions", one.name, language), one.command) for one in diagnosis.actions],
        against=sentences(diagnosis, "against", language),
        heads=heads,
    )


def _meta(diagnosis: Diagnosis, language: str, heads: dict[str, str]) -> str:
    zone = ZoneInfo(diagnosis.zone)
    since, until = (
        at.astimezone(zone).isoformat(" ", "seconds") for at in (diagnosis.since, diagnosis.until)
    )
    confidence = word("confidences", diagnosis.confidence, language)
    return f"{since} … {until} · {heads['confidence']} {confidence}"


def as_text(diagnosis: Diagnosis, language: str = "en") -> str:
    """Lines for a terminal, without colours and without escapes."""
    p = parts(diagnosis, language)
    lines = [f"{p.heading}: {p.title}", p.text, ""]
    for head, rows in (("evidence", p.evidence), ("forecast", p.forecast)):
        if rows:
            lines += [p.heads[head], *(f"  {name}: {value}" for name, value in rows), ""]
    if p.found:
        lines += [p.heads["found"], *(f"  {who}: {why} ({told})" for who, why, told in p.found), ""]
    if p.actions:
        lines.append(p.heads["actions"])
        for number, (told, command) in enumerate(p.actions, 1):
            lines += [f"  {number}. {told}", f"     {command}"]
        lines.append("")
    if p.against:
        lines += [p.heads["against"], f"  {p.against}", ""]
    return "\n".join(_harmless(line) for line in [*lines, p.meta])


def as_rich(diagnosis: Diagnosis, language: str = "en") -> object:
    """The same for a terminal that shows colours."""
    from rich.panel import Panel
    from rich.text import Text

    first, _, rest = as_text(diagnosis, language).partition("\n")
    return Panel(Text(rest), title=Text(first), border_style=COLOURS[diagnosis.severity], title_align="left")


def as_html(diagnosis: Diagnosis, language: str = "en") -> str:
    """A fragment with its styles inside; everything that came from data is escaped."""
    p, e = parts(diagnosis, language), html.escape
    colour = HTML_COLOURS[diagnosis.severity]
    body = [
        f'<div lang="{language}" data-rule="{diagnosis.rule}" data-verdict="{diagnosis.verdict}" style="font-family:sans-serif;border-left:4px solid {colour};padding:.2em 1em;max-width:60em">',
        f'<div style="color:{colour};font-weight:bold">{e(p.heading)}</div><h3 style="margin:.2em 0">{e(p.title)}</h3>',
        f"<p>{e(p.text)}</p>",
        _html_table(p.heads["evidence"], p.evidence),
        _html_table(p.heads["forecast"], p.forecast),
        _html_table(p.heads["found"], p.found),
    ]
    if p.actions:
        steps = (f"<li>{e(told)}<br><code>{e(command)}</code></li>" for told, command in p.actions)
        body.append(f"<b>{e(p.heads['actions'])}</b><ol>{''.join(steps)}</ol>")
    if p.against:
        body.append(f"<p><b>{e(p.heads['against'])}</b> {e(p.against)}</p>")
    return "".join([*body, f"<small>{e(p.meta)}</small></div>"])


def _html_table(head: str, rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    cells = (
        "<tr>"
        + "".join(f'<td style="text-align:left;padding:.1em .8em .1em 0">{html.escape(c)}</td>' for c in row)
        + "</tr>"
        for row in rows
    )
    return f"<b>{html.escape(head)}</b><table>{''.join(cells)}</table>"


def as_markdown(diagnosis: Diagnosis, language: str = "en") -> str:
    """What both robots show: a heading, bold, quotes, inline code; no lists, no tables; cut to fit a message."""
    p = parts(diagnosis, language)
    lines = [
        f"### {_chat(p.heading)}: {_chat(p.title)}",
        _chat(p.text),
        *(f"> {_chat(name)}: **{_chat(value)}**" for name, value in (*p.evidence, *p.forecast)),
        *(f"> {_chat(who)}: {_chat(why)}" for who, why, _ in p.found[:CHAT_FOUND]),
    ]
    for number, (told, command) in enumerate(p.actions, 1):
        lines.append(f"{number}\\. {_chat(told)} `{command.replace('`', chr(39))}`")
    return _cut_whole("\n\n".join([*lines, _chat(p.meta)]))


def _cut_whole(text: str) -> str:
    """What fits a message; where it was cut nothing is left open: no escape, no code, no bold text."""
    text = encodable(text)
    if len(text.encode()) <= CHAT_BYTES:
        return text
    kept, mark, rest = cut(text, CHAT_BYTES - len(BOLD)).rpartition("… [")
    begins = kept.rfind("\n") + 1
    return kept[:begins] + _closed(kept[begins:]) + mark + rest


def _closed(line: str) -> str:
    """A line that was cut: half a command and half a sign are taken away, bold text is ended."""
    plain = re.sub(r"\\.", "  ", line)
    if plain.count("`") % 2:
        return line[: plain.rindex("`")]
    plain = re.sub(r"`[^`]*`", lambda code: " " * len(code[0]), plain)
    if plain.endswith("\\") or re.search(r"(?<!\*)\*$", plain):
        line, plain = line[:-1], plain[:-1]
    if plain.count(BOLD) % 2 == 0:
        return line
    return line.removesuffix(BOLD) if plain.endswith(BOLD) else line + BOLD


def as_dict(diagnosis: Diagnosis, language: str = "en") -> dict[str, Any]:
    """Names and values that programs use, with the words beside them."""
    p = parts(diagnosis, language)

    def figures(given: Sequence[Figure]) -> list[dict[str, Any]]:
        return [
            {"name": f.name, "value": f.value, "unit": f.unit, "shown": shown(f, language)} for f in given
        ]

    return {
        "rule": diagnosis.rule,
        "verdict": diagnosis.verdict,
        "severity": diagnosis.severity,
        "confidence": diagnosis.confidence,
        "title": p.title,
        "text": p.text,
        "since": iso(diagnosis.since),
        "until": iso(diagnosis.until),
        "now": iso(diagnosis.now),
        "zone": diagnosis.zone,
        "evidence": figures(diagnosis.evidence),
        "forecast": figures(diagnosis.forecast),
        "actions": [
            {"name": a.name, "text": told, "command": a.command}
            for a, (told, _) in zip(diagnosis.actions, p.actions, strict=True)
        ],
        "found": [
            {"subject": f.subject, "cause": f.cause, "figures": figures(f.figures)} for f in diagnosis.found
        ],
        "details": diagnosis.details,
        "against": p.against,
        "language": language,
    }


def _harmless(line: str) -> str:
    """No control characters, which could come from an error or a name."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", "�", line)


def _chat(text: str) -> str:
    """A text without what the robots' markdown would take for its own."""
    return re.sub(
        r"([*_`\[\]<>#])",
        lambda m: {"<": "‹", ">": "›", "`": "'"}.get(m[1], m[1] if m[1] in "#" else f"\\{m[1]}"),
        _harmless(text),
    )
