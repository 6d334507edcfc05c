"""The cases of analyses: no rows, one row, nothing known, ids seen often, zones and clock changes; no nonsense in any words."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pytest

from taskkit import analytics
from taskkit.analytics import (
    FRAMES,
    RULES,
    Action,
    Diagnosis,
    Figure,
    GivenSource,
    Subject,
    Window,
    diagnose,
    rendering,
    tables,
)
from taskkit.analytics import measures as m
from taskkit.analytics.rendering import CHAT_BYTES
from tests.incidents import NOW, SINCE, WINDOW, arrived, finished, given, run, times, waiting, worker

NONSENSE = re.compile(r"\b(nan|nat|none|<na>|inf|-inf)\b|[{}]", re.IGNORECASE)
SAMPLE: dict[str, Any] = {
    "datetime64[us, UTC]": SINCE + timedelta(minutes=50),
    "int64": 1,
    "Int64": 1,
    "float64": 1.0,
    "object": "push",
}
ODD: dict[str, Any] = {
    "datetime64[us, UTC]": pd.NaT,
    "int64": 0,
    "Int64": pd.NA,
    "float64": math.nan,
    "object": None,
}
NEVER_ABSENT = {"actions": {"detail": "{}"}, "workers": {"worker_id": "h:1:a", "tasks": "[]"}}
"""What tables always have, or write as JSON."""
BERLIN = ZoneInfo("Europe/Berlin")


def row(name: str, values: dict[str, Any]) -> dict[str, Any]:
    found = {column.name: values[column.dtype] for column in FRAMES[name].columns}
    return found | NEVER_ABSENT.get(name, {})


def spoken(found: Diagnosis) -> list[str]:
    """The diagnosis in all forms and languages."""
    words = [found.text(), found.text("zh"), found.markdown("zh"), found.html()]
    return [re.sub(r"style=\"[^\"]*\"", "", one).replace("none that is known", "") for one in words]


def nonsense(found: Diagnosis) -> list[str]:
    """What of its words and numbers is nonsense, in whatever form."""
    wrong = [match[0] for words in spoken(found) if (match := NONSENSE.search(words))]
    for figure in (*found.evidence, *found.forecast, *(f for one in found.found for f in one.figures)):
        if isinstance(figure.value, float) and not math.isfinite(figure.value):
            wrong.append(f"not a number: {figure}")
        if isinstance(figure.value, float) and figure.unit == "%" and figure.value < 0:
            wrong.append(f"a negative share: {figure}")
    if len(found.evidence) < 3:
        wrong.append(f"too few figures: {found.evidence}")
    if not found.as_dict():
        wrong.append("nothing for a program")
    return wrong


@pytest.mark.parametrize("rule", RULES)
def test_of_nothing_nothing_is_said_ana_01(rule: str) -> None:
    found = diagnose(rule, given())
    assert nonsense(found) == []
    assert found.verdict == "no_data"
    assert found.severity == "ok"
    assert not [f for f in found.evidence if f.unit in {"%", "ms", "times"} and f.value is not None], found


@cache
def asked_by(rule: str) -> set[str]:
    """The frames that a rule asks for: of nothing and of something in all of them, or by its text."""
    asked: set[str] = set()

    class Noting(GivenSource):
        def frame(self, name: str) -> pd.DataFrame:
            asked.add(name)
            return super().frame(name)

    whole = {name: FRAMES[name].of([row(name, SAMPLE)] * 3) for name in FRAMES}
    for frames in ({}, whole):
        diagnose(rule, Noting(WINDOW, frames, NOW))
    for path in (Path(analytics.__file__).parent / "rules").glob(f"{rule}*.py"):
        asked |= {name for name in re.findall(r'"(\w+)"', path.read_text()) if name in FRAMES}
    return asked


@pytest.mark.parametrize("rule", RULES)
def test_one_row_of_one_frame_is_no_error_ana_01(rule: str) -> None:
    """Of those that the rule asks for: it never sees a row of another."""
    for name, values in itertools.product(asked_by(rule), (SAMPLE, ODD)):
        assert nonsense(diagnose(rule, given(**{name: [row(name, values)]}))) == []


@pytest.mark.parametrize("rule", RULES)
def test_one_row_in_every_frame_whatever_it_knows_ana_01(rule: str) -> None:
    for values in (SAMPLE, ODD):
        assert nonsense(diagnose(rule, given(**{name: [row(name, values)] for name in FRAMES}))) == []
        assert nonsense(diagnose(rule, given(**{name: [row(name, values)] * 3 for name in FRAMES}))) == []
    both = {name: [row(name, SAMPLE), row(name, ODD)] for name in FRAMES}
    assert nonsense(diagnose(rule, given(**both))) == []


@pytest.mark.parametrize("rule", RULES)
def test_a_frame_of_which_nothing_is_known_is_no_error_ana_01(rule: str) -> None:
    whole, odd = ({name: FRAMES[name].of([row(name, values)]) for name in FRAMES} for values in (SAMPLE, ODD))
    for name in asked_by(rule):
        assert nonsense(diagnose(rule, GivenSource(WINDOW, whole | {name: odd[name]}, NOW))) == []


@pytest.mark.parametrize("rule", ["backlog", "capacity"])
def test_a_number_of_slots_is_taken_of_nothing_too_ana_01(rule: str) -> None:
    assert nonsense(diagnose(rule, given(), workers=50)) == []
    assert nonsense(diagnose(rule, given(**{name: [row(name, SAMPLE)] for name in FRAMES}), workers=1)) == []


def test_measures_of_nothing_are_none_and_never_zero_ana_01() -> None:
    bins = FRAMES["service_times"].empty()
    assert m.percentile(bins, 0.95) is None
    assert m.mean_ms(bins) is None
    assert m.share(0, 0) is None
    assert m.ratio(1.0, None) is None
    assert m.ratio(1.0, 0.0) is None
    assert m.age_s(pd.NaT, NOW) is None
    assert m.age_of_first([pd.NaT], NOW) is None
    assert m.drain_s(5, None, None) is None
    assert m.drain_s(5, 1.0, 2.0) is None
    assert m.erlang_wait_s(5.0, 5, 1.0, 0.95) is None
    assert m.per_s(FRAMES["finishes"].empty(), "finished", NOW, NOW) is None


def test_runs_without_an_end_are_counted_and_have_no_length_ana_01() -> None:
    running = [
        {"task_id": n, "task_code": "push", "queue": "push", "attempt": 1, "worker_id": "h:1:a", "claimed_at": at, "timeout_s": limit}
        for n, (at, limit) in enumerate([(NOW + timedelta(hours=1), 300), (None, 300), (SINCE, None), (None, None)])
    ]  # fmt: skip
    still = {"last_progress_at": SINCE, "children_cpu_percent": None}
    for rule in RULES:
        assert (
            nonsense(
                diagnose(rule, given(running=running, workers=[worker(**still)], tasks=waiting(queued=9)))
            )
            == []
        )


def test_one_task_with_six_runs_is_one_task_ana_03() -> None:
    later = [
        run(1, n, "success" if n == 6 else "lost", worker_id=f"h:{n}:a", started_at=NOW - timedelta(hours=7 - n), finished_at=NOW - timedelta(hours=6.5 - n))
        for n in range(1, 7)
    ]  # fmt: skip
    later[3]["finished_at"] = later[4]["started_at"] + timedelta(minutes=5)
    runs = [*later, run(2, 1, "success")]
    found = diagnose("duplicates", given(runs=runs, finishes=[finished(7)]))
    assert nonsense(found) == []
    assert found.figure("runs_seen") == 7
    assert found.figure("tasks_repeated") == 1
    assert found.figure("overlapping") == 1


def test_ids_that_stand_twice_do_not_count_twice_ana_03() -> None:
    workers = [worker(1), worker(1), worker(2)]
    for rule in RULES:
        assert (
            nonsense(diagnose(rule, given(workers=workers, tasks=waiting(queued=5), finishes=[finished(5)])))
            == []
        )
    source = given(workers=workers, tasks=waiting(queued=5), finishes=[finished(5)], arrivals=[arrived(5)])
    assert diagnose("backlog", source).figure("slots") == 10
    assert diagnose("capacity", source).figure("slots") == 10
    assert diagnose("zombies", source).figure("workers_alive") == 2
    dead = worker(3, heartbeat_at=SINCE, last_progress_at=SINCE)
    assert diagnose("lost", given(workers=[dead, dead])).figure("workers_dead") == 1
    found = diagnose("zombies", given(workers=[dead, dead], tasks=waiting(queued=5)))
    assert (len(found.found), found.figure("workers_ill")) == (1, 1)


def test_instants_of_any_zone_are_the_same_instants_ana_04() -> None:
    texts = ["2026-03-29T00:37:28+01:00", "2026-03-29T04:09:36+02:00"]
    frame = FRAMES["actions"].of([{"at": datetime.fromisoformat(text)} for text in texts])
    assert [at.isoformat() for at in frame["at"]] == [
        "2026-03-28T23:37:28+00:00",
        "2026-03-29T02:09:36+00:00",
    ]
    shanghai = Window(SINCE.astimezone(ZoneInfo("Asia/Shanghai")), NOW.astimezone(BERLIN), "Asia/Shanghai")
    assert (shanghai.since, shanghai.until) == (SINCE, NOW)
    source = GivenSource(shanghai, {"finishes": FRAMES["finishes"].of([finished(9)])}, NOW)
    plain = GivenSource(WINDOW, {"finishes": FRAMES["finishes"].of([finished(9)])}, NOW)
    for rule in RULES:
        one, other = diagnose(rule, source), diagnose(rule, plain)
        assert (one.verdict, one.evidence, one.forecast) == (other.verdict, other.evidence, other.forecast)
        assert "2026-03-01 08:00:00+08:00" in one.text()


@pytest.mark.parametrize(("day", "hours"), [(datetime(2026, 10, 25), 25), (datetime(2026, 3, 29), 23)])
def test_a_day_of_a_clock_change_has_its_own_length_ana_04(day: datetime, hours: int) -> None:
    since, until = (at.replace(tzinfo=BERLIN) for at in (day, day + timedelta(days=1)))
    window = Window(since, until, "Europe/Berlin")
    assert window.length_s == hours * 3600
    each = [window.since + timedelta(hours=n) for n in range(hours)]
    rows = [finished(3600, at, busy_s=60.0) for at in each]
    source = GivenSource(window, {"finishes": FRAMES["finishes"].of(rows)}, until)
    assert m.per_s(source.frame("finishes"), "finished", window.since, window.until) == pytest.approx(1.0)
    assert source.frame("finishes")["bucket_at"].nunique() == hours
    for rule in RULES:
        found = diagnose(rule, source)
        assert nonsense(found) == []
        assert {"+01:00", "+02:00"} <= set(re.findall(r"\+0\d:00", found.text()))


def by_day(zone: str, since: datetime, until: datetime, *at: datetime) -> list[tuple[str, ...]]:
    """The table of days, of one task for each of these instants."""
    rows = {"finishes": [finished(1, one) for one in at], "arrivals": [arrived(1, one) for one in at]}
    frames = {name: FRAMES[name].of(found) for name, found in rows.items()}
    return list(tables.days(GivenSource(Window(since, until, zone), frames, until)).rows)


def test_days_are_those_of_the_zone_with_their_instants_ana_04() -> None:
    since = datetime(2026, 2, 27, 16, tzinfo=UTC)
    first = datetime(2026, 2, 28, 15, 59, 59, tzinfo=UTC)
    events = [
        first,
        first + timedelta(seconds=1),
        first + timedelta(days=1),
        first + timedelta(days=1, seconds=1),
    ]
    midnights = [f"2026-0{day} 00:00:00+08:00" for day in ("2-28", "3-01", "3-02", "3-03")]
    assert by_day("Asia/Shanghai", since, since + timedelta(days=3), *events) == [
        ("2026-02-28", *midnights[:2], "1", "1", "1"),
        ("2026-03-01", *midnights[1:3], "2", "2", "2"),
        ("2026-03-02", *midnights[2:], "1", "1", "1"),
    ]
    utc = by_day("UTC", events[0] - timedelta(hours=1), events[-1] + timedelta(hours=1), *events)
    assert [row[3] for row in utc] == ["2", "2"]


def test_a_day_of_a_clock_change_has_all_its_hours_and_no_other_ana_04() -> None:
    since = datetime(2026, 10, 24, 22, tzinfo=UTC)
    events = [since + timedelta(hours=n) for n in range(49)]
    found = by_day("Europe/Berlin", since, since + timedelta(hours=49), *events)
    assert [(row[0], row[4]) for row in found] == [("2026-10-25", "25"), ("2026-10-26", "24")]
    assert [row[1] for row in found] == ["2026-10-25 00:00:00+02:00", "2026-10-26 00:00:00+01:00"]


def test_a_day_that_buckets_cannot_tell_apart_says_so_ana_04() -> None:
    def note(zone: str) -> str:
        return tables.days(GivenSource(Window(NOW - timedelta(days=7), NOW, zone), {}, NOW)).note

    assert note("Asia/Shanghai") == ""
    assert note("Europe/Berlin") == "counted by 2 h: what lies across a midnight counts where it begins"


def test_a_window_is_half_open_on_the_bucket_ana_04() -> None:
    rows = FRAMES["finishes"].of(
        [finished(1, SINCE), finished(2, NOW - timedelta(seconds=1)), finished(4, NOW)]
    )
    assert int(m.between(rows, SINCE, NOW)["finished"].sum()) == 3


def test_a_message_for_a_chat_fits_and_breaks_no_character_ana_01(monkeypatch: pytest.MonkeyPatch) -> None:
    found = diagnose("backlog", given(tasks=waiting(due=9), workers=[worker()], service_times=[times(3, 9)]))
    long = Diagnosis(
        found.rule, found.verdict, found.severity, found.confidence, SINCE, NOW, NOW,
        evidence=tuple(Figure("error", "错误😀" * n) for n in range(300, 320)),
        found=tuple(Subject("stuck", "队列😀" * 200) for _ in range(9)),
    )  # fmt: skip
    for language in ("en", "zh"):
        for cut_at in range(4):
            told = replace(long, evidence=(Figure("error", "x" * cut_at), *long.evidence)).markdown(language)
            assert len(told.encode()) <= CHAT_BYTES
            assert "\ufffd" not in told
            assert "bytes in all]" in told
            kept = told.rpartition("… [")[0]
            monkeypatch.setattr(rendering, "CHAT_BYTES", 1_000_000)
            whole = replace(long, evidence=(Figure("error", "x" * cut_at), *long.evidence)).markdown(language)
            monkeypatch.undo()
            assert whole.startswith(kept.removesuffix("**")), (
                "what is left is the beginning, to the last character"
            )
            assert len(kept.encode()) > CHAT_BYTES - 60


def left_open(told: str) -> str:
    """What the line at which a message was cut leaves open; its mark stands for an ordinary letter."""
    line = told.rpartition("… [")[0].rpartition("\n")[2]
    plain = re.sub(r"\\.", "x", line)
    bold = re.sub(r"\*\*.+?\*\*", "", re.sub(r"`[^`]*`", "", plain))
    return "".join(sign for sign in ("`", "*", "\\") if sign in (plain.count("`") % 2 * "`" + bold))


def test_where_a_message_is_cut_no_escape_no_code_and_no_bold_text_is_left_open() -> None:
    """The length grows byte by byte, so that the cut falls on each place of a line once."""
    at = {"since": SINCE, "until": NOW, "now": NOW}
    for length in range(3160, 3380):
        found = Diagnosis(
            "backlog", "burst", "critical", "high", **at,
            evidence=(Figure("error", "x" * length), Figure("code", "a_b*c_d"), Figure("error", "_*" * 9)),
            actions=(Action("look", "taskkit limits set --key '**' \\ -- a_b"), Action("look", "x" * 300)),
        )  # fmt: skip
        told = found.markdown()
        assert len(told.encode()) <= CHAT_BYTES
        assert "bytes in all]" in told
        assert left_open(told) == ""
    assert "\\ud83d" in replace(found, evidence=(Figure("error", "\ud83d"),)).markdown()
