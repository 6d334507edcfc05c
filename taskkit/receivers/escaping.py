"""What came from task names and error texts, made inert for every channel: it can mention, link, colour and head nothing."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit

from taskkit.texts import harmless

_LOOKALIKES = str.maketrans(
    {"@": "＠", "<": "＜", ">": "＞", "[": "［", "]": "］", "`": "ˋ", "*": "∗", "\\": "＼"}
)
_LINE_STARTS = {"#": "＃", "-": "‐", "+": "＋", "=": "＝", "|": "｜", "~": "～", "_": "＿"}
_ENTITY = re.compile(r"&(?=#?\w+;)")
_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_LINK = re.compile(r"(?<=\w):(?=//)|(?<=\bwww)\.|(?<=\bmailto):|(?<=\bjavascript):", re.IGNORECASE)
_INVISIBLE = re.compile("[\u200b\u2060\ufeff\u00ad]")
_CODE = re.compile(r"<(?=[@/!a-zA-Z])|@(?=all\b|所有人|\+?\d{5})", re.IGNORECASE)
_CODE_LOOKALIKES = {"<": "＜", "@": "＠"}
_NOT_IN_URLS = re.compile("[\\s\\x00-\\x1f\\x7f\ud800-\udfff]")


def inert(text: str) -> str:
    """Text that any of the channels shows as letters, on one line; what would have a meaning becomes its lookalike."""
    text = _ENTITY.sub("＆", _one_line(text)).translate(_LOOKALIKES)
    return _LINK.sub(lambda found: "：" if found[0] == ":" else "．", _UNDERSCORE.sub("＿", text))


def inert_line(text: str) -> str:
    """:func:`inert` for the beginning of a line: no heading, list, rule or table begins here."""
    made = inert(text).lstrip()
    return _LINE_STARTS[made[0]] + made[1:] if made[:1] in _LINE_STARTS else made


def inert_code(text: str) -> str:
    """Text between backticks: exactly as it is, but for what a client reads even there."""
    return _CODE.sub(lambda found: _CODE_LOOKALIKES[found[0]], _one_line(text)).replace("`", "'")


def _one_line(text: str) -> str:
    joined = " ".join(text.replace("\r\n", "\n").splitlines()) if len(text.splitlines()) > 1 else text
    return harmless(_INVISIBLE.sub("", joined.replace("\t", " ")).strip("\r\n"))


def header(text: str, most: int = 200) -> str:
    """A mail's subject or address: one line, nothing that could begin another header."""
    line = " ".join(_one_line(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def link_target(url: str) -> str:
    """A URL as it may stand between the brackets of a link; empty unless it is one of http."""
    if _NOT_IN_URLS.search(url) or "://" not in url:
        return ""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        return ""
    return quote(url, safe="%/:?#&=+,;~!$-._")
