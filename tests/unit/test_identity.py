"""The identity of a process: readable, unique, and short enough for its columns."""

from __future__ import annotations

import os
import socket

import pytest

from taskkit.identity import new_identity


def test_an_identity_tells_host_and_process_and_is_never_made_twice() -> None:
    made = {new_identity() for _ in range(1000)}
    assert len(made) == 1000
    assert {one.rpartition(":")[0] for one in made} == {f"{socket.gethostname()}:{os.getpid()}"}


@pytest.mark.parametrize(
    ("host", "shown"),
    [("a:b", "a-b"), ("we\x00b\n1", "web1"), ("\udcffweb", "web"), ("wébé", "wébé"), ("x" * 300, "x" * 80)],
)
def test_whatever_a_host_is_called_its_identity_has_three_parts_and_fits(
    monkeypatch: pytest.MonkeyPatch, host: str, shown: str
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    made = new_identity(8)
    assert made.split(":")[:2] == [shown, str(os.getpid())]
    assert len(made.split(":")) == 3
    assert len(made) <= 120
