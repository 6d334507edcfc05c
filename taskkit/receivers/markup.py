"""How rows are written for each channel: marks where it knows them, and everything from outside inert."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from taskkit.receivers.escaping import inert, inert_code, inert_line
from taskkit.receivers.letters import Piece, Row

FONT = {"alarm": "warning", "calm": "info", "faint": "comment"}


@dataclass(frozen=True, slots=True)
class Markup:
    """A channel's way of writing: pieces, titles and quotes, and what stands between rows."""

    piece: Callable[[Piece, str], str]
    """The piece and its inert text."""
    title: str = ""
    quote: str = ""
    between: str = "\n"

    def row(self, row: Row) -> str:
        """One row as the channel takes it."""
        starts = {"title": self.title, "quote": self.quote}
        texts: list[str] = []
        for piece in row.pieces:
            begun = row.form or any(texts)
            escape = inert_code if piece.look == "code" else inert if begun else inert_line
            texts.append(self.piece(piece, escape(piece.text)))
        return starts.get(row.form, "") + "".join(texts)

    def write(self, rows: Sequence[Row]) -> str:
        """All rows."""
        return self.between.join(map(self.row, rows))


def _marked(piece: Piece, text: str) -> str:
    """Marks that all markdowns share."""
    if not text.strip():
        return text
    if piece.look == "code":
        return f"`{text}`"
    if piece.look == "link":
        return f"[{text}]({piece.target})"
    return f"**{text}**" if piece.look == "strong" else text


def _coloured(piece: Piece, text: str) -> str:
    if piece.look in FONT and text.strip():
        return f'<font color="{FONT[piece.look]}">{text}</font>'
    return _marked(piece, text)


def _bare(piece: Piece, text: str) -> str:
    return f"{text}: {piece.target}" if piece.look == "link" else text


WECOM = Markup(_coloured, title="### ")
WECOM_V2 = Markup(_marked, title="### ", quote="> ", between="\n\n")
DINGTALK = Markup(_marked, title="### ", quote="> ", between="\n\n")
PLAIN = Markup(_bare)
