"""How a queue is split: which task goes where, which worker prefers what, and in which order a pull looks."""

from __future__ import annotations

from collections import Counter

import pytest

from taskkit.errors import InputError
from taskkit.model import PRIORITIES, ListName
from taskkit.queues.order import STEPS, Order
from taskkit.shards import (
    MOST,
    STRAY_EVERY,
    Portion,
    ShardBook,
    Split,
    arranged,
    check_split,
    gathered,
    list_text,
    portion,
    portions,
    read_list,
)
from tests.naughty import naughty_strings

NOWHERE = ListName("?", 1)


def test_a_task_goes_to_the_shard_of_its_id_and_one_of_a_whole_queue_to_its_only_list() -> None:
    book = ShardBook({"mail": Split(4, 6)})
    assert [book.place("mail", 2, task_id).shard for task_id in range(8)] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert book.place("other", 5, 7) == ListName("other", 5)
    assert book.lists("mail", 2) == [ListName("mail", 2, shard) for shard in range(6)]
    assert book.all_lists(["other"]) == [ListName("other", p) for p in PRIORITIES]
    assert Split(4, 6).beyond("mail")[:2] == [ListName("mail", 0, 4), ListName("mail", 0, 5)]
    assert Split(4, 4).beyond("mail") == []


@pytest.mark.parametrize("shards", [1, 2, 3, 4, 7, 16, 64])
@pytest.mark.parametrize("workers", [1, 2, 3, 4, 5, 16, 70])
def test_every_shard_has_a_worker_of_its_own_and_none_has_many_more_than_another(
    shards: int, workers: int
) -> None:
    own = [portion(Split(shards, shards), place, workers).own for place in range(workers)]
    served = Counter(shard for mine in own for shard in mine)
    assert sorted(served) == list(range(shards))
    assert max(served.values()) - min(served.values()) <= 1
    assert max(map(len, own)) - min(map(len, own)) <= 1


def test_a_worker_knows_its_place_among_those_that_serve_the_same_queue() -> None:
    book = ShardBook({"mail": Split(2, 2), "report": Split(3, 5)})
    serving = {"w1": "mail,report", "w2": "mail", "w3": "mailing", "w4": "report"}
    assert portions(book, ["mail", "other"], "w2", serving) == {"mail": Portion((1,), 2, 2)}
    assert portions(book, ["report"], "w4", serving) == {"report": Portion((1,), 3, 5)}
    assert portions(book, ["mail"], "new", {}) == {"mail": Portion((0, 1), 2, 2)}
    assert portions(ShardBook(), ["mail"], "w2", serving) == {}


@pytest.mark.parametrize("own", [(0,), (2,), (1, 3)])
@pytest.mark.parametrize("lists", [4, 6])
def test_a_pull_looks_into_every_list_once_its_own_first_and_every_eighth_pull_elsewhere(
    own: tuple[int, ...], lists: int
) -> None:
    rounds = [arranged(Portion(own, 4, lists), n) for n in range(STRAY_EVERY * lists)]
    assert all(sorted(one) == list(range(lists)) for one in rounds)
    strays = rounds[STRAY_EVERY - 1 :: STRAY_EVERY]
    assert [one[0] for one in strays] == list(range(lists)), "each list is the first at some time"
    usual = [one for n, one in enumerate(rounds) if n % STRAY_EVERY != STRAY_EVERY - 1]
    assert all(set(one[: lists - 4]) == set(range(4, lists)) for one in usual), (
        "those to be emptied come first"
    )
    assert all(set(one[lists - 4 :][: len(own)]) == set(own) for one in usual)


def test_own_shards_take_turns() -> None:
    first = Counter(arranged(Portion((1, 3), 4, 4), n)[0] for n in range(80))
    assert abs(first[1] - first[3]) <= 4


def test_thieves_begin_at_different_victims() -> None:
    second = [arranged(Portion((shard,), 4, 4), 0)[1] for shard in range(4)]
    assert sorted(second) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("mail:5", ListName("mail", 5)),
        ("mail:5/2", ListName("mail", 5, 2)),
        ("a:5/2:0/63", ListName("a:5/2", 0, 63)),
        ("mail:5/64", NOWHERE),
        ("mail:5/0", NOWHERE),
        ("mail:5/x", NOWHERE),
        ("mail:x", NOWHERE),
        ("mail", NOWHERE),
        ("", NOWHERE),
        (":5", ListName("", 5)),
    ],
)
def test_a_list_is_read_from_its_text_or_is_none_we_know(text: str, name: ListName) -> None:
    assert read_list(text, NOWHERE) == name


def test_what_a_row_says_leads_back_to_its_list_whatever_the_queue_is_called() -> None:
    names = [ListName(queue, p, s) for queue in naughty_strings() for p in (0, 9) for s in (0, 1, 63)]
    assert all(read_list(list_text(name), NOWHERE) == name for name in names)
    assert len({list_text(name) for name in names}) == len(set(names))


def test_what_waits_is_counted_for_all_shards_together() -> None:
    depths = {ListName("a", 5, 0): 3, ListName("a", 5, 2): 4, ListName("a", 0, 1): 5, ListName("b"): 0}
    assert gathered(depths) == {ListName("a", 5): 7, ListName("a", 0): 5, ListName("b"): 0}


@pytest.mark.parametrize("queue", ["", "a,b", " a", "x" * 65, 7])
def test_guarantee_8_a_queue_that_cannot_be_split_is_refused(queue: object) -> None:
    with pytest.raises(InputError, match="queue"):
        check_split(queue, 4)


@pytest.mark.parametrize("shards", [0, -1, MOST + 1, 2.0, True, "4"])
def test_guarantee_8_a_number_of_shards_that_makes_no_sense_is_refused(shards: object) -> None:
    with pytest.raises(InputError, match="shards"):
        check_split("mail", shards)


# what a pull costs


def test_a_whole_queue_is_pulled_as_ever_and_a_split_one_by_no_more_trips() -> None:
    whole, split = Order(), Order()
    split.share({"a": Portion((1,), 8, 8)})
    assert len(whole.plan(("a",), 500, "bulk")) == 1
    steps = split.plan(("a",), 501, "bulk")
    assert (len(steps), sum(step.count for step in steps)) == (STEPS, 501)
    assert [len(step.lists) for step in steps] == [80] * STEPS
    assert [sum(step.count for step in split.plan(("a",), n, "bulk")) for n in (1, 2, 3)] == [1, 2, 3]
    assert len(split.plan(("a",), 500, "probe")) == len(whole.plan(("a",), 500, "probe"))


def test_another_portion_counts_from_the_next_plan_on() -> None:
    order = Order()
    assert len(order.plan(("a", "b"), 1, "bulk")[0].lists) == 20
    order.share({"a": Portion((0,), 3, 3)})
    assert len(order.plan(("a", "b"), 1, "bulk")[0].lists) == 40
    order.share({})
    assert len(order.plan(("a", "b"), 1, "bulk")[0].lists) == 20
