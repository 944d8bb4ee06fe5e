"""What is said to a queue and what it is asked for: together, in order, one exchange at a time."""

from __future__ import annotations

import asyncio

import pytest

from tests.scheduler.driving import QueueAtOnce, entry
from tests.scheduler.worker_side import Side, run, started
from tileharvest.errors import QueueError
from tileharvest.queue.port import Changes
from tileharvest.scheduler.worker import LINGER


def test_requests_are_leased_ahead() -> None:
    async def test() -> None:
        async with started("a", "b", "c", ahead=2) as side:
            assert (await side.queue.counts(0.0)).leased == 2
            assert side.bodies() == ["a", "b"]

    run(test())


def test_more_are_leased_when_half_of_them_are_taken() -> None:
    async def test() -> None:
        async with started(*"abcdef", ahead=4) as side:
            assert side.bodies(most=1) == ["a"]
            assert side.answers == 1
            assert side.bodies(most=1) == ["b"]
            await side.hear(2)
            assert (await side.queue.counts(0.0)).leased == 6
            assert side.bodies() == ["c", "d", "e", "f"]

    run(test())


async def batches(side: Side, number: int, pause: float) -> list[int]:
    """How many leases start at a time, so many seconds after each other."""
    found = []
    for _ in range(number):
        answers = side.answers
        found.append(len(side.take(1000)))
        await side.hear(answers + 1)
        await asyncio.sleep(pause)
    return found


def test_a_worker_that_uses_up_its_leases_soon_leases_twice_as_many() -> None:
    async def test() -> None:
        async with started(*map(str, range(900)), ahead=100) as side:
            assert await batches(side, 6, 0.1) == [16, 32, 64, 100, 100, 100]

    run(test())


def test_at_a_slow_site_few_are_leased_ahead() -> None:
    async def test() -> None:
        async with started(*map(str, range(900)), ahead=100) as side:
            assert await batches(side, 5, 1.0) == [16, 32, 32, 32, 32]

    run(test())


def test_at_a_site_that_becomes_slow_fewer_are_leased_ahead() -> None:
    async def test() -> None:
        async with started(*map(str, range(900)), ahead=100) as side:
            await batches(side, 6, 0.1)
            assert await batches(side, 5, 5.0) == [100, 100, 50, 25, 16]

    run(test())


def test_leases_are_to_last_for_as_long_as_changes_linger() -> None:
    async def test() -> None:
        async with started(*map(str, range(900)), ahead=100, linger=4.0) as side:
            assert await batches(side, 5, 1.0) == [16, 32, 64, 100, 100]

    run(test())


def test_what_has_ended_is_told_with_the_next_exchange_while_the_queue_has_more() -> None:
    async def test() -> None:
        async with started(*map(str, range(900)), ahead=100, linger=4.0) as side:
            ended = side.take(4)
            side.worker.finish(*ended)
            await asyncio.sleep(1.0)
            assert not side.worker.is_told
            side.take(4)
            await side.hear(2)
            assert side.queue.told[-1].finished == ended

    run(test())


def test_what_has_ended_is_told_soon_when_the_queue_has_no_more() -> None:
    async def test() -> None:
        async with started("a", "b", "c", ahead=4, linger=4.0) as side:
            side.worker.finish(*side.take(1))
            await asyncio.sleep(2 * LINGER)
            assert side.worker.is_told

    run(test())


async def finish_slowly(side: Side, number: int) -> list[str]:
    """Lets so many leases start and end, one in a second, each told in an exchange of its own."""
    found = []
    for _ in range(number):
        answers = side.answers
        (lease,) = side.take(1)
        found.append(lease.body.decode())
        side.worker.finish(lease)
        await side.hear(answers + 1)
        await asyncio.sleep(1.0)
    return found


def test_leases_ahead_of_a_site_that_becomes_slow_go_back_though_the_worker_never_runs_short() -> None:
    async def test() -> None:
        async with started(*map(str, range(900)), ahead=100) as side:
            await batches(side, 6, 0.1)
            assert (await side.queue.counts(0.0)).leased == 16 + 32 + 64 + 4 * 100
            await finish_slowly(side, 12)
            assert (await side.queue.counts(0.0)).leased == 16 + 32 + 64 + 3 * 100 + 16
            assert not any(changes.cut_off for changes in side.queue.told)

    run(test())


def test_leases_that_went_back_are_leased_again_though_the_queue_had_no_more() -> None:
    async def test() -> None:
        async with started(*map(str, range(412)), ahead=100) as side:
            await batches(side, 5, 0.1)
            assert sum((await side.queue.counts(0.0)).pending.values()) == 0
            found = await finish_slowly(side, 12)
            assert sum((await side.queue.counts(0.0)).pending.values()) == 100 - 12 - 16
            while len(found) < 100:
                found += side.bodies()
                await asyncio.sleep(1.0)
            assert found == list(map(str, range(312, 412)))

    run(test())


def test_a_worker_that_runs_dry_during_slow_exchanges_leases_more_all_the_same() -> None:
    async def test() -> None:
        found = []
        async with started(*map(str, range(900)), ahead=100) as side:
            for _ in range(4):
                side.queue.may_answer.clear()
                answers = side.answers
                found.append(len(side.take(1000)))
                await asyncio.sleep(0.6)
                side.queue.may_answer.set()
                await side.hear(answers + 1)
        assert found == [16, 32, 64, 100]

    run(test())


def test_a_start_that_is_past_has_nobody_ask_again_while_none_may_start() -> None:
    async def test() -> None:
        async with started("a", ahead=4) as side:
            side.may_start, side.now = False, 2.0
            side.queue.adds = {"held_until": 1.0}
            side.worker.look_again()
            await side.hear(2)
            await asyncio.sleep(3.0)
            assert side.answers == 2

    run(test())


def test_no_more_are_leased_while_none_may_start() -> None:
    async def test() -> None:
        async with started(*"abcdef", ahead=4) as side:
            side.may_start = False
            assert side.bodies(most=3) == ["a", "b", "c"]
            side.worker.look_again()
            await side.hear(2)
            assert (await side.queue.counts(0.0)).leased == 4
            assert not side.worker.is_empty
            side.may_start = True
            assert side.bodies() == ["d"]
            await side.hear(3)
            assert side.bodies() == ["e", "f"]

    run(test())


def test_what_waited_for_too_long_is_given_back_and_leased_anew() -> None:
    async def test() -> None:
        async with started("a", "b", "c", ahead=4) as side:
            assert side.bodies(most=1) == ["a"]
            side.queue.starts = {"b": 50.0, "c": 60.0}
            side.now = 40.0
            side.worker.lease_anew()
            await side.hear(2)
            assert [lease.body for lease in side.queue.told[-1].returned] == [b"b", b"c"]
            assert side.bodies() == []
            side.now = 60.0
            assert side.bodies() == ["b", "c"]

    run(test())


def test_the_plus_lane_goes_before_what_was_leased_ahead() -> None:
    async def test() -> None:
        async with started("a", "b", ahead=8) as side:
            side.worker.push(entry("first", priority=1))
            await side.hear(2)
            assert side.bodies() == ["first", "a", "b"]

    run(test())


def test_children_are_pushed_before_or_with_the_end_of_their_parent() -> None:
    async def test() -> None:
        async with started("parent") as side:
            (parent,) = side.take()
            side.worker.push(entry("child"))
            side.worker.finish(parent)
            await side.hear(2)
            assert [len(changes.pushed) for changes in side.queue.told] == [0, 1]
            assert [len(changes.finished) for changes in side.queue.told] == [0, 1]
            assert side.bodies() == ["child"]

    run(test())


def test_a_queue_that_has_not_answered_yet_is_told_as_a_wait_since_it_was_asked() -> None:
    async def test() -> None:
        async with started("a") as side:
            await asyncio.sleep(3)
            side.queue.may_answer.clear()
            side.queue.asked.clear()
            side.worker.push(entry("b"))
            await side.queue.asked.wait()
            (wait,) = side.worker.waits(0.0)
            assert wait.what == "the queue"
            assert 3.0 <= wait.since <= asyncio.get_running_loop().time()
            assert wait.until == wait.since + side.queue.patience
            side.queue.may_answer.set()
            await side.hear(2)
            assert list(side.worker.waits(0.0)) == []

    run(test())


def test_the_listener_hears_of_the_next_start_though_a_request_has_started_now() -> None:
    async def test() -> None:
        async with started("a", "b") as side:
            clock = asyncio.get_running_loop().time
            side.worker._clock = clock
            side.worker.keep_apart(30.0)
            await side.hear(2)
            assert side.bodies(most=1) == ["a"]
            await asyncio.sleep(29.0)
            answers = side.answers
            await asyncio.sleep(2.0)
            assert side.answers == answers + 1

    run(test())


def test_a_listener_that_cannot_tell_what_is_under_way_ends_the_crawl() -> None:
    async def test() -> None:
        async with started("a") as side:
            del side.taken
            side.worker.look_again()
            await side.hear(errors=1)
            side.taken = 0

    run(test())


def test_what_is_said_during_an_exchange_waits_for_its_end() -> None:
    async def test() -> None:
        async with started("a") as side:
            side.queue.may_answer.clear()
            side.queue.asked.clear()
            side.worker.push(entry("b"))
            await side.queue.asked.wait()
            side.worker.push(entry("c"))
            side.worker.push(entry("d"))
            side.queue.may_answer.set()
            await side.hear(3)
            assert [len(changes.pushed) for changes in side.queue.told] == [0, 1, 2]
            assert side.queue.most_under_way == 1

    run(test())


def test_ends_wait_for_each_other_where_nothing_is_wanted() -> None:
    async def test() -> None:
        async with started("a", "b", "c") as side:
            leases = side.take()
            assert side.answers == 1
            for lease in leases:
                side.worker.finish(lease)
                await asyncio.sleep(0)
            await side.hear(2)
            assert [len(changes.finished) for changes in side.queue.told] == [0, 3]
            assert side.worker.is_empty

    run(test())


def test_what_was_not_started_is_given_back_at_the_end_without_counting_as_an_attempt() -> None:
    async def test() -> None:
        async with started("a", "b", "c") as side:
            side.worker.finish(side.take(1)[0])
            await side.worker.close()
            await side.queue.open(0.0)
            leases = (await QueueAtOnce.exchange(side.queue, Changes(), 5, 0.0)).leases
            assert [(lease.body, lease.attempt) for lease in leases] == [(b"b", 1), (b"c", 1)]

    run(test())


def test_closing_waits_for_the_exchange_under_way_and_gives_its_leases_back() -> None:
    async def test() -> None:
        async with started() as side:
            side.queue.may_answer.clear()
            side.queue.asked.clear()
            side.worker.push(entry("a"))
            await side.queue.asked.wait()
            closing = asyncio.ensure_future(side.worker.close())
            await asyncio.sleep(0)
            side.queue.may_answer.set()
            await closing
            await side.queue.open(0.0)
            counts = await side.queue.counts(0.0)
            assert (counts.leased, counts.left) == (0, 1)

    run(test())


def test_a_queue_that_fails_is_told_of_once() -> None:
    async def test() -> None:
        # The leases are kept alive every 10 ms, which fails too.
        async with started("a", lease_seconds=0.03) as side:
            side.queue.error = QueueError("disk full")
            side.worker.push(entry("b"))
            await side.hear(errors=1)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(60):
                    await side.hear(errors=2)
            assert side.errors == [side.queue.error]

    run(test())


def test_a_mistake_in_a_queue_ends_the_crawl_instead_of_hanging_it() -> None:
    async def test() -> None:
        async with started("a") as side:
            side.queue.error = TypeError("a mistake")
            side.worker.push(entry("b"))
            await side.hear(errors=1)
            assert "a mistake" in str(side.errors[0])
            side.queue.error = None

    run(test())


def test_a_mistake_while_leases_are_kept_alive_ends_the_crawl_too() -> None:
    async def test() -> None:
        async with started("a", lease_seconds=0.03) as side:
            await side.hear(1)
            side.queue.error = TypeError("a mistake")
            await side.hear(errors=1)
            assert "a mistake" in str(side.errors[0])
            side.queue.error = None

    run(test())


def test_closing_a_queue_that_failed_raises_what_it_says_and_lets_it_go() -> None:
    async def test() -> None:
        async with started("a") as side:
            side.queue.error = QueueError("disk full")
            side.worker.push(entry("b"))
            await side.hear(errors=1)
            with pytest.raises(QueueError, match="disk full"):
                await side.worker.close()
            # It can be opened again only because it was closed.
            await side.queue.open(0.0)

    run(test())


def test_a_queue_that_failed_for_a_moment_does_not_lose_children() -> None:
    async def test() -> None:
        async with started("parent") as side:
            (parent,) = side.take()
            side.queue.error = QueueError("locked for too long")
            side.worker.push(entry("child"))
            await side.hear(errors=1)
            side.queue.error = None
            side.worker.finish(parent)
            await side.worker.close()
            await side.queue.open(0.0)
            leases = (await QueueAtOnce.exchange(side.queue, Changes(), 5, 0.0)).leases
            assert {lease.body for lease in leases} & {b"child", b"parent"}

    run(test())


def test_a_request_for_later_is_leased_when_it_is_due() -> None:
    async def test() -> None:
        async with started() as side:
            side.worker.push(entry("later", due=0.05))
            await side.hear(2)
            assert (side.bodies(), side.worker.answer.next_due) == ([], 0.05)
            assert side.worker.is_empty
            side.now = 0.05
            await side.hear(3)
            assert (side.bodies(), side.worker.answer.next_due) == (["later"], None)

    run(test())


def test_it_is_not_empty_before_the_first_answer() -> None:
    async def test() -> None:
        side = Side(4, 100.0)
        await side.queue.open(0.0)
        assert not side.worker.is_empty
        side.worker.start()
        assert not side.worker.is_empty
        await side.hear(1)
        assert side.worker.is_empty

    run(test())


def test_it_is_not_empty_while_something_is_said_or_asked() -> None:
    async def test() -> None:
        async with started() as side:
            side.queue.may_answer.clear()
            side.queue.asked.clear()
            side.worker.push(entry("a"))
            assert not side.worker.is_empty
            await side.queue.asked.wait()
            assert not side.worker.is_empty
            side.queue.may_answer.set()
            await side.hear(2)
            assert not side.worker.is_empty
            side.take()
            assert side.worker.is_empty

    run(test())


def test_it_is_not_empty_while_the_queue_may_have_more_than_was_wanted() -> None:
    async def test() -> None:
        async with started("a", ahead=1) as side:
            side.take()
            assert not side.worker.is_empty
            await side.hear(2)
            assert side.worker.is_empty

    run(test())


def test_an_exchange_that_asks_for_nothing_does_not_end_the_asking() -> None:
    async def test() -> None:
        async with started("a", "b", "c", ahead=2) as side:
            side.worker.seeded()
            await side.hear(2)
            assert not side.worker.is_empty
            assert side.bodies() == ["a", "b"]
            await side.hear(3)
            assert side.bodies() == ["c"]

    run(test())
