"""DingTalk's custom robot: signed afresh for every attempt, with an idempotency key, keywords and mentions kept whole."""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

import httpx

from taskkit.alerts import Notice
from taskkit.receivers import digest
from taskkit.receivers.addressed import AtAddress
from taskkit.receivers.addresses import NOTHING, Hidden
from taskkit.receivers.answers import JSON, code_of, counted, decoded, encoded, looks_like_html, no_code, said
from taskkit.receivers.calling import Heard, post
from taskkit.receivers.escaping import inert
from taskkit.receivers.fitting import Paper, fitted
from taskkit.receivers.letters import Row
from taskkit.receivers.markup import DINGTALK, PLAIN
from taskkit.receivers.mentions import MOST_PEOPLE, Mentions
from taskkit.receivers.protocol import ROBOT_BUDGET, USUAL, Form, Payload, Reply, Verdict
from taskkit.receivers.words import word

log = logging.getLogger(__name__)
MOST_BODY_BYTES = 19_000
"""Of the 20,000 that are taken."""
UUID_BYTES = 96
UNTITLED = "taskkit"
"""A message without a title is refused."""
MONTH = 3000
"""Calls that an organisation's standard edition has a month."""
PAUSE_S = 610.0
IP_PAUSE_S = 310.0
"""After an answer without errcode, by which DingTalk limits an address."""
IP_LIMIT = 1111
VERDICTS = {
    0: Verdict.SENT,
    -1: Verdict.RETRY,
    90002: Verdict.RETRY,
    90018: Verdict.RETRY,
    130101: Verdict.PAUSE,
    410100: Verdict.PAUSE,
    90030: Verdict.QUOTA,
    460101: Verdict.SHRINK,
    101002: Verdict.SHRINK,
    450103: Verdict.NO_MENTION_ALL,
    400004: Verdict.NO_MENTION_ALL,
    **dict.fromkeys(range(430101, 430105), Verdict.NO_LINKS),
    **dict.fromkeys((300001, 300005, 400101, 400013, 400102, 400106), Verdict.MISCONFIGURED),
    **dict.fromkeys((40035, 40058, 43002, 43004, 400105), Verdict.BROKEN),
}
SECURITY = 310000
_REFUSALS = (
    ("timestamp", re.compile(r"timestamp|expired|过期", re.IGNORECASE), Verdict.RESIGN),
    ("keywords", re.compile(r"keyword|关键词", re.IGNORECASE), Verdict.MISCONFIGURED),
    ("ip", re.compile(r"\bip\b|whitelist|白名单", re.IGNORECASE), Verdict.MISCONFIGURED),
    ("sign", re.compile(r"sign|签名", re.IGNORECASE), Verdict.MISCONFIGURED),
)
"""What 310000 may mean, by its text; a signature that is too old is called a signature as well, so timestamps come first."""


def signature(secret: str, timestamp_ms: int) -> str:
    """The base64 of the signature, not yet encoded for a URL."""
    text = f"{timestamp_ms}\n{secret}".encode()
    return base64.b64encode(hmac.new(secret.encode(), text, hashlib.sha256).digest()).decode()


@dataclass(frozen=True, slots=True)
class DingTalk(AtAddress):
    """A custom robot of a DingTalk group."""

    secret: Hidden = NOTHING
    format: str = "markdown"
    keywords: tuple[str, ...] = ()
    kind: str = "dingtalk"
    budget: int | None = ROBOT_BUDGET
    month: int | None = MONTH

    def __post_init__(self) -> None:
        if self.options.mentions.people > MOST_PEOPLE:
            log.warning(
                "receiver %r mentions %d people; DingTalk takes %d, so the others are left out",
                self.options.name, self.options.mentions.people, MOST_PEOPLE,
            )  # fmt: skip

    def payloads(
        self, notice: Notice, form: Form = USUAL, *, language: str, zone: tzinfo
    ) -> Sequence[Payload]:
        """One message, which holds its mentions and keyword after any cutting."""
        kind = "text" if form.plain else self.format
        mentions = self.options.mentions.due(notice, mention_all=form.mention_all).limited()
        letters = digest.letters(notice, language, zone, links=form.links)
        markup = PLAIN if kind == "text" else DINGTALK
        title = inert(letters[0].subject) or UNTITLED

        def body(rows: Sequence[Row]) -> bytes:
            text = self._with_tail(markup.write(rows), mentions, markup.between, language)
            return encoded(_message(kind, title, text, mentions))

        limit = min(form.limit or MOST_BODY_BYTES, MOST_BODY_BYTES) - UUID_BYTES
        paper = Paper(limit, lambda rows: len(body(rows)), language)
        rows = fitted(letters, paper, receiver=self.name, uuid=notice.uuid)
        return [Payload(body=body(rows), kind=kind)]

    def _with_tail(self, text: str, mentions: Mentions, between: str, language: str) -> str:
        called = [f"@{one}" for one in (*mentions.mobiles, *mentions.users)]
        called += [word("everyone", language)] if mentions.everyone else []
        lacking = self.keywords and not any(keyword in text for keyword in self.keywords)
        tail = [" ".join(called), self.keywords[0] if lacking else ""]
        return between.join([text, *filter(None, tail)])

    def send(self, payload: Payload, *, uuid: str, now: datetime) -> Reply:
        """Send with ``uuid`` as the idempotency key, signed for ``now``."""
        body = encoded({**decoded(payload.body), "msgUuid": uuid})
        return self._judged(post(self._url(now), body, JSON, timeout=self.options.timeout))

    def _url(self, now: datetime) -> httpx.URL:
        url = httpx.URL(self.address.url.reveal())
        if not self.secret:
            return url
        timestamp = round(now.timestamp() * 1000)
        signed = {"timestamp": str(timestamp), "sign": signature(self.secret.reveal(), timestamp)}
        return url.copy_merge_params(signed)

    def _judged(self, heard: Heard) -> Reply:
        answer = decoded(heard.body)
        code = code_of(answer)
        if (
            code is None
            and heard.status < 500
            and (code_of(answer, ("status",)) == IP_LIMIT or looks_like_html(heard))
        ):
            return Reply(Verdict.PAUSE, heard.code, self.address.redact(heard.text), IP_PAUSE_S)
        code = counted(heard, code)
        if code is None:
            return no_code(heard, self.address)
        text = said(answer, self.address)
        if code == SECURITY:
            return _refused(str(answer.get("errmsg", "")), text)
        verdict = VERDICTS.get(code, Verdict.RETRY)
        return Reply(verdict, str(code), text, PAUSE_S if verdict is Verdict.PAUSE else 0.0)


def _refused(message: str, text: str) -> Reply:
    """One of the four meanings of 310000."""
    for meaning, pattern, verdict in _REFUSALS:
        if pattern.search(message):
            return Reply(verdict, str(SECURITY), f"{meaning}: {text}")
    return Reply(Verdict.MISCONFIGURED, str(SECURITY), text)


def _message(kind: str, title: str, text: str, mentions: Mentions) -> dict[str, Any]:
    content = {"content": text} if kind == "text" else {"title": title, "text": text}
    made: dict[str, Any] = {"msgtype": kind, kind: content}
    if mentions:
        made["at"] = {
            "atMobiles": list(mentions.mobiles),
            "atUserIds": list(mentions.users),
            "isAtAll": mentions.everyone,
        }
    return made
