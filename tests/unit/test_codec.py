"""Messages: small JSON for people, read strictly, and whatever is not one says why and never crashes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taskkit.model import DeadMessage, Message
from taskkit.queues.codec import MAX_ID, decode, decode_dead, encode, encode_dead
from tests.naughty import naughty_strings

PARSING = Path(__file__).parents[3] / "shared" / "data" / "json" / "test_parsing"
needs_data = pytest.mark.skipif(
    not PARSING.exists(), reason="the shared test data is not beside the repository"
)
AT = "2026-03-01T01:00:00.000000Z"


def test_a_message_is_json_that_a_person_can_read() -> None:
    raw = encode(Message(7, "shop.mail", 2, AT))
    assert (
        raw
        == b'{"task_id":7,"task_code":"shop.mail","attempt":2,"dispatched_at":"2026-03-01T01:00:00.000000Z"}'
    )


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"task_id":1}', Message(1)),
        (b' {"task_id" : 9223372036854775807}\r\n', Message(MAX_ID)),
        (b'{"task_id":1,"attempt":null}', Message(1)),
        (b'{"attempt":3,"task_id":1}', Message(1, attempt=3)),
        (b'{"task_id":1,"from_a_later_version":{"x":[1,2.5,"y"]}}', Message(1)),
        (b'{"task_id":1,"task_code":"\\u652f\\ud83d\\ude00"}', Message(1, "支😀")),
        (
            b'{"task_id":1,"dispatched_at":"2026-03-01T09:00:00+08:00"}',
            Message(1, "", None, "2026-03-01T09:00:00+08:00"),
        ),
    ],
)
def test_what_a_person_pushes_is_read(raw: bytes, message: Message) -> None:
    assert decode(raw) == message


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "empty"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"\x80abc", "not UTF-8"),
        (gzip.compress(b'{"task_id":1}', mtime=0), "not UTF-8"),
        (b'{"task_id":1,"x":"\xff"}', "not UTF-8"),
        (b'{"task_id":1,"\xff":1}', "not UTF-8"),
        (b'{"task_id":1,"task_code":"\xed\xa0\x80"}', "not UTF-8"),
        ('{"task_id":1}'.encode("utf-16"), "not UTF-8"),
        (b"\xef\xbb\xbf" + b'{"task_id":1}', "byte order mark"),
        (b"not json", "not JSON"),
        (b"\x00", "not JSON"),
        (b'{"task_id":1', "not JSON"),
        (b'{"task_id":1}{"task_id":2}', "not JSON"),
        (b"{'task_id':1}", "not JSON"),
        (b'{"task_id":1,}', "not JSON"),
        (b'{"task_id":01}', "not JSON"),
        (b'{"task_id":NaN}', "not JSON"),
        (b'{"task_id":1,"x":NaN}', "not JSON"),
        (b'{"task_id":1,"x":-Infinity}', "not JSON"),
        (b'{"task_id":1,"task_code":"\\ud800"}', "not JSON"),
        (b"null", "not a message"),
        (b"true", "not a message"),
        (b"123", "not a message"),
        (b'"x"', "not a message"),
        (b"[]", "not a message"),
        (b'[{"task_id":1}]', "not a message"),
        (b"{}", "task_id"),
        (b'{"id":1}', "task_id"),
        (b'{"id":-1}', "task_id"),
        (b'{"task_id":0}', "task_id"),
        (b'{"task_id":-1}', "task_id"),
        (b'{"task_id":9223372036854775808}', "task_id"),
        (b'{"task_id":99999999999999999999}', "task_id"),
        (b'{"task_id":%s}' % (b"9" * 4000), "task_id"),
        (b'{"task_id":true}', "task_id"),
        (b'{"task_id":1.0}', "task_id"),
        (b'{"task_id":1e3}', "task_id"),
        (b'{"task_id":"1"}', "task_id"),
        (b'{"task_id":null}', "task_id"),
        (b'{"task_id":[1]}', "task_id"),
        (b'{"task_id":1,"attempt":0}', "attempt"),
        (b'{"task_id":1,"attempt":-1}', "attempt"),
        (b'{"task_id":1,"attempt":1.5}', "attempt"),
        (b'{"task_id":1,"attempt":true}', "attempt"),
        (b'{"task_id":1,"attempt":99999999999}', "attempt"),
        (b'{"task_id":1,"task_code":5}', "task_code"),
        (b'{"task_id":1,"task_code":null}', "task_code"),
        (b'{"task_id":1,"dispatched_at":"yesterday"}', "dispatched_at"),
        (b'{"task_id":1,"dispatched_at":"2026-03-01 09:00:00"}', "dispatched_at"),
        (b'{"task_id":1,"dispatched_at":"0001-01-01T00:00:00+14:00"}', "dispatched_at"),
        (b'{"task_id":1,"dispatched_at":12}', "dispatched_at"),
        (b'{"task_id":1,"task_id":2}', "twice"),
        (b'{"task_id":1,"task_id":1}', "twice"),
        (b'{"task_id":1,"task\\u005fid":2}', "twice"),
        (b'{"task_id":1,"x":{"a":1,"a":2}}', "twice"),
        (b"[" * 4000, "not"),
        (b"x" * 5_000_000, "5,000,000 bytes long"),
        (b'{"task_id":1,"x":"%s"}' % (b"y" * 5000), "bytes long"),
    ],
    ids=lambda value: repr(value[:40]),
)
def test_what_is_not_a_message_says_why(raw: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        decode(raw)
    assert type(caught.value) is ValueError
    assert 0 < len(str(caught.value)) < 120


def test_what_is_nested_deeply_in_a_field_that_nobody_reads_is_ignored_or_refused_by_name() -> None:
    """How deep Python reads depends on its version; an error of its own comes out of none."""
    raw = b'{"task_id":1,"x":%s%s}' % (b"[" * 1900, b"]" * 1900)
    try:
        assert decode(raw).task_id == 1
    except ValueError as error:
        assert str(error) == "not a message: nested too deeply"


@given(
    st.binary(max_size=200) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
def test_no_bytes_crash_the_reader(raw: bytes) -> None:
    try:
        decode(raw)
    except ValueError as error:
        assert str(error)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
fields = st.sampled_from(["task_id", "task_code", "attempt", "dispatched_at", "x"])


def is_whole(value: object, most: int) -> bool:
    return type(value) is int and 0 < value <= most


def is_json(value: object) -> bool:
    """Whether JSON has this value: it has no NaN and no infinity, and text is without lone surrogates."""
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        return False
    return True


def fits(value: dict[str, object]) -> bool:
    """Whether these are the types of a message: what ``decode`` is to read, and nothing else."""
    attempt = value.get("attempt")
    at = value.get("dispatched_at", "")
    return (
        is_json(value)
        and is_whole(value.get("task_id"), MAX_ID)
        and isinstance(value.get("task_code", ""), str)
        and (attempt is None or is_whole(attempt, 2**31 - 1))
        and at in ("", AT)
    )


messages = st.fixed_dictionaries(
    {"task_id": st.integers(-1, 3) | st.just(MAX_ID) | json_values},
    optional={
        "task_code": st.just("mail") | json_values,
        "attempt": st.integers(-1, 3) | json_values,
        "dispatched_at": st.just(AT) | st.just("") | json_values,
        "x": json_values,
    },
)


@given(st.dictionaries(fields, json_values) | messages)
@example({"task_id": 1, "attempt": None, "x": [1.5, None, {}]})
@example({"task_id": MAX_ID, "task_code": "mail", "attempt": 2, "dispatched_at": AT})
def test_only_the_right_types_are_read(value: dict[str, object]) -> None:
    raw = json.dumps(value).encode()
    if not fits(value):
        with pytest.raises(ValueError, match=r"."):
            decode(raw)
        return
    message = decode(raw)
    assert message.task_id == value["task_id"]
    assert message.attempt == value.get("attempt")
    assert message.task_code == value.get("task_code", "")
    assert message.dispatched_at == value.get("dispatched_at", "")


@given(
    st.integers(1, MAX_ID),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=64),
    st.integers(1, 2**31 - 1),
)
def test_what_is_written_is_read(task_id: int, code: str, attempt: int) -> None:
    message = Message(task_id, code, attempt, AT)
    assert decode(encode(message)) == message


def corpus(kind: str) -> Iterator[Path]:
    return PARSING.glob(f"{kind}_*.json")


@needs_data
def test_no_file_of_the_json_corpus_is_a_message() -> None:
    files = list(corpus("[yni]"))
    assert len(files) > 250
    for file in files:
        with pytest.raises(ValueError, match=r"\w"):
            decode(file.read_bytes())


@needs_data
def test_wrong_json_in_a_field_that_is_skipped_is_noticed() -> None:
    for file in corpus("n"):
        with pytest.raises(ValueError, match=r"\w"):
            decode(b'{"task_id":1,"x":' + file.read_bytes() + b"}")


@needs_data
def test_right_json_in_a_field_that_is_skipped_is_skipped() -> None:
    refused = {"y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json"}
    for file in corpus("y"):
        raw = b'{"task_id":1,"x":' + file.read_bytes() + b"}"
        if file.name in refused:
            with pytest.raises(ValueError, match="twice"):
                decode(raw)
        else:
            assert decode(raw) == Message(1), file.name


def test_naughty_codes_survive() -> None:
    for code in naughty_strings():
        if len(code) <= 255:
            assert decode(encode(Message(1, code, 1, AT))).task_code == code
        with pytest.raises(ValueError, match=r"\w"):
            decode(code.encode())


@pytest.mark.parametrize(
    "dead",
    [
        DeadMessage(b"", "empty", "a"),
        DeadMessage('{"ключ": "支付😀"}'.encode(), "not a message", "队列"),
        DeadMessage(b"\xff\xfe\x00", "not UTF-8 text", "a"),
        DeadMessage(gzip.compress(b"x", mtime=0), "not UTF-8 text", "a"),
    ],
)
def test_a_dead_message_keeps_its_bytes_and_reason(dead: DeadMessage) -> None:
    entry = encode_dead(dead, AT)
    assert decode_dead(entry) == dead
    assert json.loads(entry)["buried_at"] == AT


def test_a_large_dead_message_is_cut_and_tells_its_size() -> None:
    entry = encode_dead(DeadMessage(b"x" * 5_000_000, "too long", "a"), AT)
    assert len(entry) < 5000
    assert json.loads(entry)["size"] == 5_000_000


def test_odd_names_do_not_keep_a_message_from_its_grave() -> None:
    assert decode_dead(encode_dead(DeadMessage(b"x", "\ud800", "\udfff"), AT)) == DeadMessage(
        b"x", "\\ud800", "\\udfff"
    )


@pytest.mark.parametrize("entry", [b"", b"\xff", b"{}", b"[]", b'{"reason":1}', b"[" * 4000])
def test_what_somebody_else_put_among_the_dead_is_shown(entry: bytes) -> None:
    assert decode_dead(entry) == DeadMessage(entry, "not written by taskkit", "")
