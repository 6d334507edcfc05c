"""The page of the watchdog: every shipped rule, every metric, and times that follow from the rules' own numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from taskkit.clock import parse_span
from taskkit.watchdog.metrics import Numbers, RunCounters, families
from taskkit.watchdog.rules import shipped
from tests.unit.test_project import table_under

PAGE = Path(__file__).parents[2] / "docs/watchdog.md"
JOINS_S, CALL_S = 5.0, 2.0


class Nobody:
    """A task center without a single run."""

    gauges = property(lambda self: self)

    def newest_run(self) -> int:
        return 0


def test_every_shipped_rule_has_its_row_in_order() -> None:
    rows = [row[0].strip("`") for row in table_under(PAGE, "## Rules")]
    assert rows == [rule.id for rule in shipped()]


@pytest.mark.parametrize("number", range(13))
def test_a_documented_time_is_no_shorter_than_the_rules_numbers_make_it(number: int) -> None:
    rule, row = shipped()[number], table_under(PAGE, "## Rules")[number]
    times = re.findall(r"(\d+) (min|s)\b", row[2].split(";")[0])
    told = sum(parse_span(f"{count}{unit[0]}") for count, unit in times)
    after = 0.0 if rule.id in {"backlog", "success_rate", "given_up", "forecast", "lost"} else _after(rule)
    assert told >= after + float(rule.every) + JOINS_S + CALL_S, (rule.id, told)
    if after == 0.0:
        assert told >= float(rule.hold) + float(rule.every) + JOINS_S + CALL_S, (rule.id, told)


def _after(rule: object) -> float:
    """How long it must have lasted; where the check knows since when, ``for`` has passed by then."""
    lasted = [float(getattr(rule, name)) for name in ("after", "no_scan") if hasattr(rule, name)]
    return max([*lasted, float(getattr(rule, "hold", 0.0))])


def test_every_metric_has_its_row() -> None:
    counters = RunCounters(Nobody())  # type: ignore[arg-type]
    served = {one.name for one in families(Numbers(answered=True), counters)}
    rows = table_under(PAGE, "## Metrics")
    told = {name.removesuffix("_total") for row in rows for name in re.findall(r"`(taskkit_\w+)`", row[0])}
    assert told == served
