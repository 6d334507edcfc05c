"""The tree of errors; each says what is wrong, where, what to do, and whether trying again can help.

TaskkitError
├── InputError                 bad input, refused at the boundary; .field names it
│   ├── PayloadError           a value that is not JSON, or does not fit the handler
│   │   └── TooLarge           a payload or result of too many bytes
│   └── CronError              an expression, zone or policy that cannot be kept
├── SettingsError              a setting that is unknown or wrong; names the key and where it stands
├── AppError                   the application could not be imported, or has no kit in it
├── AnalyticsMissing           pandas or another of the extras is not installed; says what to install
├── NotebookFailed             a runbook's notebook did not end; says in which cell, and why
├── NotFound                   no such task, queue or handler
├── IllegalMove                the task is in a status from which this move does not exist
├── KeyTaken                   another live task holds the unique key
├── StoreError                 SQL or the broker said no
│   ├── DatabaseUnavailable    unreachable, gone away, too busy            (try again)
│   ├── CommitUnknown          the reply to a COMMIT was lost              (look, then try again)
│   ├── SchemaError            the schema is missing, too old or too new
│   └── BrokerUnavailable      unreachable or answers with trouble         (try again)
│       ├── PushRefused        definitely not pushed                       (try again)
│       └── PushUnknown        may have been pushed; the row stays dispatched
├── LockError                  a lock, or a once, that is used in the wrong order
│   ├── LockTimeout            somebody else holds it                     (try again)
│   ├── LockLost               it was ours, and is not any more
│   └── OnceRunning            somebody else is doing it right now        (try again)
├── EmbeddedError              the embedded server could not be started
├── ResultError                a result that cannot be handed over
│   ├── ResultTimeout          the task has not ended yet                  (try again)
│   ├── TaskFailed             the task was given up; carries its last error
│   └── TaskCancelled          the task was cancelled
├── RetryLater, NeverRetry     raised *by handlers* to steer their own retries
└── CommandFailed, RequestFailed   of the built-in handlers: worker/builtin_shell.py, worker/builtin_http.py

Interrupted                    raised *in handlers* when their time is over (a BaseException)
"""

from __future__ import annotations


class TaskkitError(Exception):
    """Base of all errors of taskkit; ``can_retry`` tells whether the same call may succeed later."""

    can_retry = False


class InputError(TaskkitError, ValueError):
    """Bad input, refused before anything was written; ``field`` is the name of what was wrong."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class PayloadError(InputError):
    """A payload that is not a JSON object, is too large, or does not fit its handler."""


class TooLarge(PayloadError):
    """A payload or a result of more bytes than the settings allow."""


class CronError(InputError):
    """A cron expression, time zone or policy that is wrong or can never fire."""


class SettingsError(TaskkitError):
    """A setting that is unknown or has a wrong value; the message names the key and its place."""


class AppError(TaskkitError):
    """The application named by ``--app`` could not be loaded."""


class AnalyticsMissing(TaskkitError):
    """Analyses need what is not installed here; the message says what to install."""


class NotebookFailed(TaskkitError):
    """The notebook of a runbook did not end: a cell failed, its kernel died, or its time was over."""


class NotFound(TaskkitError):
    """There is no such task, queue or handler."""


class IllegalMove(TaskkitError):
    """The task is not in a status from which the move exists."""


class KeyTaken(TaskkitError):
    """Another live task holds the unique key; ``holder`` is its id where known."""

    def __init__(self, message: str, holder: int | None = None) -> None:
        super().__init__(message)
        self.holder = holder


class StoreError(TaskkitError):
    """SQL or the broker could not do what was asked."""


class DatabaseUnavailable(StoreError):
    """The database cannot be reached, went away, or is too busy."""

    can_retry = True


class CommitUnknown(StoreError):
    """The connection was lost while a COMMIT was under way: it may or may not have happened."""

    can_retry = True


class SchemaError(StoreError):
    """The task center's schema is missing, too old or too new for this taskkit."""


class BrokerUnavailable(StoreError):
    """The broker cannot be reached or answers with trouble of its own."""

    can_retry = True


class PushRefused(BrokerUnavailable):
    """The broker refused the push: it is certain that nothing arrived."""


class PushUnknown(BrokerUnavailable):
    """The push timed out or was cut: it may have arrived, so it must not be put back."""

    can_retry = False


class LockError(TaskkitError):
    """A lock, or a ``once``, is used in the wrong order: released without being held, taken twice."""


class LockTimeout(LockError):
    """The lock was not free in the time that the caller wanted to wait."""

    can_retry = True


class LockLost(LockError):
    """What was held is not held any more: somebody else may act by now, so stop."""


class OnceRunning(LockError):
    """Somebody else is doing it right now: whether it will have been done is not known yet."""

    can_retry = True


class EmbeddedError(TaskkitError):
    """The embedded server could not be started or is not installed."""


class ResultError(TaskkitError):
    """The result of a task cannot be handed over."""


class ResultTimeout(ResultError):
    """The task had not ended when the waiting time was over."""

    can_retry = True


class TaskFailed(ResultError):
    """The task failed for good; the message carries its last error."""


class TaskCancelled(ResultError):
    """The task was cancelled before it could return a result."""


class RetryLater(TaskkitError):
    """Raised by a handler: fail this attempt and try again in ``seconds``."""

    def __init__(self, seconds: float, reason: str = "the handler asked to be run later") -> None:
        super().__init__(reason)
        self.seconds = float(seconds)


class NeverRetry(TaskkitError):
    """Raised by a handler: give this task up now, whatever retries are left."""


class Interrupted(BaseException):
    """Raised inside a handler when its time limit is over or it was cancelled."""
