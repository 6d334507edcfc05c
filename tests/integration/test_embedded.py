"""The embedded server lives exactly as long as somebody uses its folder, whoever is killed and when."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import redis

from taskkit.embedded import Embedded, valkey
from taskkit.embedded.valkey import ask, peer_pid
from tests.integration.embedded_users import left_in, servers
from tests.waiting import wait_until

PROGRAM = [sys.executable, "-m", "tests.integration.embedded_users"]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "h"
    yield folder
    for pid in servers(folder):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def embedded(home: Path) -> Iterator[Embedded]:
    user = Embedded(home)
    yield user
    user.leave()


class User:
    """Another process that uses the folder and does what it is told."""

    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(
            [*PROGRAM, "obey", str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )

    def __call__(self, order: str) -> str:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> None:
        """End of input: the program ends as Python programs do."""
        self.process.communicate(timeout=20)


@pytest.fixture
def new_user(home: Path) -> Iterator[Callable[[], User]]:
    users: list[User] = []

    def make() -> User:
        users.append(User(home))
        return users[-1]

    yield make
    for user in users:
        if user.process.returncode is None:
            user.kill()


def pid_of(home: Path) -> int | None:
    return peer_pid(home / "valkey.sock")


def test_the_first_starts_it_and_the_last_stops_it(home: Path, embedded: Embedded) -> None:
    assert embedded.peek() is None
    assert not home.exists()
    url = embedded.url()
    assert url == f"unix://{home}/valkey.sock" == embedded.join() == embedded.peek()
    with redis.Redis.from_url(url) as client:
        assert client.ping()
        assert client.config_get("maxmemory-policy")["maxmemory-policy"] == "noeviction"
        assert client.config_get("port")["port"] == "0"
    other = Embedded(home)
    assert other.peek() == url
    assert not other.joined
    other.join()
    embedded.leave()
    embedded.leave()
    assert len(servers(home)) == 1
    other.leave()
    assert other.peek() is None
    assert left_in(home) == []


def test_only_the_owner_can_look_into_the_folder(home: Path, embedded: Embedded) -> None:
    embedded.join()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    wrong = [path.name for path in home.iterdir() if path.stat().st_mode & 0o077]
    assert wrong == []


def test_two_objects_of_one_process_are_two_users(home: Path, new_user: Callable[[], User]) -> None:
    user = new_user()
    user("join 0")
    user("join 1")
    user("leave 0")
    assert len(servers(home)) == 1
    user("leave 1")
    assert left_in(home) == []


def test_the_end_of_a_program_is_leaving(home: Path, new_user: Callable[[], User]) -> None:
    one, two = new_user(), new_user()
    assert one("join") == two("join") == f"unix://{home}/valkey.sock"
    one.end()
    assert len(servers(home)) == 1
    two.end()
    assert left_in(home) == []


def test_a_forked_child_that_never_joined_stops_nothing(home: Path, new_user: Callable[[], User]) -> None:
    user = new_user()
    user("join")
    assert user("fork") == "0"
    assert ask(home / "valkey.sock", b"PING") == b"+PONG\r\n"


def test_a_forked_child_does_not_keep_the_server_alive(home: Path, new_user: Callable[[], User]) -> None:
    user = new_user()
    user("join")
    child = int(user("hold"))
    user("leave")
    assert servers(home) == []
    assert psutil.pid_exists(child)
    os.kill(child, signal.SIGKILL)


def test_after_kill_9_of_all_users_the_next_one_takes_the_orphan_over(
    home: Path, embedded: Embedded, new_user: Callable[[], User]
) -> None:
    one, two = new_user(), new_user()
    one("join")
    two("join")
    (orphan,) = servers(home)
    one.kill()
    two.kill()
    embedded.join()
    assert servers(home) == [orphan]
    embedded.leave()
    assert left_in(home) == []


def test_a_user_killed_before_leaves_the_server_to_the_others(
    home: Path, embedded: Embedded, new_user: Callable[[], User]
) -> None:
    user = new_user()
    user("join")
    embedded.join()
    user.kill()
    assert ask(home / "valkey.sock", b"PING") == b"+PONG\r\n"
    embedded.leave()
    assert left_in(home) == []


def test_a_server_that_was_killed_is_started_again_by_the_next_join(home: Path, embedded: Embedded) -> None:
    url = embedded.join()
    first = pid_of(home)
    assert first
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: servers(home) == [])
    assert embedded.peek() is None
    assert embedded.join() == url
    assert pid_of(home) not in (None, first)


def test_a_server_that_hangs_is_replaced(
    home: Path, embedded: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(valkey, "PATIENCE_S", 0.3)
    monkeypatch.setattr(valkey, "ANSWER_S", 0.1)
    embedded.join()
    first = pid_of(home)
    assert first
    os.kill(first, signal.SIGSTOP)
    Embedded(home).join()
    assert servers(home) == [pid_of(home)] != [first]


def test_a_hanging_server_does_not_survive_its_last_user(
    home: Path, embedded: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(valkey, "ANSWER_S", 0.1)
    embedded.join()
    os.kill(pid_of(home) or 0, signal.SIGSTOP)
    embedded.leave()
    assert left_in(home) == []


def test_stale_files_of_a_dead_server_do_no_harm(home: Path, embedded: Embedded) -> None:
    home.mkdir()
    (home / "valkey.sock").touch()
    (home / "valkey.pid").write_text(str(os.getpid()))
    (home / "valkey.address").write_text(str(home / "valkey.sock"))
    embedded.join()
    assert ask(home / "valkey.sock", b"PING") == b"+PONG\r\n"
    embedded.leave()
    assert left_in(home) == []


@pytest.mark.parametrize("again", [False, True])
def test_a_folder_removed_in_use_leaves_no_server(home: Path, embedded: Embedded, again: bool) -> None:
    embedded.join()
    shutil.rmtree(home)
    if again:
        embedded.join()
        assert len(servers(home)) == 1
    embedded.leave()
    assert servers(home) == []
    assert home.exists() is again


def test_whoever_leaves_waits_until_the_server_has_ended(
    home: Path, embedded: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was killed lives on for a moment, longer on a busy machine."""
    kill = os.kill
    monkeypatch.setattr("os.kill", lambda *how: threading.Timer(0.3, kill, how).start())
    embedded.join()
    shutil.rmtree(home)
    embedded.leave()
    assert servers(home) == []


@pytest.mark.parametrize("kind", ["peaceful", "deadly"])
def test_twenty_at_once_never_meet_a_dead_server_nor_leave_one_nor_start_two(
    home: Path, embedded: Embedded, kind: str
) -> None:
    home.mkdir(mode=0o700)
    done = subprocess.run(
        [*PROGRAM, kind, str(home), "20", "15"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    if kind == "deadly":
        embedded.join()
        embedded.leave()
    assert set((home / "starts").read_text().split("\n")) == {"start", ""}
    assert left_in(home) == []
