"""The watchdog's own words: the same in both languages, a word for whatever a check can say, and nothing else named."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from taskkit.alerts import LANGUAGES, Said
from taskkit.analytics.diagnosis import Figure
from taskkit.analytics.wording import catalogue
from taskkit.watchdog.rounds import CheckState
from taskkit.watchdog.wording import Remark, check_said, said, texts
from tests.unit.test_catalogues import keys
from tests.watchdogs import at, rule

ROOT = Path(__file__).parents[2]
CHECKS = sorted((ROOT / "taskkit/watchdog/checks").glob("*.py"))
FIELD = re.compile(r"\{(\w+)(?::[^{}]*)?\}")
KINDS = {"Figure": "figures", "Action": "actions"}


def literals(text: str) -> set[str]:
    tree = ast.walk(ast.parse(text))
    return {node.value for node in tree if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_both_languages_have_the_same_keys_and_name_the_same_values() -> None:
    assert sorted(keys(texts("en"))) == sorted(keys(texts("zh")))
    for signal, causes in texts("en").items():
        if signal not in KINDS.values():
            for cause, words in causes.items():
                other = texts("zh")[signal][cause]
                assert set(words) == set(other) == {"title", "text"}
                named = [set(FIELD.findall(one["text"] + one["title"])) for one in (words, other)]
                assert named[0] == named[1], (signal, cause)


@pytest.mark.parametrize("path", CHECKS, ids=lambda path: path.stem)
def test_whatever_a_check_says_has_a_word_in_both_languages(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KINDS:
            kind, name = KINDS[node.func.id], node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                for language in LANGUAGES:
                    assert name.value in {*texts(language)[kind], *catalogue(language)[kind]}, (
                        language,
                        name.value,
                    )


@pytest.mark.parametrize(
    "path", [one for one in CHECKS if one.stem in texts("en")], ids=lambda path: path.stem
)
def test_the_texts_of_a_signal_name_only_what_its_check_knows(path: Path) -> None:
    known = literals(path.read_text(encoding="utf-8"))
    for cause, words in texts("en")[path.stem].items():
        assert set(FIELD.findall(words["title"] + words["text"])) <= known, cause
        assert cause in known or any(cause.endswith(one) and one for one in known), cause


@pytest.mark.parametrize("state", ["failed", "no_data"])
def test_a_check_that_fails_or_sees_nothing_says_so_in_both_languages(state: str) -> None:
    told = check_said(rule("backlog"), CheckState(state, at(), "gone away"), at(minutes=5))  # type: ignore[arg-type]
    assert set(told) == set(LANGUAGES)
    for one in told.values():
        assert "backlog" in one.title
        assert "n/a" not in one.text
        assert "{" not in one.text
    assert check_said(rule("backlog"), CheckState("ok", at()), at()) == {}


UNITS = {
    "tasks": "waiting_all above below held orphaned late dispatched new_dead of_cause waiting",
    "workers": "workers_alive expected",
    "slots": "slots slots_more slots_wanted",
    "runs": "runs_judged runs_failed lost_messages lost_running",
    "s": "scan_age heartbeat_age last_sign late_for due_for wait_now promise drain_above lasted no_scan",
    "%": "success_runs",
    "": "not_fired schedulers watchdogs_alive",
}
DOUBLE = re.compile(r"个 ?个|次 ?次|[\u4e00-\u9fff] [\u4e00-\u9fff]|\d[a-z]")
ONE = re.compile(
    r"\b1 (\w+ )?(tasks|workers|runs|slots|messages|schedulers|times|watchdogs|tasks|\w+ (wait|are|have))\b"
)


def all_said(language: str, number: float) -> dict[tuple[str, str], Said]:
    """Every remark with its figures filled in as the checks fill them."""
    figures = [Figure(name, number, unit) for unit, names in UNITS.items() for name in names.split()]
    return {
        (signal, cause): said(Remark(signal, cause, figures))[language]
        for signal, causes in texts(language).items()
        if signal not in KINDS.values()
        for cause in causes
    }


@pytest.mark.parametrize("number", [1, 40])
def test_counters_and_units_stand_once_and_in_one_piece(number: int) -> None:
    for where, one in all_said("zh", number).items():
        assert not DOUBLE.search(one.title + one.text), (where, one.title, one.text)
    for where, one in all_said("en", number).items():
        assert not ONE.search(f"{one.title}. {one.text}"), (where, one.title, one.text)
