"""``H`` in an expression: a value picked once from the task, so that many tasks do not start together."""

from __future__ import annotations

import re
from hashlib import blake2b

from taskkit.cron.fields import DAY, WEEKDAY, Field, by_field, normalise, refuse

_HASH = re.compile(r"H(?:\(([0-9]+)-([0-9]+)\))?(?:/([0-9]+))?")
_TOP = {DAY: 28, WEEKDAY: 6}
"""The highest value that H alone picks: a day that every month has, and no second Sunday."""


def resolve_hash(expression: str, seed: str) -> str:
    """Put a value for every ``H``, ``H/n``, ``H(a-b)`` and ``H(a-b)/n``; one seed always gives the same.

    Returns the normalised expression, also when it has no H. Raises CronError when an H cannot be resolved;
    the rest of the expression is `parse`'s to judge.
    """
    normalised = normalise(expression)
    words = [_resolve_field(normalised, field, word, seed) for field, word in by_field(normalised.split())]
    return " ".join(words)


def _resolve_field(expression: str, field: Field, word: str, seed: str) -> str:
    return ",".join(_resolve_item(expression, field, item, seed) for item in word.split(","))


def _resolve_item(expression: str, field: Field, item: str, seed: str) -> str:
    found = _HASH.fullmatch(item)
    if not found:
        return item
    top = _TOP.get(field, field.high)
    low, high = int(found[1] or field.low), int(found[2] or top)
    if not field.low <= low < high <= field.high:
        refuse(expression, f"{field.name} {item}: write H({field.low}-{top}), or a part of that range")
    if found[3] is None:
        return str(low + _number(seed, field) % (high - low + 1))
    return _stepped(expression, field, item, (low, high, int(found[3])), seed)


def _stepped(expression: str, field: Field, item: str, parts: tuple[int, int, int], seed: str) -> str:
    low, high, step = parts
    if not 1 <= step <= high - low + 1:
        refuse(expression, f"{field.name} {item}: write a step between 1 and {high - low + 1}")
    start = low + _number(seed, field) % step
    return str(start) if start + step > high else f"{start}-{high}/{step}"


def _number(seed: str, field: Field) -> int:
    """A number that depends on the seed and the field, and on nothing else."""
    text = f"{field.name}\0{seed}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")
