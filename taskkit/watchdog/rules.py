"""From the text of ``rules.toml`` to rules: the shipped ones, changed and completed by one's own file.

A rule of one's own file that has the id of a shipped one changes the keys that it names. Any other begins as the shipped
rule of its signal. ``[defaults]`` is for all rules that do not say otherwise. ``"off"`` switches off what may be absent.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import msgspec
from msgspec.structs import fields

import taskkit
from taskkit.errors import SettingsError
from taskkit.hints import suggest
from taskkit.settings.lines import line_of
from taskkit.watchdog.signals import SIGNALS, Length, Rule, Size

FILE = "rules.toml"
SHIPPED = f"alerting/{FILE}"
OWN = ("id", "signal")
"""Keys that each rule has for itself."""
ID = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A value and where it stands."""

    value: Any
    where: str


Table = dict[str, Entry]


@dataclass(frozen=True, slots=True)
class Draft:
    """A rule as a file has it, not yet looked at."""

    id: str
    signal: str
    where: str
    table: Table


def shipped() -> tuple[Rule, ...]:
    """The rules as they come with taskkit."""
    return read_rules("")


def load_rules(folder: Path | None) -> tuple[Rule, ...]:
    """The rules of a folder ``alerting``; the shipped ones where there is none, or no ``rules.toml`` in it."""
    path = None if folder is None else folder / FILE
    if path is None or not path.exists():
        return shipped()
    try:
        return read_rules(path.read_text(encoding="utf-8"), str(path))
    except OSError as problem:
        raise SettingsError(f"{path}: cannot be read: {problem.strerror or problem}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: is not written in UTF-8") from None


def read_rules(text: str, origin: str = FILE) -> tuple[Rule, ...]:
    """Shipped rules and those of ``text``. Raises SettingsError with a line for each problem: file, line, what to write."""
    base, own = RuleFile(shipped_text(), SHIPPED), RuleFile(text, origin)
    known = {draft.id: draft for draft in base.drafts}
    problems = [*base.problems, *own.problems]
    rules: list[Rule] = []
    for draft in [*(d for d in base.drafts if d.id not in own.ids), *own.drafts]:
        under = known.get(draft.id) or known.get(draft.signal)
        if under is not None and under.signal != draft.signal:
            problems.append(
                f"{draft.where}: rule {draft.id}: its signal is {under.signal}; give yours another id"
            )
            continue
        layers = (base.defaults, own.defaults, under.table if under else {}, draft.table)
        rules += _made(draft, {key: entry for layer in layers for key, entry in layer.items()}, problems)
    problems += _inhibitions(rules, {draft.id: draft for draft in (*base.drafts, *own.drafts)})
    if problems:
        raise SettingsError("\n".join(dict.fromkeys(problems)))
    order = [*known, *(draft.id for draft in own.drafts)]
    return tuple(sorted(rules, key=lambda rule: order.index(rule.id)))


@cache
def shipped_text() -> str:
    """The shipped ``rules.toml``: beside the package in its repository, inside it when installed."""
    package = Path(taskkit.__file__).parent
    for place in (package / SHIPPED, package.parent / SHIPPED):
        if place.is_file():
            return place.read_text(encoding="utf-8")
    raise SettingsError(f"this installation of taskkit came without {SHIPPED}; install it again")


class RuleFile:
    """One file: its ``[defaults]`` and its rules, each value with its line, and what cannot be right."""

    def __init__(self, text: str, origin: str) -> None:
        self.origin, self.text = origin, text
        self.problems: list[str] = []
        self.defaults: Table = {}
        self.drafts: list[Draft] = []
        self._read(self._parsed(text))

    @property
    def ids(self) -> set[str]:
        """The ids of its rules."""
        return {draft.id for draft in self.drafts}

    def where(self, table: str = "", number: int = 0, key: str = "") -> str:
        """``rules.toml:12``."""
        path = (table, number, key) if table == "rule" else (table, key)
        return f"{self.origin}:{line_of(self.text, [part for part in path if part != ''])}"

    def _parsed(self, text: str) -> dict[str, Any]:
        try:
            return tomllib.loads(text)
        except (ValueError, RecursionError) as problem:  # of a number, or of brackets, beyond all measure too
            raise SettingsError(f"{self.origin}: is not TOML: {str(problem)[:200]}") from None

    def _read(self, parsed: Mapping[str, Any]) -> None:
        for key in parsed:
            if key not in {"defaults", "rule"}:
                told = (
                    f"unknown {key!r}{suggest(key, ('defaults', 'rule'))}; there are [defaults] and [[rule]]"
                )
                self.problems.append(f"{self.where(key)}: {told}")
        defaults, rules = parsed.get("defaults", {}), parsed.get("rule", [])
        if not isinstance(defaults, dict) or not isinstance(rules, list):
            self.problems.append(f"{self.where('rule')}: write [defaults] once, and [[rule]] for each rule")
            return
        known = [name for name in keys_of(Rule) if name not in OWN]
        self.defaults = self._table(defaults, known, "defaults", 0, "[defaults]")
        for number, rule in enumerate(rules):
            self._draft(rule, number)

    def _draft(self, rule: object, number: int) -> None:
        where = self.where("rule", number)
        if not isinstance(rule, dict):
            self.problems.append(f"{where}: a rule is a table; write [[rule]], with two brackets")
            return
        name = rule.get("id")
        if not isinstance(name, str) or not ID.fullmatch(name):
            told = "has no id" if name is None else f"id = {name!r} is none"
            self.problems.append(f"{where}: a rule {told}; write small letters, digits and _")
            return
        signal = rule.get("signal", name)
        if not isinstance(signal, str) or signal not in SIGNALS:
            told = f"there is no signal {signal!r}{suggest(str(signal), SIGNALS)}; there are {', '.join(SIGNALS)}"
            self.problems.append(f"{self.where('rule', number, 'signal')}: rule {name}: {told}")
            return
        if name in self.ids:
            self.problems.append(f"{where}: there are two rules {name}")
            return
        table = self._table(rule, keys_of(SIGNALS[signal]), "rule", number, f"rule {name}")
        self.drafts.append(Draft(name, signal, where, table))

    def _table(
        self, given: Mapping[str, Any], known: Iterable[str], table: str, number: int, who: str
    ) -> Table:
        found: Table = {}
        for key, value in given.items():
            where = self.where(table, number, key)
            if key in known:
                found[key] = Entry(value, where)
            else:
                self.problems.append(f"{where}: {who}: unknown key {key!r}{suggest(key, known)}")
        return found


@cache
def keys_of(kind: type[Rule]) -> tuple[str, ...]:
    """The keys that a rule of this kind may have, as they are written."""
    return tuple(one.encode_name for one in fields(kind))


@cache
def optional(kind: type[Rule]) -> frozenset[str]:
    """Those that may be ``"off"``."""
    hints = get_type_hints(kind, include_extras=True)
    return frozenset(one.encode_name for one in fields(kind) if NoneType in get_args(hints[one.name]))


def _made(draft: Draft, table: Table, problems: list[str]) -> Iterator[Rule]:
    """The rule, if it is right."""
    kind = SIGNALS[draft.signal]
    values = {
        key: None if key in optional(kind) and entry.value == "off" else entry.value
        for key, entry in table.items()
    }
    fixed = {"group": draft.id, "runbook": f"runbooks/{draft.signal}.md"}
    try:
        yield msgspec.convert(
            fixed | values | {"id": draft.id, "signal": draft.signal}, kind, dec_hook=_read_value
        )
    except msgspec.ValidationError as error:
        told, _, path = str(error).replace(" | null", ' or "off"').partition(" - at `$")
        key = path.strip("`.").partition("[")[0]
        where = table[key].where if key in table else draft.where
        problems.append(f"{where}: rule {draft.id}: {key + ': ' if key else ''}{told.replace('`', '')}")


def _read_value(kind: type, given: object) -> object:
    if kind is Length:
        return Length.of(given)
    if kind is Size:
        return Size.of(given)
    raise NotImplementedError(kind)


def _inhibitions(rules: list[Rule], drafts: Mapping[str, Draft]) -> Iterator[str]:
    """What is wrong with who inhibits whom: no such rule, itself, or a circle in which nobody would be told of anything."""
    by_id = {rule.id: rule for rule in rules}
    for rule in rules:
        draft = drafts[rule.id]
        entry = draft.table.get("inhibited_by")
        start = f"{entry.where if entry else draft.where}: rule {rule.id}: inhibited_by"
        for name in roots(rule):
            if name not in drafts:
                yield f"{start}: there is no rule {name!r}{suggest(name, drafts)}"
        if rule.id in _above(rule, by_id):
            yield f"{start}: {rule.id} would inhibit itself in the end"


def roots(rule: Rule) -> list[str]:
    """The ids of the rules that inhibit this one."""
    return [name.partition(":")[0] for name in rule.inhibited_by]


def _above(rule: Rule, rules: Mapping[str, Rule]) -> set[str]:
    found: set[str] = set()
    left = roots(rule)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += roots(rules[name]) if name in rules else []
    return found
