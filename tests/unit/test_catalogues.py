"""The words of diagnoses: both languages have the same keys, and a word for whatever any rule can say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from taskkit.analytics import RULES
from taskkit.analytics.diagnosis import CONFIDENCES, SEVERITIES, Diagnosis, Figure
from taskkit.analytics.wording import catalogue, fill

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "taskkit/analytics/rules").glob("*.py"))
KINDS = {"Figure": "figures", "Action": "actions", "Subject": "causes"}
FIELD = re.compile(r"\{(\w+)(?::[^{}]*)?\}")


def keys(table: Any, path: str = "") -> Iterator[str]:
    for name, value in table.items():
        yield from keys(value, f"{path}{name}.") if isinstance(value, dict) else [f"{path}{name}"]


def literals(path: Path) -> set[str]:
    """All texts that stand in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def said(path: Path) -> Iterator[tuple[str, str]]:
    """The kind and name of each figure, action and subject that is written down as such."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in KINDS:
            continue
        first = node.args[0] if node.args else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield KINDS[node.func.id], first.value


def of_rule(rule: str) -> set[str]:
    """What the files of a rule can fill into its texts."""
    found = set().union(*(literals(path) for path in FILES if path.stem.startswith(rule)))
    return found | {"queue", "code", "binding", "next_bound", "slow_since"}


def test_both_languages_have_the_same_keys() -> None:
    assert sorted(keys(catalogue("en"))) == sorted(keys(catalogue("zh")))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_whatever_a_rule_says_has_a_word_in_both_languages(path: Path) -> None:
    for language in ("en", "zh"):
        absent = [(kind, name) for kind, name in said(path) if name not in catalogue(language)[kind]]
        assert absent == [], language


@pytest.mark.parametrize("rule", RULES)
def test_the_texts_name_only_what_their_rule_knows(rule: str) -> None:
    known = of_rule(rule)
    for language in ("en", "zh"):
        for verdict, texts in catalogue(language)[rule]["verdicts"].items():
            assert set(texts) == {"title", "text", "against"}, (language, verdict)
            fields = set(FIELD.findall(" ".join(texts.values())))
            unknown = {one for one in fields - known if not one.startswith("cause_")}
            assert unknown == set(), (language, verdict)


def test_every_severity_and_confidence_has_its_word() -> None:
    for language in ("en", "zh"):
        assert set(catalogue(language)["severities"]) == set(SEVERITIES)
        assert set(catalogue(language)["confidences"]) == set(CONFIDENCES)
        assert all(catalogue(language)[rule]["title"] for rule in RULES)


def test_every_verdict_stands_on_the_page() -> None:
    page = (ROOT / "docs/analytics.md").read_text(encoding="utf-8")
    for rule in RULES:
        row = re.search(rf"^\| `{rule}` \| (.*) \|$", page, re.MULTILINE)
        assert row is not None
        assert row[1].split(", ") == list(catalogue("en")[rule]["verdicts"])


MANY = (
    r"tasks|runs|slots|workers|times|codes|messages|queues|schedulers|notices|alerts|rules|were|are|have|wait"
)
NO_COUNT = re.compile(r"\{(queue|free|used|most|\w+_per_s|\w+_share)\}")


@pytest.mark.parametrize("room", ["analytics", "watchdog"])
def test_one_is_never_told_as_many(room: str) -> None:
    """``{slots} slots`` would read "1 slots": each count has the words that go with one and with many."""
    text = (ROOT / "taskkit" / room / "texts/en.toml").read_text(encoding="utf-8")
    assert re.findall(rf"\{{\w+\}} (?:{MANY})\b", NO_COUNT.sub("", text)) == []


def test_what_binds_next_has_its_rate_where_that_is_known_and_no_empty_brackets() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    figures = (Figure("slots", 1, "slots"), Figure("next_bound_per_s", None, "per_s"))
    details = {"binding": "workers", "next_bound": "unknown"}
    found = Diagnosis("backlog", "burst", "warning", "high", at, at, at, evidence=figures, details=details)
    told = fill("{slots:slot does|slots do} it. Now: {binding}; then: {next_bound}.", found, "en")
    assert told == "1 slot does it. Now: the workers; then: nothing that is known."
    rate = (Figure("next_bound_per_s", 950.0, "per_s"),)
    known = replace(found, evidence=rate, details={"next_bound": "scheduler"})
    assert fill("{next_bound}", known, "en") == "the scheduler (950/s)"
    assert fill("{next_bound}", known, "zh") == "调度器（950/秒）"
