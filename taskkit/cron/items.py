"""What may stand in a field: every item is checked here and handed to croniter in an unmistakable form."""

from __future__ import annotations

import re

from taskkit.cron.fields import DAY, MONTH, WEEKDAY, Field, by_field, refuse

_RANGE = re.compile(r"(\*|[0-9]+|[A-Z]{3})(?:-([0-9]+|[A-Z]{3}))?(?:/([0-9]+))?")
_NTH = re.compile(r"([0-7]|[A-Z]{3})#([0-9]+)")
_LAST_WEEKDAY = re.compile(r"L([0-7]|[A-Z]{3})|([0-7]|[A-Z]{3})L")
_HINTS = (
    (r"", "has an empty value; take out the extra comma"),
    (r"\?.*|.*\?", "? may only stand alone in day-of-month or day-of-week; write *"),
    (
        r"H(\(.*\))?(/.*)?",
        "H is replaced once, when a task is written, by a value picked from its code; write a number here",
    ),
    (r"R(\(.*\))?(/.*)?", "R is random and would differ on every node; write H, or a fixed value"),
    (r"[0-9]+W|W[0-9]+|LW", "W (nearest working day) is not taken; write a day, or weekdays MON-FRI"),
    (r"L", "L alone is only for day-of-month; for the last Saturday write SATL"),
    (r"L-.*", "days before the last one are not taken; write a day such as 28"),
    (r"-.*", "negative numbers are not taken"),
    (r".*[.].*", "only whole numbers are taken"),
)


class _Bad(Exception):
    """An item that is refused; the message says why."""


def canonical(normalised: str) -> str:
    """The normalised expression in numbers and in forms that every croniter reads the same way."""
    words = []
    for field, word in by_field(normalised.split()):
        try:
            words.append(_canonical_field(field, word))
        except _Bad as bad:
            refuse(normalised, f"{field.name} {word}: {bad}")
    return " ".join(words)


def _canonical_field(field: Field, word: str) -> str:
    items = [_canonical_item(field, item) for item in word.split(",")]
    if field is WEEKDAY and len({"#" in item or "L" in item for item in items}) > 1:
        raise _Bad("# and L do not mix with plain weekdays; make two tasks")
    if len(items) > 1 and "*" in items:
        return "*"
    return ",".join(items)


def _canonical_item(field: Field, item: str) -> str:
    if field is DAY and item == "L":
        return item
    if field is WEEKDAY and (nth := _NTH.fullmatch(item)):
        return _nth_weekday(nth[1], int(nth[2]))
    if field is WEEKDAY and (last := _LAST_WEEKDAY.fullmatch(item)):
        return f"L{_value(WEEKDAY, last[1] or last[2]) % 7}"
    if found := _RANGE.fullmatch(item):
        return _stepped(field, found[1], found[2], found[3])
    raise _Bad(_hint(field, item))


def _hint(field: Field, item: str) -> str:
    for pattern, hint in _HINTS:
        if re.fullmatch(pattern, item):
            return hint
    return f"{item!a} is not a {field.name}, a range or a step"


def _value(field: Field, text: str) -> int:
    value = field.number(text)
    if value is not None:
        return value
    names = f" or {field.names[0]} to {field.names[-1]}" if field.names else ""
    raise _Bad(f"{text} is not between {field.low} and {field.high}{names}")


def _nth_weekday(day: str, nth: int) -> str:
    if not 1 <= nth <= 5:
        raise _Bad("a month has at most five of one weekday; write #1 to #5")
    return f"{_value(WEEKDAY, day) % 7}#{nth}"


def _stepped(field: Field, low_text: str, high_text: str | None, step_text: str | None) -> str:
    if low_text == "*" and high_text is None and step_text is None:
        return "*"
    low, high = _bounds(field, low_text, high_text, stepped=step_text is not None)
    step = _step(low, high, step_text)
    if field is WEEKDAY and high == field.high:
        return _until_sunday(low, step)
    return _span(low, high, step)


def _bounds(field: Field, low_text: str, high_text: str | None, *, stepped: bool) -> tuple[int, int]:
    """The first and last value that a range, a start with a step, or a single value spans."""
    if low_text == "*":
        if high_text is not None:
            raise _Bad("* is the whole range already; write * or a range of numbers")
        return field.low, 6 if field is WEEKDAY else field.high
    low = _value(field, low_text)
    if high_text is None:
        return low, _open_end(field, low) if stepped else low
    high = _value(field, high_text)
    if field is WEEKDAY and high_text == "SUN" and low > 0:
        high = 7
    if low > high:
        raise _Bad(f"the range runs backwards; write {_unwrapped(field, low, high)}")
    return low, high


def _open_end(field: Field, low: int) -> int:
    if field is WEEKDAY:
        raise _Bad(
            f"give the weekdays an end, such as {low % 7}-6/2 (until Saturday) or {low % 7}-7/2 (Sunday)"
        )
    return field.high


def _unwrapped(field: Field, low: int, high: int) -> str:
    """What someone meant who wrote ``22-2``: ``22-23,0-2``."""
    if field is WEEKDAY and low == field.high:
        return _named(field, 0, high)
    top = 6 if field is WEEKDAY else field.high
    return ",".join(_named(field, *span) for span in ((low, top), (field.low, high)))


def _named(field: Field, low: int, high: int) -> str:
    first, last = (field.names[v - field.low] if field in (MONTH, WEEKDAY) else str(v) for v in (low, high))
    return first if low == high else f"{first}-{last}"


def _step(low: int, high: int, text: str | None) -> int:
    step = 1 if text is None else int(text)
    if step == 0:
        raise _Bad("a step of 0 never moves on; write 1 or more")
    if step > high - low + 1:
        raise _Bad(f"the step {step} is larger than its range of {high - low + 1}; write {low} alone")
    return step


def _until_sunday(low: int, step: int) -> str:
    """Weekdays up to 7, with Sunday as 0."""
    if low in (0, 7):
        return _span(0, 6, step) if low == 0 else "0"
    days = _span(low, 6, step)
    return f"{days},0" if (7 - low) % step == 0 else days


def _span(low: int, high: int, step: int) -> str:
    if low + step > high:
        return str(low)
    return f"{low}-{high}" if step == 1 else f"{low}-{high}/{step}"
