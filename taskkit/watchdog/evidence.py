"""The executed notebook of a critical alert: made in a process of its own, within a time limit, after the alert has gone out."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from msgspec import structs

from taskkit.alerts import Alert, Event, Posting
from taskkit.analytics.names import RULES
from taskkit.center import TaskCenter
from taskkit.clock import iso
from taskkit.errors import TaskkitError
from taskkit.settings import Settings
from taskkit.settings.home import make_home
from taskkit.watchdog.post import Post
from taskkit.watchdog.signals import Rule

log = logging.getLogger("taskkit.watchdog")
FOLDER = "evidence"
PATIENCE_S = 15.0
"""How much longer than its limit the process of a notebook may take to end."""
MOST_WAITING = 20
DAY = 86_400.0
USUAL_WINDOW_S = 3600.0
"""Of signals without a window of their own."""


class Evidence:
    """Runs notebooks one after the other in a thread; what fails is logged, and the alert has long been told."""

    def __init__(self, settings: Settings, center: TaskCenter, options: tuple[str, ...] = ()) -> None:
        self.settings, self.center, self.options = settings, center, options
        self.folder = settings.home / FOLDER
        self._wanted: queue.Queue[tuple[Alert, Rule, Post] | None] = queue.Queue(MOST_WAITING)
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._beginning = threading.Lock()

    def ask(self, alert: Alert, rule: Rule, post: Post) -> None:
        """Make the page of an alert whose signal has a notebook."""
        if rule.signal not in RULES:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="evidence", daemon=True)
            self._thread.start()
        try:
            self._wanted.put_nowait((alert, rule, post))
        except queue.Full:
            log.warning("too many notebooks wait: none is run for alert %s", alert.id)

    def stop(self) -> None:
        """Run no more, not even what waits; the process that runs is ended."""
        with self._beginning:
            self._stopped = True
        with contextlib.suppress(queue.Full):
            self._wanted.put_nowait(None)
        self._end()

    def tidy(self) -> None:
        """Delete pages that are older than they are kept."""
        days = self.settings.watchdog.evidence_days
        for path in self.folder.glob("*.html") if days else ():
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > days * DAY:
                    path.unlink()

    def page(self, alert: Alert, rule: Rule) -> Path | None:
        """The executed notebook as one page of HTML, or None."""
        make_home(self.settings.home)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        path = self.folder / f"{alert.id}-{rule.signal}.html"
        limit = self.settings.watchdog.evidence_s
        process = self._begin([*window_of(alert, rule), "--out", str(path), "--limit", f"{limit:g}s"], rule)
        if process is None:
            return None
        try:
            _, said = process.communicate(timeout=limit + PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._end()
            log.warning("the notebook of alert %s had not ended after %g s", alert.id, limit + PATIENCE_S)
            return None
        if process.returncode:
            log.warning(
                "the notebook of alert %s failed: %s", alert.id, said.decode(errors="replace").strip()[-500:]
            )
            return None
        return path

    def _begin(self, more: Sequence[str], rule: Rule) -> subprocess.Popen[bytes] | None:
        """The process of a notebook; None once this is to stop, so that none outlives the watchdog."""
        command = [sys.executable, "-m", "taskkit.cli", *self.options, "runbook", "run", rule.signal, *more]
        with self._beginning:
            if self._stopped:
                return None
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                process_group=0,
            )
            return self._process

    def _work(self) -> None:
        while (wanted := self._wanted.get()) is not None and not self._stopped:
            alert, rule, post = wanted
            try:
                path = self.page(alert, rule)
                if path is not None:
                    postings = post.postings(alert, Event.EVIDENCE, rule, self.center.now(), file=str(path))
                    self.center.outbox.post([_placed(one, rule) for one in postings])
            except (OSError, TaskkitError) as error:
                log.warning("the notebook of alert %s is not sent: %s", alert.id, error)

    def _end(self) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def window_of(alert: Alert, rule: Rule) -> list[str]:
    """What the rule looked at when it fired, as arguments: its window up to that look, and its queues."""
    over, until = float(getattr(rule, "over", USUAL_WINDOW_S)), str(iso(alert.breach_at))
    queues = (alert.object,) if getattr(rule, "per", "") == "queue" else getattr(rule, "queues", ())
    return [
        "--since",
        f"{over:g}s",
        "--until",
        until,
        *(part for name in queues if name for part in ("--queue", name)),
    ]


def _placed(posting: Posting, rule: Rule) -> Posting:
    """With where the page lies, and how to make it elsewhere: a path alone helps nobody on another machine."""
    command = f"taskkit runbook run {rule.signal}"
    return replace(posting, item=structs.replace(posting.item, host=socket.gethostname(), command=command))
