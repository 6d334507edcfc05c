"""A real HTTP server on loopback: one path, one way to answer, slow, huge and broken ones among them."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

STOP = threading.Event()


class Answers(BaseHTTPRequestHandler):
    """One path, one way to answer; ``/echo`` returns what came."""

    protocol_version = "HTTP/1.1"

    def handle_any(self) -> None:
        self.received = self.rfile.read(int(self.headers.get("content-length", 0)))
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        answer = getattr(self, "answer_" + urlsplit(self.path).path.strip("/").replace("/", "_"))
        answer(query)

    do_GET = do_POST = do_PUT = do_HEAD = do_PURGE = handle_any

    def reply(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in ({"Content_Length": str(len(body))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer_echo(self, query: dict[str, str]) -> None:
        shown = {
            "method": self.command,
            "headers": dict(self.headers),
            "body": self.received.decode(),
            "query": query,
        }
        self.reply(int(query.get("status", 200)), json.dumps(shown).encode())

    def answer_status(self, query: dict[str, str]) -> None:
        headers = {"Retry-After": query["after"]} if "after" in query else {}
        self.reply(int(query["code"]), b"the text of the answer", **headers)

    def answer_redirect(self, query: dict[str, str]) -> None:
        self.reply(302, b"", Location=query["to"])

    def answer_loop(self, _: dict[str, str]) -> None:
        self.reply(302, b"", Location="/loop")

    def answer_bytes(self, query: dict[str, str]) -> None:
        self.reply(200, bytes.fromhex(query["hex"]), Content_Type=query.get("type", "text/plain"))

    def answer_huge(self, _: dict[str, str]) -> None:
        self.reply(200, b"", Content_Length=str(50_000_000))
        for _number in range(50):
            self.wfile.write(b"x" * 1_000_000)

    def answer_bomb(self, _: dict[str, str]) -> None:
        self.reply(200, gzip.compress(b"\0" * 20_000_000), Content_Encoding="gzip")

    def answer_drip(self, query: dict[str, str]) -> None:
        """One byte at a time, in the body or, with ``head``, in the headers."""
        start = (
            b"HTTP/1.1 200 OK\r\nX: "
            if "head" in query
            else b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"
        )
        self.wfile.write(start)
        while not STOP.wait(0.05):
            self.wfile.write(b"x")

    def answer_never(self, _: dict[str, str]) -> None:
        STOP.wait(20)

    def answer_broken(self, _: dict[str, str]) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        self.close_connection = True

    def answer_nonsense(self, _: dict[str, str]) -> None:
        self.wfile.write(b"SSH-2.0-OpenSSH\r\n")
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is what some tests are about."""


@contextmanager
def serving() -> Iterator[str]:
    """A running server; gives its URL without a slash at the end."""
    STOP.clear()
    with Server(("127.0.0.1", 0), Answers) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        STOP.set()
        running.shutdown()
        thread.join()
