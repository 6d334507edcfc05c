"""The names of keys: readable, one hash tag per queue and shard, and never the same for two lists."""

from __future__ import annotations

from itertools import product

import pytest
from redis.crc import key_slot

from taskkit.errors import InputError
from taskkit.model import ListName
from taskkit.queues.keys import Keys
from tests.naughty import naughty_strings


@pytest.mark.parametrize(
    ("name", "key"),
    [
        (ListName("email"), "task:queue:{email}"),
        (ListName("email", 5, 0), "task:queue:{email}"),
        (ListName("email", 0), "task:queue:{email}:0"),
        (ListName("email", 9), "task:queue:{email}:9"),
        (ListName("email", 5, 2), "task:queue:{email/2}:5:2"),
        (ListName("email", 0, 2), "task:queue:{email/2}:0:2"),
        (ListName("队列"), "task:queue:{队列}"),
        (ListName("a b:c"), "task:queue:{a b:c}"),
        (ListName("{x}"), "task:queue:{%7Bx%7D}"),
        (ListName("100%"), "task:queue:{100%25}"),
        (ListName("a\nb\x00\x7f\x85"), "task:queue:{a%0Ab%00%7F%C2%85}"),
        (ListName("\ud800"), "task:queue:{%ED%A0%80}"),
    ],
)
def test_the_key_of_a_list(name: ListName, key: str) -> None:
    assert Keys().list(name) == key.encode()


@pytest.mark.parametrize("prefix", ["shop", "shop:"])
def test_rule_27_all_keys_stand_behind_the_prefix(prefix: str) -> None:
    keys = Keys(prefix)
    assert keys.list(ListName("email", 1)) == b"shop:task:queue:{email}:1"
    assert (keys.dead, keys.wake) == (b"shop:task:dead", b"shop:task:wake")


def test_the_keys_of_locks_and_of_once() -> None:
    keys = Keys("shop")
    assert keys.lock("a{b} 支") == "shop:task:lock:{a%7Bb%7D 支}".encode()
    assert keys.once("a") == b"shop:task:once:{a}"
    assert Keys().lock("task") not in {Keys().once("task"), Keys().list(ListName("task"))}


def test_rule_27_redis_07_braces_in_a_prefix_do_not_change_the_hash_tag() -> None:
    assert Keys("{a}").list(ListName("email")) == b"%7Ba%7D:task:queue:{email}"


def test_a_queue_without_a_name_is_refused() -> None:
    with pytest.raises(InputError, match="queue: must not be empty"):
        Keys().list(ListName(""))


@pytest.mark.parametrize(
    "queue", ["default", "high", "队列", "{", "}", "{}", "}{", "a{b}c", "w1:{x}:5", "%7B"]
)
def test_rule_27_redis_07_all_priorities_of_a_queue_share_a_slot_and_so_do_those_of_a_shard(
    queue: str,
) -> None:
    keys = Keys("t{1}")
    for shard in range(3):
        assert len({key_slot(keys.list(ListName(queue, p, shard))) for p in range(10)}) == 1


def test_rule_27_the_shards_of_a_queue_are_spread_over_the_slots() -> None:
    slots = [key_slot(Keys().list(ListName("email", 5, shard))) for shard in range(8)]
    assert len(set(slots)) == 8
    assert {slot // 8192 for slot in slots} == {0, 1}, "both nodes of a cluster of two have some"


def test_no_two_lists_share_a_key() -> None:
    queues = [
        "a",
        "a:0",
        "a:0:1",
        "a/1",
        "a/2:0",
        "{a}",
        "%7Ba%7D",
        "a}:0",
        "a}",
        "a%",
        "a\n",
        "A",
        " a",
        "a ",
    ]
    names = {ListName(*parts) for parts in product(queues, range(10), range(4))}
    assert len({Keys().list(name) for name in names}) == len(names)


def test_a_key_leads_back_to_its_list() -> None:
    keys = Keys("p")
    assert keys.name(keys.list(ListName("a", 3, 1))) == ListName("a", 3, 1)


def test_naughty_names_make_keys() -> None:
    names = {name for name in naughty_strings() if name}
    keys = {Keys().list(ListName(name)) for name in names}
    assert len(keys) == len(names)
    assert all(key.count(b"{") == key.count(b"}") == 1 for key in keys)
