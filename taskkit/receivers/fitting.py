"""Making a message fit: between whole letters, outside marks, links and code, and so that everybody sees the cut."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from taskkit.receivers.letters import Letter, Piece, Row
from taskkit.receivers.words import word

log = logging.getLogger(__name__)
Measure = Callable[[Sequence[Row]], int]
FOOT_SHARE = 0.5
"""Of the limit, that what to do may take before the text; where it is longer it is cut as well."""


@dataclass(frozen=True, slots=True)
class Paper:
    """What a message must fit on: ``measure`` counts the bytes of rows as they will be sent, with all that comes along."""

    limit: int
    measure: Measure
    language: str


def fitted(letters: Sequence[Letter], paper: Paper, *, receiver: str, uuid: str) -> tuple[Row, ...]:
    """The rows of the first letter that fits; of the last one as many as there is room for, and a warning in the log."""
    for letter in letters:
        if paper.measure(letter.rows) <= paper.limit:
            return letter.rows
    rows = _shortened(letters[-1], paper.measure, paper.limit, word("cut", paper.language))
    _tell_cut(receiver, uuid, paper.measure(letters[0].rows), paper.measure(rows))
    return rows


def _shortened(last: Letter, measure: Measure, limit: int, mark: str) -> tuple[Row, ...]:
    """As much as there is room for, with the mark where it was cut; what to do comes before the text."""
    if measure((*last.head, Row.of(mark))) > limit:
        return _cut((), last.rows, (), measure, limit, mark)
    if last.foot and measure((*last.head, Row.of(mark), *last.foot)) <= limit * FOOT_SHARE:
        return _cut(last.head, last.body, last.foot, measure, limit, mark)
    return _cut(last.head, (*last.body, *last.foot), (), measure, limit, mark)


def _cut(
    head: tuple[Row, ...],
    body: tuple[Row, ...],
    foot: tuple[Row, ...],
    measure: Measure,
    limit: int,
    mark: str,
) -> tuple[Row, ...]:
    def with_mark(rows: Sequence[Row]) -> tuple[Row, ...]:
        marked = rows[-1] + Piece(mark) if rows else Row.of(mark)
        return (*head, *rows[:-1], marked, *foot)

    def fits(rows: Sequence[Row]) -> bool:
        return measure(with_mark(rows)) <= limit

    whole = _most(len(body), lambda count: fits(body[:count]))
    rows = body[:whole]
    if whole < len(body):
        letters = _most(len(body[whole].text), lambda count: fits((*rows, body[whole].first(count))))
        begun = body[whole].first(_between_letters(body[whole].text, letters))
        rows = (*rows, begun) if begun.text.strip() else rows
    return with_mark(rows)


def _most(highest: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to ``highest`` that fits; 0 where none does."""
    low = 0
    while low < highest:
        middle = (low + highest + 1) // 2
        low, highest = (middle, highest) if fits(middle) else (low, middle - 1)
    return low


def _between_letters(text: str, count: int) -> int:
    """``count`` or a little less, so that no accent and no part of an emoji is cut from its letter."""
    while 0 < count < len(text) and (_joins(text[count]) or text[count - 1] == "\u200d"):
        count -= 1
    return count


def _joins(letter: str) -> bool:
    return (
        unicodedata.combining(letter) > 0
        or letter in "\u200d\ufe0e\ufe0f"
        or "\U0001f3fb" <= letter <= "\U0001f3ff"
    )


def _tell_cut(receiver: str, uuid: str, original: int, sent: int) -> None:
    """One warning for each message that did not fit, however often it is made."""
    told = _told(receiver, uuid)
    if told:
        return
    told.append(original)
    log.warning(
        "a message for receiver %r has %d bytes and was cut to %d", receiver, original, sent,
        extra={"notice": uuid, "bytes": original},
    )  # fmt: skip


@lru_cache(maxsize=1024)
def _told(receiver: str, uuid: str) -> list[int]:
    """The sizes that were told of a message: an empty list at first, the same one ever after."""
    return []
