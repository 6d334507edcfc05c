"""Mail over SMTP: a subject that begins no other header, plain text, and the notebook as an attachment."""

from __future__ import annotations

import contextlib
import smtplib
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from email import policy
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path

from taskkit.alerts import Notice
from taskkit.receivers import digest
from taskkit.receivers.addresses import NOTHING, Hidden, fingerprint, redacted
from taskkit.receivers.calling import GRACE_S, failure_word, within
from taskkit.receivers.escaping import header, inert
from taskkit.receivers.fitting import Paper, fitted
from taskkit.receivers.markup import PLAIN
from taskkit.receivers.protocol import USUAL, Form, Options, Payload, Reply, Verdict

MOST_TEXT_BYTES = 200_000
MOST_ATTACHED_BYTES = 10 * 1024 * 1024
LATER = range(400, 500)
TOO_LARGE = ("552", "timeout", "connection lost")
"""What may come of a notebook that the server or the line is too small for; without it the mail may arrive."""
REFUSED_LOGIN = (530, 534, 535, 538)


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail server and whom it brings notices to."""

    options: Options
    host: str
    port: int
    sender: str
    to: tuple[str, ...]
    tls: str = "starttls"
    user: str = ""
    password: Hidden = NOTHING
    kind: str = "mail"
    budget: int | None = None
    month: int | None = None

    @property
    def name(self) -> str:
        return self.options.name

    @property
    def robot(self) -> str:
        return fingerprint("\0".join((self.host, str(self.port), *self.to)))

    def payloads(
        self, notice: Notice, form: Form = USUAL, *, language: str, zone: tzinfo
    ) -> Sequence[Payload]:
        """One mail; Date and Message-ID come when it is sent. One that has to be shorter goes without its notebooks."""
        letters = digest.letters(notice, language, zone, links=form.links)
        limit = min(form.limit or MOST_TEXT_BYTES, MOST_TEXT_BYTES)
        paper = Paper(limit, lambda rows: len(PLAIN.write(rows).encode()), language)
        text = PLAIN.write(fitted(letters, paper, receiver=self.name, uuid=notice.uuid))
        ids = " ".join(f"#{item.alert_id}" for item in notice.items[:1]) if len(notice.items) == 1 else ""
        made = EmailMessage(policy=policy.SMTP)
        made["Subject"] = header(f"[taskkit] {inert(letters[0].subject)} {ids}")
        made["From"], made["To"] = self.sender, ", ".join(self.to)
        made["Auto-Submitted"] = "auto-generated"
        made.set_content(text, charset="utf-8")
        files = [item.file for item in notice.items if item.file] if form.limit is None else []
        attached = [file for file in files if _attach(made, file)]
        return [Payload(body=made.as_bytes(), kind="mail", file=attached[0] if attached else "")]

    def send(self, payload: Payload, *, uuid: str, now: datetime) -> Reply:
        """Hand the mail to the server; ``uuid`` is in its Message-ID, by which mail programs know a second copy."""
        head = f"Date: {format_datetime(now)}\r\nMessage-ID: <{header(uuid)}@taskkit>\r\n".encode()
        opened: list[socket.socket] = []
        try:
            seconds = self.options.timeout
            return within(seconds + GRACE_S, lambda: self._handed_over(head + payload.body, opened))
        except Exception as failure:  # noqa: BLE001 - whatever a server does is a failed call
            reply = self._failed(failure)
            too_large = bool(payload.file and opened) and reply.code in TOO_LARGE
            return replace(reply, verdict=Verdict.SHRINK) if too_large else reply
        finally:
            _shut(opened)

    def _handed_over(self, data: bytes, opened: list[socket.socket]) -> Reply:
        server = self._server(opened)
        try:
            if self.tls == "starttls":
                server.starttls(context=ssl.create_default_context())
                opened.append(_socket(server))
            if self.user:
                server.login(self.user, self.password.reveal())
            refused = server.sendmail(self.sender, list(self.to), data)
        finally:
            _part(server)
        if not refused:
            return Reply(Verdict.SENT, "250")
        code, text = next(iter(refused.values()))
        return Reply(Verdict.SENT, str(code), f"{len(refused)} addresses refused: {self._redact(text)}")

    def _server(self, opened: list[socket.socket]) -> smtplib.SMTP:
        seconds = self.options.timeout
        if self.tls == "tls":
            context = ssl.create_default_context()
            server: smtplib.SMTP = smtplib.SMTP_SSL(self.host, self.port, timeout=seconds, context=context)
        else:
            server = smtplib.SMTP(self.host, self.port, timeout=seconds)
        opened.append(_socket(server))
        return server

    def _failed(self, failure: Exception) -> Reply:
        if isinstance(failure, smtplib.SMTPRecipientsRefused):
            code, text = next(iter(failure.recipients.values()), (550, b""))
            return Reply(_verdict(code), str(code), self._redact(text))
        if isinstance(failure, smtplib.SMTPResponseException):
            return Reply(
                _verdict(failure.smtp_code), str(failure.smtp_code), self._redact(failure.smtp_error)
            )
        if isinstance(failure, smtplib.SMTPNotSupportedError):
            return Reply(Verdict.MISCONFIGURED, "not supported", redacted(str(failure), self._secrets))
        why = failure_word(failure)
        return Reply(Verdict.RETRY, "connection lost" if why == "SMTPServerDisconnected" else why)

    @property
    def _secrets(self) -> tuple[Hidden, ...]:
        return (self.password,)

    def _redact(self, text: bytes | str) -> str:
        return redacted(text.decode("utf-8", "replace") if isinstance(text, bytes) else text, self._secrets)


def _verdict(code: int) -> Verdict:
    """4xx is temporary; a refused login or address will be refused again."""
    if code in LATER:
        return Verdict.RETRY
    return Verdict.MISCONFIGURED if code in REFUSED_LOGIN or 550 <= code <= 553 else Verdict.BROKEN


def _socket(server: smtplib.SMTP) -> socket.socket:
    assert server.sock is not None  # noqa: S101 - told to mypy
    return server.sock


def _part(server: smtplib.SMTP) -> None:
    """Say good-bye and wait for no answer: what was accepted stays so, whatever the server says to that."""
    with contextlib.suppress(OSError, smtplib.SMTPException):
        server.putcmd("quit")
    server.close()


def _shut(opened: list[socket.socket]) -> None:
    """End what a server that drips still holds open, and with it the thread that waits for it."""
    for one in opened:
        try:
            one.shutdown(socket.SHUT_RDWR)
        except OSError:
            continue


def _attach(made: EmailMessage, file: str) -> bool:
    """The executed notebook, where it is still there and not too large for a mail; whether it is."""
    path = Path(file)
    try:
        if path.stat().st_size > MOST_ATTACHED_BYTES:
            return False
        data = path.read_bytes()
    except OSError:
        return False
    made.add_attachment(data, maintype="text", subtype="html", filename=header(path.name, 100))
    return True
