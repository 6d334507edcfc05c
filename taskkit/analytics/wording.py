"""Words for people, from the catalogues in texts/: figures with their units, and sentences with figures in them."""

from __future__ import annotations

import math
import string
import tomllib
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

from taskkit.analytics.diagnosis import Diagnosis, Figure
from taskkit.errors import InputError
from taskkit.zone import load_zone

LANGUAGES = ("en", "zh")
BESIDE = {"en": "{} ({})", "zh": "{}（{}）"}
MINUTE, HOUR, DAY = 60, 3600, 86_400


@cache
def catalogue(language: str) -> Mapping[str, Any]:
    """All texts of a language."""
    if language not in LANGUAGES:
        raise InputError("language", f"there is no {language!r}; there are {', '.join(LANGUAGES)}")
    text = (files("taskkit.analytics") / "texts" / f"{language}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def word(kind: str, name: str, language: str) -> str:
    """A single word or sentence; its own name where the catalogue does not know it."""
    return str(catalogue(language).get(kind, {}).get(name, name.replace("_", " ")))


def shown(figure: Figure, language: str) -> str:
    """A figure as people read it: ``16.7/s``, ``3.3 h``, ``300 ms``, ``n/a``."""
    value, units = figure.value, catalogue(language)["units"]
    if value is None:
        return str(units["none"])
    if isinstance(value, str):
        return value
    if figure.unit in {"s", "ms"}:
        return span(float(value) / (1000 if figure.unit == "ms" else 1), units)
    number = percent(value) if figure.unit == "%" else digits(value)
    pattern = units.get(figure.unit, "{n} " + figure.unit if figure.unit else "{n}")
    return str(pattern).replace("{n}", number)


def digits(value: float) -> str:
    """Three digits that matter, thousands set apart."""
    if isinstance(value, int) or abs(value) >= 100:
        return f"{round(value):,}"
    return f"{value:.3g}" if abs(value) >= 0.001 or value == 0 else f"{value:.1e}"


def percent(value: float) -> str:
    """Three digits that matter, never rounded up: 98.96 is below 99, and only what is whole is 100."""
    if not 0.1 <= value < 100:
        return digits(value)
    places = 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{math.floor(round(value * 10**places, 9)) / 10**places:g}"


def span(seconds: float, units: Mapping[str, str]) -> str:
    """A length of time in the unit that suits it."""
    for limit, size, name in (
        (1, 0.001, "ms"),
        (90, 1, "s"),
        (90 * MINUTE, MINUTE, "min"),
        (2 * DAY, HOUR, "h"),
    ):
        if abs(seconds) < limit:
            size_of = seconds / size
            number = f"{round(size_of):,}" if abs(size_of) >= 10 else f"{size_of:.2g}"
            return units[name].replace("{n}", number)
    return units["d"].replace("{n}", digits(seconds / DAY))


def instant(text: str, zone: str) -> str:
    """``2026-01-01 08:00:00 +08:00``, from an instant of ISO 8601."""
    told = datetime.fromisoformat(text).astimezone(load_zone(zone)).isoformat(" ", "seconds")
    return f"{told[:19]} {told[19:]}"


class Value(str):
    """A value in a sentence. ``{waiting:task waits|tasks wait}`` is it with the words that go with one, or with many."""

    __slots__ = ()

    def __format__(self, words: str) -> str:
        if not words:
            return str(self)
        one, _, many = words.partition("|")
        return f"{self} {one if self == '1' else many}"


class Values(dict[str, Value]):
    """The values of a sentence, by name; one that is not there is not known."""

    def __missing__(self, key: str) -> Value:
        return Value("n/a")


def sentences(diagnosis: Diagnosis, part: str, language: str) -> str:
    """A text of the verdict with the figures filled in; ``part`` is title, text or against."""
    verdict = catalogue(language)[diagnosis.rule]["verdicts"][diagnosis.verdict]
    return fill(str(verdict.get(part, "")), diagnosis, language)


def fill(text: str, diagnosis: Diagnosis, language: str) -> str:
    """``{name}`` becomes the figure of that name, as people read it."""
    none = Value(catalogue(language)["units"]["none"])
    values = Values(
        {name: none if value is None else Value(value) for name, value in diagnosis.details.items()}
    )
    values["none"] = none
    for figure in (*diagnosis.evidence, *diagnosis.forecast):
        values[figure.name] = Value(shown(figure, language))
    since = diagnosis.details.get("slow_since")
    if since:
        values["slow_since"] = Value(instant(str(since), diagnosis.zone))
    for name in ("binding", "next_bound"):
        if diagnosis.details.get(name):
            values[name] = Value(word("bounds", str(diagnosis.details[name]), language))
    rate = diagnosis.figure("next_bound_per_s")
    if "next_bound" in values and rate is not None:
        values["next_bound"] = Value(
            BESIDE[language].format(values["next_bound"], values["next_bound_per_s"])
        )
    return string.Formatter().vformat(text, (), values)


def verdicts(rule: str) -> list[str]:
    """The documented verdicts of a rule, in the order of the catalogue."""
    return list(catalogue("en")[rule]["verdicts"])
