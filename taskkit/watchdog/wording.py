"""What an alert says, in each language: a diagnosis in its own words, or a finding of a check in those of texts/."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

from taskkit.alerts import LANGUAGES, Said
from taskkit.analytics import wording as analytics
from taskkit.analytics.diagnosis import Action, Diagnosis, Figure
from taskkit.analytics.wording import Value, Values
from taskkit.texts import cut
from taskkit.watchdog.rounds import CheckState
from taskkit.watchdog.signals import Rule, SlowRule, SuccessRateRule
from taskkit.zone import load_zone

FIGURES = 3
LONGEST = 300
"""Bytes of a text that came from tasks, errors or stores."""
COLON = {"en": ": ", "zh": "："}
QUIET = frozenset({"no_data", "healthy", "busy", "too_few_runs", "no_normal", "no_times", "enough", "plenty"})
"""Verdicts that find nothing wrong: where the rule does, by a stricter limit of its own, the texts of the watchdog speak."""


@dataclass(frozen=True, slots=True)
class Remark:
    """What a check found by itself: its place in texts/, and the figures, forecast and actions in their order."""

    signal: str
    cause: str
    figures: Sequence[Figure] = ()
    """The first three that are known are shown; the others can be named in the text."""
    forecast: Sequence[Figure] = ()
    actions: Sequence[Action] = ()
    words: Mapping[str, str] | None = None
    """What else the text names."""


@cache
def texts(language: str) -> Mapping[str, Any]:
    """The watchdog's own texts of a language."""
    text = (files("taskkit.watchdog") / "texts" / f"{language}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def said(remark: Remark) -> dict[str, Said]:
    """A finding in each language."""
    return {language: _found(remark, language) for language in LANGUAGES}


def _found(finding: Remark, language: str) -> Said:
    words = texts(language)[finding.signal][finding.cause]
    values = Values({name: Value(cut(value, LONGEST)) for name, value in (finding.words or {}).items()})
    values |= {
        one.name: Value(analytics.shown(one, language)) for one in (*finding.figures, *finding.forecast)
    }
    return Said(
        title=str(words["title"]).format_map(values),
        text=str(words["text"]).format_map(values),
        figures=_lines(_known(finding.figures)[:FIGURES], language),
        forecast=_lines(_known(finding.forecast), language),
        actions=tuple((_word("actions", one.name, language), one.command) for one in finding.actions),
    )


def diagnosed(
    diagnosis: Diagnosis, *, cause: str = "", more: Sequence[Figure] = (), tail: Figure | None = None
) -> dict[str, Said]:
    """A diagnosis in each language; ``cause`` in place of its verdict; ``more`` comes first, ``tail`` after the text."""
    about = replace(diagnosis, verdict=cause or diagnosis.verdict)
    return {language: _diagnosed(about, more, tail, language) for language in LANGUAGES}


def _diagnosed(diagnosis: Diagnosis, more: Sequence[Figure], tail: Figure | None, language: str) -> Said:
    figures = {one.name: one for one in (*diagnosis.evidence, *more)}
    ordered = [figures[name] for name in dict.fromkeys([*(one.name for one in more), *figures])]
    known = _known(ordered)
    text = analytics.sentences(diagnosis, "text", language)
    if tail is not None:
        text += f"\n{_word('figures', tail.name, language)}{COLON[language]}{cut(str(tail.value), LONGEST)}"
    return Said(
        title=analytics.sentences(diagnosis, "title", language),
        text=text,
        figures=_lines(known[:FIGURES], language),
        forecast=_lines(_known(diagnosis.forecast), language),
        actions=tuple((_word("actions", one.name, language), one.command) for one in diagnosis.actions),
    )


def telling(diagnosis: Diagnosis) -> list[Figure]:
    """The evidence without its zeros: of what was counted by kinds, the kinds that there were."""
    return [one for one in diagnosis.evidence if one.value]


def check_said(rule: Rule, check: CheckState, now: datetime) -> dict[str, Said]:
    """What the alert about a check says that fails, or that finds nothing to judge by."""
    if check.state == "ok":
        return {}
    figures = (Figure("lasted", (now - check.since).total_seconds(), "s"),)
    actions = (Action("doctor", "taskkit doctor"),)
    words = {"rule": rule.id, "error": check.error or "?"}
    return said(Remark("check", check.state, figures, actions=actions, words=words))


def too_few(rule: SuccessRateRule | SlowRule) -> dict[str, Said]:
    """What the end of an alert says that nobody can judge any more: not that it is well."""
    figures = (
        Figure("no_data_ends", rule.no_data_ends, "s"),
        Figure("min_runs", rule.min_runs, "runs"),
        Figure("window", float(rule.over), "s"),
    )
    return said(Remark("check", "too_few", figures, words={"rule": rule.id}))


def clock_time(at: datetime, zone: str) -> str:
    """``14:05``, as people of this zone read it."""
    return at.astimezone(load_zone(zone)).strftime("%H:%M")


def _known(figures: Sequence[Figure]) -> list[Figure]:
    return [one for one in figures if one.value is not None]


def _lines(figures: Sequence[Figure], language: str) -> tuple[tuple[str, str], ...]:
    return tuple((_word("figures", one.name, language), analytics.shown(one, language)) for one in figures)


def _word(kind: str, name: str, language: str) -> str:
    """A word of our own, or of the diagnoses."""
    own = texts(language)[kind].get(name)
    return str(own) if own is not None else analytics.word(kind, name, language)
