"""From the text of an expression to its pattern, with croniter to expand the fields."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from taskkit.cron.fields import DAY, HOUR, MINUTE, MONTH, SECOND, WEEKDAY, Field, by_field
from taskkit.cron.items import canonical
from taskkit.cron.pattern import Days, Pattern, Times, Value
from taskkit.errors import CronError

_COLUMNS = (MINUTE, HOUR, DAY, MONTH, WEEKDAY, SECOND)
"""The order in which croniter answers."""


@lru_cache(maxsize=4096)
def read(normalised: str) -> Pattern:
    """The pattern of a normalised expression; raises CronError naming what is wrong in it."""
    words = dict(by_field(normalised.split()))
    values, nth = _expand(canonical(normalised))
    counted = frozenset((day, which) for day, whiches in nth.items() for which in whiches)
    return Pattern(
        times=Times(_sorted(values[HOUR]), _sorted(values[MINUTE]), _sorted(values[SECOND])),
        days=Days(
            months=frozenset(_sorted(values[MONTH])),
            days=frozenset(values[DAY]),
            weekdays=frozenset(_sorted(values[WEEKDAY])) - set(nth),
            nth=counted,
            both=_starts_with_star(words, DAY, WEEKDAY),
        ),
        elapsed=_starts_with_star(words, MINUTE, HOUR),
    )


def _starts_with_star(words: dict[Field, str], *fields: Field) -> bool:
    return any(words[field].startswith("*") for field in fields)


def _sorted(values: Sequence[Value]) -> tuple[int, ...]:
    return tuple(sorted(value for value in values if isinstance(value, int)))


def _expand(expression: str) -> tuple[dict[Field, Sequence[Value]], dict[int, set[Value]]]:
    """The values of every field, and for weekdays with ``#`` or ``L`` which ones of the month."""
    from croniter import CroniterError, croniter  # slow to load; a worker's child never needs it

    try:
        lists, nth = croniter.expand(expression, second_at_beginning=True)
    except CroniterError as refusal:
        raise CronError("cron", f"{expression!a}: {' '.join(str(refusal).split())[:200]}") from refusal
    if len(lists) < len(_COLUMNS):
        lists = [*lists, [0]]
    return {f: _all(f) if "*" in found else found for f, found in zip(_COLUMNS, lists, strict=True)}, nth


def _all(field: Field) -> range:
    return range(field.low, (6 if field is WEEKDAY else field.high) + 1)
