"""The lines of a crontab, by the grammar of Debian's cron: environment, time fields, command and input."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from taskkit.crontab import Crontab, Job, Line, read


def own(text: str, timezone: str = "UTC") -> Crontab:
    """A user's own crontab."""
    return read(text, name="crontab.txt", system=False, timezone=timezone)


def one(text: str, *, system: bool = False) -> Line:
    """The only line of a text."""
    (line,) = read(text + "\n", name="crontab.txt", system=system, timezone="UTC")
    return line


def job(text: str, *, system: bool = False) -> Job:
    """The job of the last line of a text, which must be one."""
    line = read(text + "\n", name="crontab.txt", system=system, timezone="UTC")[-1]
    assert line.job is not None, line.reason
    return line.job


@pytest.mark.parametrize(
    ("written", "name", "value"),
    [
        ("A=b", "A", "b"),
        ("  \tA  =\t b c ", "A", "b c"),
        ('A="  b  "', "A", "  b"),
        ("A='b\"c'", "A", 'b"c'),
        ("\"A B\" = 'c'", "A B", "c"),
        ("'A'=b", "A", "b"),
        ("A=\"'b'\"", "A", "b"),
        ('A=b "c"', "A", 'b "c"'),
        ("A=b # c", "A", "b # c"),
        ("A==b", "A", "=b"),
        ('MAILTO=""', "MAILTO", ""),
        ("MAILTO=", "MAILTO", ""),
        ("PATH=/x:$PATH", "PATH", "/x:$PATH"),
        ("A=\\%", "A", "\\%"),
        ("A=中文😀", "A", "中文😀"),
    ],
)
def test_an_environment_line_is_read_as_cron_reads_it(written: str, name: str, value: str) -> None:
    crontab = own(f"{written}\n* * * * * x\n")
    assert crontab[0].kind == "env"
    assert crontab.jobs[0].env[name] == value


@pytest.mark.parametrize(
    "written", ["A='b", "A='b' c", "'A=b", "'A=B'=c", "=b", "export A=b", "A B=c", "MAILTO root"]
)
def test_what_cron_does_not_take_for_an_environment_line_is_refused(written: str) -> None:
    assert one(written).kind == "refused"


def test_a_job_has_the_environment_lines_above_it_and_later_ones_win() -> None:
    text = "A=1\n* * * * * a\nA=2\nSHELL=/bin/bash\nHOME=/srv\n* * * * * b\nA=3\n"
    first, second = own(text).jobs
    assert first.env == {"SHELL": "/bin/sh", "PATH": "/usr/bin:/bin", "A": "1"}
    assert second.env == {"SHELL": "/bin/bash", "PATH": "/usr/bin:/bin", "A": "2", "HOME": "/srv"}
    assert (first.shell, second.shell) == ("/bin/sh", "/bin/bash")


def test_logname_is_always_the_users() -> None:
    entry = job("LOGNAME=eve\n* * * * * x")
    assert "LOGNAME" not in entry.env
    assert any("LOGNAME" in note for note in entry.notes)


def test_what_an_environment_line_meant_to_cron_is_noted() -> None:
    entry = job("MAILTO=ops@example.org\nRANDOM_DELAY=10\nTZ=Asia/Tokyo\n* * * * * x")
    assert [note.split()[0] for note in entry.notes] == ["no", "RANDOM_DELAY", "TZ=Asia/Tokyo"]
    assert (entry.timezone, entry.env["TZ"]) == ("UTC", "Asia/Tokyo")
    assert job('MAILTO=""\n* * * * * x').notes == ()


def test_cron_tz_sets_the_zone_of_the_jobs_below_it() -> None:
    text = "0 9 * * * a\nCRON_TZ=Asia/Shanghai\n0 9 * * * b\nCRON_TZ=\n0 9 * * * c\nCRON_TZ=Asia/Beijing\n0 9 * * * d\n"
    crontab = own(text, "Europe/Berlin")
    assert [entry.timezone for entry in crontab.jobs] == ["Europe/Berlin", "Asia/Shanghai", "Europe/Berlin"]
    assert "Debian's cron ignores" in crontab.jobs[1].notes[0]
    assert crontab.jobs[1].upcoming(datetime(2026, 2, 27, 22, tzinfo=UTC), 1) == [
        datetime(2026, 2, 28, 1, tzinfo=UTC)
    ]
    assert "Asia/Beijing" in crontab[-1].reason


@pytest.mark.parametrize(
    ("written", "command", "stdin"),
    [
        (r"date +\%s", "date +%s", None),
        (r"a\\b \n \x", r"a\b \n \x", None),
        (r"a\\%b", "a\\", "b\n"),
        ("mail -s hi joe%Joe,%%Where are your kids?%", "mail -s hi joe", "Joe,\n\nWhere are your kids?\n"),
        (r"cat%50\% of \\% and \x", "cat", "50% of \\% and \\x\n"),
        ("cat%", "cat", ""),
        ("cat%%", "cat", "\n"),
        ("cat%a\\", "cat", "a\\\n"),
        ("x # not a comment", "x # not a comment", None),
        ("FOO=1 x", "FOO=1 x", None),
        ("x  ", "x  ", None),
        ("x " + "y" * 996, "x " + "y" * 996, None),
    ],
)
def test_the_percent_sign_and_the_backslash_are_read_as_cron_reads_them(
    written: str, command: str, stdin: str | None
) -> None:
    entry = job(f"* * * * * {written}")
    assert (entry.command, entry.stdin) == (command, stdin)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("@reboot x", "no start of a machine"),
        ("@every 5m x", "none of"),
        ("@Daily x", "'@Daily' is none of"),
        ("* * * *", "only 4 of five"),
        ("* * * * ", "only 4 of five"),
        ("* * * * *", "no command"),
        ("* * * * * ", "no command"),
        ("@daily", "no command"),
        ("* * * * * %x", "no command before the '%'"),
        ("60 * * * * x", "minute: '60' is not in 0-59"),
        ("* 24 * * * x", "hour: '24' is not in 0-23"),
        ("* * 0 * * x", "day of month: '0'"),
        ("* * * 13 * x", "month: '13'"),
        ("* * * foo * x", "names are jan, feb"),
        ("* * * january * x", "month: 'january'"),
        ("* * * * 8 x", "day of week: '8'"),
        ("jan * * * * x", "minute: 'jan' is no number"),
        ("*/0 * * * * x", "a step of 0"),
        ("*/90 * * * * x", "larger than its range"),
        ("5/15 * * * * x", "write 5-59/15"),
        ("50-10 * * * * x", "write 50-59,0-10"),
        ("0 0 * * fri-sun x", "write 5-7"),
        ("0~59 * * * * x", "'0~59' is no number"),
        ("? * * * * x", "'?' is no number"),
        ("0 0 L * * x", "day of month: 'L' is no number"),
        ("0 0 * * 5#2 x", "'5#2' is no number"),
        ("H * * * * x", "minute: 'H' is no number"),
        ("-*/5 * * * * x", "'-*/5' is no number"),
        ("1,,2 * * * * x", "minute: '' is no number"),
        ("1, 2 * * * * x", "minute: '' is no number"),
        ("٣ * * * * x", "'٣' is no number"),
        ("0 0 30 2 * x", "never fires"),
        ("* * * * * * x", "starts with '*'"),
        ("* * * * * x\0y", "NUL"),
        ("A=\0", "NUL"),
        ("* * * * * caf\udce9", "not UTF-8"),
        ("A=\ud800", "not UTF-8"),
        ("* * * * * " + "x" * 999, "more than 998 bytes"),
        ("* * * * * " + "é" * 500, "more than 998 bytes"),
        ("A=" + "x" * 997, "more than 998 bytes"),
        ("9" * 5000 + " * * * * x", "..."),
        ("\xa0* * * * * x", "is no number"),
        ("{not a crontab}", "minute: '{not'"),
    ],
)
def test_what_cannot_be_scheduled_is_refused_with_its_reason(written: str, reason: str) -> None:
    line = one(written)
    assert (line.kind, line.job) == ("refused", None)
    assert reason in line.reason
    assert "\n" not in line.reason
    assert len(line.reason) < 300


@pytest.mark.parametrize("written", ["", "   ", "\t", "\r"])
def test_a_blank_line_is_blank(written: str) -> None:
    assert one(written).kind == "blank"


@pytest.mark.parametrize("written", ["#", " \t# x", "#* * * * * x", "# \0 \udcff", "#" + "x" * 5000])
def test_a_comment_is_a_comment_whatever_it_holds(written: str) -> None:
    line = one(written)
    assert line.kind == "comment"
    assert line.text.replace("\t", " ").isprintable()
    assert line.text.encode().decode() == line.text


def test_a_system_crontab_has_a_user_and_names_what_is_none() -> None:
    entry = job(" \t1 2\t3  4 5 \t www-data \t run  this", system=True)
    assert (entry.expression, entry.user, entry.command) == ("1 2 3 4 5", "www-data", "run  this")
    assert "is no user name" in one("* * * * * /usr/bin/x y", system=True).reason
    assert "no command" in one("* * * * * root", system=True).reason
    assert "no command" in one("* * * * *", system=True).reason


def test_the_payload_is_that_of_the_built_in_shell_handler() -> None:
    assert job("* * * * * www-data cat%x", system=True).payload == {
        "command": "cat",
        "shell": "/bin/sh",
        "env": {"SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"},
        "clean_env": True,
        "stdin": "x\n",
        "user": "www-data",
    }
    assert job("* * * * * x").payload.keys() == {"command", "shell", "env", "clean_env"}


@pytest.mark.parametrize(
    ("command", "noted"),
    [
        ("backup-$(date +%F)", True),
        ("backup-`date +%F`", True),
        ("tar cf \"/b/$(date '+%Y-%m-%d').tar\" /etc", True),
        ("date +%s > /tmp/now", True),
        ("date -u +%s", True),
        (r"backup-$(date +\%F)", False),
        ("cat%with input", False),
        ("mail -s 'it is done' root%Hello%there", False),
        (r"echo \"%text", False),
    ],
)
def test_a_percent_sign_that_was_hardly_meant_is_noted(command: str, noted: bool) -> None:
    (job,) = read(f"* * * * * {command}\n", name="tab", system=False, timezone="UTC").jobs
    assert any(r"write \%" in note for note in job.notes) is noted
