"""Which waiting notices go next, and whether they are merged: pure, so that the budget can be proved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from taskkit.alerts import Event, Item, Notice
from taskkit.center.outbox import Robot, RobotStanding, WaitingNotice

SINGLES_LEAVE = 2
"""Places, counted in whole notices, that single messages leave to digests."""
DIGEST_EVERY_S = 15.0
"""While the budget is nearly used up, digests go so far apart, so that none has to wait for a whole minute."""
MOST_ITEMS = 20


@dataclass(frozen=True, slots=True)
class Choice:
    """What goes now, as one notice; nothing: look again in ``wait_s``."""

    chosen: tuple[WaitingNotice, ...] = ()
    notice: Notice | None = None
    wait_s: float = 1.0


def choose(waiting: Sequence[WaitingNotice], standing: RobotStanding, robot: Robot) -> Choice:
    """The oldest notice alone while the budget is easy; all that are due as one digest when it is not, or after a pause."""
    due = _in_turn(waiting)
    if standing.pause_s > 0:
        return Choice(wait_s=min(standing.pause_s, 60.0))
    if not due:
        return Choice()
    same = [one for one in due if one.notice.receiver == due[0].notice.receiver]
    whole = len(same) + SINGLES_LEAVE if standing.free is None else standing.free // robot.calls
    if whole <= 0:
        return Choice(wait_s=max(0.5, robot.span_s - (standing.oldest_s or 0.0)))
    if standing.reason is not None:
        return _digest(same)
    if len(same) <= whole - SINGLES_LEAVE:
        return _one(same)
    age = robot.span_s if standing.newest_s is None else standing.newest_s
    return Choice(wait_s=_spacing(robot) - age) if age < _spacing(robot) else _digest(same)


def _in_turn(waiting: Sequence[WaitingNotice]) -> list[WaitingNotice]:
    """Those that are due, without what would overtake an older one about the same alert that is tried again later.

    Notebooks come after everything else, and hold nothing up.
    """
    held: set[tuple[str, int]] = set()
    due = []
    for one in waiting:
        items, receiver = one.notice.items, one.notice.receiver
        if one.due and not {(receiver, item.alert_id) for item in items} & held:
            due.append(one)
        else:
            held |= {(receiver, item.alert_id) for item in items if item.event is not Event.EVIDENCE}
    return sorted(due, key=_is_notebook)


def _is_notebook(one: WaitingNotice) -> bool:
    items = one.notice.items
    return bool(items) and all(item.event is Event.EVIDENCE for item in items)


def _spacing(robot: Robot) -> float:
    """A quarter of the span."""
    return min(DIGEST_EVERY_S, robot.span_s / 4)


def _one(due: Sequence[WaitingNotice]) -> Choice:
    return Choice((due[0],), due[0].notice)


def _digest(due: Sequence[WaitingNotice]) -> Choice:
    """As many as one message can tell, the oldest first; what is no alert goes alone."""
    if not due[0].notice.items:
        return _one(due)
    chosen: list[WaitingNotice] = []
    items: tuple[Item, ...] = ()
    for one in due:
        if not one.notice.items:
            continue
        more = latest((*items, *one.notice.items))
        if chosen and len(more) > MOST_ITEMS:
            break
        chosen.append(one)
        items = more
    if len(chosen) == 1:
        return Choice((chosen[0],), chosen[0].notice)
    return Choice(tuple(chosen), merged(chosen, items))


def merged(chosen: Sequence[WaitingNotice], items: tuple[Item, ...]) -> Notice:
    """One notice in place of these. Its key is that of the first, changed, and not the same.

    Of the first nobody may know whether it arrived (a time-out, a crash): then its alert is told twice. Under its own key
    the other side would take the digest for a copy, and drop the others that are in it.
    """
    first = chosen[0].notice
    return replace(first, uuid=f"{first.uuid[:-1]}{'d' if first.uuid[-1] != 'd' else 'e'}", items=items)


def latest(items: Sequence[Item]) -> tuple[Item, ...]:
    """Of each alert what was said last, in the order in which the alerts came; its evidence goes beside."""
    found: dict[tuple[int, bool], Item] = {}
    for item in items:
        key = (item.alert_id, item.event is Event.EVIDENCE)
        before = found.get(key)
        again = item.event is Event.REPEAT and before is not None and before.event is Event.FIRING
        found[key] = replace(item, event=Event.FIRING) if again else item
    return tuple(found.values())
