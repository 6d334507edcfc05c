"""What proves a loss: two absences far enough apart, and heartbeats that stand still in three looks without a gap."""

from __future__ import annotations

from taskkit.scheduler.proofs import Absences, DeadWorkers, Heartbeats


def looks(absences: Absences[str], *passes: tuple[float, str]) -> list[list[str]]:
    return [sorted(absences.look(now, absent.split(), now)) for now, absent in passes]


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


def test_rule_16_long_passes_prove_as_well_as_short_ones() -> None:
    absences: Absences[str] = Absences(10)
    passes = [absences.look(at, ["a"], at + 8) for at in (0.0, 10.0, 20.0)]
    assert passes == [[], [], ["a"]], "absent since 8, the end of the first pass"
    assert absences.look(34, ["a"], 35) == [], "6 s after the end of the last one"


class Watch:
    """An observer: looks at counters, and takes the age of a heartbeat from when its counter last changed."""

    def __init__(self, patience: float) -> None:
        self.beats = Heartbeats(patience)
        self.changed: dict[str, tuple[int, float]] = {}

    def look(self, now: float, counts: dict[str, int]) -> DeadWorkers:
        for worker, count in counts.items():
            if self.changed.get(worker, (None, 0.0))[0] != count:
                self.changed[worker] = (count, now)
        return self.beats.look(now, counts, {worker: now - self.changed[worker][1] for worker in counts})


def test_rule_17_a_worker_is_dead_when_its_counter_stood_still_in_three_looks_and_15_seconds() -> None:
    watch = Watch(15)
    for at in (0.0, 4.0, 8.0, 12.0, 14.9):
        assert watch.look(at, {"w": 7, "x": int(at), "y": int(at)}) == DeadWorkers()
    assert watch.look(15, {"w": 7, "x": 99, "y": 99}) == DeadWorkers(["w"])


def test_rule_17_two_looks_are_not_enough_however_far_apart() -> None:
    watch = Watch(1)
    assert watch.look(0, {"w": 7, "x": 1, "y": 1}) == watch.look(4, {"w": 7, "x": 2, "y": 2}) == DeadWorkers()
    assert watch.look(5, {"w": 7, "x": 3, "y": 3}) == DeadWorkers(["w"])


def test_rule_17_what_follows_from_a_look_is_no_gap_before_the_next_one() -> None:
    """Taking the tasks of one dead worker may last seconds, and must not hide the death of another."""
    watch = Watch(15)
    for at in range(0, 28, 7):
        assert watch.look(at, {"w": 7, "x": at, "y": at}) == DeadWorkers(["w"] if at >= 15 else [])
        watch.beats.ended(at + 3)


def test_rule_17_an_observer_that_hung_in_between_has_seen_nothing() -> None:
    watch = Watch(15)
    for at in range(0, 56, 8):
        assert watch.look(at, {"w": 7, "x": at, "y": at}) == DeadWorkers()
        watch.beats.ended(at + 6)


def test_rule_17_after_a_gap_between_looks_everything_begins_anew() -> None:
    watch = Watch(15)
    still = {"w": 7, "x": 7}
    assert [watch.look(at, still) for at in (0, 4, 60, 64, 68, 72, 74)] == [DeadWorkers()] * 7


def test_rule_17_a_beat_in_between_saves_a_worker() -> None:
    watch = Watch(8)
    for at, count in ((0, 7), (4, 7), (7, 8), (11, 8), (14, 8)):
        assert watch.look(at, {"w": count, "x": at}) == DeadWorkers()
    assert watch.look(15, {"w": 8, "x": 99}) == DeadWorkers(["w"])


def test_rule_17_more_than_half_at_once_wait_one_more_period_and_are_doubted() -> None:
    watch = Watch(4)
    looked = [watch.look(at, {"a": 1, "b": 1, "c": at}) for at in range(0, 9, 2)]
    assert looked == [
        DeadWorkers(),
        DeadWorkers(),
        DeadWorkers([], ["a", "b"]),
        DeadWorkers([], ["a", "b"]),
        DeadWorkers(["a", "b"]),
    ]


def test_rule_17_half_of_them_do_not_wait_longer() -> None:
    watch = Watch(4)
    assert [watch.look(at, {"a": 1, "b": at}) for at in range(0, 5, 2)] == [
        DeadWorkers(),
        DeadWorkers(),
        DeadWorkers(["a"]),
    ]


def test_rule_17_deaths_one_after_the_other_do_not_add_up_to_one_at_once() -> None:
    """Killed and replaced again and again, while nobody could look: the old ones are no part of the present."""
    beats = Heartbeats(4)
    counts = {"a": 1, "b": 1, "c": 1, "d": 1}
    ages = {"a": 300.0, "b": 200.0, "c": 100.0, "d": 0.0}
    looked = [
        beats.look(at, counts | {"d": at}, {w: age + at * (w != "d") for w, age in ages.items()})
        for at in (0, 2, 4)
    ]
    assert looked[-1] == DeadWorkers(["a", "b", "c"])


def test_rule_17_an_only_worker_waits_two_periods_unless_another_one_has_come() -> None:
    for come, dead_at in ((99, 30), (4, 16), (20, 20)):
        beats = Heartbeats(15)
        for at in range(0, 60, 2):
            another = {"b": at} if at >= come else {}
            found = beats.look(at, {"a": 1} | another, {"a": float(at)} | dict.fromkeys(another, 0.0))
            if found.dead:
                break
        assert (found.dead, at) == (["a"], dead_at)
