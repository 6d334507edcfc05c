"""What the measurements share: alternating rounds, honest tables, records; and that each of them is on the page."""

from __future__ import annotations

import argparse
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench import loading
from bench.peers import tables
from bench.peers.servers import version_in
from bench.peers.worklib import RECORD, Records
from bench.report import Report, aligned, alternating, chosen_settings, parser
from bench.sending import Numbers

ROOT = Path(__file__).parents[2]
PROGRAMS = [path.stem for path in (ROOT / "bench").glob("*.py") if "__main__" in path.read_text()]
SCRIPTS = sorted({*PROGRAMS} - {"chaos"})  # which has tests and a page of its own


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_measurement_says_what_it_measures(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [f"bench/{name}.py", "--help"])
    module = importlib.import_module(f"bench.{name}")
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == 0
    assert "--json" in capsys.readouterr().out


def test_the_peers_are_measured_by_a_program_that_starts() -> None:
    command = [sys.executable, str(ROOT / "bench/peers/run.py"), "--help"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "--systems" in done.stdout


def test_every_measurement_is_on_the_page_and_make_bench_runs_only_short_ones() -> None:
    page = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    assert [name for name in SCRIPTS if f"`bench/{name}.py`" not in page] == []
    found = re.search(r"^MEASUREMENTS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found is not None
    assert set(found[1].split()) == set(SCRIPTS) - {"soak", "alerts"}


def test_rounds_alternate_so_that_a_drift_hits_all_alike() -> None:
    order = [(number, thing) for number, thing in alternating(["a", "b", "c"], 3)]
    assert order == [
        *[(0, "a"), (0, "b"), (0, "c")],
        *[(1, "c"), (1, "b"), (1, "a")],
        *[(2, "a"), (2, "b"), (2, "c")],
    ]


def test_a_report_shows_medians_with_the_least_and_the_most_and_says_on_what() -> None:
    options = argparse.Namespace(rounds=3, set=["worker_processes=4"], json=None)
    report = Report("Speed", options, ["what", "tasks/s"])
    for rate in (30.0, 10.0, 20.0):
        report.keep("mail", rate=rate)
    report.rows.append(["mail", report.spread("mail", "rate")])
    text = report.text()
    assert "| mail | 20 (10..30) |" in text
    assert "3 alternating rounds" in text
    assert "worker_processes=4" in text
    assert "CPUs" in text


def test_a_report_writes_every_round_for_scripts(tmp_path: Path) -> None:
    options = parser("x").parse_args(["--json", str(tmp_path / "figures.json"), "--set", "app=x:y"])
    report = Report("Speed", options, ["what"])
    report.keep("mail", rate=1.5)
    report.finish()
    assert '"rate": 1.5' in (tmp_path / "figures.json").read_text()
    assert chosen_settings(options, short_way=False) == {"short_way": False, "app": "x:y"}


def test_a_table_is_markdown_that_reads_well_on_a_terminal() -> None:
    assert aligned(["way", "ms"], [["short", "1.5"], ["scheduler", "12.0"]]) == [
        "| way       |   ms |",
        "| :-------- | ---: |",
        "| short     |  1.5 |",
        "| scheduler | 12.0 |",
    ]


def test_records_are_read_once_each_and_a_torn_one_is_left_for_later(tmp_path: Path) -> None:
    records = Records(tmp_path / "folder" / "records")
    records.clear()
    one, two = (RECORD.pack(b"s", 1, number, 0.5, 1.5) for number in (1, 2))
    records.path.write_bytes(one + two[:9])
    assert records.news() == [(b"s", 1, 1, 0.5, 1.5)]
    records.path.write_bytes(one + two)
    assert [record[2] for record in records.news()] == [2]
    assert records.count() == len(records.all()) == 2


def test_numbers_tell_what_was_never_met_and_what_was_met_twice() -> None:
    numbers = Numbers()
    for number in (7, 5000, 7):
        numbers.meet(number)
    assert (numbers.met, numbers[7], numbers[5000], numbers[8], numbers[10**6]) == (2, 2, 1, 0, 0)
    assert list(numbers.all()) == [7, 5000]


@pytest.mark.parametrize("kind", loading.KINDS)
def test_rows_are_loaded_with_a_value_for_each_column(kind: str) -> None:
    text = loading.statement(kind, 1000, 50)
    names, values = re.findall(r"\((.*?)\) SELECT (.*) FROM", text)[0]
    assert len(names.split(", ")) == len(loading.KINDS[kind])
    assert "{" not in values.replace('{"order"', "")
    assert text.endswith("WHERE n < 50")


def test_the_numbers_to_load_from_double_themselves() -> None:
    assert len(list(loading.doubling(8))) == 2 + 3


@pytest.mark.parametrize(
    ("said", "title", "version"),
    [
        ("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0", "Redis", "Redis 7.0.15"),
        ("Valkey server v=9.1.2 sha=00000000:1 malloc=libc bits=64", "Redis", "Valkey 9.1.2"),
        ("mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu", "MariaDB", "MariaDB 10.11.19"),
        ("/usr/sbin/mysqld  Ver 8.4.3 for Linux on x86_64 (MySQL Server)", "MariaDB", "MySQL 8.4.3"),
        ("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", "PostgreSQL", "PostgreSQL 15.18"),
    ],
)
def test_results_say_which_server_it_was(said: str, title: str, version: str) -> None:
    assert version_in(said, title) == version


def test_the_tables_of_the_peers_name_tasks_that_did_not_run_or_ran_twice() -> None:
    fine = {"throughput": 100.0, "seconds": 5.0, "enqueue": 50.0, "ran": 500, "total": 500, "repeated": 0}
    rounds = [fine | {"pss": 80.0, "latency": [1.0, 2.0]}, fine | {"ran": 499, "repeated": 3, "pss": 90.0}]
    system = {"title": "a queue", "slots": 2, "versions": {"queue": "1"}, "durable": True, "idle_pss": 60.0}
    results = {
        "date": "2026-01-01",
        "machine": "2 CPUs",
        "servers": {"redis": "Valkey 9.1.2"},
        "rounds": 2,
        "background": [1.0],
        "systems": {"queue:plain": system | {"rounds": rounds}},
        "flush": {"queue:plain": {"queued": 1000, "ran": 0}},
        "flush_wait": 60,
    }
    text = tables.markdown(results)
    assert "servers: Valkey 9.1.2" in text
    assert "| queue:plain (durable) | 100 (100..100) |" in text
    assert "499 of 500 ran, 3 repeated" in text
    assert "| queue:plain | 0 | 1000 |" in text
    assert "### Errors" not in text
