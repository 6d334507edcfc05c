"""What parent, nursery and children say to each other: length-prefixed msgpack frames over Unix sockets."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import msgspec

LENGTH = struct.Struct("!I")
CHUNK = 1 << 18
LONGEST = 1 << 30


class ChildJob(msgspec.Struct, array_like=True, frozen=True):
    """One attempt for a child. ``seq`` counts the jobs of a child, ``slot`` is its place in the marks."""

    seq: int
    slot: int
    task_id: int
    attempt: int
    code: str
    queue: str
    payload: str
    timeout: float
    trace_id: str
    occurrence_at: str | None
    mode: str


class RunJobs(msgspec.Struct, array_like=True, frozen=True, tag="run"):
    """Parent to child: begin these in their order, so many at once if they are not ``sync``."""

    jobs: list[ChildJob]
    at_once: int = 1


class Cancel(msgspec.Struct, array_like=True, frozen=True, tag="cancel"):
    """Parent to child: end this async job, and say ``outcome`` of it."""

    seq: int
    outcome: str


class ExitWhenIdle(msgspec.Struct, array_like=True, frozen=True, tag="finish"):
    """Parent to child: exit when idle."""


class EnqueueAnswer(msgspec.Struct, array_like=True, frozen=True, tag="answer"):
    """Parent to child: the ids of what was enqueued, or the error (class name, field, message)."""

    ids: list[int]
    error: tuple[str, str, str] | None = None


class Done(msgspec.Struct, array_like=True, frozen=True, tag="done"):
    """Child to parent: a job's end; instants are monotonic seconds."""

    seq: int
    outcome: str
    started: float
    ended: float
    result: str | None = None
    line: str | None = None
    error: str | None = None
    traceback: str | None = None
    delay: float | None = None


class Enqueue(msgspec.Struct, array_like=True, frozen=True, tag="enqueue"):
    """Child to parent: write these tasks; each is the fields of a NewTask as msgpack."""

    tasks: list[bytes]


class Progress(msgspec.Struct, array_like=True, frozen=True, tag="progress"):
    """Child to parent: how far a job is."""

    seq: int
    fraction: float
    text: str


class HandlerInfo(msgspec.Struct, frozen=True):
    """What the parent knows of a handler."""

    code: str
    mode: str
    queue: str | None
    retry_delays: tuple[float, ...] | None
    jitter: float


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """Nursery to parent: the application is loaded (or why not); its handlers and its own settings."""

    error: str | None
    handlers: list[HandlerInfo]
    settings: bytes | None = None


class Spawn(msgspec.Struct, frozen=True, tag="spawn"):
    """Parent to nursery: fork a child; its socket, its marks and its stacks travel along as descriptors."""

    number: int


class Kill(msgspec.Struct, frozen=True, tag="kill"):
    """Parent to nursery: send a signal to a child's process group."""

    number: int
    signal: int


class Born(msgspec.Struct, frozen=True, tag="born"):
    """Nursery to parent: a child is there."""

    number: int
    pid: int


class Died(msgspec.Struct, frozen=True, tag="died"):
    """Nursery to parent: a child and its process group are gone; ``code`` < 0 is the signal that ended it."""

    number: int
    code: int


ToChild = RunJobs | Cancel | ExitWhenIdle | EnqueueAnswer
FromChild = Done | Enqueue | Progress
ToNursery = Spawn | Kill
FromNursery = Hello | Born | Died

_encoder = msgspec.msgpack.Encoder()
to_child = msgspec.msgpack.Decoder(ToChild)
from_child = msgspec.msgpack.Decoder(FromChild)
to_nursery = msgspec.msgpack.Decoder(ToNursery)
from_nursery = msgspec.msgpack.Decoder(FromNursery)


def pack(frame: msgspec.Struct) -> bytearray:
    """A frame as bytes with its length in front."""
    room = bytearray(4)
    _encoder.encode_into(frame, room, 4)
    LENGTH.pack_into(room, 0, len(room) - 4)
    return room


class Unpacker:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add what was received; yields the bodies of all frames that are complete."""
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= 4:
                (size,) = LENGTH.unpack_from(buffer, start)
                if size > LONGEST:
                    raise ValueError(f"a frame of {size} bytes: something else was written into the pipe")
                if len(buffer) - start - 4 < size:
                    break
                start += 4 + size
                yield bytes(buffer[start - size : start])
        finally:
            del buffer[:start]


def receive(sock: socket.socket) -> bytes | None:
    """Some bytes from a socket; b"" at its end (or when it was reset), None when there is nothing now."""
    try:
        return sock.recv(CHUNK)
    except (BlockingIOError, InterruptedError):
        return None
    except (ConnectionResetError, BrokenPipeError):
        return b""
