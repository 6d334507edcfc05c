"""The measurements at work, so small that they measure nothing."""

from __future__ import annotations

import pytest

from bench import flatness, latency, loading, report_transaction, stages, throughput
from bench.peers.worklib import Records
from bench.report import parser
from bench.stack import Ground
from tests.servers import MariaDB, Valkey


def test_throughput_counts_tasks_that_all_succeeded_and_what_each_part_took() -> None:
    with Ground("sqlite").installation(short_way=False) as one:
        found = throughput.measure(one, throughput.KINDS["processes"], 300)
    assert found["rate"] > 0
    assert found["by_producer"] == 0
    assert {"scheduler", "parent", "children", "Redis"} <= found.keys()


def test_latency_is_taken_on_one_clock_by_both_ways() -> None:
    options = parser("").parse_args([])
    options.ways = "scheduler,short"
    with latency.opened(Ground("sqlite"), options) as ways:
        found = {str(way): way.measure(3) for way in ways}
        assert isinstance(ways[0].records, Records)
    assert [len(times) for times in found.values()] == [3, 3]
    assert all(0 < time < 60_000 for times in found.values() for time in times)


def test_scans_find_whole_batches_in_a_full_and_in_an_empty_task_center(
    mariadb: MariaDB, valkey: Valkey
) -> None:
    ground = Ground("mariadb", mariadb, valkey, mariadb.url)
    with ground.installation() as full, ground.installation() as empty:
        for kind, rows in (("finished", 3000), ("future", 500), ("due", 2000)):
            loading.load(full, kind, rows)
        loading.make_numbers(empty)
        report = flatness.Report("x", parser("").parse_args([]), flatness.HEAD)
        flatness.one_round(flatness.Scans(full), flatness.Scans(empty), 2, report)
        assert full.query("SELECT COUNT(*) FROM task_center WHERE status = 1") == [(2000,)]
        assert empty.query("SELECT COUNT(*) FROM task_center WHERE status = 1") == [(1000,)]
    assert report.median("full", "claim") > 0
    assert report.median("ratio", "scan") > 0


def test_the_stages_of_a_task_together_bring_it_to_its_end(mariadb: MariaDB, valkey: Valkey) -> None:
    ground = Ground("mariadb", mariadb, valkey, mariadb.url)
    with ground.installation(short_way=False) as one:
        found = dict(stages.measure(one, 200, 50))
        assert one.query("SELECT COUNT(*) FROM task_run WHERE outcome = 'success'") == [(200,)]
    assert list(found) == list(stages.STAGES)
    assert all(costs["wall"] > 0 for costs in found.values())


def test_scans_beside_a_report_are_told_with_what_waits_to_be_purged(
    mariadb: MariaDB, valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_transaction, "LOOKS", 1)
    report = report_transaction.Report("x", parser("").parse_args([]), report_transaction.HEAD)
    with Ground("mariadb", mariadb, valkey, mariadb.url).installation() as one:
        churn = report_transaction.Churn(one, 3000)
        churn.look(report, "before", 0)
        with report_transaction.open_report(one):
            churn.step()
            churn.look(report, "beside", churn.done)
            assert report_transaction.history(one) > 0
        churn.look(report, "after", 0)
        assert one.query("SELECT COUNT(*) FROM task_center WHERE status = 0") == [(3000,)]
    assert [row[0] for row in report.rows] == ["before", "beside", "after"]
    assert "(look and choose)" in report_transaction.growth(report)
