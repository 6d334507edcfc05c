"""Rule ``backlog``: what waits, why, how long it will take, and what would bound it next."""

from __future__ import annotations

from taskkit.analytics.diagnosis import Action, Diagnosis, Figure
from taskkit.analytics.rules.backlog_facts import BacklogFacts, look
from taskkit.analytics.rules.base import Reason, about, first, quoted
from taskkit.analytics.source import Source

WAIT_LIMIT_S, GRACE_S = 60.0, 30.0
"""Longer is too long; so long a worker that was just replaced may be away. Both at the usual pace of heartbeats."""
BUSY, IDLE = 80.0, 50.0
RETRY_SHARE = 30.0
SLOWER = 2.0
HOT = 5.0
PRESSED = 0.9

REASONS: tuple[Reason[BacklogFacts], ...] = (
    ("no_data", lambda f: not f.waiting and not f.arrived and not f.finished),
    ("healthy", lambda f: f.settles(WAIT_LIMIT_S, GRACE_S)),
    ("no_workers", lambda f: f.workers == 0),
    ("unserved_queue", lambda f: f.serving == 0),
    ("limit", lambda f: f.limited * 2 >= f.waiting),
    (
        "scheduler",
        lambda f: (
            f.schedulers == 0 or (f.due * 5 >= f.waiting * 4 and f.queued <= 2 * f.slots and f.idle(IDLE))
        ),
    ),
    (
        "stuck_workers",
        lambda f: (
            not f.finished_lately and f.queued > 0 and (f.progress_age_s or 0) > WAIT_LIMIT_S * f.patience
        ),
    ),
    ("stores_slow", lambda f: f.queued > 2 * f.slots and f.idle(IDLE)),
    ("retries", lambda f: (f.again_share or 0) >= RETRY_SHARE and (f.failed_share or 0) >= RETRY_SHARE),
    ("slow_handler", lambda f: (f.slower or 0) >= SLOWER or f.crawls),
    ("hot_shard", lambda f: (f.hottest or 0) >= HOT),
    ("hot_queue", lambda f: f.idle_elsewhere >= f.slots > 0),
    ("too_few_workers", lambda f: f.capacity_per_s is None or f.arrival_per_s >= PRESSED * f.capacity_per_s),
    ("burst", lambda f: True),
)
"""From the plainest cause to the one that is left: the first that holds is the verdict."""

BINDING = {
    "scheduler": "scheduler", "limit": "limit", "stores_slow": "stores", "no_data": "", "healthy": "",
    "hot_shard": "shard",
}  # fmt: skip
SEVERE = {"no_workers", "unserved_queue", "stuck_workers", "scheduler"}
LESS_SURE = {"stores_slow", "hot_queue", "hot_shard"}


def diagnose(source: Source, *, workers: int | None = None) -> Diagnosis:
    """The verdict on what waits; ``workers`` is the number of slots to forecast with, else what half an hour needs."""
    facts = look(source)
    verdict = first(REASONS, facts)
    cure = workers or facts.slots_for(1800.0)
    quiet = verdict in {"no_data", "healthy"}
    binding = BINDING.get(verdict, "workers")
    return about(
        source,
        "backlog",
        verdict,
        "ok" if quiet else "critical" if verdict in SEVERE or (facts.drain_now_s or 1e9) > 3600 else "warning",
        _confidence(verdict, facts),
        evidence=evidence(facts, verdict),
        forecast=() if verdict == "no_data" else forecast(facts, cure),
        actions=() if quiet else actions(facts, verdict, cure),
        details={"queue": facts.queue, "code": facts.code, "binding": binding, "next_bound": _next(facts, binding, cure),
                 "slow_since": facts.slow_since},
    )  # fmt: skip


def _confidence(verdict: str, facts: BacklogFacts) -> str:
    if (
        verdict in LESS_SURE
        or facts.mean_ms is None
        or (verdict == "slow_handler" and not facts.normal_is_old)
    ):
        return "medium"
    return "high"


def _next(facts: BacklogFacts, binding: str, cure: int | None) -> str:
    """The bound that would be met after the cure: the lowest that is known, if the cure reaches it."""
    if not binding:
        return ""
    wanted = facts.rate_with(cure) or float("inf")
    if binding != "workers":
        return "workers"
    rates = {"scheduler": facts.scheduler_per_s, "limit": facts.limit_per_s}
    known = {name: rate for name, rate in rates.items() if rate is not None and rate < wanted}
    return min(known, key=lambda name: known[name]) if known else "unknown"


def evidence(facts: BacklogFacts, verdict: str) -> tuple[Figure, ...]:
    """The figures that show it; the first three are what a chat message needs."""
    found = [
        Figure("waiting", facts.waiting, "tasks"),
        Figure("oldest_age", facts.oldest_age_s, "s"),
        Figure("arrival_per_s", facts.arrival_per_s, "per_s"),
        Figure("service_per_s", facts.service_per_s, "per_s"),
        Figure("capacity_per_s", facts.capacity_per_s, "per_s"),
        Figure("slots", facts.slots, "slots"),
        Figure("busy_share", facts.busy_share, "%"),
        Figure("service_mean", facts.mean_ms, "ms"),
        Figure("due", facts.due, "tasks"),
        Figure("queued", facts.queued, "tasks"),
    ]
    more = {
        "limit": [Figure("limited", facts.limited, "tasks")],
        "retries": [
            Figure("again_share", facts.again_share, "%"),
            Figure("failed_share", facts.failed_share, "%"),
        ],
        "slow_handler": [Figure("normal_ms", facts.normal_ms, "ms"), Figure("slower", facts.slower, "times")],
        "scheduler": [
            Figure("schedulers", facts.schedulers, ""),
            Figure("scan_age", facts.scan_age_s, "s"),
            Figure("scheduler_per_s", facts.scheduler_per_s, "per_s"),
        ],
        "stuck_workers": [Figure("progress_age", facts.progress_age_s, "s")],
        "hot_shard": [Figure("hottest", facts.hottest, "times")],
        "hot_queue": [Figure("idle_elsewhere", facts.idle_elsewhere, "slots")],
    }
    return (*found, *more.get(verdict, []))


def forecast(facts: BacklogFacts, cure: int | None) -> tuple[Figure, ...]:
    """When it is over: as things are, and with so many slots; and the rate of the next bound."""
    return (
        Figure("drain_now", facts.drain_now_s, "s"),
        Figure("slots_n", cure, "slots"),
        Figure("rate_n_per_s", facts.rate_with(cure), "per_s"),
        Figure("likely_n_per_s", facts.likely_with(cure), "per_s"),
        Figure("drain_n", facts.drain_with(cure), "s"),
        Figure("next_bound_per_s", facts.next_bound_per_s, "per_s"),
        Figure("drain_n_bound", facts.drain_with(cure, bounded=True), "s"),
    )


def actions(facts: BacklogFacts, verdict: str, cure: int | None) -> tuple[Action, ...]:
    """Smallest first."""
    queue, code = quoted([facts.queue]), quoted([facts.code or facts.queue])
    more = max(1, (cure or facts.slots + 1) - facts.slots)
    look_at = Action("look", "taskkit status")
    workers = Action("add_workers", f"python -m taskkit.worker --queue {queue} --processes {more}")
    by_verdict = {
        "no_workers": (look_at, Action("start_workers", f"python -m taskkit.worker --queue {queue}")),
        "unserved_queue": (look_at, Action("serve_queue", f"python -m taskkit.worker --queue {queue}")),
        "limit": (Action("see_limits", "taskkit limits"), Action("raise_limit", f"taskkit limits set --queue {queue} --concurrency {max(1, facts.slots)}")),
        "scheduler": (look_at, Action("start_scheduler", "python -m taskkit.scheduler"), Action("raise_batch", "TASKKIT_SCHEDULER_BATCH=1000 python -m taskkit.scheduler")),
        "stuck_workers": (Action("diagnose_zombies", "taskkit diagnose zombies"),),
        "stores_slow": (Action("doctor", "taskkit doctor"), Action("probe", f"taskkit probe {queue}")),
        "retries": (Action("see_failures", f"taskkit tasks list --status failed --code {code}"), Action("pause_code", f"taskkit tasks pause --code {code}")),
        "slow_handler": (Action("see_running", f"taskkit tasks list --status running --code {code}"), Action("diagnose_slow", "taskkit diagnose slow"), workers),
        "hot_shard": (Action("see_shards", "taskkit shards"), Action("diagnose_zombies", "taskkit diagnose zombies")),
        "hot_queue": (workers,),
        "burst": (look_at, workers),
        "too_few_workers": (workers,),
    }  # fmt: skip
    return by_verdict[verdict]
