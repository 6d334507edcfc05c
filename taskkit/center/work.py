"""The worker's verbs: claim tasks (1 → 2), write their ends (2 → 0, 3, 4, 5, 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace
from sqlalchemy.engine import Connection, Row
from sqlalchemy.exc import DBAPIError

from taskkit.center.claimed import claimed
from taskkit.center.database import Database
from taskkit.center.ends import Held, endings, portions, write_endings, write_run_rows
from taskkit.center.expiry import expire
from taskkit.center.faults import refuses_to_wait
from taskkit.center.intake import new_token
from taskkit.center.limits import LimitDesk
from taskkit.center.lines import give_back
from taskkit.center.packed import Statement, commit_with_next, read_rows, run
from taskkit.center.plain_ends import NotAsThought, plain, write_plain
from taskkit.center.statements import work as sql
from taskkit.errors import CommitUnknown
from taskkit.model import Claimed, Claims, Finish, Message
from taskkit.states import Move, Outcome, Status, sources, target
from taskkit.texts import encodable

CLAIMABLE = sorted(int(s) for s in sources(Move.CLAIM))
AT_ONCE = 16
"""Up to so many messages are claimed in one trip; with more it saves little, and to lock them first costs more."""
MOST_HELD = 10_000
NOT_FINISHED_BY_US = {None, Outcome.LOST.value, Outcome.SUPERSEDED.value}


class WorkDesk:
    """What one worker does to rows. Every verb is guarded by status, attempt and worker; losing is not an error."""

    def __init__(
        self, database: Database, worker_id: str, limits: LimitDesk, default_zone: str = "UTC"
    ) -> None:
        self.database, self.limits = database, limits
        self.worker_id = worker_id
        self.default_zone = default_zone
        self.given_back = 0
        """How many tasks have ended that a limit had let go: somebody may wait for their places."""

    @staticmethod
    def new_token() -> str:
        """What a claim is known by."""
        return new_token()

    def claim(self, messages: Sequence[Message], token: str = "") -> Claims:
        """Move the tasks of these messages to status 2 for this worker; each message gets exactly one answer.

        ``token``: that of an earlier try that failed, of which nobody knows what became: what it has won is won.
        """
        if not messages:
            return Claims()
        token = token or new_token()
        if self.limits.fresh_book and (held := self.limits.send_back(messages)):
            rest = self.claim([message for message in messages if message.task_id not in held], token)
            rest.held.extend(message for message in messages if message.task_id in held)
            return rest
        try:
            won = self.database.write(lambda c: self._claim(c, messages, token))
        except (
            CommitUnknown
        ):  # the same again: it waits for the locks of the first, and finds what that has won
            won = self.database.write(lambda c: self._claim(c, messages, token))
        return self._answers(messages, won)

    def finish(self, ends: Sequence[Finish]) -> list[Finish]:
        """Write the ends of attempts and their run rows in one transaction; returns those that came too late.

        A late one changes nothing but its own run row: the task is another attempt's now.
        """
        late: list[Finish] = []
        for part in portions(ends):
            if rest := self._without_plain(part):
                late += self._finish_with_care(rest)
        return late

    def _without_plain(self, ends: Sequence[Finish]) -> Sequence[Finish]:
        """Write the successes that leave nothing to decide; returns the ends that are still to be written."""
        alike = plain(ends)
        if not alike:
            return ends
        try:
            self.database.write(lambda c: write_plain(c, self.database, alike, self.worker_id))
        except (NotAsThought, CommitUnknown):
            return ends
        written = {(end.task.id, end.task.attempt) for end in alike}
        return [end for end in ends if (end.task.id, end.task.attempt) not in written]

    def _finish_with_care(self, ends: Sequence[Finish]) -> list[Finish]:
        try:
            return self.database.write(lambda c: self._finish(c, ends))
        except CommitUnknown:
            return self.database.write(lambda c: self._finish(c, ends))

    def held(self, most: int = MOST_HELD) -> list[Claimed]:
        """The tasks that SQL says this worker runs, without their payloads; at most so many."""
        parameters = {"status": int(Status.RUNNING), "worker": self.worker_id, "most": most}
        text = self.database.text(sql.HELD)
        return [
            claimed(self.database.dialect, row)
            for row in self.database.read(lambda c: c.execute(text, parameters).all())
        ]

    def cancel_requested(self, ids: Sequence[int]) -> set[tuple[int, int]]:
        """Those of this worker's running tasks, as (id, attempt), that a person wants to be cancelled."""
        if not ids:
            return set()
        parameters = {"ids": sorted(ids), "worker": self.worker_id, "status": int(Status.RUNNING)}
        text = self.database.text(sql.CANCEL_REQUESTED)
        return {(r.id, r.attempt) for r in self.database.read(lambda c: c.execute(text, parameters).all())}

    def progress(self, reports: Sequence[tuple[int, int, float, str]]) -> None:
        """Write how far running tasks say they are, as (id, attempt, fraction, words); others stay as they are."""
        rows = [
            {
                "id": task_id,
                "attempt": attempt,
                "status": int(Status.RUNNING),
                "progress": fraction,
                "text": encodable(text)[:190],
            }
            for task_id, attempt, fraction, text in sorted(reports)
        ]
        self.database.write(lambda c: c.execute(self.database.text(sql.PROGRESS), rows))

    def _claim(self, connection: Connection, messages: Sequence[Message], token: str) -> list[Claimed]:
        moves = self._moves(messages, token)
        ours = {
            "ids": sorted({message.task_id for message in messages}),
            "status": int(Status.RUNNING),
            "token": token,
            "worker": self.worker_id,
        }
        if len(messages) <= AT_ONCE and self.database.takes_packets:
            won = self._claim_at_once(connection, moves, ours)
            if won is not None:
                return won
        for move in moves:
            run(connection, self.database, *move)
        commit_with_next(connection, self.database)
        return read_rows(connection, self.database, sql.CLAIMED_IN_BATCH, Claimed, ours)

    def _claim_at_once(
        self, connection: Connection, moves: Sequence[Statement], ours: dict[str, Any]
    ) -> list[Claimed] | None:
        """All in one trip; None, and nothing done, when somebody holds a lock for which that would have to wait.

        It begins its transaction by itself: something in between may take what begins with SELECT for a mere reading.
        """
        first = [(sql.BEGIN, {}), (sql.LOCK_MESSAGES, {"ids": ours["ids"]})]
        commit_with_next(connection, self.database, [*first, *moves])
        try:
            return read_rows(connection, self.database, sql.CLAIMED_IN_BATCH, Claimed, ours)
        except DBAPIError as error:
            if not refuses_to_wait(error):
                raise
            return None

    def _moves(self, messages: Sequence[Message], token: str) -> list[Statement]:
        """The statements that move their tasks to status 2, one for all messages that are alike."""
        alike: dict[tuple[int | None, str], set[int]] = {}
        for message in messages:
            alike.setdefault((message.attempt, message.task_code), set()).add(message.task_id)
        moves: list[Statement] = []
        for (attempt, code), ids in sorted(alike.items(), key=lambda item: min(item[1])):
            parameters = {
                "ids": sorted(ids),
                "statuses": CLAIMABLE,
                "to": int(target(Move.CLAIM)),
                "worker": self.worker_id,
                "token": token,
                **({} if attempt is None else {"attempt": attempt}),
                **({"code": code} if code else {}),
            }
            moves.append((sql.claim(attempt=attempt is not None, code=bool(code)), parameters))
        return moves

    def _answers(self, messages: Sequence[Message], won: list[Claimed]) -> Claims:
        claims = Claims(won=won)
        taken = {(task.id, task.attempt) for task in won}
        attempts = {task.id: task.attempt for task in won}
        left = []
        for message in messages:
            attempt = attempts.get(message.task_id) if message.attempt is None else message.attempt
            key = (message.task_id, attempt)
            if key in taken:
                taken.discard(key)
            else:
                left.append(message)
        if left:
            self._explain(left, claims)
        return claims

    def _explain(self, left: list[Message], claims: Claims) -> None:
        """Why these messages won nothing: no such row (or only since a moment), expired, or somebody else's."""
        parameters = {"ids": sorted({m.task_id for m in left})}
        rows = self.database.read(lambda c: c.execute(self.database.text(sql.UNCLAIMED), parameters).all())
        known = {row.id: row for row in rows}
        for message in left:
            row = known.get(message.task_id)
            if row is None:
                claims.missing.append(message)
            elif row.expired and row.status == Status.DISPATCHED:
                claims.expired.append(message)
            elif row.status in CLAIMABLE and _speaks_of(message, row):
                claims.missing.append(message)
            else:
                claims.duplicates.append(message)
        if claims.expired:
            ids = [message.task_id for message in claims.expired]
            self.database.write(lambda c: expire(c, self.database, sql.EXPIRE_QUEUED, ids))

    def _finish(self, connection: Connection, ends: Sequence[Finish]) -> list[Finish]:
        parameters = {
            "ids": sorted({end.task.id for end in ends}),
            "status": int(Status.RUNNING),
            "worker": self.worker_id,
        }
        rows = read_rows(connection, self.database, sql.LOCK_HELD, Held, parameters)
        held = {(row.id, row.attempt): row for row in rows}
        ours = [end for end in ends if (end.task.id, end.task.attempt) in held]
        late = [end for end in ends if (end.task.id, end.task.attempt) not in held]
        if ours:
            found = endings(self.database, ours, held, self.default_zone)
            write_endings(connection, self.database, found)
            granted = [row.id for row in rows if row.granted_at is not None]
            if not granted and not late:
                commit_with_next(connection, self.database)
            write_run_rows(connection, self.database, ours, self.worker_id, rows[0].now)
            self._give_back(connection, granted, ours)
        return self._too_late(connection, late) if late else []

    def _give_back(self, connection: Connection, granted: list[int], ends: Sequence[Finish]) -> None:
        if granted and (ids := {end.task.id for end in ends}.intersection(granted)):
            give_back(connection, self.database, ids)
            self.given_back += len(ids)

    def _too_late(self, connection: Connection, late: Sequence[Finish]) -> list[Finish]:
        """Ends whose rows are no longer ours: already written by us (a lost reply), or superseded."""
        parameters = {"ids": sorted({end.task.id for end in late}), "worker": self.worker_id}
        rows = connection.execute(self.database.text(sql.OWN_RUNS), parameters).all()
        outcomes = {(row.task_id, row.attempt): row.outcome for row in rows}
        refused = [
            end
            for end in late
            if (known := outcomes.get((end.task.id, end.task.attempt))) in NOT_FINISHED_BY_US
            and known != end.outcome.value
        ]
        if refused:
            superseded = [replace(end, outcome=Outcome.SUPERSEDED) for end in refused]
            now = self.database.dialect.moment(connection.execute(self.database.text(sql.CLOCK)).scalar_one())
            write_run_rows(connection, self.database, superseded, self.worker_id, now)
        return refused


def _speaks_of(message: Message, row: Row[Any]) -> bool:
    """Whether a message names this row's attempt and code, as far as it names any."""
    return message.attempt in {None, row.attempt} and message.task_code in {"", row.task_code}
