"""Several notices of one alert are one: as it is now."""

from __future__ import annotations

from collections.abc import Iterable

from taskkit.alerts import SEVERITIES, Event, Item


def final_states(items: Iterable[Item]) -> list[Item]:
    """Each alert once, as it is now: what fires first, the worst first; a notebook does not hide a state."""
    last: dict[int, Item] = {}
    for item in sorted(items, key=lambda item: item.at):
        known = last.get(item.alert_id)
        if known is None or item.event is not Event.EVIDENCE:
            last[item.alert_id] = item
    return sorted(last.values(), key=_order)


def _order(item: Item) -> tuple[int, int, int]:
    state = {Event.RESOLVED: 1, Event.EVIDENCE: 2}.get(item.event, 0)
    return state, -SEVERITIES.index(item.severity), item.alert_id
