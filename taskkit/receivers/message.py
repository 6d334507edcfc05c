"""A notice of one alert, or of none, as a letter: what, how bad, since when, why, how much, what to do first."""

from __future__ import annotations

from datetime import tzinfo

from taskkit.alerts import Event, Item, Notice, Said
from taskkit.receivers.escaping import link_target
from taskkit.receivers.letters import Letter, Piece, Row
from taskkit.receivers.words import instant, lasting, word

TONES = {"note": "faint", "warning": "alarm", "critical": "alarm"}
LONGEST_OBJECT = 80
LONGEST_TITLE = 200
SHOWN_FIGURES = 3


def letter(notice: Notice, language: str, zone: tzinfo, *, links: bool = True) -> Letter:
    """The letter of a notice that holds one alert or none."""
    if not notice.items:
        return plain_letter(notice)
    item = notice.items[0]
    said = words_of(item, language)
    head = [title_row(item, language), *_cause(said), times_row(item, language, zone)]
    return Letter(
        subject_of(item, language),
        tuple(head),
        tuple(_body(item, said, language)),
        tuple(_foot(item, said, language, links=links)),
    )


def plain_letter(notice: Notice) -> Letter:
    """A letter of what is no alert."""
    subject = shortened(notice.subject, LONGEST_TITLE)
    return Letter(subject, (Row.of(Piece(subject), form="title"),), tuple(text_rows(notice.text)))


def words_of(item: Item, language: str) -> Said:
    """What an alert says in this language, else in any, else its rule alone."""
    return item.said.get(language) or next(iter(item.said.values()), None) or Said(title=item.rule)


def subject_of(item: Item, language: str) -> str:
    """``Critical · backlog · mail``; what is over or goes on says so first."""
    named = [item.rule, shortened(item.object, LONGEST_OBJECT)]
    return word("dot", language).join([_state(item, language), *filter(None, named)])


def _state(item: Item, language: str) -> str:
    severity = word(item.severity, language)
    if item.event is Event.FIRING:
        return severity
    return f"{word(item.event.value, language)}{word('dot', language)}{severity}"


def tone_of(item: Item) -> str:
    """The colour of an alert's first line."""
    return "calm" if item.event is Event.RESOLVED else TONES[item.severity]


def title_row(item: Item, language: str) -> Row:
    """Severity, rule, object and id; what is told while SQL is away has none yet."""
    return Row.of(
        Piece(subject_of(item, language), tone_of(item)),
        f" #{item.alert_id}" if item.alert_id else "",
        form="title",
    )


def times_row(item: Item, language: str, zone: tzinfo) -> Row:
    """Since when; of what is over also until when and how long."""
    told = [f"{word('since', language)} {instant(item.since, zone)}"]
    if item.event is Event.RESOLVED:
        lasted = lasting((item.at - item.since).total_seconds(), language)
        told += [
            f"{word('until', language)} {instant(item.at, zone)}",
            f"{word('lasted', language)} {lasted}",
        ]
    elif item.event is Event.REPEAT:
        told += [f"{word('lasted', language)} {lasting((item.at - item.since).total_seconds(), language)}"]
    if item.flaps:
        told += [word("flaps", language, n=item.flaps)]
    return Row.of(Piece(word("dot", language).join(told), "faint"), form="quote")


def _cause(said: Said) -> list[Row]:
    title = shortened(said.title, LONGEST_TITLE)
    return [Row.of(Piece(title, "strong"))] if title else []


def _body(item: Item, said: Said, language: str) -> list[Row]:
    """Why and how much, of what still is; the figures of something that is over would read as if it were not."""
    if item.event in (Event.EVIDENCE, Event.RESOLVED):
        return []
    rows = text_rows(said.text)
    if said.figures:
        rows.append(_figures(said.figures[:SHOWN_FIGURES], language))
    if said.forecast:
        told = [f"{name} {value}" for name, value in said.forecast[:SHOWN_FIGURES]]
        rows.append(
            Row.of(
                f"{word('forecast', language)}{word('colon', language)}" + word("comma", language).join(told)
            )
        )
    return rows


def _figures(figures: tuple[tuple[str, str], ...], language: str) -> Row:
    pieces: list[Piece | str] = []
    for name, value in figures:
        pieces += [word("dot", language) if pieces else "", f"{name} ", Piece(value, "strong")]
    return Row.of(*pieces)


def _foot(item: Item, said: Said, language: str, *, links: bool) -> list[Row]:
    rows = []
    if said.actions and item.event in (Event.FIRING, Event.REPEAT):
        what, command = said.actions[0]
        rows.append(Row.of(f"{word('action', language)}{word('colon', language)}{what}"))
        rows += [Row.of(Piece(command, "code"))] if command else []
    if ways := _ways(item, language, links=links):
        rows.append(Row.of(*ways))
    if item.event is Event.EVIDENCE and item.command and not item.link:
        anew = f"{word('anew', language)}{word('colon', language)}"
        rows.append(Row.of(anew, Piece(item.command, "code")))
    return rows


def _ways(item: Item, language: str, *, links: bool) -> list[Piece | str]:
    """Links to the console or notebook and to the runbook; where there is no link, the path or the command that shows it."""
    if item.event is Event.EVIDENCE:
        found = [_way(word("notebook", language), item.link or item.file, links=links)]
        if not item.link and item.host:
            found[0] += [word("on_host", language), Piece(item.host, "code")]
    else:
        found = [_way(word("link", language), item.link, links=links)]
    if item.event in (Event.FIRING, Event.REPEAT):
        found.append(_way(word("runbook", language), _page(item.runbook, language), links=links))
    pieces: list[Piece | str] = []
    for way in filter(None, found):
        pieces += [word("dot", language), *way] if pieces else way
    return pieces


def _way(name: str, where: str, *, links: bool) -> list[Piece | str]:
    target = link_target(where)
    if target:
        return [Piece(name, "link", target)] if links else []
    return [f"{name} ", Piece(where, "code")] if where and "://" not in where else []


def text_rows(text: str) -> list[Row]:
    """A text of several lines as rows, without its empty ones."""
    return [Row.of(line.rstrip()) for line in text.splitlines() if line.strip()]


def shortened(text: str, most: int) -> str:
    """One line of at most ``most`` letters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _page(runbook: str, language: str) -> str:
    """The command that shows a page that comes with the package: nobody knows where that lies."""
    if not runbook.startswith("runbooks/"):
        return runbook
    name = runbook.removeprefix("runbooks/").removesuffix(".md")
    return f"taskkit runbook show {name}" + ("" if language == "en" else f" --lang {language}")
