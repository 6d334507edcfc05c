"""A sketch, not a product: SQL as the source of truth, a Redis list as the queue, batched transitions.

It shows what the bare statements of such a design cost on this machine; it has no retry,
lease, watchdog or priorities, so it is left out of the crash tests and is not a peer.
Each task passes 0 pending -> 1 queued -> 2 running -> 3 finished in MariaDB (default
durability); a worker pops up to BATCH tasks, claims them with one UPDATE, runs them one
by one and stores state and result of the batch with one UPDATE ... JOIN.

* ``direct``: the producer inserts tasks as queued and pushes them itself;
* ``dispatch``: the producer only inserts pending tasks; a dispatcher process selects due
  tasks, marks them queued and pushes them, 1000 at a time (poll 10 ms);
* ``single``: like direct, but with batches of one, that is a commit for each transition.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid

import pymysql
import redis
import worklib

SPEC = {
    "requirements": ["pymysql", "redis", "hiredis"],
    "versions": ["PyMySQL", "redis"],
    "bulk": 500,
    "crash": False,
    "variants": {
        "direct": {
            "title": "sketch: 2 procs, batch 200, producer pushes",
            "servers": ["redis", "mariadb"],
            "slots": 2,
            "durable": True,
            "optional": True,
        },
        "dispatch": {
            "title": "sketch: 2 procs, batch 200, dispatcher process",
            "servers": ["redis", "mariadb"],
            "slots": 2,
            "durable": True,
            "optional": True,
        },
        "single": {
            "title": "sketch: 2 procs, batch 1, producer pushes",
            "servers": ["redis", "mariadb"],
            "slots": 2,
            "durable": True,
            "optional": True,
        },
    },
}
VARIANT = os.environ.get("BENCH_VARIANT", "direct")
BATCH = 1 if VARIANT == "single" else 200
FIRST_STATUS = 0 if VARIANT == "dispatch" else 1
TASKS = {"noop": worklib.noop, "nap": worklib.nap}
QUEUE = "sketch"


def connect() -> pymysql.Connection:
    """Open a MariaDB connection."""
    return pymysql.connect(
        host="127.0.0.1",
        port=int(os.environ["BENCH_MYSQL_PORT"]),
        user="bench",
        password="bench",
        database="bench",
        autocommit=True,
    )


def setup() -> None:
    """Start from an empty table."""
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS sketch")
        cursor.execute(
            "CREATE TABLE sketch (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(64) NOT NULL, "
            "args TEXT NOT NULL, status TINYINT NOT NULL, priority INT NOT NULL DEFAULT 0, "
            "plan_next_run_at DATETIME(3) NOT NULL, token CHAR(32) NULL, result TEXT NULL, "
            "updated_at DATETIME(3) NULL, KEY (status, plan_next_run_at))"
        )


class Producer:
    """INSERT, and LPUSH where there is no dispatcher."""

    def __init__(self) -> None:
        self.cursor = connect().cursor()
        self.redis = redis.Redis.from_url(os.environ["BENCH_REDIS_URL"])

    def enqueue_bulk(self, task: str, items: list[tuple[int, float]]) -> None:
        """Insert many tasks with one statement and push them with one command."""
        rows = [(task, json.dumps(item), FIRST_STATUS) for item in items]
        values = ",".join(self.cursor.mogrify("(%s,%s,%s,NOW(3))", row) for row in rows)
        self.cursor.execute(f"INSERT INTO sketch (name, args, status, plan_next_run_at) VALUES {values}")
        if FIRST_STATUS:
            first = self.cursor.lastrowid  # ids of one multi-row INSERT are consecutive
            self.redis.lpush(QUEUE, *(json.dumps([first + i, row[0], row[1]]) for i, row in enumerate(rows)))

    def enqueue(self, task: str, task_id: int, enqueued_at: float) -> None:
        """Insert and push one task."""
        self.enqueue_bulk(task, [(task_id, enqueued_at)])


def open_producer() -> Producer:
    """Return the producer."""
    return Producer()


def worker_commands() -> list[list[str]]:
    """Two workers, and the dispatcher where there is one."""
    commands = [[sys.executable, "-c", "from systems.sketch import work; work()"]] * 2
    if VARIANT == "dispatch":
        commands.append([sys.executable, "-c", "from systems.sketch import dispatch; dispatch()"])
    return commands


def work() -> None:
    """Pop, claim, run and finish batches until killed."""
    cursor = connect().cursor()
    client = redis.Redis.from_url(os.environ["BENCH_REDIS_URL"])
    token = uuid.uuid4().hex
    while True:
        popped = client.rpop(QUEUE, BATCH)
        if not popped:
            item = client.brpop([QUEUE], 5)
            if not item:
                continue
            popped = [item[1]]
        batch = [json.loads(item) for item in popped]
        ids = ",".join(str(task[0]) for task in batch)
        claimed = cursor.execute(
            f"UPDATE sketch SET status=2, token='{token}', updated_at=NOW(3) WHERE id IN ({ids}) AND status=1"
        )
        if claimed != len(batch):  # somebody else has some of them: a product would read which are ours
            continue
        done = []
        for number, name, args in batch:
            result = TASKS[name](*json.loads(args))
            done.append((number, json.dumps(result)))
        values = " UNION ALL ".join(cursor.mogrify("SELECT %s AS id, %s AS result", item) for item in done)
        cursor.execute(
            f"UPDATE sketch t JOIN ({values}) v ON t.id=v.id SET t.status=3, t.result=v.result, "
            f"t.updated_at=NOW(3) WHERE t.token='{token}' AND t.status=2"
        )


def dispatch() -> None:
    """Move due tasks from the table to the queue until killed."""
    cursor = connect().cursor()
    client = redis.Redis.from_url(os.environ["BENCH_REDIS_URL"])
    while True:
        if client.llen(QUEUE) < 4000:
            cursor.execute(
                "SELECT id, name, args FROM sketch WHERE status=0 AND plan_next_run_at<=NOW(3) "
                "ORDER BY priority, plan_next_run_at LIMIT 1000"
            )
            rows = cursor.fetchall()
            if rows:
                ids = ",".join(str(row[0]) for row in rows)
                cursor.execute(
                    f"UPDATE sketch SET status=1, updated_at=NOW(3) WHERE id IN ({ids}) AND status=0"
                )
                client.lpush(QUEUE, *(json.dumps(row) for row in rows))
                if len(rows) == 1000:
                    continue
        time.sleep(0.01)
