"""What is sent to MySQL, packet by packet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from taskkit.center.wires import MySQLWire


@contextmanager
def trips() -> Iterator[list[str]]:
    """What is sent to MySQL meanwhile, a text for each packet."""
    found: list[str] = []
    send = MySQLWire._execute_command

    def note(self: Any, command: int, text: Any) -> None:
        found.append(text.decode() if isinstance(text, bytes) else text)
        send(self, command, text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MySQLWire, "_execute_command", note)
        yield found
