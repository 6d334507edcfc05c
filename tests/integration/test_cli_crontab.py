"""``taskkit import-crontab``: every line is accounted for, and running it twice adds nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from taskkit.clock import parse_instant
from taskkit.cron import parse
from tests.commands import cli, done, refused

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "shop" / "crontab"
LINE_NAMES = {
    "line", "kind", "status", "reason", "expression", "timezone", "user", "command", "stdin", "task_id", "next",
    "notes",
}  # fmt: skip
TAB = """\
# comment
MAILTO=ops@example.com

*/5 * * * * echo five
0 2 * * 1-5 echo "at two" | cat%with input
@daily echo daily
61 * * * * echo never
@reboot echo reboot
"""


def accounts(*arguments: object, code: int = 0, stdin: str = "") -> list[dict[str, Any]]:
    answer = cli("import-crontab", *arguments, "--json", stdin=stdin)
    assert answer.code == code, answer
    found: list[dict[str, Any]] = answer.json
    assert all(set(one) >= {"file", "format", "detected", "lines"} for one in found)
    assert all(set(line) >= LINE_NAMES for one in found for line in one["lines"])
    return found


@pytest.fixture
def tab(tmp_path: Path) -> Path:
    path = tmp_path / "tab"
    path.write_text(TAB)
    return path


def test_every_line_is_accounted_for(tab: Path) -> None:
    (found,) = accounts(tab, code=1)
    assert (found["file"], found["format"]) == (str(tab), "user")
    lines = found["lines"]
    assert [line["line"] for line in lines] == list(range(1, 9))
    assert [line["status"] for line in lines] == [
        "comment", "env", "blank", "imported", "imported", "imported", "refused", "refused",
    ]  # fmt: skip
    assert [line["task_id"] for line in lines] == [None, None, None, 1, 2, 3, None, None]
    assert all(line["reason"] for line in lines if line["status"] == "refused")
    assert lines[4]["command"] == 'echo "at two" | cat'


def test_the_tasks_run_the_command_by_the_shell_at_crons_times(tab: Path) -> None:
    (found,) = accounts(tab, "--tz", "America/New_York", code=1)
    line = found["lines"][4]
    task = done("tasks", "show", line["task_id"], "--json").json
    assert (task["task_code"], task["queue"], task["task_type"]) == ("shell", "shell", 1)
    assert (task["cron_expr"], task["timezone"]) == ("0 2 * * 1-5", "America/New_York")
    assert (task["max_retry"], task["timeout"]) == (0, 86_400)
    assert task["payload"]["command"] == 'echo "at two" | cat'
    assert task["payload"]["stdin"] == "with input\n"
    assert task["plan_next_run_at"][:19] == line["next"][0][:19]
    instants = [parse_instant(text) for text in line["next"]]
    after = parse_instant(task["created_at"])
    assert instants == parse("0 2 * * 1-5", "America/New_York").upcoming(after, 5)


def test_running_it_twice_adds_nothing(tab: Path) -> None:
    (first,) = accounts(tab, code=1)
    (second,) = accounts(tab, code=1)
    statuses = Counter(line["status"] for line in second["lines"])
    assert (statuses["imported"], statuses["exists"]) == (0, 3)
    assert [line["task_id"] for line in first["lines"]] == [line["task_id"] for line in second["lines"]]
    assert len(done("tasks", "list", "--json").json) == 3


def test_a_dry_run_writes_nothing(tab: Path, tmp_path: Path) -> None:
    (found,) = accounts(tab, "--dry-run", code=1)
    assert Counter(line["status"] for line in found["lines"])["would import"] == 3
    assert all(len(line["next"]) == 5 for line in found["lines"] if line["status"] == "would import")
    assert [path.name for path in tmp_path.iterdir()] == ["tab"]


def test_exit_code_0_when_no_job_line_was_refused() -> None:
    (found,) = accounts(EXAMPLE)
    assert not any(line["status"] == "refused" for line in found["lines"])
    assert sum(line["status"] == "imported" for line in found["lines"]) == 5


def test_a_system_crontab_from_stdin() -> None:
    line = "17 * * * * root cd / && run-parts --report /etc/cron.hourly\n"
    (found,) = accounts("-", "--system", stdin=line)
    assert (found["file"], found["format"]) == ("-", "system")
    assert found["lines"][0]["user"] == "root"
    task = done("tasks", "show", 1, "--json").json
    assert task["payload"]["user"] == "root"
    (found,) = accounts("-", "--user", "--dry-run", stdin=line)
    assert (found["format"], found["lines"][0]["user"]) == ("user", None)


def test_options_for_all_tasks(tab: Path) -> None:
    accounts(tab, "--queue", "cron", "--timeout", "2h", "--max-retry", "2", "--misfire", "skip", code=1)
    task = done("tasks", "show", 1, "--json").json
    assert (task["queue"], task["timeout"], task["max_retry"], task["misfire"]) == ("cron", 7200, 2, "skip")


def test_a_dry_run_says_what_is_there_already(tab: Path) -> None:
    accounts(tab, code=1)
    tab.write_text(TAB + "5 5 * * * echo new\n")
    (found,) = accounts(tab, "--dry-run", code=1)
    statuses = [line["status"] for line in found["lines"] if line["kind"] == "job"]
    assert statuses == ["exists", "exists", "exists", "would import"]
    assert [line["task_id"] for line in found["lines"] if line["kind"] == "job"] == [1, 2, 3, None]
    assert len(done("tasks", "list", "--json").json) == 3


def test_what_exists_shows_its_own_schedule_and_how_to_change_it(tab: Path) -> None:
    accounts(tab, "--tz", "Asia/Shanghai", code=1)
    for options in ((), ("--dry-run",)):
        (found,) = accounts(tab, "--tz", "America/New_York", *options, code=1)
        line = found["lines"][4]
        assert (line["status"], line["timezone"]) == ("exists", "Asia/Shanghai")
        after = parse_instant(done("tasks", "show", 2, "--json").json["created_at"])
        times = parse("0 2 * * 1-5", "Asia/Shanghai").upcoming(after, 5)
        assert [parse_instant(text) for text in line["next"]] == times
        (note,) = [note for note in line["notes"] if "was left as it is" in note]
        assert "zone Asia/Shanghai, not America/New_York" in note
        assert "`taskkit tasks cancel 2` and import again" in note
    (same,) = accounts(tab, "--tz", "Asia/Shanghai", code=1)
    assert not any("left as it is" in note for line in same["lines"] for note in line["notes"])


def test_a_job_that_another_source_has_is_named(tab: Path) -> None:
    accounts(tab, code=1)
    for options, status in ((("--dry-run",), "would import"), ((), "imported")):
        (found,) = accounts("-", *options, stdin="*/5 * * * * echo five\n")
        (line,) = found["lines"]
        assert line["status"] == status
        assert any("task 1, imported from another source (tab)" in note for note in line["notes"])
    (other,) = accounts("-", stdin="*/6 * * * * echo five\n*/6 * * * * echo five\n")
    assert not any("another source" in note for line in other["lines"] for note in line["notes"])


def test_input_after_a_percent_sign_is_shown(tab: Path) -> None:
    (found,) = accounts(tab, "--dry-run", code=1)
    assert [line["stdin"] for line in found["lines"][4:6]] == ["with input\n", None]
    assert 'echo "at two" | cat < 1 line of input' in cli("import-crontab", tab, "--dry-run").out


def test_the_page_for_people(tab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    answer = cli("import-crontab", tab, "--dry-run", "--tz", "Asia/Shanghai")
    assert answer.code == 1
    assert answer.err == ""
    assert "user's crontab, no user column" in answer.out
    assert (
        "8 lines in 1 file: 3 would be imported, 2 refused, 1 environment line, 1 comment, 1 blank"
        in answer.out
    )
    assert "- lines 4, 5, 6: times in Asia/Shanghai" in answer.out
    assert "- lines 4, 5, 6: no mail to ops@example.com" in answer.out
    table = [line for line in answer.out.splitlines()[:-1] if not line.startswith(("-", str(tab)))]
    assert max(map(len, table)) <= 80


def test_the_page_of_a_second_import_says_that_nothing_was_changed(tab: Path) -> None:
    accounts(tab, code=1)
    tab.write_text(TAB + "# new\n5 5 * * * echo new\n")
    shown = cli("import-crontab", tab).out
    assert (
        "10 lines in 1 file: 1 imported, 3 already there (unchanged), 2 refused, 1 environment line, 2 comments, "
        "1 blank\n"
    ) in shown
    assert "already there: task 2 " in shown
    assert "imported: task 4 " in shown


def test_it_says_when_this_machines_cron_reads_times_in_another_zone(
    tab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskkit.cli.crontab._machine_zone", lambda: "Asia/Shanghai")
    assert "--tz Asia/Shanghai reads them as its cron did" in cli("import-crontab", tab, "--dry-run").err
    assert cli("import-crontab", tab, "--dry-run", "--tz", "UTC").err == ""


@pytest.mark.parametrize(
    ("name", "says"), [("nowhere", "nowhere: No such file"), (".", "is a folder; name its files")]
)
def test_files_that_cannot_be_read(name: str, says: str) -> None:
    assert says in refused("import-crontab", name, "--dry-run", code=1)


def test_an_unknown_zone_is_refused_before_anything_is_read(tab: Path) -> None:
    assert "there is no time zone 'Asia/Beijing'" in refused("import-crontab", tab, "--tz", "Asia/Beijing")


def test_bytes_that_are_no_text_are_one_refused_line(tmp_path: Path) -> None:
    (tmp_path / "tab").write_bytes(b"* * * * * echo \xff\n* * * * * echo fine\n")
    (found,) = accounts("tab", code=1)
    assert [line["status"] for line in found["lines"]] == ["refused", "imported"]
