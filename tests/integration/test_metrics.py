"""``/metrics``: what Prometheus reads of the watchdog, counters that only grow, and a look that stays cheap."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from taskkit import Settings
from taskkit.beats import WorkerBeat
from taskkit.center import TaskCenter
from taskkit.center.gauges import STATES, QueueGauge
from taskkit.errors import SettingsError
from taskkit.settings.schema import Watchdog
from taskkit.states import Outcome, Status
from taskkit.watchdog import metrics as metrics_module
from taskkit.watchdog.metrics import MOST_QUEUES, OTHERS, Collector, Metrics, RunCounters, bounded
from tests.alert_rows import written
from tests.centers import in_status, new, sql

pytest_plugins = ["tests.center_fixtures"]


def seen(families: Iterator[Metric]) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for one in families
        for sample in one.samples
    }


def run(
    center: TaskCenter, task_id: int, outcome: str = "success", queue: str = "mail", ms: int = 1500
) -> None:
    sql(
        center,
        "INSERT INTO task_run (task_id, attempt, task_code, queue, outcome, runtime_ms) VALUES (:id, 1, 'm', :queue, :outcome, :ms)",
        id=task_id, queue=queue, outcome=outcome, ms=ms,
    )  # fmt: skip


def beat(center: TaskCenter, name: str, *, busy: int, processes: int = 4) -> None:
    one = WorkerBeat(name, "h", 1, "mail", processes, busy, 0, 0, 0, None, 0, 0.0, [], [])
    center.nodes.enter_worker(one)
    assert center.nodes.beat_worker(one)


def test_depth_and_age_by_queue_and_state(center: TaskCenter) -> None:
    center.intake.insert([new(queue="mail") for _ in range(3)])
    for status in (Status.DISPATCHED, Status.RUNNING, Status.FAILED, Status.HELD):
        in_status(center, status)
    found = seen(Collector(Settings(), center).collect())
    assert found["taskkit_tasks", ("mail", "due")] == 3
    (queue,) = {labels[0] for name, labels in found if name == "taskkit_tasks" and labels[0] != "mail"}
    states = {state: found["taskkit_tasks", (queue, state)] for state in STATES}
    assert (states["queued"], states["running"], states["retrying"], states["held"]) == (1, 1, 1, 1)
    assert found["taskkit_oldest_due_age_seconds", ("mail",)] >= 0
    assert found["taskkit_database_up", ()] == 1


def test_a_fresh_sample_is_read_and_an_old_one_is_not(center: TaskCenter) -> None:
    center.intake.insert([new(queue="mail")])
    center.samples.record({"mail": 7}, center.read.backlogs())
    assert [(one.queue, one.tasks["queued"]) for one in center.gauges.queues()] == [("mail", 7)]
    sql(center, "UPDATE task_sample SET sampled_at = :at", at=center.database.dialect.bind(center.now().replace(year=2025)))  # fmt: skip
    assert [(one.queue, one.tasks["queued"]) for one in center.gauges.queues()] == [("mail", 0)]


def test_runs_are_counted_once_each_and_never_shrink(center: TaskCenter) -> None:
    run(center, 1)
    counters = RunCounters(center)
    run(center, 2)
    run(center, 3, "failed", ms=500)
    counters.look(now=1e9)
    assert counters.runs.total() == 0, "what is not settled yet is not counted"
    counters.look(now=1e9 + 11)
    assert dict(counters.runs) == {("mail", "success"): 1, ("mail", "failed"): 1}
    assert counters.busy_s["mail"] == pytest.approx(2.0)
    sql(center, "DELETE FROM task_run")
    run(center, 4)
    for later in (22, 33, 44):
        counters.look(now=1e9 + later)
    assert dict(counters.runs) == {("mail", "success"): 2, ("mail", "failed"): 1}


def test_one_look_counts_so_many_runs_at_most_and_the_rest_later(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_module, "MOST_RUNS", 2)
    counters = RunCounters(center)
    for number in range(5):
        run(center, number + 1)
    counters.look(now=1e9)
    totals = []
    for later in (11, 22, 33, 44):
        counters.look(now=1e9 + later)
        totals.append(counters.runs.total())
    assert totals == [2, 4, 5, 5]


def test_a_run_that_is_committed_late_is_counted_too(center: TaskCenter) -> None:
    counters = RunCounters(center)
    run(center, 2)
    sql(center, "UPDATE task_run SET id = id + 1")
    counters.look(now=1e9)
    sql(center, "INSERT INTO task_run (id, task_id, attempt, task_code, queue, outcome) SELECT MAX(id) - 1, 1, 1, 'm', 'mail', 'success' FROM task_run")  # fmt: skip
    counters.look(now=1e9 + 11)
    assert counters.runs["mail", "success"] == 2


def test_nodes_alerts_notices_and_checks(center: TaskCenter) -> None:
    beat(center, "h:1:a", busy=3)
    beat(center, "h:2:b", busy=1)
    beat(center, "h:3:c", busy=4)
    sql(center, "UPDATE task_worker SET heartbeat_at = :at WHERE worker_id = 'h:3:c'", at=center.database.dialect.bind(center.now().replace(year=2025)))  # fmt: skip
    center.watchdogs.enter("h:4:d", "h", 4)
    written(center, "ops")
    written(center, rule="backlog", object="", severity="warning")
    center.watchdogs.note("backlog", "breach", 120.0)
    center.watchdogs.note("slow", "failed", 5.0, "no such table")
    found = seen(Collector(Settings(), center).collect())
    for name, labels, value in (
        ("taskkit_workers_alive", (), 2),
        ("taskkit_schedulers_alive", (), 0),
        ("taskkit_watchdogs_alive", (), 1),
        ("taskkit_slots", (), 8),
        ("taskkit_slots_busy", (), 4),
        ("taskkit_alerts_firing", ("zombies", "critical"), 1),
        ("taskkit_alerts_firing", ("backlog", "warning"), 1),
        ("taskkit_notices_waiting", ("ops",), 1),
        ("taskkit_check_duration_seconds", ("backlog",), 0.12),
        ("taskkit_check_failing", ("backlog",), 0),
        ("taskkit_check_failing", ("slow",), 1),
    ):
        assert found[name, labels] == pytest.approx(value), name


def test_many_queues_are_a_bounded_number_of_series() -> None:
    queues = [QueueGauge(f"q{n}", dict.fromkeys(STATES, n), float(n)) for n in range(250)]
    found = bounded([*queues, QueueGauge("taskkit.drill-0a1b2c", dict.fromkeys(STATES, 9), 1.0)])
    assert len(found) == MOST_QUEUES + 1
    assert found[0].queue == "q249"
    assert (found[-1].queue, found[-1].tasks["due"], found[-1].oldest_age_s) == (
        OTHERS,
        sum(range(150)),
        149.0,
    )


def test_scrapes_within_five_seconds_share_one_look(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = Collector(Settings(), center)
    looks = []
    look = collector._look
    monkeypatch.setattr(collector, "_look", lambda: looks.append(1) or look())
    for _ in range(5):
        assert list(collector.collect())
    assert len(looks) == 1


def test_without_sql_the_scrape_says_so_and_old_numbers_are_not_told(tmp_path: Path) -> None:
    lost = TaskCenter(f"sqlite:///{tmp_path}/nowhere/taskkit.db")
    found = seen(Collector(Settings(), lost).collect())
    assert found["taskkit_database_up", ()] == 0
    assert {name for name, _ in found} == {"taskkit_build_info", "taskkit_database_up"}
    lost.close()


def test_it_is_served_over_http_with_names_units_and_help(center: TaskCenter) -> None:
    center.intake.insert([new(queue="mail")])
    run(center, 1)
    server = Metrics(Settings(watchdog=Watchdog(metrics="127.0.0.1:0")), center)
    server.start()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        with pytest.raises(SettingsError, match=r"watchdog\.metrics: cannot listen on"):
            Metrics(Settings(watchdog=Watchdog(metrics=f"127.0.0.1:{server.port}")), center).start()
    finally:
        server.stop()
    for one in text_string_to_metric_families(text):
        assert re.fullmatch(r"taskkit_[a-z_]+", one.name)
        assert one.documentation
    assert 'taskkit_tasks{queue="mail",state="due"} 1.0' in text
    assert center.database.url.database not in text


def test_off_is_the_default(center: TaskCenter) -> None:
    server = Metrics(Settings(), center)
    server.start()
    assert server.port is None
    server.stop()


def test_every_way_to_end_is_a_label() -> None:
    assert {one.value for one in Outcome} >= {"success", "failed", "timeout", "lost"}
