"""What a message is made of before any channel's marks: rows of pieces, in a head, a body and a foot."""

from __future__ import annotations

from dataclasses import dataclass, replace

ATOMS = ("code", "link")
"""Looks of pieces that are shown whole or not at all."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some raw text and how it looks; nothing in it is escaped yet."""

    text: str
    look: str = ""
    """``strong``, ``code``, ``link`` with a ``target``, or a tone: ``alarm``, ``calm``, ``faint``."""
    target: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a message."""

    pieces: tuple[Piece, ...]
    form: str = ""
    """``title``, ``quote``, or none."""

    @classmethod
    def of(cls, *pieces: Piece | str, form: str = "") -> Row:
        """A row of pieces and plain texts."""
        return cls(tuple(Piece(one) if isinstance(one, str) else one for one in pieces), form)

    @property
    def text(self) -> str:
        """Its letters alone."""
        return "".join(piece.text for piece in self.pieces)

    def first(self, letters: int) -> Row:
        """Its beginning: whole letters, and no piece of code or link that would be broken."""
        kept: list[Piece] = []
        for piece in self.pieces:
            if len(piece.text) <= letters:
                kept.append(piece)
            elif piece.look in ATOMS or letters <= 0:
                break
            else:
                kept.append(replace(piece, text=piece.text[:letters]))
            letters -= len(piece.text)
        return replace(self, pieces=tuple(kept))

    def __add__(self, more: Piece) -> Row:
        return replace(self, pieces=(*self.pieces, more))


@dataclass(frozen=True, slots=True)
class Letter:
    """A message: what must arrive (head), what may be cut (body), and what to do (foot)."""

    subject: str
    """One line for chat lists and mails, without the alert's id."""
    head: tuple[Row, ...]
    body: tuple[Row, ...] = ()
    foot: tuple[Row, ...] = ()

    @property
    def rows(self) -> tuple[Row, ...]:
        """All of it."""
        return (*self.head, *self.body, *self.foot)
