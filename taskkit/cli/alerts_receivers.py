"""``taskkit alerts receivers|test``: where alerts go, how each place fares, and whether it takes a message."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from taskkit.cli.conduct import Failed
from taskkit.cli.front import Front, pass_front
from taskkit.cli.options import json_option
from taskkit.clock import monotonic
from taskkit.errors import InputError, NotFound

if TYPE_CHECKING:
    from taskkit.alerts import Notice
    from taskkit.center import TaskCenter
    from taskkit.notices import Courier
    from taskkit.receivers.protocol import Receiver

PATIENCE_S = 30.0
"""How long a test message may stand behind others that go first."""
LOOK_S = 0.2
WORDS = {
    "en": (
        "taskkit: a test message",
        "Receiver {name} works. Sent by {who}; nothing is wrong, nothing is to be done.",
    ),
    "zh": ("taskkit 测试消息", "接收器 {name} 正常。由 {who} 发送；没有故障，无需处理。"),
}


def receivers_of(front: Front) -> Sequence[Receiver]:
    """All receivers; raises NotFound where there is none."""
    from taskkit.receivers.loading import load_receivers

    found = load_receivers(front.settings)
    if not found:
        raise NotFound(
            "there is no receiver: `taskkit watchdog init` lays out alerting/receivers.example.toml to begin with"
        )
    return found


def place_of(receiver: Receiver) -> str:
    """Where a receiver leads, for people: its secret is masked."""
    address = getattr(receiver, "address", None)
    if address is not None:
        return str(address.shown)
    host, port, people = (getattr(receiver, name, "") for name in ("host", "port", "to"))
    return f"{host}:{port} → {', '.join(people)}"


@click.command(name="receivers")
@json_option
@pass_front
def show_receivers(front: Front, as_json: bool) -> None:
    """Show where alerts go: each receiver with its address (masked), whether it takes messages, and what waits for it.

    \b
      taskkit alerts receivers
    """
    from taskkit.render import show, to_json

    shapes = receiver_shapes(front.center, receivers_of(front))
    if as_json:
        click.echo(to_json(shapes))
    else:
        show(_table(shapes))


def receiver_shapes(center: TaskCenter, receivers: Sequence[Receiver]) -> list[dict[str, Any]]:
    """Each receiver with what is known of its robot; those of one address share calls, budget and pause."""
    from taskkit.center.outbox import month_of

    robots, calls, depth = center.outbox.robots(), center.ledger.recent_calls(), center.outbox.depth()
    month = month_of(center.now())
    found = []
    for one in receivers:
        robot = robots.get(one.robot, {})
        waiting, oldest_s = depth.get(one.name, (0, 0.0))
        found.append(
            {
                "name": one.name,
                "kind": one.kind,
                "address": place_of(one),
                "robot": one.robot,
                "severity": one.options.severity,
                "resolved": one.options.resolved,
                "fallback": one.options.fallback,
                "state": _state(robot),
                "pause_s": round(robot.get("pause_s") or 0.0, 1),
                "reason": robot.get("reason"),
                "calls_60s": calls.get(one.robot, 0),
                "budget_60s": one.budget,
                "calls_month": robot["month_calls"] if robot.get("month") == month else 0,
                "quota_month": one.month,
                "waiting": waiting,
                "oldest_waiting_s": round(oldest_s, 1),
            }
        )
    return found


def _state(robot: dict[str, Any]) -> str:
    if robot.get("misconfigured"):
        return "misconfigured"
    return "paused" if robot.get("pause_s") else "ok"


def _table(shapes: list[dict[str, Any]]) -> object:
    from taskkit.render import duration, one_line, table

    rows = []
    for one in shapes:
        pause = f" for {duration(one['pause_s'])}" if one["pause_s"] else ""
        reason = f": {one_line(one['reason'], 80)}" if one["reason"] and one["state"] != "ok" else ""
        rows.append(
            (
                one["name"],
                one["kind"],
                one["address"],
                f"{one['state']}{pause}{reason}",
                _of(one["calls_60s"], one["budget_60s"]),
                _of(one["calls_month"], one["quota_month"]),
                one["waiting"],
                duration(one["oldest_waiting_s"]) if one["waiting"] else "-",
            )
        )
    columns = ("receiver", "kind", "address", "state", ">calls in 60 s", ">this month", ">waiting", ">oldest")
    return table(columns, rows, keep=("receiver", "kind"), excerpts=("address", "state"))


def _of(count: int, most: int | None) -> str:
    return str(count) if most is None else f"{count} of {most}"


@click.command()
@click.argument("receiver", metavar="RECEIVER")
@click.option("--mention", is_flag=True, help="Call the people that it calls for a critical alert, too.")
@json_option
@pass_front
def test(front: Front, receiver: str, mention: bool, as_json: bool) -> None:
    """Send a test message to RECEIVER by the way of real alerts, and say what the other side answered.

    One that was stopped because it is misconfigured is tried again, and works from then on if the message arrives.
    Exit code 1 when it does not.

    \b
      taskkit alerts test ops-wecom
    """
    from taskkit.hints import suggest
    from taskkit.render import show, to_json

    everybody = {one.name: one for one in receivers_of(front)}
    if receiver not in everybody:
        raise InputError("RECEIVER", f"there is no receiver {receiver!r}{suggest(receiver, everybody)}")
    found = Trial(front, everybody[receiver], list(everybody.values()), mention=mention).run()
    if as_json:
        click.echo(to_json(found))
    else:
        show(_told(found))
    if not found["sent"]:
        raise Failed


class Trial:
    """A test message on its way: through the outbox, by the courier of its robot."""

    def __init__(
        self, front: Front, receiver: Receiver, everybody: Sequence[Receiver], *, mention: bool
    ) -> None:
        self.front, self.receiver, self.everybody, self.mention = front, receiver, everybody, mention
        self.center = front.center

    def run(self) -> dict[str, Any]:
        """Post it, deliver it, and say what became of it; one that did not arrive is taken back."""
        notice, courier = self._notice(), self._courier()
        standing = self.center.outbox.standing(courier.robot)
        if standing.misconfigured:
            self.center.outbox.free(courier.robot.robot)
        elif standing.pause_s > 0:
            return self._shape({}, f"it is paused for {standing.pause_s:.0f} s more: {standing.reason}")
        self.center.outbox.post_notice(notice, "note")
        deadline = monotonic() + PATIENCE_S
        while True:
            rest = courier.tick()
            row = self.center.ledger.notice(notice.uuid) or {}
            if row.get("state") in {"sent", "refused"}:
                return self._shape(row)
            if row.get("attempts") and row.get("state") == "waiting":
                self.center.ledger.take_back(notice.uuid)
                return self._shape(row)
            if monotonic() > deadline:
                self.center.ledger.take_back(notice.uuid)
                return self._shape(row, f"it did not get its turn within {PATIENCE_S:g} s; others go first")
            time.sleep(min(rest, LOOK_S))

    def _notice(self) -> Notice:
        from taskkit.alerts import Notice
        from taskkit.center.posting import new_uuid
        from taskkit.operations import default_actor

        subject, text = WORDS[self.receiver.options.language or self.front.settings.watchdog.language]
        return Notice(
            uuid=new_uuid(),
            receiver=self.receiver.name,
            subject=subject,
            text=text.format(name=self.receiver.name, who=default_actor()),
            mentions=self.mention,
        )

    def _courier(self) -> Courier:
        from taskkit.identity import new_identity
        from taskkit.notices import Courier, Troubleshooter

        settings = self.front.settings
        language, zone = settings.watchdog.language, settings.timezone
        trouble = Troubleshooter(self.center.outbox, self.everybody, language=language)
        same = [one for one in self.everybody if one.robot == self.receiver.robot]
        holder = new_identity()
        return Courier(self.center.outbox, same, holder, trouble=trouble, language=language, zone=zone)

    def _shape(self, row: dict[str, Any], problem: str = "") -> dict[str, Any]:
        calls = row.get("calls", [])
        return {
            "receiver": self.receiver.name,
            "sent": row.get("state") == "sent",
            "code": row.get("code"),
            "reply": row.get("reply"),
            "problem": problem or None,
            "calls": [
                {name: call[name] for name in ("kind", "verdict", "code", "took_ms")} for call in calls
            ],
        }


def _told(found: dict[str, Any]) -> str:
    from taskkit.render import milliseconds

    calls = "; ".join(
        f"{call['kind']} {call['code']} in {milliseconds(call['took_ms'])}" for call in found["calls"]
    )
    if found["sent"]:
        return f"{found['receiver']} took it: {calls or found['code']}"
    why = found["problem"] or f"the answer was {found['code']} {found['reply'] or ''}".rstrip()
    return f"{found['receiver']} did not take it: {why}"


COMMANDS = (show_receivers, test)
