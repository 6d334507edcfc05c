"""The handler ``http``: calls a URL within a total time and checks the status of the answer."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from taskkit.clock import as_utc, monotonic, utc_now
from taskkit.errors import RetryLater, TaskkitError
from taskkit.worker.builtin_output import USUAL, Kept, checked_limit
from taskkit.worker.builtin_request import Expected, Request

if TYPE_CHECKING:
    import httpx

LONGEST_WAIT_S = 3600
SHOWN_CHARACTERS = 500
TEMPORARY = frozenset({408, 425, 429})
BUSY = frozenset({429, 503})


class RequestFailed(TaskkitError):
    """No answer came, or one with an unexpected status (``status``, None without one).

    The text holds neither the userinfo nor a value of the query of the URL.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.can_retry = status is None or status in TEMPORARY or status >= 500


def http(
    *,
    url: str,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    body: str | None = None,
    json: Any = None,
    expect: list[int] | str = "2xx",
    timeout: float = 30,
    follow_redirects: bool = False,
    verify: bool = True,
    output_limit: int = USUAL,
) -> dict[str, Any]:
    """Call ``url`` and return status, body, cut and runtime_ms.

    ``expect`` lists the statuses that are a success: [200, 404] or "2xx,404". ``timeout`` is for the whole of it,
    from looking up the name to the last byte. The answer is read to its end, so that nothing is broken off that
    prints much, but only head and tail are kept when it is longer than ``output_limit`` bytes (as JSON). An unexpected 429
    or 503 with Retry-After is tried again then, at most an hour later.
    """
    expected = Expected.of(expect)
    kept = Kept(checked_limit(output_limit))
    request = Request.of(url, method, headers, body, json, timeout)
    started = monotonic()
    answer = _call(request, kept, follow_redirects=follow_redirects, verify=verify)
    text, cut = kept.text(answer.charset_encoding or "utf-8")
    if answer.status_code not in expected:
        raise _unexpected(request, answer, text)
    runtime_ms = round((monotonic() - started) * 1000)
    return {"status": answer.status_code, "body": text, "cut": cut, "runtime_ms": runtime_ms}


def _call(request: Request, kept: Kept, *, follow_redirects: bool, verify: bool) -> httpx.Response:
    import httpx

    from taskkit.worker.builtin_exchange import exchange, run_alone

    try:
        return run_alone(exchange(request, kept, follow_redirects=follow_redirects, verify=verify))
    except (TimeoutError, httpx.TimeoutException):
        raise RequestFailed(f"{request.shown}: no complete answer within {request.timeout:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as failure:
        text = request.scrub(_reason(failure))
        raise RequestFailed(f"{request.shown}: {type(failure).__name__}, {text}") from None


def _reason(failure: BaseException) -> str:
    """The text of the innermost cause: "connection refused" stands three wrappings deep."""
    text = "the connection broke off"
    inner: BaseException | None = failure
    while inner is not None:
        text = str(inner) or text
        inner = inner.exceptions[0] if isinstance(inner, BaseExceptionGroup) else _before(inner)
    return text[:SHOWN_CHARACTERS]


def _before(failure: BaseException) -> BaseException | None:
    return failure.__cause__ or failure.__context__


def _unexpected(request: Request, answer: httpx.Response, text: str) -> TaskkitError:
    """What an unexpected status is to the task: to be tried again later, or a failure."""
    said = f"{request.shown}: status {answer.status_code}{_phrase(answer.status_code)}"
    wait = retry_after(answer.headers.get("retry-after")) if answer.status_code in BUSY else None
    if wait is not None:
        return RetryLater(wait, f"{said}, to be tried again in {wait:g} s")
    if answer.has_redirect_location:
        return RequestFailed(
            f"{said}, a redirect; set follow_redirects, or call the place itself", answer.status_code
        )
    shown = request.scrub(text)[:SHOWN_CHARACTERS].strip()
    return RequestFailed(f"{said}{': ' if shown else ''}{shown}", answer.status_code)


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


def retry_after(value: str | None) -> float | None:
    """The seconds of a Retry-After header, a number or a date, from 1 to an hour; None when it says nothing."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(min(max(int(text[:9]), 1), LONGEST_WAIT_S))
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        return None
    return min(max((as_utc(moment) - utc_now()).total_seconds(), 1.0), float(LONGEST_WAIT_S))
