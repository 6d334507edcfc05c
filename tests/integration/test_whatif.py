"""The replay of what real processes really did, live and from a bundle; and ``taskkit whatif``."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskkit.analytics import Bundle, LiveSource, Window
from taskkit.analytics.bundle import create
from taskkit.analytics.whatif import showing, whatif
from taskkit.center import TaskCenter
from tests.commands import built, cli, done, refused
from tests.integration.test_frames import live, lived_in
from tests.processes import APP, Installation

pytest_plugins = ["tests.center_fixtures"]
SLOTS = 3


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSource]:
    """A trickle, a burst of 300, and a trickle, on three slots; each task sleeps for a known time."""
    rng = random.Random(4)
    settings = {"worker_processes": SLOTS, "worker_threads": 1}
    with Installation(tmp_path_factory.mktemp("day"), **settings) as home:
        home.scheduler()
        home.begin("worker", "--app", APP, "--queue", "nap").ready()
        began = home.kit.center.now()
        ids = trickle(home, rng)
        ids += home.enqueue_many("nap", [{"seconds": rng.uniform(0.05, 0.2)} for _ in range(300)])
        ids += trickle(home, rng)
        home.wait_all(ids, seconds=100)
        now = home.kit.center.now()
        yield LiveSource(home.kit.center, Window(began, now), now=now)


def trickle(home: Installation, rng: random.Random) -> list[int]:
    found = []
    for _ in range(15):
        found.append(home.enqueue("nap", {"seconds": rng.uniform(0.05, 0.2)}))
        time.sleep(rng.uniform(0.02, 0.2))
    return found


def test_the_replay_of_a_lab_day_is_within_15_percent(day: LiveSource) -> None:
    found = whatif(day, slots=[1, SLOTS, 30], queue="nap")
    assert (found.measured.slots, found.slots_known_by) == (SLOTS, "workers")
    assert (found.measured.tasks, found.replayed.tasks) == (330, 330)
    assert found.measured.wait_p95_s is not None
    assert found.measured.wait_p95_s > 3
    assert abs(found.error_p50 or 100) <= 15, str(found)
    assert abs(found.error_p95 or 100) <= 15, str(found)
    few, same, many = (line for line, _ in found.variants)
    assert same.wait_p95_s == found.replayed.wait_p95_s
    assert (few.wait_p95_s or 0) > 2 * (same.wait_p95_s or 0) > 8 * (many.wait_p95_s or 0)


def test_a_bundle_gives_the_same_replay(day: LiveSource, tmp_path: Path) -> None:
    bundle = create(day, tmp_path / "day.zip")
    kept, now = (showing.as_dict(whatif(s, slots=[5], load=2)) for s in (Bundle(bundle), day))
    assert kept == now
    shown = done("whatif", "--bundle", bundle, "--slots", 5, "--slots", 9, "--load", 2, "--json").json
    assert [one["slots"] for one in shown["variants"]] == [5, 9]
    assert shown["variants"][0]["wait_p95_s"] == now["variants"][0]["wait_p95_s"]
    text = done("whatif", "--bundle", bundle, "--slots", 5, "--queue", "nap", "--limit", "nap=2").out
    for words in ("past, measured", "past, replayed", "error", "5 slots", "Erlang C", "limits: nap 2"):
        assert words in text


def test_what_came_to_the_slots_is_told_in_full(center: TaskCenter) -> None:
    lived_in(center)
    found = live(center).frame("load")
    assert found.groupby("kind")["tasks"].sum().to_dict() == {
        "again": 1,
        "first": 4,
        "running": 1,
        "waiting": 2,
    }
    assert set(found.loc[found["kind"] == "first", "service_ms"]) <= {300.0, 600.0, 900.0, 1200.0}
    whole = live(center).frame("waits")
    assert int(whole.loc[whole["stage"] == "due_to_started", "runs"].sum()) == 4


def test_groups_become_wider_where_there_are_too_many(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        lived_in(center)
    fine = live(center).frame("load")
    monkeypatch.setattr("taskkit.center.frames.MOST_GROUPS", 4)
    coarse = live(center).frame("load")
    assert int(coarse["tasks"].sum()) == int(fine["tasks"].sum())
    assert len(coarse) <= 4 < len(fine)
    assert coarse["slot_ms"].iloc[0] > fine["slot_ms"].iloc[0]


def test_the_command_on_an_empty_task_center_ana_01() -> None:
    built()
    assert "nothing to replay" in done("whatif", "--slots", 4).out
    assert done("whatif", "--json", "--queue", "nobody").json["variants"] == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--slots", "0"], "--slots"),
        (["--limit", "mail"], "write QUEUE=N"),
        (["--limit", "mail=0"], "write QUEUE=N"),
        (["--load", "0"], "load: 0 is not between"),
        (["--bundle", "nothing.zip"], "cannot open nothing.zip"),
        (["--since", "yesterday"], "no length of time"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(words: list[str], told: str) -> None:
    built()
    assert told in refused("whatif", *words, code=cli("whatif", *words).code)
