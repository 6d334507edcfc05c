"""Incidents of the lab for real, one and more of each rule: the verdict from the bundle is the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil
import pytest

from taskkit.analytics import Bundle, Diagnosis, diagnose
from taskkit.cli.lab import performed
from taskkit.cli.lab_score import Scored
from taskkit.errors import InputError
from taskkit.lab.truth import BUNDLE, read
from taskkit.lab.variants import find
from tests.commands import done
from tests.pids import command_line
from tests.servers import MariaDB, Valkey
from tests.waiting import wait_until

EMBEDDED = [
    ("backlog", "unserved_queue"),
    ("duplicates", "killed_after_effect"),
    ("duplicates", "retried_without_idempotency"),
    ("lost", "handler_not_deployed"),
    ("zombies", "dead_worker"),
]


def brought_about(rule: str, name: str, out: Path, **urls: Any) -> tuple[Scored, Diagnosis]:
    urls = {"database_url": None, "redis_url": None} | urls
    return performed(find(rule, name), quiet=True, seed=1, out=out, **urls)


@pytest.mark.parametrize(("rule", "name"), EMBEDDED)
def test_the_diagnosis_of_a_real_incident_is_the_truth(rule: str, name: str, tmp_path: Path) -> None:
    before = family()
    scored, found = brought_about(rule, name, tmp_path)
    assert scored.right, found.text()
    assert len(found.evidence) >= 3
    assert read(tmp_path)["variant"] == name
    assert diagnose(rule, Bundle(tmp_path / BUNDLE)) == found
    assert list((tmp_path / "logs").glob("worker-*.log"))
    wait_until(lambda: family() <= before)


def family() -> set[int]:
    """The pids of taskkit's processes under this one."""
    return {p.pid for p in psutil.Process().children(recursive=True) if "taskkit." in command_line(p.pid)}


def test_what_was_done_twice_is_known_from_the_lab_itself(tmp_path: Path) -> None:
    brought_about("duplicates", "retried_without_idempotency", tmp_path)
    facts = read(tmp_path)["facts"]
    assert facts["twice"]
    assert all(n == 2 for n in facts["effects"].values())


def test_the_holder_of_the_rows_is_named(tmp_path: Path, mariadb: MariaDB, valkey: Valkey) -> None:
    urls = {"database_url": mariadb.url, "redis_url": valkey.url}
    scored, found = brought_about("zombies", "report_holds_rows", tmp_path, **urls)
    assert scored.right, found.text()
    assert found.details["holder"] == read(tmp_path)["facts"]["holder"]


def test_taken_and_not_claimed_is_late_and_not_twice_on_servers(
    tmp_path: Path, mariadb: MariaDB, valkey: Valkey
) -> None:
    urls = {"database_url": mariadb.url, "redis_url": valkey.url}
    scored, found = brought_about("duplicates", "killed_before_claim", tmp_path, **urls)
    assert scored.right, found.text()
    assert set(read(tmp_path)["facts"]["effects"].values()) == {1}


def test_an_incident_that_needs_row_locks_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs a server with row locks"):
        brought_about("zombies", "report_holds_rows", tmp_path)


def test_the_list_names_every_variant_with_its_right_verdict() -> None:
    found = done("lab", "list", "--json").json
    assert {"rule": "lost", "variant": "wiped_redis", "verdicts": ["wiped_redis"]}.items() <= next(
        one for one in found if one["variant"] == "wiped_redis"
    ).items()
    assert "wiped_redis" in done("lab", "list").out


def test_the_score_prints_truth_and_verdict_of_each_run(tmp_path: Path) -> None:
    said = done("lab", "score", "--seeds", 1, "--variants", "each_once", "--out", tmp_path).out
    assert "1 of 1 right" in said
    assert (tmp_path / "duplicates-each_once-1" / BUNDLE).exists()
