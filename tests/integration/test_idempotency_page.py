"""The program of docs/idempotency.md, run by a real worker: every task twice, every effect once."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import sqlalchemy as sa

from taskkit import RunContext, context
from taskkit.clock import utc_now
from taskkit.errors import LockTimeout
from tests.processes import Installation, on_servers
from tests.servers import MariaDB, Valkey

PAGE = Path(__file__).parents[2] / "docs/idempotency.md"


@pytest.fixture(scope="module", params=["embedded", "servers"])
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A scheduler and a worker of the page's program."""
    folder = tmp_path_factory.mktemp("page")
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (folder / "tasks.py").write_text("\n\n".join(blocks))
    options = {"worker_processes": 2}
    if request.param == "embedded":
        with Installation(folder, **options) as opened:
            yield started(opened)
        return
    mariadb: MariaDB = request.getfixturevalue("mariadb")
    valkey: Valkey = request.getfixturevalue("valkey")
    with on_servers(folder, mariadb.url, valkey.url, **options) as opened:
        yield started(opened)


def started(home: Installation) -> Installation:
    page = program(home)
    home.kit.center.now()  # the embedded default makes its database
    page.make_tables()
    page.engine().dispose()
    both = home.begin("scheduler"), home.begin("worker", "--app", "tasks:kit")
    for process in both:
        process.ready()
    return home


def program(home: Installation) -> ModuleType:
    """The page's program in this process, on the same installation."""
    spec = importlib.util.spec_from_file_location("page_tasks", home.folder / "tasks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.kit._settings = home.settings
    return module


def twice(home: Installation, code: str, **payload: Any) -> list[Any]:
    """The results of two tasks of this code, one after the other."""
    return [home.kit.result(home.enqueue(code, payload), timeout=30) for _ in range(2)]


def rows(home: Installation, statement: str) -> list[Any]:
    engine = home.kit.center.database.engine
    with engine.begin() as connection:
        result = connection.execute(sa.text(statement))
        return [tuple(row) for row in result] if result.returns_rows else []


def test_a_unique_id(home: Installation) -> None:
    assert twice(home, "pay", payment_id="p-1", amount=5) == ["paid", "was paid before"]
    assert rows(home, "SELECT payment_id, amount FROM payments") == [("p-1", 5)]


def test_a_version(home: Installation) -> None:
    rows(home, "INSERT INTO accounts (id, balance, version) VALUES (1, 100, 7)")
    assert twice(home, "deposit", account=1, amount=5, version=7) == ["deposited", "somebody was first"]
    assert rows(home, "SELECT balance, version FROM accounts") == [(105, 8)]


def test_the_attempt_as_a_fence(home: Installation) -> None:
    task_id = home.enqueue("export", {"body": "by the worker"})
    assert home.kit.result(task_id, timeout=30) == "written"
    page = program(home)
    for attempt, body, answer in [
        (3, "third", "written"),
        (3, "third again", "written"),
        (2, "second, late", "refused: a later attempt was here"),
    ]:
        context.enter(RunContext(task_id, "export", attempt, "export", utc_now(), "trace"))
        try:
            assert page.export.fn(body) == answer
        finally:
            context.enter(None)
    page.engine().dispose()
    assert rows(home, "SELECT attempt, body FROM exports") == [(3, "third again")]


def test_once_in_a_transaction(home: Installation) -> None:
    assert twice(home, "book", order=42, seats=2) == ["booked", "was booked before"]
    ids = home.enqueue_many("book", [{"order": 43, "seats": 1}] * 20)
    home.wait_all(ids)
    assert sorted(home.kit.result(task_id) for task_id in ids) == ["booked"] + ["was booked before"] * 19
    assert rows(home, "SELECT order_id, seats FROM bookings ORDER BY order_id") == [(42, 2), (43, 1)]


def test_once_in_redis(home: Installation) -> None:
    assert twice(home, "notify", order=42) == ["sent", "was sent before"]


def test_a_lock(home: Installation) -> None:
    assert twice(home, "nightly", days=3) == ["written", "written"]
    assert {fence for (fence,) in rows(home, "SELECT fence FROM reports")} == {2}
    page = program(home)
    assert not page.write_report(1, "by a holder that lost it", 1)
    assert rows(home, "SELECT body FROM reports WHERE day = 1") == [("report of day 1",)]
    with home.kit.lock("nightly"):
        with pytest.raises(LockTimeout):
            page.nightly.fn(1)
        task_id = home.enqueue("nightly", {"days": 1}, max_retry=0)
        home.wait(task_id)
        assert "LockTimeout: lock nightly was not free" in str(home.task(task_id).last_result)
    page.engine().dispose()
    page.kit.close()
