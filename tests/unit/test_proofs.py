"""What proves a loss: two absences far enough apart, and heartbeats that stand still in three looks without a gap."""

from __future__ import annotations

from taskkit.scheduler.proofs import Absences, Deaths, Heartbeats


def looks(absences: Absences[str], *passes: tuple[float, str]) -> list[list[str]]:
    return [sorted(absences.look(now, absent.split())) for now, absent in passes]


def test_rule_16_a_message_is_lost_when_it_was_absent_twice_far_enough_apart() -> None:
    absences: Absences[str] = Absences(10)
    assert looks(absences, (0, "a b"), (4, "a b"), (8, "a"), (10, "a b")) == [[], [], [], ["a"]]
    assert looks(absences, (14, "b"), (18, "b"), (20, "b")) == [[], [], ["b"]]


def test_rule_16_a_gap_or_an_outage_between_two_looks_proves_nothing() -> None:
    absences: Absences[str] = Absences(10)
    assert looks(absences, (0, "a"), (4, "a"), (20, "a"), (24, "a"), (28, "a")) == [[]] * 5
    assert looks(absences, (30, "a")) == [["a"]]
    absences.forget()
    assert looks(absences, (32, "a"), (36, "a"), (40, "a"), (42, "a")) == [[], [], [], ["a"]]


def deaths(beats: Heartbeats, *passes: tuple[float, dict[str, int]]) -> list[Deaths]:
    return [beats.look(now, counts) for now, counts in passes]


def test_rule_17_a_worker_is_dead_when_its_counter_stood_still_in_three_looks_and_15_seconds() -> None:
    beats = Heartbeats(15)
    found = deaths(beats, *((at, {"w": 7, "x": int(at), "y": int(at)}) for at in (0.0, 4.0, 8.0, 12.0, 14.9)))
    assert found == [Deaths()] * 5
    assert beats.look(15, {"w": 7, "x": 99, "y": 99}) == Deaths(["w"])


def test_rule_17_two_looks_are_not_enough_however_far_apart() -> None:
    beats = Heartbeats(1)
    assert deaths(beats, (0, {"w": 7, "x": 1, "y": 1}), (4, {"w": 7, "x": 2, "y": 2})) == [Deaths()] * 2
    assert beats.look(5, {"w": 7, "x": 3, "y": 3}) == Deaths(["w"])


def test_rule_17_after_a_gap_between_looks_everything_begins_anew() -> None:
    beats = Heartbeats(15)
    still = {"w": 7, "x": 7}
    assert deaths(beats, (0, still), (4, still), (60, still), (64, still)) == [Deaths()] * 4
    found = deaths(beats, (68, still), (72, still), (74, still))
    assert found == [Deaths()] * 3


def test_rule_17_a_beat_in_between_saves_a_worker() -> None:
    beats = Heartbeats(8)
    found = [
        beats.look(at, {"w": count, "x": int(at)}) for at, count in ((0, 7), (4, 7), (7, 8), (11, 8), (14, 8))
    ]
    assert found == [Deaths()] * 5
    assert beats.look(15, {"w": 8, "x": 99}) == Deaths(["w"])


def test_rule_17_more_than_half_at_once_wait_one_more_period_and_are_doubted() -> None:
    beats = Heartbeats(4)
    still = {"a": 1, "b": 1}
    looked = [beats.look(at, {**still, "c": at}) for at in range(0, 9, 2)]
    assert looked == [Deaths(), Deaths(), Deaths([], ["a", "b"]), Deaths([], ["a", "b"]), Deaths(["a", "b"])]


def test_rule_17_half_of_them_do_not_wait_longer() -> None:
    beats = Heartbeats(4)
    assert [beats.look(at, {"a": 1, "b": at}) for at in range(0, 5, 2)] == [Deaths(), Deaths(), Deaths(["a"])]
