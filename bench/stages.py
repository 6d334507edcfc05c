"""Where the microseconds of one task go: every stage by itself, in batches, one after another in this process.

    python bench/stages.py [--tasks 20000] [--batch 500]

A task center, a queue and one worker's desk are used as schedulers and workers use them, without their processes; so
what they do at the same time elsewhere stands here in a row. ``taskkit`` is the CPU of this process (Python, drivers,
serialisation), ``database`` and ``Redis`` that of the servers, each a task.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.bench_app import kit as app
from bench.report import Report, alternating, chosen_settings, parser
from bench.stack import Stack, server_ground
from bench.usage import cpu
from taskkit.clock import iso, utc_now
from taskkit.context import RunContext
from taskkit.model import Claimed, Finish, ListName, Message, Won
from taskkit.queues import Queue
from taskkit.states import Outcome
from taskkit.worker import frames
from taskkit.worker.frames import ChildJob, Done, HandlerInfo, RunJobs
from taskkit.worker.perform import Ended, perform
from taskkit.worker.verdicts import Judge

CODE, LIST = "noop", ListName("noop", 5)
WORKER = "bench:1:0000"
STAGES = ("enqueue", "look", "dispatch", "push", "pull", "claim", "hand over", "run", "judge", "finish")
HEAD = ["stage", "taskkit µs", "database µs", "Redis µs", "all µs", "wall µs"]
COSTS = ("taskkit", "database", "Redis", "all", "wall")


@dataclass
class Costs:
    """CPU and wall seconds by stage."""

    one: Stack
    spent: dict[str, Counter[str]] = field(default_factory=dict)

    def now(self) -> dict[str, float]:
        """All clocks; servers of the embedded default are not ours to count."""
        servers = {name: cpu(pid) for name, pid in self.one.servers.items()}
        return {"taskkit": time.process_time(), "wall": time.perf_counter()} | servers

    def stage(self, name: str, work: Callable[[Any], Any], batches: Sequence[Any]) -> list[Any]:
        """Do this for each batch; what came of them."""
        before = self.now()
        found = [work(batch) for batch in batches]
        after = self.now()
        self.spent.setdefault(name, Counter()).update({c: after[c] - before[c] for c in after})
        return found


class Way:
    """The way of the tasks, one batch after another in each stage."""

    def __init__(self, one: Stack, costs: Costs, tasks: int, batch: int) -> None:
        self.one, self.costs, self.tasks, self.batch = one, costs, tasks, batch
        self.center, self.desk = one.kit.center, one.kit.center.worker_desk(WORKER)
        self.judge = Judge({CODE: HandlerInfo(CODE, "sync", None, None, 0.0)})
        self.unpacker = frames.Unpacker()

    def walk(self, queue: Queue) -> None:
        """All stages; every task must have succeeded in the end."""
        stage, numbers = self.costs.stage, range(0, self.tasks, self.batch)
        stage("enqueue", self.enqueue, numbers)
        won: list[list[Won]] = []
        for number in numbers:
            ids = stage("look", lambda _: self.center.dispatch.candidates(CODE, 5, self.batch), [number])
            won += stage("dispatch", lambda batch: self.center.dispatch.claim(batch).won, ids)
        stage("push", lambda batch: queue.push({LIST: [message(one) for one in batch]}), won)
        pulled = stage(
            "pull", lambda _: [m for _, m in queue.pull(["noop"], self.batch, 1.0).messages], numbers
        )
        claimed = stage("claim", lambda batch: self.desk.claim(batch).won, pulled)
        jobs = stage("hand over", self.hand_over, claimed)
        ended = stage("run", lambda batch: [(job, run(job)) for job in batch], jobs)
        ends = stage("judge", self.judged, list(zip(claimed, ended, strict=True)))
        late = stage("finish", self.desk.finish, ends)
        if any(late) or sum(map(len, claimed)) != self.tasks:
            raise SystemExit("not every task came through")

    def enqueue(self, _: int) -> None:
        """Write a batch."""
        self.one.kit.producer.enqueue_many([{"code": CODE, "payload": {}}] * self.batch)

    def hand_over(self, batch: Sequence[Claimed]) -> list[ChildJob]:
        """Parent and child of a pipe: packed there, unpacked here."""
        jobs = [
            ChildJob(
                n, 0, task.id, task.attempt, task.task_code, task.queue, task.payload, float(task.timeout),
                task.trace_id or f"task-{task.id}", iso(task.occurrence_at), "sync",
            )
            for n, task in enumerate(batch, 1)
        ]  # fmt: skip
        (body,) = self.unpacker.feed(bytes(frames.pack(RunJobs(jobs))))
        found = frames.to_child.decode(body)
        assert isinstance(found, RunJobs)
        return found.jobs

    def judged(self, batch: tuple[Sequence[Claimed], Sequence[tuple[ChildJob, bytes]]]) -> list[Finish]:
        """What the parent does with what its children say."""
        tasks, said = batch
        return [self.end(task, raw) for task, (_, raw) in zip(tasks, said, strict=True)]

    def end(self, task: Claimed, raw: bytes) -> Finish:
        """One of them."""
        (body,) = self.unpacker.feed(raw)
        done = frames.from_child.decode(body)
        assert isinstance(done, Done)
        at = datetime.fromtimestamp(time.time(), UTC)
        facts = {"started_at": at, "finished_at": at, "runtime": done.ended - done.started, "pid": 1}
        return self.judge.finish(task, Outcome(done.outcome), result=done.result, line=done.line, **facts)  # type: ignore[arg-type]


def message(won: Won) -> Message:
    """What stands in the list."""
    return Message(won.id, won.task_code, won.attempt, iso(won.dispatched_at) or "")


def run(job: ChildJob) -> bytes:
    """What a child does: the handler and its answer."""
    context = RunContext(
        task_id=job.task_id, task_code=job.code, attempt=job.attempt, queue=job.queue, deadline=utc_now(),
        trace_id=job.trace_id, occurrence_at=None, report=lambda *_: None,
    )  # fmt: skip
    began = time.monotonic()
    ended: Ended = perform(app.registry[CODE], context, job.payload, app.registry.hooks, 65_536)
    done = Done(job.seq, ended.outcome.value, began, time.monotonic(), ended.result, ended.line)
    return bytes(frames.pack(done))


def measure(one: Stack, tasks: int, batch: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Microseconds a task of each stage."""
    costs, queue = Costs(one), one.kit.queue
    assert queue is not None, "a server's installation has a queue"
    Way(one, costs, tasks, batch).walk(queue)
    for name in STAGES:
        found = {clock: seconds * 1e6 / tasks for clock, seconds in costs.spent[name].items()}
        yield name, found | {"all": sum(v for clock, v in found.items() if clock != "wall")}


def main() -> None:
    """Command line."""
    found = parser(__doc__, rounds=3, database="mariadb")
    found.add_argument("--tasks", type=int, default=20_000, help="no-ops a round (20000)")
    found.add_argument("--batch", type=int, default=500, help="how many go in one step (500)")
    options = found.parse_args()
    report = Report("Where the microseconds of one task go", options, HEAD)
    report.notes.append(f"{options.tasks} tasks a round in batches of {options.batch}, payload {{}}")
    walk(options, report)
    report.finish()


def walk(options: argparse.Namespace, report: Report) -> None:
    """All rounds, each on an empty installation."""
    with server_ground(options.server) as ground:
        for _ in alternating([ground.name], options.rounds):
            with ground.installation(**chosen_settings(options, short_way=False)) as one:
                for name, costs in measure(one, options.tasks, options.batch):
                    report.keep(name, **costs)
                report.saw(one.kit)
    for name in STAGES:
        report.rows.append([name, *(report.middle(name, cost, 1) for cost in COSTS)])
    sums = [sum(report.median(name, cost) for name in STAGES) for cost in COSTS]
    report.rows.append(["together", *(f"{total:,.1f}" for total in sums)])


if __name__ == "__main__":
    main()
