"""Frames: the same columns and dtypes with and without rows, from SQLite and MariaDB, live and from a bundle."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from taskkit.analytics import diagnose
from taskkit.analytics import measures as m
from taskkit.analytics.bundle import Bundle, create
from taskkit.analytics.frames import FRAMES
from taskkit.analytics.source import LiveSource
from taskkit.analytics.window import Window
from taskkit.center import TaskCenter, frames, normal
from taskkit.center.outbox import Robot
from taskkit.states import Status
from tests.alert_rows import ended, written
from tests.centers import failed, in_status, new, sql, start, succeeded

pytest_plugins = ["tests.center_fixtures"]
WORKER = "host:1:frames"


def lived_in(center: TaskCenter) -> None:
    """Rows of every kind, written by the real task center."""
    for status in (Status.PENDING, Status.DISPATCHED, Status.HELD, Status.FAILED, Status.GIVEN_UP):
        in_status(center, status)
    claimed = start(center, WORKER, *[new(payload=f'{{"n": {n % 4}}}') for n in range(6)])
    now = center.now()
    ends = [succeeded(one, started_at=one.claimed_at, finished_at=now, runtime_ms=300) for one in claimed[:4]]
    ends.append(failed(claimed[4], started_at=claimed[4].claimed_at, finished_at=now, runtime_ms=20))
    assert center.worker_desk(WORKER).finish(ends) == []
    one = written(center, "ops", "mail")
    written(center, rule="backlog", object="", inhibited_by="stores:redis", told_at=None)
    ended(center, one)
    robot = Robot("r0b07", ("ops",), 18, calls=2)
    (first, *_) = center.outbox.waiting(["ops"])
    taken = center.outbox.take(robot, [first], first.notice, "h:1:a")
    assert taken is not None
    center.outbox.called(taken.calls[0], "markdown", "sent", "0", "ok", 41.0)
    center.outbox.sent(taken, robot, 1, "0", "ok", "2026-11")


def live(center: TaskCenter) -> LiveSource:
    now = center.now()
    return LiveSource(center, Window(now - timedelta(hours=1), now + timedelta(seconds=1)), now=now)


def test_every_statement_answers_and_every_frame_is_declared(center: TaskCenter) -> None:
    assert set(center.frames.names) == set(FRAMES)


@pytest.mark.parametrize("rows", [False, True])
def test_every_frame_has_its_columns_and_dtypes_ana_01(center: TaskCenter, rows: bool) -> None:
    if rows:
        lived_in(center)
    source = live(center)
    for name, declared in FRAMES.items():
        found = source.frame(name)
        assert list(found.columns) == declared.names
        assert {c.name: c.dtype for c in declared.columns} == {n: str(d) for n, d in found.dtypes.items()}, (
            name
        )
        assert_frame_equal(found.head(0), declared.empty())


def test_frames_count_what_was_written(center: TaskCenter) -> None:
    lived_in(center)
    source = live(center)
    tasks = source.frame("tasks").groupby("status")["tasks"].sum().to_dict()
    assert tasks == {0: 1, 1: 1, 2: 1, 4: 2, 5: 1, 7: 1}
    assert int(source.frame("arrivals")["arrived"].sum()) == 11
    finishes = source.frame("finishes")
    assert int(finishes["succeeded"].sum()) == 4
    assert int(finishes["failed"].sum()) == 3
    assert len(source.frame("running")) == 1
    times = source.frame("service_times")
    assert set(times["min_ms"]) == {300.0, 20.0}
    assert set(source.frame("twins")["tasks"]) == {2}


def test_frames_of_alerts_tell_what_was_wrong_and_who_was_told(center: TaskCenter) -> None:
    lived_in(center)
    source = live(center)
    alerts = source.frame("alerts").set_index("rule")
    assert dict(alerts["state"]) == {"backlog": "firing", "zombies": "resolved"}
    assert alerts.loc["zombies", "title"] == "workers wait for a row lock"
    assert alerts.loc["backlog", "inhibited_by"] == "stores:redis"
    notices = source.frame("notices").set_index("receiver")
    assert dict(notices["state"]) == {"ops": "sent", "mail": "waiting"}
    assert list(notices["alerts"]) == [1, 1]
    (call,) = source.frame("deliveries").to_dict("records")
    assert (call["receiver"], call["verdict"], call["code"], call["took_ms"]) == ("ops", "sent", "0", 41.0)
    assert call["notice_id"] == notices.loc["ops", "id"]


def test_frames_of_alerts_are_of_their_window_which_is_half_open(center: TaskCenter) -> None:
    now = center.now()
    whole = now.replace(microsecond=0)
    hour = timedelta(hours=1)
    open_since, over = written(center, at=whole - 3 * hour), written(center, at=whole - 2 * hour, object="b")
    ended(center, over)
    bind = center.database.dialect.bind
    sql(center, "UPDATE task_alert SET resolved_at = :at WHERE id = :id", at=bind(whole - hour), id=over.id)

    def ids(since: datetime, until: datetime) -> list[int]:
        return list(LiveSource(center, Window(since, until), now=now).frame("alerts")["id"])

    assert ids(whole - hour, whole) == [over.id, open_since.id], (
        "it ended with the first instant of the window"
    )
    assert ids(whole - hour + timedelta(seconds=1), whole) == [open_since.id]
    assert ids(whole - 4 * hour, whole - 3 * hour) == [], "it began with the first instant after it"
    assert ids(whole - 4 * hour, whole - 2 * hour) == [open_since.id]


def test_a_bundle_gives_the_same_frames_to_the_last_digit(center: TaskCenter, tmp_path: Path) -> None:
    lived_in(center)
    source = live(center)
    opened = Bundle(create(source, tmp_path / "incident.zip", schema=center.schema_revision()))
    assert (opened.window, opened.now) == (source.window, source.now)
    for name in FRAMES:
        assert_frame_equal(opened.frame(name), source.frame(name), check_exact=True)
    assert opened.manifest["database"]["kind"] in {"sqlite", "mariadb", "mysql"}
    again = create(source, tmp_path / "again.zip", schema=center.schema_revision())
    assert again.read_bytes() == (tmp_path / "incident.zip").read_bytes()


def ran(center: TaskCenter, task_id: int, attempt: int, outcome: str, at: datetime, **fields: Any) -> None:
    """A run that took 100 ms and ended at ``at``, as a row."""
    bind = center.database.dialect.bind
    values: dict[str, Any] = {
        "task_id": task_id, "attempt": attempt, "outcome": outcome, "task_code": "mail", "queue": "q", "runtime_ms": 100,
        "worker_id": f"h:{attempt}:a", "pid": attempt, "dispatched_at": at, "started_at": at, "finished_at": at,
    } | fields  # fmt: skip
    marks = ", ".join(f":{name}" for name in values)
    told = {name: bind(one) if isinstance(one, datetime) else one for name, one in values.items()}
    sql(center, f"INSERT INTO task_run ({', '.join(values)}) VALUES ({marks})", **told)


def test_of_a_periodic_task_only_the_occurrence_that_was_repeated_is_read(center: TaskCenter) -> None:
    now = center.now().replace(microsecond=0)
    monday, today = now - timedelta(days=3), now - timedelta(minutes=10)
    for attempt, outcome in ((1, "superseded"), (2, "success")):
        ran(center, 7, attempt, outcome, monday, occurrence_at=monday)
    ran(center, 7, 3, "success", today, occurrence_at=today)
    source = live(center)
    assert source.frame("runs").empty, "one run of its occurrence is no repetition"
    ran(center, 7, 4, "failed", today, occurrence_at=today + timedelta(minutes=1))
    ran(center, 7, 5, "success", today, occurrence_at=today + timedelta(minutes=1))
    source = live(center)
    assert list(source.frame("runs")["attempt"]) == [4, 5]
    assert diagnose("duplicates", source).verdict == "retried_without_idempotency"


def test_an_occurrence_whose_first_run_ended_before_the_window_is_read_whole(center: TaskCenter) -> None:
    now = center.now().replace(microsecond=0)
    planned = now - timedelta(hours=2)
    ran(center, 7, 8, "superseded", planned, occurrence_at=planned)
    ran(center, 7, 9, "success", now - timedelta(minutes=1), occurrence_at=planned)
    source = live(center)
    assert list(source.frame("runs")["attempt"]) == [8, 9]
    assert diagnose("duplicates", source).verdict == "declared_dead_alive"


def test_a_person_who_asked_for_it_before_the_window_is_known_all_the_same(center: TaskCenter) -> None:
    """Asked for 35 minutes ago, done in the window of half an hour: nobody is called for a double dispatch."""
    now = center.now().replace(microsecond=0)
    for attempt, ago in ((1, 40), (2, 10)):
        ran(center, 7, attempt, "success", now - timedelta(minutes=ago))
    bind = center.database.dialect.bind
    for action, task_id, ago in (("run_now", 7, 35), ("pause", 7, 36), ("run_now", 7, 60 * 30)):
        text = "INSERT INTO task_action (at, actor, action, task_id) VALUES (:at, 'ada', :action, :id)"
        sql(center, text, at=bind(now - timedelta(minutes=ago)), action=action, id=task_id)
    source = LiveSource(center, Window.last(1800, now), now=now)
    assert list(source.frame("actions")["action"]) == ["run_now"]
    assert diagnose("duplicates", source).verdict == "run_again_by_person"


def test_of_too_many_repeated_tasks_the_newest_are_read_and_the_diagnosis_says_so(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "MOST_TASKS", 2)
    now = center.now().replace(microsecond=0)
    for task_id in (1, 2, 3):
        for attempt, outcome in ((1, "failed"), (2, "success")):
            ran(center, task_id, attempt, outcome, now - timedelta(minutes=30 - task_id))
            at = now - timedelta(minutes=40)
            ran(center, 10 + task_id, attempt, outcome, at, occurrence_at=at)
    source = live(center)
    assert sorted(set(source.frame("runs")["task_id"])) == [2, 3, 12, 13]
    assert diagnose("duplicates", source).verdict == "not_all_read"


def test_the_normal_of_a_busy_week_is_of_the_whole_week(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A code that took 100 ms for a week, and 900 ms in the last hours, with more runs than all of the days before."""
    now = center.now().replace(microsecond=0)
    since = now - timedelta(hours=1)
    for n in range(1, 61):
        at = since - timedelta(hours=2 * n, minutes=n)
        ran(center, n, 1, "success", at, runtime_ms=100)
        ran(center, 100 + n, 1, "success", since - timedelta(hours=1, seconds=2 * n), runtime_ms=900)
        ran(center, 200 + n, 1, "success", since - timedelta(hours=1, seconds=2 * n + 1), runtime_ms=900)
    whole = live(center).frame("service_normal")
    assert (int(whole["runs"].sum()), float(whole["sum_ms"].sum())) == (180, 60 * 100 + 120 * 900)
    monkeypatch.setattr(normal, "MOST", 100)
    found = live(center).frame("service_normal")
    assert not found.duplicated(["task_code", "bin"]).any()
    slow = found[found["min_ms"] == 900]["runs"].sum()
    assert 1 <= slow <= 5, "of the last minutes no more than of other minutes"
    assert found[found["min_ms"] == 100]["runs"].sum() >= 25
    assert m.percentile(found, 0.5) == 100


@pytest.mark.parametrize("hours", [0, 24])
def test_what_has_become_slow_just_now_is_not_its_own_normal(center: TaskCenter, hours: int) -> None:
    """A code that is known since 36 minutes, or since a day, and has been slow for 14; the rule's window is 10 minutes."""
    now = center.now().replace(microsecond=0)
    for n in range(216):
        early = hours * 3600 if n >= 84 else 0
        at = now - timedelta(seconds=10 * n + 5 + early)
        ran(center, n + 1, 1, "success", at, runtime_ms=900 if n < 84 else 100)
    window = Window.last(600, now)
    source = LiveSource(center, window)
    normal = source.frame("service_normal")
    assert set(normal["min_ms"]) == {100}
    assert int(normal["runs"].sum()) >= 50
    found = diagnose("slow", source)
    assert (found.verdict, found.severity) == ("one_code", "warning")


def test_a_code_that_is_known_since_minutes_has_what_there_is_for_a_normal(center: TaskCenter) -> None:
    now = center.now().replace(microsecond=0)
    for n in range(90):
        ran(center, n + 1, 1, "success", now - timedelta(minutes=10, seconds=10 * n + 5), runtime_ms=100)
    assert int(LiveSource(center, Window.last(600, now)).frame("service_normal")["runs"].sum()) == 90


def test_a_batch_written_days_ahead_has_arrived_also_when_it_is_done(center: TaskCenter) -> None:
    now = center.now()
    claimed = start(center, WORKER, *[new(payload=f'{{"n": {n}}}') for n in range(5)])
    ends = [succeeded(one, started_at=one.claimed_at, finished_at=now, runtime_ms=300) for one in claimed[:3]]
    ends.append(failed(claimed[3], started_at=claimed[3].claimed_at, finished_at=now, runtime_ms=20))
    assert center.worker_desk(WORKER).finish(ends) == []
    bind = center.database.dialect.bind
    due = bind(now - timedelta(minutes=20))
    sql(center, "UPDATE task_center SET created_at = :at", at=bind(now - timedelta(days=3)))
    sql(center, "UPDATE task_center SET plan_next_run_at = :due WHERE status <> 4", due=due)
    center.intake.insert([new(plan_next_run_at=now + timedelta(hours=1))])
    arrivals = live(center).frame("arrivals")
    assert set(arrivals["source"]) == {"planned"}
    assert int(arrivals["arrived"].sum()) == 4, (
        "three are done, one runs; of a later retry only its writing is known"
    )
    assert diagnose("capacity", live(center)).verdict != "no_data"


def test_nan_stays_missing(center: TaskCenter) -> None:
    frame = FRAMES["samples"].of([{"bucket_at": 0, "queue": "q", "queued_mean": None}])
    assert pd.isna(frame["queued_mean"].iloc[0])
