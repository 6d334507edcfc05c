"""What every queue promises; test_queues.py runs it against each adapter."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from taskkit.errors import BrokerUnavailable, InputError
from taskkit.model import NO_TASK, DeadMessage, ListName, Message, Ring
from taskkit.queues import Pulled
from taskkit.shards import Portion
from tests.contracts.queue_broker import MAIL, Broker, message, messages, priorities, pull_all, task_ids


class QueueContract:
    def test_a_message_comes_out_as_it_went_in(self, broker: Broker) -> None:
        sent = [Message(7, "shop.mail", 3, "2026-03-01T01:00:00.000000Z"), Message(8, "支付😀", None, "")]
        assert broker.queue.push({MAIL: sent}) == {}
        assert broker.queue.pull(["mail"], 10, 0) == Pulled([(MAIL, sent[0]), (MAIL, sent[1])], [])

    def test_first_in_first_out(self, broker: Broker) -> None:
        sent = messages(120)
        for chunk in (sent[:1], sent[1:70], sent[70:]):
            broker.queue.push({MAIL: chunk})
        assert task_ids(pull_all(broker.queue, ["mail"], 33)) == [m.task_id for m in sent]

    def test_one_push_fills_many_lists(self, broker: Broker) -> None:
        lists = [ListName(queue, priority) for queue in ("a", "b") for priority in (0, 5, 9)]
        assert broker.queue.push({name: messages(3) for name in lists}) == {}
        assert broker.queue.depth(lists) == dict.fromkeys(lists, 3)

    def test_an_empty_push_does_nothing(self, broker: Broker) -> None:
        assert broker.queue.push({}) == {}
        assert broker.queue.push({MAIL: []}) == {}
        assert broker.queue.depth([MAIL]) == {MAIL: 0}

    def test_a_pull_takes_no_more_than_asked(self, broker: Broker) -> None:
        broker.queue.push({ListName(queue, p): messages(30) for queue in "abc" for p in (1, 5, 9)})
        for count in (1, 2, 19, 20, 21, 100):
            assert 0 < len(broker.queue.pull(["a", "b", "c"], count, 0).messages) <= count
        assert broker.queue.pull(["a"], 0, 0) == Pulled()

    def test_a_pull_of_one_list_is_filled(self, broker: Broker) -> None:
        broker.queue.push({MAIL: messages(300)})
        assert [len(broker.queue.pull(["mail"], n, 1).messages) for n in (1, 25, 250, 50)] == [1, 25, 250, 24]

    def test_pulling_from_no_queue_is_refused(self, broker: Broker) -> None:
        with pytest.raises(InputError):
            broker.queue.pull([], 1, 0)
        with pytest.raises(InputError):
            broker.queue.push({ListName(""): messages(1)})

    def test_queues_do_not_mix(self, broker: Broker) -> None:
        broker.queue.push(
            {ListName("a"): messages(1), ListName("a:0"): messages(1), ListName("a", 0): messages(1)}
        )
        assert len(pull_all(broker.queue, ["a"]).messages) == 2
        assert len(pull_all(broker.queue, ["a:0"]).messages) == 1

    @pytest.mark.parametrize(
        "queue", ["队列", "{x}", "a{b", "a b", "%7B", "a\nb", "x" * 300, "*", "\\", "'\";--"]
    )
    def test_any_name_makes_a_queue(self, broker: Broker, queue: str) -> None:
        sent = messages(2)
        broker.queue.push({ListName(queue, 3): sent})
        assert broker.queue.pull([queue], 5, 0).messages == [(ListName(queue, 3), m) for m in sent]

    # priorities and turns

    def test_higher_priorities_come_first_over_all_queues(self, broker: Broker) -> None:
        broker.queue.push({ListName(queue, p): messages(2) for queue in "ab" for p in (9, 5, 0)})
        order = priorities(pull_all(broker.queue, ["a", "b"], 1))
        assert order == [0] * 4 + [5] * 4 + [9] * 4

    @pytest.mark.parametrize("count", [1, 3, 19, 20, 50, 500])
    def test_sched_09_of_every_20_one_comes_from_the_lowest(self, broker: Broker, count: int) -> None:
        broker.queue.push(
            {ListName("a", 0): messages(300), ListName("b", 5): messages(50), ListName("b", 9): messages(12)}
        )
        order = priorities(pull_all(broker.queue, ["a", "b"], count))
        assert order.count(9) == 12
        while 9 in order[20:]:
            window, order = order[:20], order[1:]
            assert 9 in window

    @pytest.mark.parametrize("count", [1, 40])
    def test_the_share_of_the_lowest_is_no_more_than_that(self, broker: Broker, count: int) -> None:
        broker.queue.push({ListName("a", 0): messages(200), ListName("a", 9): messages(50)})
        pulled = [p for _ in range(200 // count) for p in priorities(broker.queue.pull(["a"], count, 0))]
        assert Counter(pulled) == {0: 190, 9: 10}

    def test_sched_09_strict_lets_the_lowest_wait(self, broker: Broker) -> None:
        queue = broker.connect(strict=True)
        queue.push({ListName("a", 4): messages(100), ListName("a", 9): messages(5)})
        assert priorities(pull_all(queue, ["a"], 7)) == [4] * 100 + [9] * 5

    def test_queues_of_one_priority_take_turns(self, broker: Broker) -> None:
        broker.queue.push({ListName(queue): messages(30) for queue in "abc"})
        served = [broker.queue.pull(["a", "b", "c"], 1, 0).messages[0][0].queue for _ in range(30)]
        assert Counter(served) == {"a": 10, "b": 10, "c": 10}
        assert served[:6] == ["a", "b", "c", "a", "b", "c"]

    def test_a_large_pull_starves_no_queue(self, broker: Broker) -> None:
        broker.queue.push({ListName(queue): messages(300) for queue in "ab"})
        first, second = (broker.queue.pull(["a", "b"], 100, 0) for _ in range(2))
        assert {name.queue for pulled in (first, second) for name, _ in pulled.messages} == {"a", "b"}

    def test_turns_are_taken_per_priority(self, broker: Broker) -> None:
        served = []
        broker.queue.push({ListName(queue): messages(20) for queue in "ab"})
        for _ in range(15):
            broker.queue.push({ListName("a", 0): messages(1)})
            served += [broker.queue.pull(["a", "b"], 1, 0).messages[0][0] for _ in range(2)]
        low = Counter(name.queue for name in served if name.priority == 5)
        assert abs(low["a"] - low["b"]) <= 2

    def test_a_queue_that_is_named_twice_has_two_turns(self, broker: Broker) -> None:
        broker.queue.push({ListName(queue): messages(30) for queue in "ab"})
        served = [broker.queue.pull(["a", "a", "b"], 1, 0).messages[0][0].queue for _ in range(30)]
        assert Counter(served) == {"a": 20, "b": 10}

    def test_in_order_serves_the_first_queue_first(self, broker: Broker) -> None:
        queue = broker.connect(in_order=True)
        queue.push({ListName(name): messages(5) for name in "ab"})
        served = [queue.pull(["b", "a"], 1, 0).messages[0][0].queue for _ in range(10)]
        assert served == ["b"] * 5 + ["a"] * 5

    # shards

    def test_a_worker_takes_from_its_own_shards_and_steals_from_the_rest(self, broker: Broker) -> None:
        queue = broker.connect(shares={"a": Portion((1,), 3, 3)})
        queue.push({ListName("a", 5, shard): messages(2) for shard in range(3)})
        served = [queue.pull(["a"], 1, 0).messages[0][0].shard for _ in range(6)]
        assert served == [1, 1, 2, 2, 0, 0]

    def test_one_pull_takes_from_as_many_shards_as_it_needs(self, broker: Broker) -> None:
        queue = broker.connect(shares={"a": Portion((1,), 3, 3)})
        queue.push({ListName("a", 5, shard): messages(10) for shard in range(3)})
        pulled = queue.pull(["a"], 30, 0)
        assert Counter(name.shard for name, _ in pulled.messages) == {0: 10, 1: 10, 2: 10}

    def test_sched_09_priorities_hold_across_shards(self, broker: Broker) -> None:
        queue = broker.connect(shares={"a": Portion((0,), 3, 3)})
        queue.push({ListName("a", p, shard): messages(2) for p in (9, 5, 0) for shard in range(3)})
        assert priorities(pull_all(queue, ["a"], 1)) == [0] * 6 + [5] * 6 + [9] * 6

    def test_a_split_queue_and_a_whole_one_take_turns(self, broker: Broker) -> None:
        queue = broker.connect(shares={"a": Portion((0, 1), 2, 2)})
        queue.push({ListName("a", 5, 0): messages(9), ListName("a", 5, 1): messages(9)})
        queue.push({ListName("b"): messages(18)})
        served = [queue.pull(["a", "b"], 1, 0).messages[0][0] for _ in range(36)]
        assert [name.queue for name in served] == ["a", "b"] * 18

    def test_a_shard_that_others_keep_to_is_served_by_those_who_have_enough(self, broker: Broker) -> None:
        queue = broker.connect(shares={"a": Portion((0,), 4, 4)})
        queue.push({ListName("a", 5, shard): messages(100) for shard in range(4)})
        served = Counter(queue.pull(["a"], 1, 0).messages[0][0].shard for _ in range(96))
        assert set(served) == {0, 1, 2, 3}
        assert served[0] > 80

    def test_shards_that_a_queue_had_before_are_emptied_first(self, broker: Broker) -> None:
        queue = broker.connect(shares={"a": Portion((1,), 2, 4)})
        queue.push({ListName("a", 5, shard): messages(1) for shard in range(4)})
        served = [queue.pull(["a"], 1, 0).messages[0][0].shard for _ in range(4)]
        assert sorted(served[:2]) == [2, 3]

    @pytest.mark.parametrize("shard", range(3))
    def test_a_pull_that_waits_is_woken_by_a_push_to_any_shard(self, broker: Broker, shard: int) -> None:
        queue = broker.connect(shares={"a": Portion((1,), 3, 3)})
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(queue.pull, ["a", "b"], 5, 20)
            time.sleep(0.1)  # most of the time the pull waits by now; the promise holds either way
            broker.queue.push({ListName("a", 5, shard): [message(77)]})
            assert task_ids(waiting.result(10)) == [77]

    # waiting

    def test_an_idle_pull_waits_and_comes_back_empty(self, broker: Broker) -> None:
        began = time.monotonic()
        assert broker.queue.pull(["mail", "b"], 5, 0.2) == Pulled()
        assert 0.15 < time.monotonic() - began < 5

    def test_a_pull_without_timeout_does_not_wait(self, broker: Broker) -> None:
        began = time.monotonic()
        assert broker.queue.pull(["mail"], 5, 0) == Pulled()
        assert broker.queue.pull(["mail"], 5, -1) == Pulled()
        assert time.monotonic() - began < 1

    def test_a_waiting_pull_is_woken_by_a_push(self, broker: Broker) -> None:
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(broker.queue.pull, ["a", "mail", "b"], 5, 20)
            time.sleep(0.1)  # most of the time the pull waits by now; the promise holds either way
            assert broker.queue.push({MAIL: [message(77)]}) == {}
            assert task_ids(waiting.result(10)) == [77]

    def test_while_one_thread_waits_others_work(self, broker: Broker) -> None:
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(broker.queue.pull, ["mail"], 5, 20)
            assert broker.queue.depth([ListName("x")]) == {ListName("x"): 0}
            broker.queue.ping()
            assert not waiting.done()
            broker.queue.push({MAIL: messages(1)})
            assert waiting.result(10).messages

    def test_no_message_goes_to_two_pullers(self, broker: Broker) -> None:
        sent = messages(600)
        broker.queue.push(
            {ListName(queue, p): sent[n::4] for n, (queue, p) in enumerate(itertools.product("ab", (5, 8)))}
        )
        with ThreadPoolExecutor(3) as pool:
            pulls = [pool.submit(pull_all, broker.connect(), ["a", "b"], 7) for _ in range(3)]
        taken = [task_id for pull in pulls for task_id in task_ids(pull.result())]
        assert sorted(taken) == sorted(m.task_id for m in sent)

    # what cannot be read

    def test_a_message_pushed_by_hand_is_taken(self, broker: Broker) -> None:
        broker.push_raw(MAIL, b'{"task_id": 42}')
        assert broker.queue.pull(["mail"], 5, 0) == Pulled([(MAIL, Message(42))], [])

    def test_guarantee_8_garbage_is_set_apart_and_the_good_one_behind_it_arrives(
        self, broker: Broker
    ) -> None:
        garbage = [b"", b"\xff\xfe\x00", b"not json", b"null", b"[]", b'{"id":1}', b"x" * 100_000]
        broker.push_raw(MAIL, *garbage)
        broker.queue.push({MAIL: [message(5)]})
        pulled = pull_all(broker.queue, ["mail"])
        assert task_ids(pulled) == [5]
        assert [dead.raw for dead in pulled.dead] == garbage
        assert all(dead.reason and dead.queue == "mail" for dead in pulled.dead)

    def test_an_empty_message_ends_a_wait_as_a_dead_one(self, broker: Broker) -> None:
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(broker.queue.pull, ["mail"], 5, 20)
            time.sleep(0.1)
            broker.push_raw(MAIL, b"")
            assert waiting.result(10).dead == [DeadMessage(b"", "empty", "mail")]

    def test_the_dead_are_kept_with_their_reason(self, broker: Broker) -> None:
        dead = [DeadMessage(b"x", "not JSON", "a"), DeadMessage(b"\xff\x00", "not UTF-8 text", "队列")]
        broker.queue.bury(dead)
        broker.queue.bury([])
        assert broker.queue.buried() == dead
        assert broker.queue.buried(1) == dead[1:]

    def test_of_a_dead_message_4_kib_are_kept(self, broker: Broker) -> None:
        broker.queue.bury(
            [
                DeadMessage(bytes(5_000_000), "5,000,000 bytes long", "a"),
                DeadMessage("é".encode() * 9999, "?", "a"),
            ]
        )
        assert [len(one.raw) for one in broker.queue.buried()] == [4096, 4096]

    def test_the_last_10_000_dead_are_kept(self, broker: Broker) -> None:
        broker.queue.bury([DeadMessage(b"%d" % n, "no such task", "a") for n in range(10_050)])
        kept = broker.queue.buried(20_000)
        assert [kept[0].raw, kept[-1].raw, len(kept)] == [b"50", b"10049", 10_000]

    # looking

    def test_depth_counts_what_waits(self, broker: Broker) -> None:
        other = ListName("other", 0, 2)
        broker.queue.push({MAIL: messages(3)})
        assert broker.queue.depth([MAIL, other]) == {MAIL: 3, other: 0}
        assert broker.queue.depth([]) == {}
        broker.queue.pull(["mail"], 2, 0)
        assert broker.queue.depth([MAIL]) == {MAIL: 1}

    def test_looking_takes_nothing(self, broker: Broker) -> None:
        sent = messages(3)
        broker.queue.push({MAIL: sent})
        assert broker.queue.oldest([MAIL, ListName("none")]) == {MAIL: sent[0], ListName("none"): None}
        assert broker.queue.listing(MAIL) == sent
        assert broker.queue.listing(ListName("none")) == []
        assert broker.queue.depth([MAIL]) == {MAIL: 3}

    def test_what_a_person_pushed_does_not_hide_the_oldest(self, broker: Broker) -> None:
        broker.push_raw(MAIL, b"garbage", b'{"task_id": 9}')
        assert broker.queue.oldest([MAIL]) == {MAIL: Message(9)}
        sent = message()
        broker.queue.push({MAIL: [sent]})
        assert broker.queue.oldest([MAIL]) == {MAIL: sent}
        assert broker.queue.listing(MAIL) == [Message(9), sent]

    # the ring

    def test_a_ring_is_heard_by_the_next_that_waits(self, broker: Broker) -> None:
        assert broker.queue.wait_ring(0) is None
        broker.queue.ring()
        assert broker.queue.wait_ring(5) == NO_TASK
        assert broker.queue.wait_ring(0) is None

    def test_many_rings_are_one(self, broker: Broker) -> None:
        for _ in range(5):
            broker.queue.ring()
        assert [broker.queue.wait_ring(0), broker.queue.wait_ring(0.05)] == [NO_TASK, None]

    def test_a_ring_may_name_its_task_and_the_first_of_several_is_heard(self, broker: Broker) -> None:
        for number in (7, 8):
            broker.queue.ring(Ring(number, "mail/é 邮件", 9), wait=False)
        assert broker.queue.wait_ring(5) == Ring(7, "mail/é 邮件", 9)
        assert broker.queue.wait_ring(0) is None

    def test_a_ring_wakes_one_that_waits(self, broker: Broker) -> None:
        other = broker.connect()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(other.wait_ring, 20)
            time.sleep(0.1)
            broker.queue.ring()
            assert waiting.result(10) == NO_TASK
        assert broker.queue.wait_ring(0) is None

    def test_a_ring_that_waits_for_no_answer_is_heard_and_disturbs_nothing(self, broker: Broker) -> None:
        for number in range(3):
            broker.queue.ring(wait=False)
            broker.queue.ring(wait=False)
            assert broker.queue.push({MAIL: [Message(number)]}) == {}
            assert broker.queue.depth([MAIL]) == {MAIL: number + 1}
        assert broker.queue.wait_ring(5) == NO_TASK
        assert broker.queue.wait_ring(0) is None

    # the end

    def test_after_close_every_call_says_so(self, broker: Broker) -> None:
        queue = broker.connect()
        queue.ping()
        queue.close()
        queue.close()
        calls: list[Callable[[], object]] = [
            queue.ping,
            queue.ring,
            lambda: queue.pull(["mail"], 1, 0.1),
            lambda: queue.wait_ring(0.1),
            lambda: queue.depth([MAIL]),
            lambda: queue.listing(MAIL),
            lambda: queue.bury([DeadMessage(b"", "", "")]),
        ]
        for call in calls:
            with pytest.raises(BrokerUnavailable, match="closed"):
                call()
        broker.queue.ping()
