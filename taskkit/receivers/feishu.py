"""Feishu's (Lark's) custom robot: rich text without any markup to escape, signed in the body."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from taskkit.alerts import Notice
from taskkit.receivers import digest
from taskkit.receivers.addressed import AtAddress
from taskkit.receivers.addresses import NOTHING, Hidden
from taskkit.receivers.answers import JSON, code_of, counted, decoded, encoded, no_code, said
from taskkit.receivers.calling import Heard, post
from taskkit.receivers.escaping import inert, inert_code
from taskkit.receivers.fitting import Paper, fitted
from taskkit.receivers.letters import Row
from taskkit.receivers.markup import PLAIN
from taskkit.receivers.mentions import Mentions
from taskkit.receivers.protocol import USUAL, Form, Payload, Reply, Verdict

MOST_BODY_BYTES = 19_000
"""Of the 20 KB that are taken."""
SIGNATURE_BYTES = 128
BUDGET = 90
"""Of 100 a minute."""
PAUSE_S = 65.0
VERDICTS = {
    0: Verdict.SENT,
    11232: Verdict.PAUSE,
    11233: Verdict.PAUSE,
    9499: Verdict.SHRINK,
    19001: Verdict.MISCONFIGURED,
    19021: Verdict.RESIGN,
    19022: Verdict.MISCONFIGURED,
    19024: Verdict.MISCONFIGURED,
    19036: Verdict.SHRINK,
}


def signature(secret: str, timestamp_s: int) -> str:
    """The signature of a body: the secret is in the key, and the message is empty."""
    key = f"{timestamp_s}\n{secret}".encode()
    return base64.b64encode(hmac.new(key, b"", hashlib.sha256).digest()).decode()


@dataclass(frozen=True, slots=True)
class Feishu(AtAddress):
    """A custom robot of a Feishu group."""

    secret: Hidden = NOTHING
    format: str = "post"
    keywords: tuple[str, ...] = ()
    kind: str = "feishu"
    budget: int | None = BUDGET
    month: int | None = None

    def payloads(
        self, notice: Notice, form: Form = USUAL, *, language: str, zone: tzinfo
    ) -> Sequence[Payload]:
        """One message with its mentions and keyword in it."""
        kind = "text" if form.plain else self.format
        mentions = self.options.mentions.due(notice, mention_all=form.mention_all)
        letters = digest.letters(notice, language, zone, links=form.links)

        def body(rows: Sequence[Row]) -> bytes:
            keyword = self._lacking(_shown(rows, kind))
            made = (
                _text(rows, mentions, keyword) if kind == "text" else _post(rows, mentions, keyword, language)
            )
            return encoded({"msg_type": kind, "content": made})

        limit = min(form.limit or MOST_BODY_BYTES, MOST_BODY_BYTES) - SIGNATURE_BYTES
        paper = Paper(limit, lambda rows: len(body(rows)), language)
        rows = fitted(letters, paper, receiver=self.name, uuid=notice.uuid)
        return [Payload(body=body(rows), kind=kind)]

    def _lacking(self, text: str) -> str:
        """The keyword to be added, exactly as it stands in the robot's settings, so that it takes the message."""
        lacks = self.keywords and not any(keyword in text for keyword in self.keywords)
        return self.keywords[0] if lacks else ""

    def send(self, payload: Payload, *, uuid: str, now: datetime) -> Reply:
        """Send, signed for ``now``."""
        body = payload.body
        if self.secret:
            timestamp = int(now.timestamp())
            signed = {"timestamp": str(timestamp), "sign": signature(self.secret.reveal(), timestamp)}
            body = encoded({**signed, **decoded(body)})
        return self._judged(post(self.address.url.reveal(), body, JSON, timeout=self.options.timeout))

    def _judged(self, heard: Heard) -> Reply:
        answer = decoded(heard.body)
        code = counted(heard, code_of(answer, ("code", "StatusCode")))
        if code is None:
            return no_code(heard, self.address)
        verdict = VERDICTS.get(code, Verdict.RETRY)
        text = said(answer, self.address, ("msg", "StatusMessage"))
        return Reply(verdict, str(code), text, PAUSE_S if verdict is Verdict.PAUSE else 0.0)


def _text(rows: Sequence[Row], mentions: Mentions, keyword: str) -> dict[str, Any]:
    """Plain text; here Feishu reads marks for mentions, so that ours are the only ones."""
    called = " ".join(f'<at user_id="{user}"></at>' for user in _users(mentions))
    return {"text": "\n".join(filter(None, [PLAIN.write(rows), called, keyword]))}


def _post(rows: Sequence[Row], mentions: Mentions, keyword: str, language: str) -> dict[str, Any]:
    """Rich text: every piece is a node of its own, and letters are letters."""
    title, *rest = rows
    lines = [[_node(piece.text, piece.look, piece.target) for piece in row.pieces] for row in rest]
    called: list[dict[str, str]] = [{"tag": "at", "user_id": user} for user in _users(mentions)]
    lines += [called] if called else []
    lines += [[{"tag": "text", "text": keyword}]] if keyword else []
    return {
        "post": {"zh_cn" if language == "zh" else "en_us": {"title": inert(title.text), "content": lines}}
    }


def _shown(rows: Sequence[Row], kind: str) -> str:
    """The letters as they are sent, every node on a line of its own."""
    if kind == "text":
        return PLAIN.write(rows)
    title, *rest = rows
    return "\n".join(
        [inert(title.text), *(_node(one.text, one.look)["text"] for row in rest for one in row.pieces)]
    )


def _node(text: str, look: str = "", target: str = "") -> dict[str, str]:
    if look == "link":
        return {"tag": "a", "text": inert(text), "href": target}
    return {"tag": "text", "text": inert_code(text) if look == "code" else inert(text)}


def _users(mentions: Mentions) -> list[str]:
    return [*mentions.users, *(["all"] if mentions.everyone else [])]
