"""Messages as people read them before they are sent: the text of each call that a receiver would make."""

from __future__ import annotations

import json
from collections.abc import Iterator
from email import message_from_bytes, policy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taskkit.alerts import Notice
    from taskkit.receivers.protocol import CallPayload, Receiver
    from taskkit.settings import Settings


def calls_of(
    receiver: Receiver, notice: Notice, settings: Settings, language: str | None = None
) -> list[CallPayload]:
    """The calls that tell a notice, in the receiver's language or in this one."""
    from taskkit.zone import load_zone

    spoken = language or receiver.options.language or settings.watchdog.language
    return list(receiver.payloads(notice, language=spoken, zone=load_zone(settings.timezone)))


def plain_text(notice: Notice, settings: Settings, language: str | None = None) -> str:
    """A notice without the marks of any channel, as the log of a terminal has it."""
    from taskkit.receivers import digest
    from taskkit.receivers.markup import PLAIN
    from taskkit.zone import load_zone

    spoken = language or settings.watchdog.language
    letters = digest.letters(notice, spoken, load_zone(settings.timezone))
    return PLAIN.write(letters[0].rows)


def text_of(call: CallPayload, kind: str) -> str:
    """What a call says, with the channel's own marks."""
    if kind == "mail":
        return _mail(call.body)
    body = json.loads(call.body)
    if kind == "webhook":
        return json.dumps(body, indent=2, ensure_ascii=False)
    if call.kind == "file":
        return f"the file {call.file}"
    return max(_texts(body), key=len, default="")


def _texts(value: Any) -> Iterator[str]:
    """All texts in it; the lines of a rich text are one."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from [_rich(value)] if name == "content" and isinstance(inner, list) else _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _rich(post: dict[str, Any]) -> str:
    lines = [
        "".join(str(node.get("text") or node.get("user_id", "")) for node in line) for line in post["content"]
    ]
    return "\n".join([str(post.get("title", "")), *lines])


def _mail(raw: bytes) -> str:
    mail = message_from_bytes(raw, policy=policy.default)
    body = mail.get_body(("plain",))
    return f"{mail['Subject']}\n\n{body.get_content() if body is not None else ''}".rstrip()
