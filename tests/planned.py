"""Steps of the planner's tests: what others inserted is adopted, and what is due is done."""

from __future__ import annotations

from datetime import datetime

from taskkit.center import TaskCenter
from tests.centers import dispatch, messages, succeeded

W1 = "host-1:11:aaaa"


def adopt(center: TaskCenter) -> int:
    """Complete what others inserted; how many rows."""
    return center.plan.adopt(center.dispatch.due_lists()[0])


def run_once(center: TaskCenter) -> list[datetime | None]:
    """One scheduler and one worker: dispatch what is due, run it in no time; the occurrences that ran."""
    batch = dispatch(center)
    if batch.misfired:
        center.plan.plan_ids(batch.misfired)
        batch = dispatch(center)
    desk = center.worker_desk(W1)
    won = desk.claim(messages(batch)).won
    desk.finish([succeeded(claimed) for claimed in won])
    return [claimed.occurrence_at for claimed in won]
