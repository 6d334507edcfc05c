"""The built-in handler ``http`` against a real server: what is sent, statuses, what may be told."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from taskkit.errors import PayloadError, RetryLater, TaskkitError
from taskkit.worker.builtin import RequestFailed, http
from taskkit.worker.builtin_http import retry_after
from tests.integration.answers import serving


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def failure(**payload: Any) -> RequestFailed:
    with pytest.raises(RequestFailed) as caught:
        http(**payload)
    assert isinstance(caught.value, TaskkitError)
    return caught.value


# What is sent


def test_the_answer_comes_back(server: str) -> None:
    result = http(url=f"{server}/echo?a=1&b=%20")
    seen = json.loads(result["body"])
    assert (result["status"], result["cut"]) == (200, False)
    assert result["runtime_ms"] >= 0
    assert (seen["method"], seen["query"], seen["body"]) == ("GET", {"a": "1", "b": " "}, "")
    assert seen["headers"]["user-agent"].startswith("taskkit/")


def test_method_headers_and_body_are_sent(server: str) -> None:
    headers = {"X-One": "é", "User-Agent": "mine", "content-type": "text/csv"}
    seen = json.loads(http(url=f"{server}/echo", method="put", headers=headers, body="中,😀")["body"])
    assert (seen["method"], seen["body"]) == ("PUT", "中,😀")
    assert {seen["headers"][name] for name in ("x-one", "user-agent", "content-type")} == {
        "é",
        "mine",
        "text/csv",
    }


def test_json_is_sent_with_its_type(server: str) -> None:
    seen = json.loads(http(url=f"{server}/echo", method="POST", json={"a": ["中", 1.5, None]})["body"])
    assert json.loads(seen["body"]) == {"a": ["中", 1.5, None]}
    assert seen["headers"]["content-type"] == "application/json"


def test_userinfo_is_basic_authentication(server: str) -> None:
    seen = json.loads(http(url=f"{server}/echo".replace("//", "//user:pass@"))["body"])
    assert seen["headers"]["Authorization"] == "Basic dXNlcjpwYXNz"


def test_an_answer_without_a_body_is_an_empty_one(server: str) -> None:
    assert http(url=f"{server}/echo", method="HEAD")["body"] == ""
    assert http(url=f"{server}/status?code=204", expect=[204])["status"] == 204


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({"url": "ftp://example.org/"}, "url"),
        ({"url": "file:///etc/passwd"}, "url"),
        ({"url": "/only/a/path"}, "url"),
        ({"url": "http://"}, "url"),
        ({"url": "http:\\\\example.org"}, "url"),
        ({"url": "http://[::1"}, "url"),
        ({"url": "http://example.org:99999"}, "url"),
        ({"url": "http://example.org/\ud800"}, "url"),
        ({"url": 5}, "url"),
        ({"method": "GET /"}, "method"),
        ({"method": ""}, "method"),
        ({"headers": {"A\r\nB": "c"}}, "headers"),
        ({"headers": {"A": "secret\r\nB: c"}}, "headers.A"),
        ({"headers": {"A": "中"}}, "headers.A"),
        ({"headers": {"A": 1}}, "headers.A"),
        ({"headers": ["A"]}, "headers"),
        ({"body": "a", "json": {}}, "json"),
        ({"body": {"a": 1}}, "body"),
        ({"body": "\ud800"}, "body"),
        ({"json": float("nan")}, "json"),
        ({"json": {1, 2}}, "json"),
        ({"expect": "2xx,oops"}, "expect"),
        ({"expect": ""}, "expect"),
        ({"expect": []}, "expect"),
        ({"expect": [True]}, "expect"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"timeout": "30"}, "timeout"),
        ({"output_limit": -5}, "output_limit"),
    ],
)
def test_a_payload_that_makes_no_sense_is_refused_by_its_field(payload: dict[str, Any], field: str) -> None:
    with pytest.raises(PayloadError) as caught:
        http(**{"url": "http://127.0.0.1:1/", **payload})
    assert caught.value.field == field
    assert "secret" not in str(caught.value)


# Statuses


@pytest.mark.parametrize(
    ("status", "expect", "taken"),
    [
        (200, "2xx", True),
        (299, "2xx", True),
        (404, "2xx", False),
        (404, "2xx, 404", True),
        (418, "400-420", True),
        (500, [200, 500], True),
        (200, [201], False),
        (302, "3XX", True),
        (429, "429", True),
    ],
)
def test_an_expected_status_is_a_success_and_no_other(
    server: str, status: int, expect: list[int] | str, taken: bool
) -> None:
    url = f"{server}/status?code={status}"
    if taken:
        assert http(url=url, expect=expect)["status"] == status
    else:
        assert failure(url=url, expect=expect).status == status


def test_an_unexpected_status_fails_with_the_beginning_of_the_answer(server: str) -> None:
    error = failure(url=f"{server}/status?code=500")
    assert str(error) == (
        f"GET {server}/status?code=***: status 500 Internal Server Error: the text of the answer"
    )
    assert error.can_retry
    assert not failure(url=f"{server}/status?code=404").can_retry
    assert failure(url=f"{server}/status?code=408").can_retry
    assert len(str(failure(url=f"{server}/huge", expect="404"))) < 700


@pytest.mark.parametrize(
    ("code", "after", "low", "high"),
    [(429, "7", 7, 7), (503, "0", 1, 1), (503, "999999999999", 3600, 3600), (429, "date", 80, 120)],
)
def test_a_busy_server_says_when_to_come_back(
    server: str, code: int, after: str, low: float, high: float
) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=120), usegmt=True).replace(" ", "+")
    with pytest.raises(RetryLater, match=f"status {code}") as caught:
        http(url=f"{server}/status?code={code}&after={date if after == 'date' else after}")
    assert low <= caught.value.seconds <= high


@pytest.mark.parametrize("code", [429, 503])
def test_a_busy_server_that_does_not_say_when_is_a_plain_failure(server: str, code: int) -> None:
    assert failure(url=f"{server}/status?code={code}").status == code
    assert failure(url=f"{server}/status?code={code}&after=soon").status == code
    assert failure(url=f"{server}/status?code=500&after=5").status == 500


@pytest.mark.parametrize(
    "value", [None, "", "-5", "1.5", "٣", "soon", "Mon, 99 Foo 2026", "Fri, 27 Feb 2026 10:00:00"]
)
def test_a_retry_after_that_says_nothing_is_nothing(value: str | None) -> None:
    assert retry_after(value) is None


def test_a_redirect_is_followed_only_if_asked_for(server: str) -> None:
    url = f"{server}/redirect?to=/echo"
    assert "a redirect; set follow_redirects" in str(failure(url=url))
    assert http(url=url, follow_redirects=True)["status"] == 200
    assert "TooManyRedirects" in str(failure(url=f"{server}/loop", follow_redirects=True))
    assert "UnsupportedProtocol" in str(
        failure(url=f"{server}/redirect?to=file:///etc/passwd", follow_redirects=True)
    )


# Secrets


def test_no_secret_of_the_url_or_the_headers_is_told(server: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secrets = ("hunter22", "tok%20en", "tok en", "sesame12", "aliceinchains")
    url = f"{server}/echo?status=500&token=tok%20en&sesame12".replace("//", "//aliceinchains:hunter22@")
    headers = {"X-Api-Key": "sesame12", "Authorization": "Bearer hunter22"}
    errors = [
        failure(url=url, headers=headers),
        failure(url=url.replace("/echo", "/status").replace("status=500", "code=404")),
        failure(url=url.replace("/echo", "/never"), timeout=0.2),
        failure(url=url.replace(server.rpartition(":")[2], "1")),
    ]
    for error in errors:
        told = f"{error!r} {error} {error.__dict__} {error.__cause__!r} {error.__suppress_context__}"
        assert not [secret for secret in secrets if secret in told]
    assert "token=***" in str(errors[0])
    assert errors[0].__suppress_context__ or errors[0].__context__ is None
    assert not [secret for secret in secrets if secret in caplog.text]
    assert "***" in str(errors[0]).partition("status 500")[2]


def test_a_retry_tells_no_secret_either(server: str) -> None:
    with pytest.raises(RetryLater) as caught:
        http(url=f"{server}/status?code=429&after=5&token=hunter22")
    assert "hunter22" not in str(caught.value)


def test_other_users_of_httpx_keep_their_log(server: str, caplog: pytest.LogCaptureFixture) -> None:
    import httpx

    caplog.set_level(logging.INFO)
    caplog.set_level(logging.INFO, logger="httpx")  # another test may have configured the logs
    http(url=f"{server}/echo?mine=1")
    httpx.get(f"{server}/echo?theirs=1")
    assert "theirs=1" in caplog.text
    assert "mine=1" not in caplog.text
