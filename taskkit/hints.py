"""What somebody probably meant: the nearest known word to one that is not."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

LONGEST = 64
"""Letters of the wrong word that are looked at: comparing takes time with the square of its length."""


def closest(wrong: str, right: Iterable[str]) -> str | None:
    """The known word that looks most like ``wrong``, whatever its case; None when none does."""
    known = {word.lower(): word for word in sorted(right)}
    looked = wrong[:LONGEST].strip().lower()
    short = [word for word in known if len(looked) > 1 and _abbreviates(looked, word)]
    close = (
        get_close_matches(looked, known, n=1, cutoff=0.8) or short or get_close_matches(looked, known, n=1)
    )
    return known[close[0]] if close else None


def _abbreviates(short: str, word: str) -> bool:
    """``cmd`` for ``command``: the same ends, and its letters stand in the word in this order."""
    rest = iter(word)
    return short[0] == word[:1] and short[-1] == word[-1:] and all(letter in rest for letter in short)


def suggest(wrong: str, right: Iterable[str]) -> str:
    """``; did you mean 'x'?`` when something close exists, else nothing."""
    close = closest(wrong, right)
    return "" if close is None else f"; did you mean {close!r}?"
