"""What the producer refuses: by the name of the field, in one line, with nothing written."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from taskkit import Taskkit
from taskkit.errors import CronError, InputError, NotFound, PayloadError, ResultTimeout
from taskkit.registry import Handler
from taskkit.states import Status

pytest_plugins = ["tests.center_fixtures", "tests.producing"]

BEFORE_TIME = datetime(1969, 12, 31, tzinfo=UTC)
"""Refused by the task center, which does not know the place in the list."""
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("task_code", {"code": ""}),
    ("task_code", {"code": 7}),
    ("task_code", {"code": "x" * 65}),
    ("task_code", {"code": " x"}),
    ("task_code", {"code": "a\nb"}),
    ("task_code", {"code": "\ud800"}),
    ("payload", {"payload": []}),
    ("payload", {"payload": "x"}),
    ("payload", {"payload": 0}),
    ("payload", {"payload": {"x": float("nan")}}),
    ("payload", {"payload": {"x": float("inf")}}),
    ("payload", {"payload": {"d": datetime(2026, 1, 1, tzinfo=UTC)}}),
    ("payload", {"payload": {"d": datetime(2026, 1, 1)}}),
    ("payload", {"payload": {"m": Decimal("0.10")}}),
    ("payload", {"payload": {"b": b"\xff"}}),
    ("payload", {"payload": {"s": {1, 2}}}),
    ("payload", {"payload": {1: "a"}}),
    ("payload", {"payload": {"t": (1, 2)}}),
    ("payload", {"payload": {"u": "\ud800"}}),
    ("payload", {"payload": {"n": 2**64}}),
    ("payload", {"payload": {"big": "x" * 262_144}}),
    ("delay", {"delay": -1}),
    ("delay", {"delay": float("nan")}),
    ("delay", {"delay": "60"}),
    ("delay", {"delay": True}),
    ("delay", {"delay": 10 * 31_536_000 + 1}),
    ("at", {"at": datetime(2030, 1, 1)}),
    ("at", {"at": "2030-01-01T00:00:00Z"}),
    ("at", {"at": BEFORE_TIME}),
    ("priority", {"priority": 10}),
    ("priority", {"priority": -1}),
    ("priority", {"priority": 1.0}),
    ("priority", {"priority": True}),
    ("timeout", {"timeout": 0}),
    ("timeout", {"timeout": 2**31}),
    ("max_retry", {"max_retry": -1}),
    ("max_retry", {"max_retry": 256}),
    ("max_retry", {"max_retry": 300}),
    ("retry_delays", {"retry_delays": []}),
    ("retry_delays", {"retry_delays": "5,30"}),
    ("retry_delays", {"retry_delays": [5, -1]}),
    ("retry_delays", {"retry_delays": [5, float("inf")]}),
    ("retry_delays", {"retry_delays": list(range(100, 200))}),
    ("queue", {"queue": "x" * 65}),
    ("queue", {"queue": ""}),
    ("queue", {"queue": 5}),
    ("unique_key", {"unique_key": ""}),
    ("unique_key", {"unique_key": "x" * 191}),
    ("unique_key", {"unique_key": 5}),
    ("expires_at", {"expires_at": datetime(2030, 1, 1)}),
    ("expires_at", {"expires_at": "tomorrow"}),
    ("trace_id", {"trace_id": "x" * 65}),
    ("trace_id", {"trace_id": 7}),
    ("cron", {"cron": "99 * * * *"}),
    ("cron", {"cron": "* * * *"}),
    ("cron", {"cron": "* * * * * * *"}),
    ("cron", {"cron": "0 0 30 2 *"}),
    ("cron", {"cron": ""}),
    ("cron", {"cron": 5}),
    ("cron", {"cron": "@reboot"}),
    ("timezone", {"cron": "* * * * *", "timezone": "Mars/Olympus"}),
    ("timezone", {"cron": "* * * * *", "timezone": "../etc/passwd"}),
    ("timezone", {"timezone": "UTC"}),
    ("timezone", {"delay": 5, "timezone": "UTC"}),
    ("misfire", {"cron": "* * * * *", "misfire": "never"}),
    ("dst_gap", {"cron": "* * * * *", "dst_gap": "before"}),
    ("dst_overlap", {"cron": "* * * * *", "dst_overlap": "third"}),
    ("at", {"delay": 5, "at": datetime(2030, 1, 1, tzinfo=UTC)}),
    ("cron", {"at": datetime(2030, 1, 1, tzinfo=UTC), "cron": "* * * * *"}),
    ("connection", {"connection": "mysql://"}),
    ("connection", {"connection": object()}),
]


def test_guarantee_8_everything_wrong_is_refused_by_its_name_and_nothing_is_written(kit: Taskkit) -> None:
    for field, given in REFUSED:
        options = {"code": "x", "payload": {}} | given
        with pytest.raises(InputError) as caught:
            kit.producer.enqueue(**options)
        error = caught.value
        assert error.field == field, (given, str(error))
        assert str(error).startswith(f"{field}: ")
        assert "\n" not in str(error)
        if "connection" not in options and given != {"at": BEFORE_TIME}:
            good: dict[str, Any] = {"code": "x"}
            with pytest.raises(type(error)) as caught:
                kit.producer.enqueue_many([good, options, good])
            assert caught.value.field == f"tasks[1].{field}", given
    assert kit.center.read.counts()[Status.PENDING] == 0


def test_guarantee_8_the_path_of_a_bad_value_is_told(kit: Taskkit) -> None:
    with pytest.raises(PayloadError, match=r"payload: \$\.a\[1\]\.b is nan"):
        kit.producer.enqueue("x", {"a": [1, {"b": float("nan")}]})


@pytest.mark.parametrize("field", ["at", "expires_at"])
@pytest.mark.parametrize(
    "instant", [datetime(2040, 1, 1, tzinfo=UTC), datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC)]
)
def test_rule_24_guarantee_8_an_instant_the_database_cannot_hold_is_refused(
    kit: Taskkit, field: str, instant: datetime
) -> None:
    given: dict[str, Any] = {field: instant}
    if kit.center.database.sqlite:
        assert kit.producer.enqueue("x", **given)
        return
    with pytest.raises(InputError, match="which the database can hold") as caught:
        kit.producer.enqueue("x", **given)
    assert caught.value.field == field


def test_what_does_not_fit_the_handler_is_refused(kit: Taskkit, handler: Handler[..., None]) -> None:
    for call in (
        handler.enqueue,
        lambda: handler.enqueue(to="x", cc="y"),
        lambda: handler.options(priority=1).enqueue("a", "b", "c"),
        lambda: kit.producer.enqueue("send_email", {"subject": "x"}),
        lambda: kit.producer.enqueue("send_email"),
        lambda: kit.producer.enqueue_many([{"code": "send_email", "payload": {"To": "x"}}]),
        lambda: handler.cron("* * * * *", subject="x"),
    ):
        with pytest.raises(PayloadError, match=r"does not fit send_email: .*; it takes to, subject"):
            call()
    assert kit.center.read.counts()[Status.PENDING] == 0


@pytest.mark.parametrize(
    ("tasks", "field"),
    [
        ([{"payload": {}}], "tasks[0].code"),
        ([{"code": "x", "prioritty": 5}], "tasks[0].prioritty"),
        ([{"code": "x"}, "x"], "tasks[1].task"),
        ([{"code": "x", 5: 1}], "tasks[0].5"),
        ([{"code": "x", "connection": None}], "tasks[0].connection"),
    ],
)
def test_a_bulk_item_that_is_no_task_is_refused(kit: Taskkit, tasks: Any, field: str) -> None:
    with pytest.raises(InputError) as caught:
        kit.producer.enqueue_many(tasks)
    assert caught.value.field == field
    assert kit.center.read.counts()[Status.PENDING] == 0


def test_an_unknown_option_is_a_type_error(kit: Taskkit) -> None:
    with pytest.raises(TypeError, match="prioritty"):
        kit.producer.enqueue("x", prioritty=5)  # type: ignore[call-arg]
    with pytest.raises(CronError):
        kit.producer.enqueue("x", cron="0 0 31 4 *")


def test_results_are_refused_by_name(kit: Taskkit) -> None:
    task_id = kit.producer.enqueue("x")
    with pytest.raises(ResultTimeout, match=f"task {task_id} had not ended after 0.05 s"):
        kit.result(task_id, timeout=0.05)
    with pytest.raises(NotFound, match="there is no task 999999"):
        kit.result(999_999, timeout=0.05)
