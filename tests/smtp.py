"""A tiny SMTP server on 127.0.0.1 that keeps what it is given, or answers by a script."""

from __future__ import annotations

import contextlib
import socketserver
import threading
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Self


@dataclass
class Delivered:
    """One mail with its envelope."""

    sender: str
    to: list[str] = field(default_factory=list)
    raw: bytes = b""

    @property
    def message(self) -> EmailMessage:
        made = message_from_bytes(self.raw, policy=policy.default)
        assert isinstance(made, EmailMessage)
        return made


class SmtpServer:
    """``refusals`` gives the reply to a command (``{"RCPT": "550 nobody"}``); ``hang`` names the one it never answers; a mail has ``most`` bytes."""

    def __init__(
        self,
        refusals: dict[str, str] | None = None,
        *,
        hang: str = "",
        drip: bool = False,
        most: int = 1 << 30,
    ) -> None:
        self.mails: list[Delivered] = []
        self.refusals, self.hang, self.drip, self.most = refusals or {}, hang, drip, most
        self.over = threading.Event()
        owner = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError):
                    owner.talk(self)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads, self._server.block_on_close = True, False
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()

    def talk(self, handler: socketserver.StreamRequestHandler) -> None:
        """One conversation."""
        while self.drip and not self.over.wait(0.3):
            handler.wfile.write(b"2")
        self.say(handler, "220 fake")
        mail = Delivered("")
        while line := handler.rfile.readline().decode().strip():
            verb, _, rest = line.partition(" ")
            verb = verb.upper()
            if verb == self.hang:
                self.over.wait(60)
            if verb in self.refusals:
                self.say(handler, self.refusals[verb])
            elif verb == "MAIL":
                mail = Delivered(rest.partition("<")[2].partition(">")[0])
                self.say(handler, "250 ok")
            elif verb == "RCPT":
                mail.to.append(rest.partition("<")[2].partition(">")[0])
                self.say(handler, "250 ok")
            elif verb == "DATA":
                self.say(handler, "354 go on")
                mail.raw = self.data(handler)
                if len(mail.raw) > self.most:
                    self.say(handler, "552 too large")
                    continue
                self.mails.append(mail)
                self.say(handler, "250 queued")
            else:
                self.say(handler, "221 bye" if verb == "QUIT" else "250 ok")

    def say(self, handler: socketserver.StreamRequestHandler, line: str) -> None:
        handler.wfile.write(f"{line}\r\n".encode())

    def data(self, handler: socketserver.StreamRequestHandler) -> bytes:
        lines = []
        while (line := handler.rfile.readline()) != b".\r\n":
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        return b"".join(lines)
