"""A real HTTP server on 127.0.0.1 that records what comes, and answers by its rules or by a script, hostile ones included."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

HUGE_BYTES = 50 * 1024 * 1024


class Trouble(Enum):
    """Answers that are none."""

    DRIP = "one byte a second"
    HANG = "takes the request and never answers"
    HUGE = "50 MB"
    CLOSE = "closes without a word"
    REDIRECT = "302 to another place, where whoever follows is seen"
    HTML = "200 and a page"
    EMPTY = "200 and nothing"


@dataclass(slots=True)
class Call:
    """One request, and what was answered."""

    at: float
    """Seconds since the server began, by its own clock (`speed` times the real one)."""
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    raw: bytes
    body: dict[str, Any] = field(default_factory=dict)
    answer: Any = None
    shown: bool = False
    """Whether the group sees it."""
    arrived: float = field(default_factory=time.monotonic)
    """The monotonic second."""

    @property
    def size(self) -> int:
        return len(self.raw)

    @property
    def text(self) -> str:
        """What the group reads of a message, with its marks."""
        kind = str(self.body.get("msgtype") or self.body.get("msg_type") or "")
        content: Any = self.body.get("content") if "msg_type" in self.body else self.body.get(kind)
        if kind == "post":
            page = next(iter(content["post"].values()))
            lines = ["".join(str(node.get("text", "")) for node in line) for line in page["content"]]
            return "\n".join([page["title"], *lines])
        return str(content.get("text") or content.get("content") or "") if isinstance(content, dict) else ""

    @property
    def ids(self) -> list[int]:
        """The alerts that a message tells of."""
        return [int(number) for number in re.findall(r"#(\d+)\b", self.text)]


Answer = int | Trouble | dict[str, Any] | tuple[int, str | bytes | dict[str, Any]]


class FakeServer:
    """Listens on a port of its own while it is entered. ``speed`` makes its minutes pass faster."""

    path = "/hook"

    def __init__(self, *, speed: float = 1.0, tls: bool = False) -> None:
        self.calls: list[Call] = []
        self.speed = speed
        self.ahead = timedelta(0)
        """By how much the server's wall clock is ahead of the machine's."""
        self._script: list[Answer] = []
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._over = threading.Event()
        self._tls = tls
        self._listen(0)
        self.port = self._server.server_address[1]

    def _listen(self, port: int) -> None:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                owner._serve(self)

            do_GET = do_POST

            def log_message(self, *_: object) -> None:
                pass

        self._server = _QuietServer(("127.0.0.1", port), Handler)
        if self._tls:
            self._server.socket = _tls_context().wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Inside the block nobody listens: connections are refused."""
        self._server.shutdown()
        self._server.server_close()
        try:
            yield
        finally:
            self._listen(self.port)

    @property
    def base(self) -> str:
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return self.base + self.path

    @property
    def messages(self) -> list[Call]:
        """What the group has seen, in its order."""
        return [call for call in self.calls if call.shown]

    def answers(self, script: list[Answer]) -> None:
        """Answer the next calls so: an errcode, a `Trouble`, JSON, or a status with a body; then by the rules again."""
        self._script += script

    def time(self) -> float:
        """Seconds since the server began, by its own clock."""
        return (time.monotonic() - self._began) * self.speed

    def skip(self, seconds: float) -> None:
        """Let time pass at once, by the server's clock."""
        self._began -= seconds / self.speed

    def now(self) -> datetime:
        """The wall clock of the server."""
        return datetime.now(UTC) + self.ahead

    def most_in(self, seconds: float = 60.0) -> int:
        """The most calls in any such time, by the server's clock."""
        times = [call.at for call in self.calls]
        return max((sum(0 <= other - one < seconds for other in times) for one in times), default=0)

    def judge(self, call: Call) -> Answer:
        """The answer by the rules; sets ``call.shown``."""
        call.shown = True
        return (200, "ok")

    def reply(self, code: int) -> dict[str, Any]:
        """The JSON of a code."""
        return {"errcode": code, "errmsg": "ok" if code == 0 else "refused"}

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        raw = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        parts = urlsplit(handler.path)
        with self._lock:
            call = Call(
                self.time(), parts.path, dict(parse_qsl(parts.query)), dict(handler.headers.items()), raw
            )
            call.body = _json(raw)
            self.calls.append(call)
            scripted = self._script.pop(0) if self._script else None
            call.answer = self.judge(call) if scripted is None else scripted
            if scripted == 0:
                call.shown = True
        with contextlib.suppress(OSError):
            self._send(handler, call.answer)

    def _send(self, handler: BaseHTTPRequestHandler, answer: Answer) -> None:
        if isinstance(answer, Trouble):
            self._trouble(handler, answer)
            return
        status, body = answer if isinstance(answer, tuple) else (200, answer)
        if isinstance(body, int):
            body = self.reply(body)
        if isinstance(body, dict):
            body = json.dumps(body, ensure_ascii=False)
        _write(handler, status, body.encode() if isinstance(body, str) else body)

    def _trouble(self, handler: BaseHTTPRequestHandler, trouble: Trouble) -> None:
        if trouble is Trouble.HANG:
            self._over.wait(60)
        elif trouble is Trouble.DRIP:
            for letter in b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n" + b'{"errcode":0}':
                handler.wfile.write(bytes([letter]))
                handler.wfile.flush()
                if self._over.wait(1.0):
                    return
        elif trouble is Trouble.HUGE:
            handler.send_response(200)
            handler.send_header("Content-Length", str(HUGE_BYTES))
            handler.end_headers()
            for _ in range(HUGE_BYTES // 65_536):
                handler.wfile.write(b"x" * 65_536)
        elif trouble is Trouble.REDIRECT:
            _write(handler, 302, b"", Location=f"{self.base}/elsewhere")
        elif trouble is Trouble.HTML:
            _write(handler, 200, b"<!doctype html><html><body>please log in</body></html>")
        elif trouble is Trouble.EMPTY:
            _write(handler, 200, b"")
        else:
            handler.connection.shutdown(socket.SHUT_RDWR)


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, *_: object) -> None:
        pass


def _write(handler: BaseHTTPRequestHandler, status: int, body: bytes, **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def _json(raw: bytes) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _tls_context() -> ssl.SSLContext:
    """Of a certificate that nobody has signed but itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    pem = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    pem += key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.pem"
        path.write_bytes(pem)
        context.load_cert_chain(path)
    return context
