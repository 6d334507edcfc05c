"""Where in a TOML file something stands: the line of a table and of a key in it. tomllib keeps no lines."""

from __future__ import annotations

import re

HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]")
KEY = re.compile(r"""\s*("[^"]*"|'[^']*'|[\w-]+)\s*[.=]""")
QUOTES = ('"""', "'''", '"', "'")
TOP = ""


class TomlLines:
    """Lines by table, the number of that table (of ``[[rule]]`` there are many), and key; counted from 1."""

    def __init__(self, text: str) -> None:
        self._found: dict[tuple[str, int, str], int] = {}
        self._seen: dict[str, int] = {}
        self._table, self._number = TOP, 0
        depth, quote = 0, ""
        for line, content in enumerate(text.splitlines(), 1):
            if not depth and not quote:
                self._note(content, line)
            depth, quote = after(content, depth, quote)

    def _note(self, content: str, line: int) -> None:
        if header := HEADER.match(content):
            self._table = header[2]
            self._number = self._seen.get(self._table, -1) + 1
            self._seen[self._table] = self._number
            self._found.setdefault((self._table, self._number, ""), line)
        elif key := KEY.match(content):
            name = key[1].strip("\"'")
            self._found.setdefault((self._table, self._number, name), line)

    def line(self, table: str = TOP, number: int = 0, key: str = "") -> int:
        """The line of a key; where that is not known, of its table; else 1."""
        for wanted in ((table, number, key), (table, number, ""), (TOP, 0, table)):
            if wanted in self._found:
                return self._found[wanted]
        return 1


def after(content: str, depth: int, quote: str) -> tuple[int, str]:
    """How many brackets of a value are open behind a line, and which long quote; the same before it."""
    at = 0
    while at < len(content):
        if quote:
            if quote[0] == '"' and content[at] == "\\":
                at += 2
                continue
            closes = content.startswith(quote, at)
            at += len(quote) if closes else 1
            quote = "" if closes else quote
            continue
        if content[at] == "#":
            break
        quote = next((one for one in QUOTES if content.startswith(one, at)), "")
        depth += (content[at] in "[{") - (content[at] in "]}")
        at += len(quote) or 1
    return max(depth, 0), quote if len(quote) == 3 else ""
