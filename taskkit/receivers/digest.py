"""A notice of several alerts as letters of three sizes: one line an alert with its final state; no alert is left out."""

from __future__ import annotations

from datetime import tzinfo

from taskkit.alerts import Event, Item, Notice
from taskkit.receivers.escaping import link_target
from taskkit.receivers.finals import final_states
from taskkit.receivers.letters import Letter, Piece, Row
from taskkit.receivers.message import letter, shortened, tone_of, words_of
from taskkit.receivers.words import instant, lasting, word

LIST = "taskkit alerts list"


def letters(notice: Notice, language: str, zone: tzinfo, *, links: bool = True) -> list[Letter]:
    """The letter of a notice, and shorter ones for where it does not fit."""
    items = final_states(notice.items)
    if len(items) < 2:
        whole = Notice(
            uuid=notice.uuid,
            receiver=notice.receiver,
            items=tuple(items),
            subject=notice.subject,
            text=notice.text,
        )
        return [letter(whole, language, zone, links=links)]
    subject = _subject(items, language)
    head = (Row.of(Piece(subject, _tone(items)), form="title"),)
    foot = (Row.of(f"{word('digest_more', language)}{word('colon', language)}", Piece(LIST, "code")),)
    return [
        Letter(subject, head, tuple(_full(item, language, zone, links=links) for item in items), foot),
        Letter(subject, head, tuple(_short(item, language) for item in items), foot),
        Letter(subject, head, tuple(_ids(items, language)), foot),
    ]


def _subject(items: list[Item], language: str) -> str:
    ends = sum(item.event is Event.RESOLVED for item in items)
    notebooks = sum(item.event is Event.EVIDENCE for item in items)
    counts = {"firing": len(items) - ends - notebooks, "resolved": ends, "evidence": notebooks}
    told = [word(f"digest_{state}", language, n=n) for state, n in counts.items() if n]
    return (
        word("digest", language, n=len(items)) + word("colon", language) + word("comma", language).join(told)
    )


def _tone(items: list[Item]) -> str:
    return tone_of(items[0])


def _begun(item: Item, language: str, longest: int) -> tuple[Piece | str, ...]:
    """State, id, rule and object."""
    state = item.severity if item.event in (Event.FIRING, Event.REPEAT) else item.event.value
    thing = f"{word('dot', language)}{shortened(item.object, longest)}" if item.object else ""
    return Piece(word(state, language), tone_of(item)), f" #{item.alert_id} {item.rule}{thing}"


def _full(item: Item, language: str, zone: tzinfo, *, links: bool) -> Row:
    if item.event is Event.RESOLVED:
        times = f"{word('lasted', language)} {lasting((item.at - item.since).total_seconds(), language)}"
    else:
        times = f"{word('since', language)} {instant(item.since, zone)}"
    title = shortened(words_of(item, language).title, 60)
    told = f"{word('colon', language)}{title}{word('open', language)}{times}{word('close', language)}"
    target = link_target(item.link) if links else ""
    link: tuple[Piece | str, ...] = (" ", Piece(word("link", language), "link", target)) if target else ()
    return Row.of(*_begun(item, language, 60), told, *link)


def _short(item: Item, language: str) -> Row:
    return Row.of(*_begun(item, language, 24))


def _ids(items: list[Item], language: str) -> list[Row]:
    """One row a state."""
    groups: dict[str, list[Item]] = {}
    for item in items:
        state = item.severity if item.event in (Event.FIRING, Event.REPEAT) else item.event.value
        groups.setdefault(state, []).append(item)
    return [
        Row.of(
            Piece(word(state, language), tone_of(some[0])),
            " " + " ".join(f"#{item.alert_id}" for item in some),
        )
        for state, some in groups.items()
    ]
