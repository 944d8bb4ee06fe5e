"""What a worker does for a queue that others share: starts, shares, signs of life."""

from __future__ import annotations

import asyncio

from tests.scheduler.driving import entry
from tests.scheduler.worker_side import Side, run, started
from tileharvest.scheduler.worker import LINGER, PATIENCE


def test_a_lease_is_not_offered_before_it_may_start() -> None:
    async def test() -> None:
        async with started(ahead=2) as side:
            side.queue.starts = {"a": 5.0, "b": 6.0}
            for body in ("a", "b"):
                side.worker.push(entry(body))
            await side.hear(2)
            assert side.bodies() == []
            side.now = 5.0
            assert side.bodies() == ["a"]
            side.now = 6.0
            assert side.bodies() == ["b"]

    run(test())


def test_the_engine_is_woken_when_the_next_may_start() -> None:
    async def test() -> None:
        async with started(ahead=1) as side:
            side.queue.starts = {"a": 0.05}
            side.worker.push(entry("a"))
            await side.hear(2)
            answers = side.answers
            assert side.bodies() == []
            await side.hear(answers + 1)

    run(test())


def test_plus_takes_the_next_start_whoever_it_was_given_to() -> None:
    async def test() -> None:
        async with started(ahead=2) as side:
            side.queue.starts = {"check": 5.0, "get": 6.0}
            side.worker.push(entry("check"))
            await side.hear(2)
            side.worker.push(entry("get", priority=1))
            await side.hear(3)
            side.now = 5.0
            assert side.bodies() == ["get"]
            side.now = 6.0
            assert side.bodies() == ["check"]

    run(test())


def test_what_was_held_back_is_asked_for_again_when_it_may_be_had() -> None:
    async def test() -> None:
        async with started() as side:
            side.queue.adds = {"held_until": 0.05}
            side.worker.look_again()
            await side.hear(2)
            side.queue.adds = {}
            await side.hear(3)
            assert side.worker.is_done

    run(test())


def test_what_has_ended_is_told_when_more_may_be_had() -> None:
    async def test() -> None:
        async with started("a", "b") as side:
            first, _ = side.take()
            side.queue.adds = {"held_until": 1.5}
            side.worker.look_again()
            await side.hear(2)
            side.worker.finish(first)
            await asyncio.sleep(1.4)
            side.worker.push(entry("c"))
            assert len(side.queue.told) == 2
            side.queue.adds = {}
            side.now = 1.5
            await side.hear(3)
            assert side.queue.told[-1].finished == [first]
            assert [one.body for one in side.queue.told[-1].pushed] == [b"c"]

    run(test())


def test_what_has_ended_is_told_soon_where_more_may_be_had_only_in_a_long_time() -> None:
    async def test() -> None:
        async with started("a", "b") as side:
            first, second = side.take()
            side.queue.adds = {"held_until": 60.0}
            side.worker.look_again()
            await side.hear(2)
            side.worker.finish(first)
            await asyncio.sleep(PATIENCE - 0.1)
            side.worker.finish(second)
            assert len(side.queue.told) == 2
            side.queue.adds = {}
            await side.hear(3)
            assert side.queue.told[-1].finished == [first, second]

    run(test())


def test_what_has_ended_last_is_told_at_once() -> None:
    async def test() -> None:
        async with started(ahead=4) as side:
            side.queue.starts = {"a": 5.0, "b": 6.0}
            for body in ("a", "b"):
                side.worker.push(entry(body))
            await side.hear(2)
            side.now = 5.0
            (first,) = side.take()
            side.worker.finish(first)
            await asyncio.sleep(LINGER)
            assert not side.worker.is_told
            side.now = 6.0
            (last,) = side.take()
            side.worker.finish(last)
            await asyncio.sleep(2 * LINGER)
            assert side.worker.is_told

    run(test())


def test_it_is_not_done_while_others_hold_leases() -> None:
    async def test() -> None:
        async with started() as side:
            assert side.worker.is_done
            side.queue.adds = {"leased_elsewhere": 1}
            side.worker.look_again()
            await side.hear(2)
            assert side.worker.is_empty
            assert not side.worker.is_done

    run(test())


def test_after_a_sleep_beyond_the_lease_what_was_not_started_is_given_back() -> None:
    async def test() -> None:
        async with started("a", "b", lease_seconds=100.0) as side:
            assert len(side.take(1)) == 1
            side.now = 101.0
            assert side.take() == []
            await side.hear(2)
            assert [lease.body for lease in side.queue.told[-1].returned] == [b"b"]

    run(test())


def test_what_a_sleep_lost_may_be_leased_to_the_same_worker_again() -> None:
    async def test() -> None:
        async with started("a", lease_seconds=100.0) as side:
            (lost,) = side.take()
            side.now = 1000.0
            side.worker.look_again()
            await side.hear(2)
            (again,) = side.take()
            assert (again.id, again.attempt) == (lost.id, lost.attempt + 1)
            side.worker.finish(lost)
            side.worker.finish(again)
            await side.hear(4)
            assert side.queue.told[-1].finished == [lost, again]

    run(test())


def test_a_sign_of_life_keeps_what_was_not_started() -> None:
    async def test() -> None:
        async with started("a", "b", lease_seconds=0.06) as side:
            side.now = 0.05
            await side.beat()
            # The answer of this very sign has been heard when the next one is given.
            await side.beat()
            side.now = 0.1
            assert side.bodies() == ["a", "b"]

    run(test())


def test_each_exchange_tells_how_many_requests_are_on_the_way() -> None:
    async def test() -> None:
        async with started() as side:
            side.in_flight = 3
            side.worker.push(entry("a"))
            await side.hear(2)
            assert [changes.in_flight for changes in side.queue.told] == [0, 3]

    run(test())


def test_the_first_requests_are_pushed_before_or_with_the_word_that_they_are() -> None:
    async def test() -> None:
        async with started() as side:
            side.worker.push(entry("first"))
            side.worker.seeded()
            await side.hear(2)
            told = [(len(changes.pushed), changes.is_seeded) for changes in side.queue.told]
            assert told[-1] == (1, True)
            assert not any(seeded for _, seeded in told[:-1])

    run(test())


def test_the_first_requests_wait_for_each_other_and_go_along_with_the_first_exchange() -> None:
    async def test() -> None:
        side = Side(4, 100.0)
        await side.queue.open(0.0)
        side.worker.start(seeds=True)
        for body in "ab":
            side.worker.push(entry(body))
            side.worker.lease_more()
            for _ in range(9):
                await asyncio.sleep(0)
        side.worker.seeded()
        await side.hear(1)
        assert [(len(changes.pushed), changes.is_seeded) for changes in side.queue.told] == [(2, True)]
        assert side.bodies() == ["a", "b"]
        await side.worker.close()

    run(test())


def test_requests_are_kept_apart_also_when_the_queue_gives_them_at_once() -> None:
    async def test() -> None:
        async with started("a", "b", "c") as side:
            side.worker.keep_apart(2.0)
            side.now = 10.0
            assert side.bodies() == ["a"]
            side.now = 11.9
            assert side.bodies() == []
            side.now = 12.0
            assert side.bodies() == ["b"]

    run(test())


def test_another_distance_counts_from_the_last_start_and_wakes_the_engine() -> None:
    async def test() -> None:
        async with started("a", "b", "c") as side:
            side.worker.keep_apart(30.0)
            side.now = 10.0
            assert side.bodies() == ["a"]
            answers = side.answers
            side.worker.keep_apart(0.5)
            await side.hear(answers + 1)
            side.now = 10.4
            assert side.bodies() == []
            side.now = 10.5
            assert side.bodies() == ["b"]
            side.worker.keep_apart(30.0)
            side.now = 40.4
            assert side.bodies() == []

    run(test())
