"""Every promise has a test that bears its name: the rules of the core, the guarantees, and the cases from the field."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
RULES = [f"rule_{number:02d}" for number in range(1, 29)]
GUARANTEES = [f"guarantee_{number}" for number in range(1, 9)]
CASES = [
    f"{family}_{number:02d}"
    for family, numbers in {
        "sched": (1, 3, 5, 7, 9, 10),
        "redis": (1, 3, 6, 7),
        "sql": (1, 4, 5, 6, 8, 10),
        "dog": (1, 2, 4),
        "bot": (1, 3, 4, 6, 8, 10, 12, 13, 14, 15, 17, 18, 20, 22, 23),
    }.items()
    for number in numbers
]
IN_PART = {
    "redis_01": "(d) deletes a processing list, and there is none: who holds what stands in SQL",
    "redis_07": "a command never has keys of two queues, so that slots matter for the lists of one",
}
"""What a test cannot show, or not yet, and why."""
PLACES_OF_FAULTS = {"faults", "acceptance", "integration"}
"""Where real processes and servers are; a guarantee that is shown by units alone is not proved."""


@cache
def names() -> dict[str, set[str]]:
    """The names of all tests, each with the folders it stands in."""
    found: dict[str, set[str]] = {}
    for path in TESTS.rglob("*.py"):
        for name in named_in(path):
            found.setdefault(name, set()).add(path.parent.name)
    return found


def named_in(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name


def shown_by(promise: str) -> dict[str, set[str]]:
    pattern = re.compile(rf"(?<![a-z0-9]){promise}(?![0-9])")
    return {name: places for name, places in names().items() if pattern.search(name)}


@pytest.mark.parametrize("promise", [*RULES, *GUARANTEES, *CASES])
def test_a_promise_has_a_test_of_its_name(promise: str) -> None:
    assert shown_by(promise), f"no test has {promise} in its name"


@pytest.mark.parametrize("promise", GUARANTEES)
def test_a_guarantee_is_shown_with_real_processes_and_servers(promise: str) -> None:
    places = set().union(*shown_by(promise).values())
    assert places & PLACES_OF_FAULTS, f"{promise} is shown in {places} only"


def test_no_test_bears_the_name_of_a_rule_that_does_not_exist() -> None:
    found = {part for name in names() for part in re.findall(r"(?<![a-z])(rule_\d+|guarantee_\d+)", name)}
    assert found <= {*RULES, *GUARANTEES, "guarantee_9", "guarantee_10"}


def test_what_is_shown_in_part_is_a_promise() -> None:
    assert IN_PART.keys() <= {*RULES, *GUARANTEES, *CASES}
