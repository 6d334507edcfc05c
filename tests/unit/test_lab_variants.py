"""The lab's catalogue: every rule has its incidents, every right verdict is a documented one, healthy is among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskkit.analytics.wording import verdicts
from taskkit.cli.lab_score import Scored, chosen, not_brought_about, show_scores
from taskkit.errors import InputError
from taskkit.lab.truth import Truth, read
from taskkit.lab.variants import all_variants, find

RULES = ("backlog", "duplicates", "zombies", "lost")


def test_there_are_twelve_variants_and_more_on_the_embedded_stack() -> None:
    assert len(all_variants(servers=False)) >= 12
    assert {one.rule for one in all_variants()} == set(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_every_right_verdict_is_documented_and_a_healthy_system_is_among_the_variants(rule: str) -> None:
    right = {verdict for one in all_variants(rule) for verdict in one.verdicts}
    assert right <= set(verdicts(rule))
    assert "healthy" in right
    assert len(right) >= 4


def test_a_variant_is_found_by_its_name_and_the_first_without_one() -> None:
    assert find("backlog", None).name == "midnight_release"
    assert find("lost", "dead_worker").verdicts == ("dead_worker",)
    with pytest.raises(InputError, match=r"no variant 'slow_handlr'; did you mean"):
        find("backlog", "slow_handlr")


def test_variants_are_chosen_by_rule_name_or_both() -> None:
    assert {one.rule for one in chosen("lost", servers=False)} == {"lost"}
    assert [one.rule for one in chosen("dead_worker", servers=False)] == ["lost", "zombies"]
    assert len(chosen("zombies.dead_worker, slow_handler", servers=False)) == 2
    assert "report_holds_rows" not in {one.name for one in chosen(None, servers=False)}
    with pytest.raises(InputError, match="there is no variant"):
        chosen("nothing", servers=True)


def test_the_truth_is_written_as_it_was(tmp_path: Path) -> None:
    truth = Truth("lost", "healthy", ("healthy",), 7, "about", "SQLite", facts={"written": 3})
    truth.write(tmp_path)
    assert read(tmp_path)["facts"] == {"written": 3}
    assert read(tmp_path)["verdicts"] == ["healthy"]


def test_the_table_says_which_verdicts_were_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    right = Scored("lost", "healthy", 1, "SQLite", ("healthy",), "healthy", "high", True, 12.3, 0.1)
    show_scores([right, not_brought_about(find("backlog", "limit"), 2)], as_json=False)
    told = capsys.readouterr().out
    assert "1 of 2 right" in told
    assert "WRONG" in told
    assert "not brought about" in told
