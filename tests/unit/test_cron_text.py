"""What is taken as an expression, a zone and a policy, and what is refused with which words."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import taskkit.cron
from taskkit.cron import parse, resolve_hash, tzdata_version
from taskkit.errors import CronError, InputError

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)

REFUSED = [
    ("", "is empty"),
    (" \n", "is empty"),
    ("* * * *", "has 4 fields; write 5"),
    ("*", "has 1 field;"),
    ("* * * * * * *", "has 7 fields; a year is not taken"),
    ("* * * * * * * *", "has 8 fields"),
    ("60 * * * *", "60 is not between 0 and 59"),
    ("* 24 * * *", "24 is not between 0 and 23"),
    ("* * 0 * *", "0 is not between 1 and 31"),
    ("* * 32 * *", "32 is not between 1 and 31"),
    ("* * * 13 *", "13 is not between 1 and 12 or JAN to DEC"),
    ("* * * 0 *", "0 is not between 1 and 12"),
    ("* * * * 8", "8 is not between 0 and 7 or SUN to SAT"),
    ("* * * * * 8", "day-of-week 8"),
    ("60 * * * * *", "second 60"),
    ("*/0 * * * *", "a step of 0"),
    ("-1 * * * *", "negative"),
    ("1.5 * * * *", "only whole numbers"),
    ("1,,2 * * * *", "extra comma"),
    (", * * * *", "extra comma"),
    ("a b c d e", "'A' is not a minute"),
    ("* * * FOO *", "FOO is not between"),
    ("* * * MON *", "MON is not between"),
    ("MON * * * *", "MON is not between 0 and 59"),
    ("０ ０ * * *", "not an ASCII character"),
    ("0\u00a00 * * *", "not an ASCII character"),
    ("0 0 * * ٣", "not an ASCII character"),
    ("0 0 * * *\n0 1 * * *", "not an ASCII character"),
    ("0 0 * * *\x00", "not an ASCII character"),
    ("TZ=UTC 0 0 * * *", "timezone"),
    ("CRON_TZ=Asia/Shanghai 0 9 * * *", "timezone"),
    ("@every 5m", "*/5 * * * *"),
    ("@reboot", "start it with the system"),
    ("@dayly", "did you mean @daily?"),
    ("@daily x", "not a known name"),
    ("R * * * *", "R is random"),
    ("R(0-5) * * * *", "R is random"),
    ("H * * * *", "when a task is written"),
    ("H/15 * * * *", "when a task is written"),
    ("5-1 * * * *", "runs backwards; write 5-59,0-1"),
    ("0 22-2 * * *", "runs backwards; write 22-23,0-2"),
    ("0 0 * NOV-FEB *", "runs backwards; write NOV-DEC,JAN-FEB"),
    ("0 0 * * FRI-MON", "runs backwards; write FRI-SAT,SUN-MON"),
    ("0 0 * * 7-5", "runs backwards; write SUN-FRI"),
    ("*/90 * * * *", "the step 90 is larger than its range of 60"),
    ("0-59/61 * * * *", "the step 61 is larger"),
    ("59/15 * * * *", "write 59 alone"),
    ("0 0 * * 1/2", "give the weekdays an end"),
    ("0-*/2 * * * *", "'0-*/2' is not a minute"),
    ("*-5 * * * *", "* is the whole range already"),
    ("? * * * *", "write *"),
    ("0 0 ?/2 * *", "write *"),
    ("0 0 L-3 * *", "days before the last"),
    ("0 0 15W * *", "W (nearest working day)"),
    ("0 0 LW * *", "W (nearest working day)"),
    ("0 0 * * L", "SATL"),
    ("0 L * * *", "only for day-of-month"),
    ("0 0 * * 1#0", "at most five"),
    ("0 0 * * 1#6", "at most five"),
    ("0 0 * * 8#1", "is not a day-of-week"),
    ("0 0 * * 1#1,3", "do not mix"),
    ("0 0 * * *,1#1", "do not mix"),
    ("0 0 1#1 * *", "is not a day-of-month"),
    ("1--2 * * * *", "is not a minute"),
    ("1-2-3 * * * *", "is not a minute"),
    ("*/1/2 * * * *", "is not a minute"),
    ("* * * * * ; rm", "has 7 fields"),
    ("0 9 * * %", "is not a day-of-week"),
    ("0," * 60 + "0 * * * *", "at most 100 are kept"),
]

SAME = [
    ("@hourly", "0 * * * *"),
    ("@DAILY", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("59 23 31 12 *\n", "59 23 31 12 *"),
    (" 05\t03  * * mon-fri \r\n", "05 03 * * MON-FRI"),
    ("0 0 12 ? * mon", "0 0 12 * * MON"),
    ("0 0 l jan,Feb ?", "0 0 L JAN,FEB *"),
]

SAME_TIMES = [
    ("0 0 * * 0", "0 0 * * 7"),
    ("0 0 * * SUN", "0 0 * * 7-7"),
    ("0 0 * * SAT-SUN", "0 0 * * 6,0"),
    ("0 0 * * 1-7/2", "0 0 * * MON,WED,FRI,SUN"),
    ("0 0 * * 0-7", "0 0 * * *"),
    ("0 0 * * 5L", "0 0 * * L5"),
    ("0 0 * * 7#2", "0 0 * * SUN#2"),
    ("0 0 1 JAN *", "0 0 1 1 *"),
    ("5-5 3 * * *", "5 3 * * *"),
    ("7/20 3 * * *", "7,27,47 3 * * *"),
    ("*,5 * * * *", "* * * * *"),
    ("*/60 * * * *", "0 * * * *"),
    ("0 0 1/1 * *", "0 0 * * *"),
    ("0 9 * * *", "0 0 9 * * *"),
    ("0-59/59 1 * * *", "0,59 1 * * *"),
]


@pytest.mark.parametrize(("expression", "words"), REFUSED)
def test_a_bad_expression_is_refused_in_one_line_that_says_why(expression: str, words: str) -> None:
    with pytest.raises(CronError) as refusal:
        parse(expression)
    assert refusal.value.field == "cron"
    assert words in str(refusal.value)
    assert str(refusal.value).isprintable()
    assert str(refusal.value).isascii()
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize("expression", [None, 5, b"* * * * *", ["* * * * *"]])
def test_what_is_no_text_is_refused(expression: object) -> None:
    with pytest.raises(CronError, match="must be text"):
        parse(expression)  # type: ignore[arg-type]


@pytest.mark.parametrize(("expression", "normalised"), SAME)
def test_an_expression_is_kept_in_one_spelling(expression: str, normalised: str) -> None:
    schedule = parse(expression)
    assert schedule.expression == normalised
    assert parse(schedule.expression) == schedule


@pytest.mark.parametrize(("one", "other"), SAME_TIMES)
def test_two_ways_of_writing_one_schedule(one: str, other: str) -> None:
    assert parse(one).upcoming(NEW_YEAR, 30) == parse(other).upcoming(NEW_YEAR, 30)


def test_six_fields_have_seconds_first() -> None:
    fires = parse("*/20 30 9 ? * MON-FRI", "UTC").upcoming(NEW_YEAR, 4)
    assert [fire.strftime("%d %H:%M:%S") for fire in fires] == [
        "01 09:30:00",
        "01 09:30:20",
        "01 09:30:40",
        "02 09:30:00",
    ]


def test_a_hundred_characters_are_taken_and_one_more_is_not() -> None:
    longest = "0," * 45 + "00 * * * *"
    assert len(longest) == 100
    assert parse(f"  {longest}\n").expression == longest
    with pytest.raises(CronError, match="101 characters"):
        parse(f"0{longest}")


@pytest.mark.parametrize(
    ("zone", "words"),
    [
        ("Asia/Beijing", "did you mean Asia/Shanghai?"),
        ("asia/shanghai", "did you mean Asia/Shanghai?"),
        ("Europe/Berln", "did you mean Europe/Berlin?"),
        ("China Standard Time", "Asia/Shanghai"),
        ("+08:00", "Etc/GMT-8"),
        ("UTC+8", "Etc/GMT-8"),
        ("", "write a name"),
        ("../../etc/passwd", "there is no time zone"),
        ("/etc/localtime", "there is no time zone"),
        ("America", "there is no time zone"),
        ("localtime", "there is no time zone"),
        ("right/UTC", "there is no time zone"),
        ("Europe/Berlin\n", "did you mean Europe/Berlin?"),
        ("UTC\x00", "there is no time zone"),
        ("上海", "there is no time zone"),
        ("x" * 5000, "there is no time zone"),
    ],
)
def test_an_unknown_zone_is_refused_with_a_suggestion(zone: str, words: str) -> None:
    with pytest.raises(CronError) as refusal:
        parse("0 9 * * *", zone)
    assert refusal.value.field == "timezone"
    assert words in str(refusal.value)
    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 250


def test_a_zone_must_be_text() -> None:
    with pytest.raises(CronError, match="timezone: must be text"):
        parse("0 9 * * *", UTC)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "policy"), [("dst_gap", {"gap": "before"}), ("dst_overlap", {"overlap": "none"})]
)
def test_an_unknown_policy_is_refused(field: str, policy: dict[str, str]) -> None:
    with pytest.raises(CronError, match="is not a choice; write") as refusal:
        parse("0 9 * * *", **policy)  # type: ignore[arg-type]
    assert refusal.value.field == field


def test_naive_instants_are_refused() -> None:
    schedule, naive = parse("0 9 * * *"), datetime(2026, 3, 1, 9)
    for ask in (
        lambda: schedule.next(naive),
        lambda: schedule.upcoming(naive, 1),
        lambda: schedule.between(NEW_YEAR, naive, 1),
        lambda: schedule.latest(naive, NEW_YEAR),
        lambda: parse("0 9 * * *", after=naive),
    ):
        with pytest.raises(CronError, match="has no time zone"):
            ask()


def test_beyond_the_calendar_there_is_an_error_and_not_a_guess() -> None:
    schedule = parse("0 0 29 2 *")
    with pytest.raises(CronError, match="no fire time between"):
        schedule.next(datetime(2096, 2, 29, tzinfo=UTC))
    with pytest.raises(CronError, match="before 1900"):
        schedule.next(datetime.min.replace(tzinfo=UTC))
    with pytest.raises(CronError, match="no fire time between"):
        parse("0 0 29 2 *", after=datetime.max.replace(tzinfo=UTC))
    assert parse("0 0 1 1 *").next(datetime(2038, 1, 20, tzinfo=UTC)) == datetime(2039, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "resolved"),
    [
        ("H * * * *", "7 * * * *"),
        ("H H * * *", "7 15 * * *"),
        ("h/15 * * * *", "7-59/15 * * * *"),
        ("H(0-9) 3 * * *", "7 3 * * *"),
        ("H(30-59)/10 * * * *", "37-59/10 * * * *"),
        ("0 0 H * *", "0 0 26 * *"),
        ("0 0 * * H", "0 0 * * 6"),
        ("H H 9 * * *", "23 7 9 * * *"),
        ("0 9 * * mon", "0 9 * * MON"),
        ("@daily", "0 0 * * *"),
    ],
)
def test_h_stands_for_the_same_value_on_every_node_and_in_every_version(
    expression: str, resolved: str
) -> None:
    assert resolve_hash(expression, "report:7") == resolved
    assert parse(resolved)


def test_h_spreads_tasks_and_stays_within_every_month() -> None:
    resolved = [resolve_hash("H H H * *", f"task-{n}").split() for n in range(2000)]
    minutes, hours, days = ({int(words[n]) for words in resolved} for n in range(3))
    assert (minutes, hours, days) == (set(range(60)), set(range(24)), set(range(1, 29)))


@pytest.mark.parametrize(
    "expression", ["H(0-99) * * * *", "H(9-3) * * * *", "H/90 * * * *", "H/0 * * * *", ""]
)
def test_an_h_that_cannot_be_kept_is_refused(expression: str) -> None:
    with pytest.raises(CronError):
        resolve_hash(expression, "x")


def test_the_version_of_the_zone_data_is_known() -> None:
    assert tzdata_version().startswith("20")


def test_the_room_has_these_doors() -> None:
    assert sorted(taskkit.cron.__all__) == [
        "Explained",
        "Schedule",
        "explain",
        "parse",
        "resolve_hash",
        "tzdata_version",
    ]
    assert issubclass(CronError, InputError)
