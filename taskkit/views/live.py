"""A view that renews itself: in its place in Jupyter, line after line elsewhere; it ends by time or by an interrupt."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from taskkit.clock import monotonic
from taskkit.errors import StoreError

Show = Callable[[object], None]


class StoreAway(str):
    """A store that did not answer, shown until it does."""

    __slots__ = ()


def follow(look: Callable[[], object], seconds: float, every: float, show: Show | None = None) -> None:
    """Look and show every so many seconds for so long; an interrupt ends it without an error."""
    show = show or place()
    deadline = monotonic() + seconds
    try:
        while True:
            show(_looked(look))
            if monotonic() + every > deadline:
                return
            time.sleep(every)
    except KeyboardInterrupt:
        return


def _looked(look: Callable[[], object]) -> object:
    try:
        return look()
    except StoreError as error:
        return StoreAway(error)


def place() -> Show:
    """Where views are shown: one spot in a notebook, else stdout."""
    if not in_notebook():
        return _printed
    from IPython.display import display

    spot: list[object] = []

    def show(view: object) -> None:
        if spot:
            spot[0].update(view)  # type: ignore[attr-defined]
        else:
            spot.append(display(view, display_id=True))  # type: ignore[no-untyped-call]

    return show


def in_notebook() -> bool:
    """Whether this is a kernel that shows what it displays."""
    python = sys.modules.get("IPython")
    shell = None if python is None else python.get_ipython()
    return getattr(shell, "kernel", None) is not None


def _printed(view: object) -> None:
    from taskkit.render import show

    show(*str(view).splitlines(), "")
