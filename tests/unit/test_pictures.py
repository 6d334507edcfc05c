"""Pictures: in the window's zone, self-contained, and honest about what is not there."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from taskkit.analytics import GivenSource, Window, pictures
from taskkit.analytics.pictures import Picture
from taskkit.analytics.pictures.series import buckets, counts
from taskkit.analytics.pictures.time_axis import MOST_TICKS, place, ticks
from taskkit.errors import InputError
from tests.cases import broken, healthy
from tests.incidents import NOW, arrived, finished, given, run, waiting, worker

ALL: list[Callable[[GivenSource], Picture]] = [
    getattr(pictures, name) for name in pictures.__all__ if name != "Picture"
]
TOLD = {
    "backlog": ("1 wait, 0/s arrive", "5 wait, 1.67/s arrive"),
    "calendar": ("0 fired, 0 skipped, 0 missed, 1 planned", "6 fired, 0 skipped, 0 missed, 0 planned"),
    "latency": ("no data", "runs half up to 200 ms"),
    "outcomes": ("1 runs: 1 ended well", "7,200 runs: 7,200 ended well"),
    "repeats": ("2 runs of 1 task", "no data"),
    "workers": ("1 runs under way, 0 ended", "2 of 2 workers alive, 0 runs under way, 2,400 ended"),
}
"""What a picture says of one row with gaps, and of an hour in which all is well."""
SUMMER_ENDS = datetime(2026, 10, 24, 22, tzinfo=UTC)


def letters(svg: str) -> str:
    """All that is written in a picture."""
    texts = parsed(svg).iter("{http://www.w3.org/2000/svg}text")
    return " ".join("".join(node.itertext()) for node in texts)


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314 - what we have just made


@pytest.mark.parametrize("picture", ALL, ids=lambda fn: fn.__name__)
def test_a_picture_needs_nothing_from_outside_and_says_what_it_shows(
    picture: Callable[[GivenSource], Picture],
) -> None:
    found = picture(broken())
    svg = found.svg()
    parsed(svg)
    assert svg == picture(broken()).svg(), "the same data, the same letters"
    addresses = {a for a in re.findall(r'https?://[^"\s<]+', svg) if not a.startswith("http://www.w3.org/")}
    assert not addresses
    assert not re.search(r"<(script|image|foreignObject)", svg)
    assert found.title in letters(svg)
    assert "(UTC)" in letters(svg)
    assert found.told
    assert found.told.split()[0] in found._repr_html_()
    assert found.png(40).startswith(b"\x89PNG")


@pytest.mark.parametrize("picture", ALL, ids=lambda fn: fn.__name__)
def test_ana_01_without_data_a_picture_says_so(picture: Callable[[GivenSource], Picture]) -> None:
    found = picture(given())
    assert found.told == "no data"
    assert "no data" in letters(found.svg())


@pytest.mark.parametrize("picture", ALL, ids=lambda fn: fn.__name__)
def test_one_row_and_rows_with_gaps_make_a_picture(picture: Callable[[GivenSource], Picture]) -> None:
    never = run(1, 1, "lost", worker_id=None, started_at=None, runtime_ms=None)
    source = given(
        tasks=waiting(due=1),
        arrivals=[arrived(1)],
        finishes=[finished(1)],
        runs=[never, run(1, 2, "success", finished_at=None)],
        running=[{"task_id": 1, "worker_id": "h:1:a", "claimed_at": None}],
        slots=[{"bucket_at": NOW, "worker_id": "h:1:a", "pid": None, "last_at": NOW}],
        samples=[{"bucket_at": NOW, "queue": "push", "due_mean": None, "queued_mean": None}],
        occurrences=[{"bucket_at": NOW, "task_code": "a", "state": "planned", "occurrences": 1}],
        waits=[],
    )
    for found, told in zip((picture(source), picture(healthy())), TOLD[picture.__name__], strict=True):
        assert told in found.told
        assert found.title in letters(found.svg())
        assert ("no data" in letters(found.svg())) == (told == "no data")
        assert not re.search(
            r"\b(nan|nat|inf|none)\b", " ".join([letters(found.svg()), found.told]), re.IGNORECASE
        )
        drawn = [node.get("d", "") for node in parsed(found.svg()).iter("{http://www.w3.org/2000/svg}path")]
        assert drawn or told == "no data"
        assert not [path for path in drawn if re.search("nan|inf", path)]


def test_a_heartbeat_is_as_fresh_in_a_picture_as_in_a_diagnosis() -> None:
    seen = [worker(heartbeat_at=NOW - timedelta(seconds=40))]
    slow = [{"name": "worker_heartbeat_s", "value": "20"}]
    slots = [{"bucket_at": NOW, "worker_id": "h:1:a", "pid": 1, "last_at": NOW}]
    assert pictures.workers(given(workers=seen, slots=slots)).told.startswith("0 of 1 workers alive")
    known = pictures.workers(given(workers=seen, slots=slots, facts=slow))
    assert known.told.startswith("1 of 1 workers alive")
    assert "last heartbeat" not in letters(known.svg())


def test_the_backlog_tells_the_forecast_of_the_diagnosis() -> None:
    found = pictures.backlog(broken(), workers=50)
    assert "with 50 slots: empty in" in letters(found.svg())
    assert "200,000 wait" in found.told


def test_without_samples_what_waited_is_reckoned_back_from_now() -> None:
    from taskkit.analytics.pictures.backlog import history

    source = given(tasks=waiting(due=90), arrivals=[arrived(100)], finishes=[finished(10)])
    times, values = history(source, "push", 90.0)
    assert len(times) == len(values)
    assert (values[0], max(values), values[-1]) == (0.0, 100.0, 90.0)


def test_names_from_data_are_written_as_they_are() -> None:
    text = letters(pictures.calendar(broken()).svg())
    assert "同步 $x$" in text


def test_a_picture_is_saved_as_its_name_says(tmp_path: Path) -> None:
    found = pictures.outcomes(healthy())
    assert found.save(tmp_path / "a.svg").read_text(encoding="utf-8").startswith("<svg")
    assert found.save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "<figcaption>" in found.save(tmp_path / "a.html").read_text(encoding="utf-8")
    with pytest.raises(InputError, match=r"must end in .svg"):
        found.save(tmp_path / "a.pdf")


# the time axis


def test_ana_04_the_autumn_night_has_two_o_clock_twice() -> None:
    found = ticks(SUMMER_ENDS, SUMMER_ENDS + timedelta(hours=5), "Europe/Berlin")
    assert [text.replace("\n", " ") for _, text in found] == [
        "00:00 25 Oct +02:00", "01:00", "02:00", "02:00 +01:00", "03:00", "04:00",
    ]  # fmt: skip
    places = [place(at) for at, _ in found]
    assert [round((b - a) * 24, 6) for a, b in pairwise(places)] == [1.0] * 5


def test_ana_04_the_spring_night_has_no_two_o_clock() -> None:
    since = datetime(2026, 3, 28, 23, tzinfo=UTC)
    assert [text[:5] for _, text in ticks(since, since + timedelta(hours=4), "Europe/Berlin")][::2] == [
        "00:00",
        "01:00",
        "03:00",
        "04:00",
        "05:00",
    ]


def test_ana_04_a_day_begins_at_the_midnight_of_the_zone() -> None:
    since = datetime(2026, 2, 27, 16, tzinfo=UTC)
    found = ticks(since, since + timedelta(days=3), "Asia/Shanghai")
    starts = [at for at, text in found if text.startswith("00:00")]
    assert starts == [since + timedelta(days=n) for n in range(4)]


@pytest.mark.parametrize("seconds", [1, 7, 60, 3600, 86_400, 86_400 * 7, 86_400 * 400])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/New_York"])
def test_any_window_has_some_ticks_and_not_too_many(seconds: int, zone: str) -> None:
    found = ticks(SUMMER_ENDS, SUMMER_ENDS + timedelta(seconds=seconds), zone)
    assert 1 <= len(found) <= MOST_TICKS + 2
    assert [at for at, _ in found] == sorted({at for at, _ in found})


def test_ana_04_each_hour_of_the_long_day_is_a_bar_of_its_own() -> None:
    hours = [SUMMER_ENDS + timedelta(hours=n) for n in range(49)]
    window = Window(SUMMER_ENDS, SUMMER_ENDS + timedelta(hours=49), "Europe/Berlin")
    source = GivenSource(
        window, {"finishes": given(finishes=[finished(1, at) for at in hours]).frame("finishes")}
    )
    assert sum(counts(source.frame("finishes"), "finished", window)) == 49
    assert window.bucket_s <= 3600
    assert buckets(window)[0] == SUMMER_ENDS
    assert pictures.outcomes(source).told.startswith("49 runs")
