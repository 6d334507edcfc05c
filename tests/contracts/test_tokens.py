"""The promises of tokens, which locks and ``once`` outside of SQL are made of, on every adapter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from taskkit.coordination import MemoryTokens, RedisTokens, Tokens
from taskkit.errors import BrokerUnavailable
from taskkit.queues import Keys, connect_asker
from tests.centers import at_once
from tests.contracts.test_queues import cluster  # noqa: F401 - a fixture
from tests.servers import Valkey, available
from tests.waiting import wait_until

NAMES = ["nightly", "支付", "a{b}c", "}{", "x:y", "%7B", *map(str, range(8))]


@pytest.fixture(params=["redis", "cluster", "memory"])
def tokens(request: pytest.FixtureRequest, key_prefix: str) -> Iterator[Tokens]:
    if request.param == "memory":
        yield MemoryTokens()
        return
    url = (
        request.getfixturevalue("cluster")
        if request.param == "cluster"
        else request.getfixturevalue("redis_url")
    )
    asker = connect_asker(url, key_prefix)
    yield RedisTokens(asker.ask)
    asker.close()


@pytest.fixture
def key(key_prefix: str) -> bytes:
    return Keys(key_prefix).lock("nightly")


def test_the_first_takes_it(tokens: Tokens, key: bytes) -> None:
    assert tokens.read(key) is None
    assert tokens.take(key, "one", 30)
    assert not tokens.take(key, "two", 30)
    assert not tokens.take(key, "one", 30)
    assert tokens.read(key) == "one"


def test_only_its_owner_swaps_it(tokens: Tokens, key: bytes) -> None:
    assert not tokens.swap(key, "one", "one", 30), "nothing is there"
    tokens.take(key, "one", 30)
    assert not tokens.swap(key, "two", "two", 30)
    assert tokens.swap(key, "one", "three", 30)
    assert tokens.read(key) == "three"


def test_only_its_owner_drops_it(tokens: Tokens, key: bytes) -> None:
    assert not tokens.drop(key, "one"), "nothing is there"
    tokens.take(key, "one", 30)
    assert not tokens.drop(key, "two")
    assert tokens.drop(key, "one")
    assert tokens.read(key) is None


def test_its_life_has_an_end(tokens: Tokens, key: bytes) -> None:
    tokens.take(key, "one", 0.3)
    wait_until(lambda: tokens.take(key, "two", 30))
    assert not tokens.swap(key, "one", "one", 30)
    assert not tokens.drop(key, "one")


def test_a_swap_gives_a_new_life(tokens: Tokens, key: bytes) -> None:
    tokens.take(key, "one", 30)
    assert tokens.swap(key, "one", "one", 0.2)
    wait_until(lambda: tokens.read(key) is None)


@pytest.mark.parametrize("name", NAMES)
def test_rule_27_every_name_has_a_key_of_its_own_on_whatever_node(
    tokens: Tokens, key_prefix: str, name: str
) -> None:
    keys = Keys(key_prefix)
    for key in (keys.lock(name), keys.once(name)):
        assert tokens.take(key, name, 30)
        assert tokens.swap(key, name, name, 30)
        assert tokens.read(key) == name
        assert tokens.drop(key, name)


def test_of_many_at_once_one_takes_it(tokens: Tokens, key: bytes) -> None:
    assert sum(at_once(8, lambda n: tokens.take(key, str(n), 30))) == 1


def test_an_account_that_may_not_run_scripts_is_told_what_it_lacks() -> None:
    with available(Valkey) as server:
        admin = connect_asker(server.url)
        admin.ask("ACL", "SETUSER", "app", "on", ">s3cret", "~*", "+@connection", "+@list", "+set", "+get")
        asker = connect_asker(f"redis://app:s3cret@127.0.0.1:{server.port}/0")
        tokens = RedisTokens(asker.ask)
        assert tokens.take(b"k", "one", 30)
        with pytest.raises(BrokerUnavailable, match=r"\+set \+get \+del \+eval") as caught:
            tokens.drop(b"k", "one")
        assert "s3cret" not in str(caught.value)
        for one in (asker, admin):
            one.close()
