"""Rule ``capacity``: whether the slots are enough for the arrivals of this window, by Erlang C."""

from __future__ import annotations

from taskkit.analytics import measures as m
from taskkit.analytics.diagnosis import Action, Diagnosis, Figure
from taskkit.analytics.rules.base import about, patience
from taskkit.analytics.source import Source

TIGHT, IDLE = 70.0, 10.0
WAIT_S, Q = 1.0, 0.95
DAY_S = 86_400
PLAN = (0.3, 0.5)
"""Of what is possible in theory, so much is to be planned with: what the field reports."""


def diagnose(source: Source, *, workers: int | None = None) -> Diagnosis:
    """``workers`` is the number of slots to judge instead of those that are alive. All queues share them."""
    alive = m.alive(source.frame("workers"), source.now, patience(source))
    slots = workers or int(alive["processes"].sum())
    mean = m.mean_ms(source.frame("service_times"))
    arrivals, window = source.frame("arrivals"), source.window
    total = int(arrivals["arrived"].sum())
    rate = total / window.length_s
    peaks = arrivals.groupby("bucket_at")["arrived"].sum()
    peak = float(peaks.max()) / window.bucket_s if len(peaks) else None
    service = None if mean is None else mean / 1000
    erlangs, at_peak = (None if service is None or r is None else r * service for r in (rate, peak))
    verdict = _verdict(total, mean, slots, erlangs, at_peak)
    best = None if not mean or not slots else 1000 * slots / mean
    needed = None if at_peak is None or service is None else m.slots_for(at_peak, service, Q, WAIT_S)
    wait = (
        None
        if erlangs is None or service is None or not slots
        else m.erlang_wait_s(erlangs, slots, service, Q)
    )
    quiet = verdict in {"no_data", "no_times", "enough", "plenty"}
    return about(
        source,
        "capacity",
        verdict,
        ("note" if verdict in {"no_times", "plenty"} else "ok") if quiet else "critical" if verdict == "too_small" else "warning",
        "medium",
        evidence=(
            Figure("arrival_per_s", rate, "per_s"),
            Figure("arrival_peak", peak, "per_s"),
            Figure("service_mean", mean, "ms"),
            Figure("slots", slots, "slots"),
            Figure("offered", erlangs, "erlang"),
            Figure("utilisation", m.share(erlangs, slots) if erlangs is not None else None, "%"),
            Figure("utilisation_peak", m.share(at_peak, slots) if at_peak is not None else None, "%"),
        ),
        forecast=(
            Figure("wait_p95", wait, "s"),
            Figure("slots_needed", needed, "slots"),
            Figure("capacity_per_s", best, "per_s"),
            Figure("per_day", None if best is None else round(best * DAY_S), "tasks"),
            Figure("per_day_low", None if best is None else round(best * DAY_S * PLAN[0]), "tasks"),
            Figure("per_day_high", None if best is None else round(best * DAY_S * PLAN[1]), "tasks"),
        ),
        actions=() if quiet else (
            Action("add_workers", f"python -m taskkit.worker --processes {max(1, (needed or slots + 1) - slots)}"),
        ),
    )  # fmt: skip


def _verdict(total: int, mean: float | None, slots: int, erlangs: float | None, at_peak: float | None) -> str:
    if not total:
        return "no_data"
    if mean is None or erlangs is None or at_peak is None:
        return "no_times"
    if erlangs >= slots:
        return "too_small"
    if at_peak >= slots:
        return "short_at_peak"
    used = m.share(erlangs, slots) or 0
    return "tight" if used >= TIGHT else "plenty" if used < IDLE and at_peak * 4 < slots else "enough"
