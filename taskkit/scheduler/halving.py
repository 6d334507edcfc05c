"""Doing something for many rows at once, although the database may refuse one of them: that one is found by halving."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from taskkit.errors import CommitUnknown, DatabaseUnavailable, SchemaError, StoreError

T = TypeVar("T")


def by_halves(
    ids: Sequence[int], act: Callable[[Sequence[int]], T], refused: Callable[[int, Exception], None]
) -> Iterator[T]:
    """What ``act`` gives for all of these rows, in as few goes as their refusals allow; who is refused is told.

    A database that is away refuses no row: that goes up.
    """
    try:
        done = act(ids)
    except (DatabaseUnavailable, CommitUnknown, SchemaError):
        raise
    except (StoreError, ValueError) as error:
        if len(ids) == 1:
            refused(ids[0], error)
            return
    else:
        yield done
        return
    half = len(ids) // 2
    yield from by_halves(ids[:half], act, refused)
    yield from by_halves(ids[half:], act, refused)
