"""``taskkit limits``, what other commands say of limits, and how tasks get their keys."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from taskkit import Settings, Taskkit
from taskkit.center import TaskCenter
from taskkit.errors import InputError, NotFound
from taskkit.testing import Sandbox
from tests.bounded import Bounded, limited
from tests.centers import new
from tests.commands import built, done, refused


@pytest.fixture
def center(tmp_path: Path) -> Iterator[TaskCenter]:
    built()
    found = TaskCenter(f"sqlite:///{tmp_path}/.taskkit/taskkit.db")
    yield found
    found.close()


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Taskkit]:
    found = Taskkit(Settings(home=tmp_path / "home"))
    yield found
    found.close()


def over(center: TaskCenter, count: int = 4) -> list[int]:
    """Tasks with one key, of which one runs and the others wait."""
    limited(center, key="customer:*", concurrency=1, rate="100/min")
    ids = center.intake.insert([new(limit_key="customer:17") for _ in range(count)])
    Bounded(center).dispatcher.scan()
    return ids


def test_limits_are_set_shown_changed_and_removed(center: TaskCenter) -> None:
    assert "no limit is set" in done("limits").out
    assert done("limits", "set", "--queue", "mail", "--concurrency", 5).out == "queue mail: 5 at once\n"
    assert done("limits", "set", "--key", "stripe", "--rate", "30/10s").out == "key stripe: 30/10s\n"
    done("limits", "set", "--queue", "mail", "--concurrency", 2, "--rate", "6000/h")
    assert done("limits", "--json").json == [
        {
            "scope": scope, "name": name, "limit": name, "terms": terms, "concurrency": concurrency, "rate": rate,
            "in_use": 0, "waiting": 0, "oldest_due_at": None,
        }
        for scope, name, terms, concurrency, rate in (
            ("key", "stripe", "30/10s", None, "30/10s"),
            ("queue", "mail", "2 at once, 6000/h", 2, "6000/h"),
        )
    ]  # fmt: skip
    shown = done("limits").out
    assert "queue mail" in shown
    assert "6000/h" in shown
    assert "no limit of key stripe any more" in done("limits", "remove", "--key", "stripe").out
    assert [one["name"] for one in done("limits", "--json").json] == ["mail"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("set --queue mail", "concurrency: give it, or rate"),
        ("set --concurrency 5", "queue: name either a queue or a key"),
        ("set --queue a --key b --concurrency 5", "queue: name either a queue or a key"),
        ("set --queue a --rate often", "rate: must be like 100/s"),
        ("set --queue a --concurrency 0", "0 is not in the range"),
    ],
)
def test_a_limit_that_means_nothing_is_refused_in_one_line(center: TaskCenter, words: str, told: str) -> None:
    assert told in refused("limits", *words.split())


def test_a_limit_that_is_not_there_cannot_be_removed(center: TaskCenter) -> None:
    assert "there is no limit of key x; `taskkit limits` shows" in refused(
        "limits", "remove", "--key", "x", code=1
    )


def test_status_and_show_say_what_a_task_waits_for(center: TaskCenter) -> None:
    *_, last = over(center)
    told = "3 tasks wait for the limit of key customer:17 (1 at once, 100/min; 1 in use)"
    assert told in done("status").out
    (limit,) = done("status", "--json").json["limits"]
    assert (limit["name"], limit["limit"], limit["in_use"], limit["waiting"]) == (
        "customer:17",
        "customer:*",
        1,
        3,
    )
    found = done("tasks", "show", last, "--json").json
    assert (found["status_name"], found["held_reason"]) == ("held", "over a limit: key customer:17")
    assert found["waits_for"] == "key customer:17: 1 at once, 100/min; 1 in use, 2 before it"
    assert "2 before it" in done("tasks", "show", last).out
    assert "over a limit: key customer:17" in done("tasks", "list", "--status", "held").out


def test_a_key_by_the_command_line(center: TaskCenter) -> None:
    assert done("enqueue", "mail", "--limit-key", "k", "--json").json["limit_key"] == "k"
    assert "limit_key: must not end with *" in refused("enqueue", "mail", "--limit-key", "k*")


# keys in Python


def test_a_task_has_the_key_of_its_handler_or_its_own(kit: Taskkit) -> None:
    @kit.task("export", limit_key="customer:{customer_id}")
    def export(customer_id: int, note: str = "") -> None: ...

    at = datetime.now(UTC) + timedelta(days=1)
    ids = [
        export.enqueue(customer_id=17),
        export.options(limit_key="special").enqueue(customer_id=17),
        export.cron("0 0 1 1 *", customer_id=18),
        kit.producer.enqueue("export", {"customer_id": 19}, at=at),
        *kit.producer.enqueue_many(
            [
                {"code": "export", "payload": {"customer_id": 20}},
                {"code": "other"},
                {"code": "other", "limit_key": "k", "unique_key": "u"},
            ]
        ),
    ]
    keys = [kit.center.read.task(task_id).limit_key for task_id in ids]
    assert keys == ["customer:17", "special", "customer:18", "customer:19", "customer:20", None, "k"]


def test_a_key_joins_the_callers_transaction(kit: Taskkit) -> None:
    with kit.center.database.engine.connect() as connection:
        task_id = kit.producer.enqueue("x", limit_key="k", connection=connection)
        connection.commit()
    assert kit.center.read.task(task_id).limit_key == "k"


def test_a_handlers_key_names_arguments_that_it_has(kit: Taskkit) -> None:
    with pytest.raises(
        InputError, match=r"limit_key: .* has no argument 'customer'; did you mean 'customer_id'"
    ):
        kit.task("export", limit_key="customer:{customer}")(lambda customer_id: None)
    with pytest.raises(InputError, match="limit_key: must not end with"):
        kit.task("export", limit_key="customer:*")
    handler = kit.task("any", limit_key="c:{x}")(lambda **more: None)
    with pytest.raises(InputError, match="needs x to be text or a whole number, not None"):
        handler.enqueue()


def test_a_limit_by_the_kit_is_recorded_with_who_set_it(kit: Taskkit) -> None:
    limit = kit.operations.set_limit(queue="mail", concurrency=5, rate="100/s", actor="ann")
    assert str(limit) == "queue mail"
    kit.operations.remove_limit(queue="mail", actor="bob")
    with pytest.raises(NotFound, match="there is no limit of queue mail"):
        kit.operations.remove_limit(queue="mail")
    with kit.center.database.engine.connect() as connection:
        rows = connection.execute(sa.text("SELECT actor, action, detail FROM task_action ORDER BY id")).all()
    assert [tuple(row) for row in rows] == [
        ("ann", "limit", "queue mail: 5 at once, 100/s"),
        ("bob", "limit", "queue mail: removed"),
    ]


def test_limits_hold_in_a_sandbox(kit: Taskkit) -> None:
    seen: list[tuple[int, float]] = []

    @kit.task("send", limit_key="customer:{customer}")
    def send(customer: int) -> None:
        seen.append((customer, (box.now - began).total_seconds()))

    with Sandbox(kit) as box:
        began = box.now
        kit.operations.set_limit(key="customer:*", rate="10/min")
        for customer in (1, 2):
            for _ in range(12):
                send.enqueue(customer=customer)
        assert box.run() == 4
        box.advance(59)
        assert [sum(1 for one, _ in seen if one == customer) for customer in (1, 2)] == [10, 10]
        box.advance(60)
    assert [at for customer, at in seen if customer == 1] == pytest.approx(
        [0, 0, *range(6, 54, 6), 60, 60], abs=0.01
    )
