"""On which line of a TOML text a key stands, so that whoever refuses its value can say where."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

Path = tuple[str | int, ...]
_BLANK = re.compile(r"[\s,]*(?:#[^\n]*[\s,]*)*")
_KEY = re.compile(r"""\s*(?:"((?:[^"\\\n]|\\.)*)"|'([^'\n]*)'|([A-Za-z0-9_-]+))\s*""")
_TEXT = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'', re.DOTALL)
_BARE = re.compile(r"[^\s,\]}#]+(?:[ ][0-9][^\s,\]}#]*)?")


def line_of(text: str, path: str | Sequence[str | int]) -> int:
    """The line of a key in a valid TOML text, from 1; where it does not stand itself, that of what it would stand in.

    ``path`` is dotted (``receiver.1.mentions.users``) or in parts; tables of an array and values of a list are
    numbered from 0.
    """
    parts: Path = tuple(path.split(".")) if isinstance(path, str) else tuple(path)
    found = lines(text)
    wanted = tuple(str(part) for part in parts)
    while wanted and wanted not in found:
        wanted = wanted[:-1]
    return found.get(wanted, 1)


@lru_cache(maxsize=4)
def lines(text: str) -> Mapping[tuple[str, ...], int]:
    """The line of every table, key and value of a list, by its path; kept, as a file is asked about key by key."""
    return _LineReader(text).read()


class _LineReader:
    """Walks through a text that is known to be TOML, and notes where things begin."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: dict[tuple[str, ...], int] = {}
        self.arrays: dict[tuple[str, ...], int] = {}

    def read(self) -> dict[tuple[str, ...], int]:
        table: tuple[str, ...] = ()
        self.skip()
        while self.at < len(self.text):
            table = self.header() if self.text[self.at] == "[" else self.pair(table)
            self.skip()
        return self.found

    def skip(self) -> None:
        found = _BLANK.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def note(self, path: tuple[str, ...], at: int) -> None:
        for length in range(1, len(path) + 1):
            self.found.setdefault(path[:length], self.text.count("\n", 0, at) + 1)

    def keys(self) -> tuple[str, ...]:
        """A dotted key."""
        parts: list[str] = []
        while found := _KEY.match(self.text, self.at):
            parts.append(next(group for group in found.groups() if group is not None))
            self.at = found.end()
            if self.text[self.at : self.at + 1] != ".":
                break
            self.at += 1
        else:
            self.at += 1  # no key where one must be: not TOML, and no reason to stand still
        return tuple(parts)

    def header(self) -> tuple[str, ...]:
        """``[table]`` or ``[[array]]``, whose tables are numbered."""
        begun, double = self.at, self.text.startswith("[[", self.at)
        self.at += 2 if double else 1
        *outer, name = self.keys() or ("",)
        path = (*self.current(tuple(outer)), name)
        self.at += 2 if double else 1
        if double:
            self.arrays[path] = self.arrays.get(path, -1) + 1
        path = self.current(path[-1:], path[:-1])
        self.note(path, begun)
        return path

    def current(self, names: tuple[str, ...], base: tuple[str, ...] = ()) -> tuple[str, ...]:
        """The names with the numbers of the tables that they mean: the latest of each array."""
        path = base
        for name in names:
            path = (*path, name)
            if path in self.arrays:
                path = (*path, str(self.arrays[path]))
        return path

    def pair(self, table: tuple[str, ...]) -> tuple[str, ...]:
        """``key = value``; returns the table it stands in."""
        begun = self.at
        path = (*table, *self.keys())
        self.note(path, begun)
        self.at += 1
        self.value(path)
        return table

    def value(self, path: tuple[str, ...]) -> None:
        self.skip()
        first = self.text[self.at : self.at + 1]
        if first == "[":
            self.array(path)
        elif first == "{":
            self.inline(path)
        else:
            found = (_TEXT if first in {'"', "'"} else _BARE).match(self.text, self.at)
            self.at = found.end() if found else self.at + 1

    def array(self, path: tuple[str, ...]) -> None:
        self.at += 1
        self.skip()
        number = 0
        while self.at < len(self.text) and self.text[self.at] != "]":
            self.note((*path, str(number)), self.at)
            self.value((*path, str(number)))
            self.skip()
            number += 1
        self.at += 1

    def inline(self, path: tuple[str, ...]) -> None:
        self.at += 1
        self.skip()
        while self.at < len(self.text) and self.text[self.at] != "}":
            self.pair(path)
            self.skip()
        self.at += 1
