"""``taskkit cron explain``."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from taskkit.clock import parse_instant
from tests.commands import done


def explain(*arguments: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = done("cron", "explain", *arguments, "--json").json
    assert all(list(one) == ["utc", "local", "note"] for one in found)
    return found


def test_the_day_the_clock_goes_forward_is_marked() -> None:
    found = explain(
        "30 2 * * *", "--tz", "America/New_York", "--after", "2026-03-06T17:00:00Z", "--count", "3"
    )
    assert [one["utc"] for one in found] == [
        "2026-03-07T07:30:00Z",
        "2026-03-08T07:00:00Z",
        "2026-03-09T06:30:00Z",
    ]
    assert found[1]["local"] == "2026-03-08T03:00:00-04:00"
    assert "02:30 does not exist" in found[1]["note"]
    assert found[0]["note"] == found[2]["note"] == ""


@pytest.mark.parametrize(("overlap", "hours"), [("first", [5]), ("second", [6]), ("both", [5, 6])])
def test_the_policies_can_be_tried(overlap: str, hours: list[int]) -> None:
    options = ("--tz", "America/New_York", "--after", "2026-11-01T00:00:00Z", "--overlap", overlap)
    found = [parse_instant(one["utc"]) for one in explain("30 1 * * *", *options, "--count", "2")]
    assert [at.hour for at in found if at.day == 1] == hours


def test_seconds_and_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    found = explain("*/10 * * * * *")
    assert len(found) == 10
    first = parse_instant(found[0]["utc"])
    assert 0 < (first - datetime.now(UTC)).total_seconds() + 5 <= 15
    assert found[0]["local"].endswith("+00:00")
    monkeypatch.setenv("TASKKIT_TIMEZONE", "Asia/Shanghai")
    assert explain("0 9 * * *")[0]["utc"].endswith("T01:00:00Z")


def test_the_table_for_people() -> None:
    shown = done(
        "cron", "explain", "0 2 * * *", "--tz", "Asia/Shanghai", "--after", "2026-03-01T00:00:00Z"
    ).out
    assert "local time in Asia/Shanghai" in shown
    assert "2026-03-01T18:00:00Z  Mon 2026-03-02 02:00:00 +0800" in shown
