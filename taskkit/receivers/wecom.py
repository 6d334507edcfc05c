"""WeCom's group robot: markdown, markdown_v2 or text, a second text for mentions, and files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

from taskkit.alerts import Notice
from taskkit.receivers import digest
from taskkit.receivers.addressed import AtAddress
from taskkit.receivers.answers import JSON, code_of, counted, decoded, encoded, no_code, said
from taskkit.receivers.calling import Heard, post
from taskkit.receivers.fitting import Paper, fitted
from taskkit.receivers.letters import Row
from taskkit.receivers.markup import PLAIN, WECOM, WECOM_V2, Markup
from taskkit.receivers.mentions import Mentions
from taskkit.receivers.protocol import ROBOT_BUDGET, USUAL, Form, Payload, Reply, Verdict
from taskkit.receivers.uploads import FILE_TYPE, multipart, upload_address
from taskkit.receivers.words import word

LIMITS = {"markdown": 4096, "markdown_v2": 4096, "text": 2048}
MARKUPS: dict[str, Markup] = {"markdown": WECOM, "markdown_v2": WECOM_V2, "text": PLAIN}
PAUSE_S = 65.0
"""After 45009: blocked for a minute, and nothing may be called meanwhile."""
VERDICTS = {
    0: Verdict.SENT,
    -1: Verdict.RETRY,
    45033: Verdict.RETRY,
    45009: Verdict.PAUSE,
    40058: Verdict.SHRINK,
    40008: Verdict.BROKEN,
    40033: Verdict.BROKEN,
    44004: Verdict.BROKEN,
    93000: Verdict.MISCONFIGURED,
    93004: Verdict.MISCONFIGURED,
    93008: Verdict.MISCONFIGURED,
}
MOST_CALLED_BYTES = 1024
"""Of a message, for the people it mentions; more of them are called by the second one."""
SMALLEST_FILE, LARGEST_FILE = 6, 20 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class WeCom(AtAddress):
    """A robot of a WeCom group."""

    format: str = "markdown"
    kind: str = "wecom"
    budget: int | None = ROBOT_BUDGET
    month: int | None = None

    def payloads(
        self, notice: Notice, form: Form = USUAL, *, language: str, zone: tzinfo
    ) -> Sequence[Payload]:
        """The message, then a text for mentions that it cannot hold, then the files of its alerts."""
        kind = "text" if form.plain else self.format
        mentions = self.options.mentions.due(notice, mention_all=form.mention_all)
        content = self._content(notice, kind, mentions, form, language, zone)
        inside = _lists(mentions) if kind == "text" else {}
        calls = [_call(kind, {"content": content, **inside})]
        if outside := _outside(mentions, kind):
            calls.append(
                _call("text", {"content": word("above", language), **_lists(outside)}, kind="mention")
            )
        return [*calls, *_files(notice)]

    def _content(
        self, notice: Notice, kind: str, mentions: Mentions, form: Form, language: str, zone: tzinfo
    ) -> str:
        letters = digest.letters(notice, language, zone, links=form.links)
        tail = _called(mentions) if kind == "markdown" else ""

        def written(rows: Sequence[Row]) -> str:
            return MARKUPS[kind].write(rows) + tail

        limit = min(form.limit or LIMITS[kind], LIMITS[kind])
        paper = Paper(limit, lambda rows: len(written(rows).encode()), language)
        return written(fitted(letters, paper, receiver=self.name, uuid=notice.uuid))

    def send(self, payload: Payload, *, uuid: str, now: datetime) -> Reply:
        """Send a message; a file is uploaded first."""
        if payload.kind == "file":
            return self._send_file(payload)
        return self._judged(self._post(payload.body))

    def _post(self, body: bytes) -> Heard:
        return post(self.address.url.reveal(), body, JSON, timeout=self.options.timeout)

    def _judged(self, heard: Heard) -> Reply:
        answer = decoded(heard.body)
        code = counted(heard, code_of(answer))
        if code is None:
            return no_code(heard, self.address)
        verdict = VERDICTS.get(code, Verdict.RETRY)
        pause = PAUSE_S if verdict is Verdict.PAUSE else 0.0
        return Reply(verdict, str(code), said(answer, self.address), pause)

    def _send_file(self, payload: Payload) -> Reply:
        """Upload, then send what the upload is called by."""
        path = Path(payload.file)
        try:
            data = path.read_bytes()
        except OSError as problem:
            return Reply(Verdict.BROKEN, "no file", f"{path.name}: {problem.strerror or problem}")
        if not SMALLEST_FILE <= len(data) <= LARGEST_FILE:
            return Reply(Verdict.BROKEN, "file size", f"{path.name} has {len(data)} bytes")
        url = upload_address(self.address.url.reveal())
        heard = post(url, multipart(path.name, data), FILE_TYPE, timeout=self.options.timeout)
        uploaded = self._judged(heard)
        media = decoded(heard.body).get("media_id")
        if uploaded.verdict is not Verdict.SENT or not isinstance(media, str):
            return uploaded if uploaded.verdict is not Verdict.SENT else no_code(heard, self.address)
        return self._judged(self._post(encoded({"msgtype": "file", "file": {"media_id": media}})))


def _call(msgtype: str, content: dict[str, Any], *, kind: str = "") -> Payload:
    return Payload(body=encoded({"msgtype": msgtype, msgtype: content}), kind=kind or msgtype)


def _called(mentions: Mentions) -> str:
    """The users of a markdown message, on a line of their own; empty when they are too many for it."""
    line = "\n" + " ".join(f"<@{user}>" for user in mentions.users) if mentions.users else ""
    return line if len(line.encode()) <= MOST_CALLED_BYTES else ""


def _outside(mentions: Mentions, kind: str) -> Mentions:
    """Whom a message of this kind cannot mention itself."""
    if kind == "text":
        return Mentions()
    users = () if kind == "markdown" and _called(mentions) else mentions.users
    return Mentions(users=users, mobiles=mentions.mobiles, everyone=mentions.everyone)


def _lists(mentions: Mentions) -> dict[str, list[str]]:
    lists = {
        "mentioned_list": [*mentions.users, *(["@all"] if mentions.everyone else [])],
        "mentioned_mobile_list": list(mentions.mobiles),
    }
    return {name: people for name, people in lists.items() if people}


def _files(notice: Notice) -> list[Payload]:
    paths = dict.fromkeys(item.file for item in notice.items if item.file)
    return [Payload(body=encoded({"msgtype": "file"}), kind="file", file=path) for path in paths]
