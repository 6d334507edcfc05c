"""The embedded server in any folder: long paths, odd names, folders that cannot be, programs that are missing."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import redis

from taskkit.embedded import Embedded, valkey
from taskkit.embedded.valkey import find_program
from taskkit.errors import EmbeddedError
from tests.integration.embedded_users import left_in, servers


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temp dir with a short name."""
    with tempfile.TemporaryDirectory(prefix="tk", dir="/tmp") as folder:
        monkeypatch.setattr("tempfile.tempdir", folder)
        yield Path(folder)


def test_a_long_path_has_its_socket_in_a_private_short_folder(
    tmp_path: Path, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / ("long" * 30)
    one, two = Embedded(home), Embedded(home)
    url = one.join()
    (folder,) = short.iterdir()
    assert url == f"unix://{folder}/valkey.sock"
    assert len(os.fsencode(folder)) < 100
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    monkeypatch.setattr("tempfile.tempdir", "/elsewhere")
    assert two.join() == url == two.peek()
    one.leave()
    two.leave()
    assert list(short.iterdir()) == []


def test_a_folder_of_somebody_else_in_the_temp_dir_is_refused(tmp_path: Path, short: Path) -> None:
    home = tmp_path / ("long" * 30)
    trap = valkey.socket_path(home).parent
    trap.mkdir()
    trap.chmod(0o777)
    (trap / "theirs").touch()
    with pytest.raises(EmbeddedError, match="not a private folder"):
        Embedded(home).join()


@pytest.mark.parametrize("name", ["with space", "üñí-任务", "quote'\"$x", "per%cent?", "new\nline"])
def test_any_name_of_a_folder_works(tmp_path: Path, name: str) -> None:
    embedded = Embedded(tmp_path / name)
    with redis.Redis.from_url(embedded.join()) as client:
        assert client.ping()
    embedded.leave()
    assert servers(tmp_path / name) == []


def test_a_home_that_cannot_be_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for home in (tmp_path / "file", tmp_path / "file" / "deeper", Path("/proc/1/taskkit")):
        with pytest.raises(EmbeddedError, match=r"^home .* cannot be used: .*; set TASKKIT_HOME to .*$"):
            Embedded(home).join()


def test_a_missing_program_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(valkey, "wheel_program", lambda: None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EmbeddedError, match=r"pip install 'taskkit\[embedded\]'"):
        Embedded(tmp_path / "h").join()


def test_a_program_that_does_not_start_is_told_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, fake = tmp_path / "h", tmp_path / "fake"
    fake.write_text("#!/bin/sh\necho no more memory\n")
    fake.chmod(0o700)
    monkeypatch.setattr(valkey, "wheel_program", lambda: str(fake))
    with pytest.raises(EmbeddedError, match="did not start: no more memory"):
        Embedded(home).join()
    assert left_in(home) == []


def test_the_program_of_the_wheel_is_found_without_loading_a_redis_client() -> None:
    code = "import sys, taskkit.embedded.valkey as v; print(v.find_program(), 'redis' in sys.modules, 'valkey' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [find_program(), "False", "False"]


def test_a_large_log_is_begun_anew(tmp_path: Path) -> None:
    home = tmp_path / "h"
    home.mkdir()
    embedded = Embedded(home)
    (home / "valkey.log").write_bytes(b"x" * (valkey.LOG_BYTES + 1))
    embedded.join()
    assert (home / "valkey.log").stat().st_size < 10_000
    embedded.leave()


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = psutil.Process().num_fds()
    for _ in range(3):
        embedded = Embedded(tmp_path / "h")
        embedded.join()
        embedded.leave()
    assert psutil.Process().num_fds() == before
