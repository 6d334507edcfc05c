"""A payload is held against its handler's signature: names, and types where they are plain JSON ones."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import pytest

from taskkit import Taskkit
from taskkit.errors import InputError, PayloadError

kit = Taskkit()


@kit.task("greet")
def greet(
    name: str,
    times: int = 1,
    factor: float = 1.0,
    tags: list[str] | None = None,
    mode: Literal["loud", "soft"] = "soft",
    when: datetime | None = None,
    options: dict[str, int] = None,  # type: ignore[assignment]  # noqa: RUF013 - people write it so
    **more: Any,
) -> None: ...


@pytest.mark.parametrize(
    "payload",
    [
        {"name": "Ada"},
        {"name": "Ada", "factor": 3},
        {"name": "Ada", "tags": ["a", "b"], "mode": "loud"},
        {"name": "Ada", "tags": None, "options": None},
        {"name": "Ada", "when": "2026-03-01T09:00:00+08:00"},
        {"name": "Ada", "anything": [1, {}]},
    ],
)
def test_what_fits_is_taken_unchanged(payload: dict[str, Any]) -> None:
    greet.check_payload(payload)
    assert greet.payload(**payload) == payload


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        ({"name": 5}, "$.name"),
        ({"name": None}, "$.name"),
        ({"name": "Ada", "times": "3"}, "$.times"),
        ({"name": "Ada", "times": True}, "$.times"),
        ({"name": "Ada", "times": 1.5}, "$.times"),
        ({"name": "Ada", "tags": ["a", 1]}, "$.tags"),
        ({"name": "Ada", "mode": "shrill"}, "$.mode"),
        ({"name": "Ada", "options": {"a": "b"}}, "$.options"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_by_its_path(payload: dict[str, Any], path: str) -> None:
    with pytest.raises(PayloadError) as caught:
        greet.check_payload(payload)
    assert caught.value.field == "payload"
    assert path in str(caught.value)
    assert "does not fit greet: " in str(caught.value)


def test_a_missing_name_is_refused() -> None:
    with pytest.raises(PayloadError, match="name"):
        greet.check_payload({"nam": "Ada"})


def test_a_handler_that_takes_arguments_by_position_only_is_refused() -> None:
    with pytest.raises(InputError, match="positional only"):

        @kit.task("by_position")
        def by_position(name: str, /) -> None: ...


def test_annotations_that_cannot_be_read_are_left_alone() -> None:
    def odd(name: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821 - on purpose

    kit.task("odd")(odd).check_payload({"name": 5})
    assert kit.registry["odd"].payload(name=5) == {"name": 5}
