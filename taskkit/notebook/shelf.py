"""Where notebooks and runbook pages lie: beside the package in its repository, inside it when installed."""

from __future__ import annotations

from pathlib import Path

import taskkit
from taskkit.analytics.names import RULES
from taskkit.errors import NotFound
from taskkit.hints import suggest

REPORT = "report-"


def folder(name: str) -> Path:
    """The folder ``notebooks`` or ``runbooks``."""
    package = Path(taskkit.__file__).parent
    found = next((place for place in (package / name, package.parent / name) if place.is_dir()), None)
    if found is None:
        raise NotFound(f"this installation of taskkit came without its folder {name}; install it again")
    return found


def rules() -> tuple[str, ...]:
    """The rules, each with a notebook and a page."""
    return RULES


def pages() -> tuple[str, ...]:
    """Everything with a page of what to do: the rules with a notebook first, then those of the watchdog alone."""
    stems = {path.stem.partition(".")[0] for path in folder("runbooks").glob("*.md")}
    return (*RULES, *sorted(stems - set(RULES)))


def title_of(page: str) -> str:
    """The heading of a page."""
    return page_of(page).partition("\n")[0].lstrip("# ")


def reports() -> tuple[str, ...]:
    """The reports: notebooks that belong to no rule alone."""
    return tuple(
        sorted(path.stem.removeprefix(REPORT) for path in folder("notebooks").glob(f"{REPORT}*.ipynb"))
    )


def notebook_of(name: str) -> Path:
    """The notebook of a rule or a report; raises NotFound."""
    word = name.replace("-", "_").removeprefix("report_")
    for stem in (word, REPORT + word):
        path = folder("notebooks") / f"{stem}.ipynb"
        if path.is_file():
            return path
    if word in pages():
        raise NotFound(f"{word} has a page and no notebook: `taskkit runbook show {word}`")
    raise _unknown("notebook", name, (*rules(), *reports()))


def page_of(rule: str, language: str = "en") -> str:
    """What a woken person does, as Markdown; raises NotFound."""
    word = rule.replace("-", "_")
    if word not in pages():
        raise _unknown("runbook page", rule, pages())
    path = folder("runbooks") / (f"{word}.md" if language == "en" else f"{word}.{language}.md")
    return path.read_text(encoding="utf-8")


def _unknown(kind: str, name: str, known: tuple[str, ...]) -> NotFound:
    return NotFound(
        f"there is no {kind} {name!r}{suggest(name, known)}; there are {', '.join(dict.fromkeys(known))}"
    )
