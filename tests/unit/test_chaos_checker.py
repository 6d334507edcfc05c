"""The checker of the chaos run can fail: each count is 0 on evidence where all went well, and not on what it is for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from bench.chaos import report
from bench.chaos.checker import judge
from bench.chaos.evidence import Drop, Evidence, Fault, Occurrence, Task
from tests.unit.chaos_cases import (
    NOON,
    ONE_OFF,
    OTHER,
    PERIODIC,
    comes_late,
    dies,
    effect,
    ends,
    freezes,
    move,
    one_attempt,
    put_back,
    run,
    rung_again,
    two_attempts,
)

Change = Callable[[Evidence], object]
LOST, ILLEGAL, GAPS = "tasks lost", "transitions against the rules", "gaps in the audit"
OVERLAP, REPEATED = "attempts that overlap", "effects repeated without cause"
TWICE, NEVER = "occurrences fired twice", "occurrences without an answer"
MULTIPLIED, GIVEN_UP = "messages multiplied", "tasks given up without cause"


def counts(evidence: Evidence) -> dict[str, int]:
    """What was found, without the counts that are 0."""
    return {count.name: len(count.found) for count in judge(evidence).counts if count.found}


def replaced(evidence: Evidence, name: str, index: int, **changes: object) -> None:
    things = getattr(evidence, name)
    things[index] = msgspec.structs.replace(things[index], **changes)


GOOD = {
    "at once": one_attempt(),
    "retry of a failure": two_attempts("failed", how="ValueError", end=5),
    "retry after a time limit": two_attempts("timeout", how="Interrupted", end=5),
    "the child died": dies(two_attempts("failed")),
    "the child died after its effect": dies(two_attempts("failed", how="ok", end=5)),
    "the worker died": ends(two_attempts("lost"), died=6),
    "the worker was told to stop": ends(two_attempts("handed_back", how="Interrupted", end=6), told=5),
    "the child's neighbour died": dies(two_attempts("handed_back")),
    "the worker was frozen": freezes(two_attempts("superseded", how="ok", end=5)),
    "the worker was frozen, and its attempt overlapped": freezes(
        two_attempts("superseded", how="ok", end=23.5, until=23.5)
    ),
    "the worker was frozen before it began": comes_late(),
    "the message was lost": rung_again(21),
    "the broker refused an occurrence": put_back(),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_has_a_recorded_cause_is_not_counted(name: str) -> None:
    assert counts(GOOD[name]) == {}
    assert judge(GOOD[name]).ok


def test_an_overlap_that_was_refused_is_counted_apart() -> None:
    verdict = judge(GOOD["the worker was frozen, and its attempt overlapped"])
    assert verdict.overlaps == {"superseded": 1}


BAD: dict[str, tuple[Evidence, Change, str]] = {
    "an attempt begins after a later one, though nobody was frozen": (
        comes_late(),
        lambda e: e.faults.clear(),
        REPEATED,
    ),
    "an attempt that was not declared dead begins after a later one": (
        comes_late(),
        lambda e: [
            replaced(e, "runs", i, outcome="failed")
            for i, r in enumerate(e.runs)
            if r.outcome == "superseded"
        ],
        REPEATED,
    ),
    "an accepted task has no row": (one_attempt(), lambda e: e.accepted.append(77), LOST),
    "a task is still dispatched": (
        one_attempt(),
        lambda e: (replaced(e, "tasks", 0, status=1), e.moves.pop(3), e.moves.pop(2), e.runs.pop(0)),
        LOST,
    ),
    "a task is held": (
        one_attempt(),
        lambda e: (replaced(e, "tasks", 0, status=7), e.moves.__setitem__(slice(2, 4), [move(3, 1, 7, 1)])),
        LOST,
    ),
    "a success without an effect": (one_attempt(), lambda e: e.effects.pop(0), LOST),
    "a success whose effect was cut off": (
        one_attempt(),
        lambda e: replaced(e, "effects", 0, end=None, how=""),
        LOST,
    ),
    "success becomes running": (
        one_attempt(),
        lambda e: (e.moves.append(move(7, 3, 2, 1)), replaced(e, "tasks", 0, status=2)),
        ILLEGAL,
    ),
    "a finished task starts again without a person": (
        one_attempt(),
        lambda e: (e.moves.append(move(7, 3, 0, 1)), replaced(e, "tasks", 0, status=0)),
        ILLEGAL,
    ),
    "a periodic task ends in success": (
        one_attempt(),
        lambda e: (replaced(e, "moves", 7, new=3), e.moves.pop(), replaced(e, "tasks", 1, status=3)),
        ILLEGAL,
    ),
    "an attempt is skipped": (
        one_attempt(),
        lambda e: [replaced(e, "moves", n, attempt_new=2, attempt_old=2 * (n > 1)) for n in (1, 2, 3)],
        ILLEGAL,
    ),
    "the attempt changes in place": (
        one_attempt(),
        lambda e: e.moves.insert(2, move(2.5, 1, 1, 1, attempt_new=2)),
        ILLEGAL,
    ),
    "the worker changes while it runs": (
        one_attempt(),
        lambda e: e.moves.insert(3, move(4, 2, 2, 1, worker_new=OTHER)),
        ILLEGAL,
    ),
    "a late worker overwrites the end": (
        one_attempt(),
        lambda e: replaced(e, "runs", 0, worker=OTHER),
        ILLEGAL,
    ),
    "an end without a run row": (one_attempt(), lambda e: e.runs.pop(0), ILLEGAL),
    "a row is deleted": (
        one_attempt(),
        lambda e: (e.moves.append(move(8, 3, None, 1)), e.accepted.clear(), e.tasks.pop(0)),
        ILLEGAL,
    ),
    "the audit does not continue": (one_attempt(), lambda e: e.moves.pop(2), GAPS),
    "the row says something else": (one_attempt(), lambda e: replaced(e, "tasks", 0, status=6), GAPS),
    "two attempts at once": (
        ends(two_attempts("lost", how="ok", end=23.5, until=23.5), died=6),
        lambda e: None,
        OVERLAP,
    ),
    "two attempts at once, though nobody was frozen": (
        two_attempts("superseded", how="ok", end=23.5, until=23.5),
        lambda e: None,
        OVERLAP,
    ),
    "two attempts at once, and the first counted": (
        freezes(two_attempts("success", how="ok", end=23.5, until=23.5)),
        lambda e: None,
        OVERLAP,
    ),
    "one attempt starts its handler twice": (
        one_attempt(),
        lambda e: e.effects.append(effect(1, 5.2, 5.4)),
        REPEATED,
    ),
    "again after a success": (two_attempts("success", how="ok", end=5), lambda e: None, REPEATED),
    "lost though nobody died": (two_attempts("lost"), lambda e: None, REPEATED),
    "lost, and the worker died only later": (ends(two_attempts("lost"), died=60), lambda e: None, REPEATED),
    "failed without a failure": (two_attempts("failed", how="ok", end=5), lambda e: None, REPEATED),
    "handed back without a stop": (two_attempts("handed_back"), lambda e: None, REPEATED),
    "again without a run row": (
        two_attempts("lost"),
        lambda e: e.runs.__setitem__(slice(None), [r for r in e.runs if r.attempt == 2]),
        REPEATED,
    ),
    "again though no retry is allowed": (
        ends(two_attempts("lost"), died=6),
        lambda e: replaced(e, "tasks", 0, max_retry=0),
        REPEATED,
    ),
    "two dispatches fire one occurrence": (
        one_attempt(),
        lambda e: replaced(e, "moves", 1, firing=NOON, task=PERIODIC),
        TWICE,
    ),
    "a dispatch that was put back ran": (
        one_attempt(),
        lambda e: e.moves.extend(
            [
                move(2.2, 1, 0, 1, PERIODIC, undone=NOON),
                move(2.4, 0, 1, 1, PERIODIC, firing=NOON),
            ]
        ),
        TWICE,
    ),
    "an occurrence that was put back fires twice after that": (
        put_back(),
        lambda e: e.moves.append(move(9.5, 0, 1, 3, PERIODIC, firing=NOON)),
        TWICE,
    ),
    "an occurrence that was put back and skipped is said to have fired": (
        put_back(),
        lambda e: (
            replaced(e, "moves", 7, firing=None),
            replaced(e, "occurrences", 0, state="fired"),
        ),
        NEVER,
    ),
    "one occurrence succeeds twice": (
        one_attempt(),
        lambda e: e.runs.append(run(2, "success", 8, task=PERIODIC, occurrence=NOON)),
        TWICE,
    ),
    "an instant fires that is not in the calendar": (
        one_attempt(),
        lambda e: (
            replaced(e, "periodic", 0, step=7, first=NOON + 70),
            replaced(e, "moves", 5, firing=NOON + (1 - NOON) % 7),
        ),
        TWICE,
    ),
    "an occurrence has no row": (one_attempt(), lambda e: e.occurrences.pop(), NEVER),
    "an occurrence stays planned": (
        one_attempt(),
        lambda e: e.occurrences.__setitem__(1, Occurrence(PERIODIC, NOON + 1, "planned")),
        NEVER,
    ),
    "an occurrence is missed without a reason": (
        one_attempt(),
        lambda e: e.occurrences.__setitem__(1, Occurrence(PERIODIC, NOON + 1, "missed")),
        NEVER,
    ),
    "an occurrence is said to have fired": (
        one_attempt(),
        lambda e: e.occurrences.__setitem__(1, Occurrence(PERIODIC, NOON + 1, "fired")),
        NEVER,
    ),
    "an occurrence fired and is said to be skipped": (
        one_attempt(),
        lambda e: e.occurrences.__setitem__(0, Occurrence(PERIODIC, NOON, "skipped", "still running")),
        NEVER,
    ),
    "the bell is rung again too early": (rung_again(12), lambda e: None, MULTIPLIED),
    "the bell is rung again for a message that waits": (
        rung_again(600),
        lambda e: e.faults.clear(),
        MULTIPLIED,
    ),
    "the bell is rung again after a fault that costs no message": (
        rung_again(21),
        lambda e: replaced(e, "faults", 0, kind="kill child"),
        MULTIPLIED,
    ),
    "put back though the broker was well": (
        rung_again(1),
        lambda e: (e.faults.clear(), e.runs.pop(1)),
        MULTIPLIED,
    ),
    "the message arrives after the bell was rung again": (
        rung_again(21),
        lambda e: e.drops.append(Drop(ONE_OFF, 1, 24.5, 100)),
        MULTIPLIED,
    ),
    "the logs do not tell of what was dropped": (one_attempt(), lambda e: setattr(e, "dropped", 1), GAPS),
    "an attempt is dispatched twice": (
        rung_again(21),
        lambda e: replaced(e, "moves", 8, attempt_new=1),
        MULTIPLIED,
    ),
    "given up with retries left": (
        one_attempt(),
        lambda e: (
            replaced(e, "tasks", 0, status=5),
            replaced(e, "moves", 3, new=5),
            replaced(e, "runs", 0, outcome="failed"),
        ),
        GIVEN_UP,
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_must_not_happen_is_counted(name: str) -> None:
    evidence, change, count = BAD[name]
    copy = msgspec.json.decode(msgspec.json.encode(evidence), type=Evidence)
    assert change(copy) or True
    assert counts(copy).get(count), counts(copy)
    assert not judge(copy).ok


def test_given_up_after_all_retries_is_a_rightful_end() -> None:
    evidence = one_attempt()
    evidence.tasks[0] = Task(ONE_OFF, "doomed", 0, 5, 1, 0, 0, 0)
    replaced(evidence, "moves", 3, new=5)
    replaced(evidence, "runs", 0, outcome="failed")
    assert counts(evidence) == {}


def test_a_message_doubled_by_a_stall_is_dropped_and_no_fault_of_recovery() -> None:
    evidence = rung_again(21)
    evidence.drops.append(Drop(ONE_OFF, 1, 24.5, 100))
    evidence.faults.append(Fault("freeze worker", 2.1, 2.1, 24.0, 100))
    assert counts(evidence) == {}
    assert judge(evidence).dispatches["doubled by a stall"] == 1
    evidence.faults[-1] = Fault("freeze worker", 2.1, 2.1, 24.0, 200)
    assert counts(evidence) == {MULTIPLIED: 1}


def test_a_fault_that_was_not_carried_out_explains_nothing() -> None:
    evidence = rung_again(21)
    evidence.faults = [Fault("redis flush", 2.5, 2.5, 2.6, None, "refused", hit=False)]
    assert counts(evidence) == {MULTIPLIED: 1}


def test_the_report_tells_the_story_of_an_offender() -> None:
    evidence = two_attempts("lost")
    evidence.seed, evidence.command = 7, "python bench/chaos.py --seed 7"
    text = report.text(evidence, judge(evidence))
    assert "declared dead without a recorded death" in text
    for line in ("audit   running → pending, attempt 1", "run     1 lost", "ledger  the child's death of 1"):
        assert line in text
    assert text.endswith("seed 7; replay: python bench/chaos.py --seed 7\nFAILED")


def test_the_report_fails_a_run_with_too_few_faults() -> None:
    evidence = one_attempt()
    assert report.text(evidence, judge(evidence)).endswith("PASSED")
    assert report.text(evidence, judge(evidence), wanted_faults=1).endswith("FAILED")


def test_the_document_for_scripts_has_every_count() -> None:
    evidence = two_attempts("lost")
    found = report.document(evidence, judge(evidence))
    assert found["counts"] == {count.name: len(count.found) for count in judge(evidence).counts}
    assert not found["ok"]
    assert msgspec.json.decode(msgspec.json.encode(found)) == found


def test_evidence_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    evidence = rung_again(21)
    evidence.save(tmp_path / "evidence.json")
    assert Evidence.load(tmp_path / "evidence.json") == evidence
