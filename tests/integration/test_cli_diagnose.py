"""``taskkit diagnose`` and ``taskkit bundle``: what they refuse, in one line, and what they say without pandas."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import pytest

from tests.commands import built, cli, done, refused


@pytest.fixture(autouse=True)
def schema() -> None:
    built()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["backlogg"], "there is no rule 'backlogg'; did you mean"),
        (["backlog", "--since", "an hour"], "no length of time"),
        (["backlog", "--since", "0"], "until: must be later than since"),
        (["backlog", "--until", "2026-03-01T00:00:00"], "time zone"),
        (["backlog", "--workers", "0"], "--workers"),
        (["backlog", "--lang", "fr"], "--lang"),
        (["backlog", "--bundle", "nothing.zip"], "cannot open nothing.zip"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(words: list[str], told: str) -> None:
    assert told in refused("diagnose", *words, code=cli("diagnose", *words).code)


@pytest.mark.parametrize("rule", ["backlog", "duplicates", "zombies"])
def test_an_empty_task_center_is_no_incident_ana_01(rule: str) -> None:
    assert "nothing to say" in (out := done("diagnose", rule, "--strict").out) or "no worker was seen" in out
    assert done("diagnose", rule, "--json", "--lang", "zh").json["verdict"] == "no_data"


def test_a_bundle_of_an_empty_task_center_opens(tmp_path: Path) -> None:
    made = done("bundle", "create", tmp_path / "a.zip", "--json").json
    assert made["rows"]["runs"] == 0
    assert done("bundle", "open", tmp_path / "a.zip", "--json").json["format"] == 1
    assert "frame" in done("bundle", "open", tmp_path / "a.zip").out
    assert done("diagnose", "lost", "--bundle", tmp_path / "a.zip", "--json").json["verdict"] == "no_data"


def test_a_bundle_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    there = tmp_path / "no such folder" / "a.zip"
    assert "cannot write" in refused("bundle", "create", there, code=cli("bundle", "create", there).code)


def test_a_bundle_of_another_format_says_who_reads_it(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as file:
        file.writestr("manifest.json", json.dumps({"format": 99, "taskkit": "7.1"}))
    for words in (
        ["bundle", "open", tmp_path / "b.zip"],
        ["diagnose", "slow", "--bundle", tmp_path / "b.zip"],
    ):
        told = refused(*words, code=cli(*words).code)
        assert "has format 99, this taskkit reads 1" in told
        assert "open it with taskkit 7.1" in told


@pytest.mark.parametrize(
    ("absent", "words"),
    [("pandas", ["diagnose", "slow"]), ("pandas", ["whatif"]), ("pyarrow", ["bundle", "create", "c.zip"])],
)
def test_without_pandas_or_pyarrow_one_line_says_what_to_install(
    absent: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("taskkit.analytics")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, absent, None)
    told = refused(*words, code=cli(*words).code)
    assert f"need {absent}" in told
    assert "pip install 'taskkit[analytics]'" in told
