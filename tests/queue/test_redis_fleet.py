"""How several workers on a queue in Redis begin one harvest, and end it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.queue.test_redis_calls import CUTS, behind_proxy
from tests.scheduler.driving import DAY, LEASE, Driven, entry
from tileharvest.errors import QueueError
from tileharvest.queue.port import Changes

if TYPE_CHECKING:
    from tests.queue.redis_maps import RedisMap
    from tileharvest.queue.port import Ending

GOES_ON, YOURS, ENDED = "goes on", "yours", "ended"


def join(worker: Driven, harvest: str) -> bool:
    return worker.run(worker.queue.join(DAY, harvest))


def ending(worker: Driven) -> Ending:
    return worker.run(worker.queue.ending())


def end(worker: Driven) -> None:
    worker.run(worker.queue.ended())


def make_all(worker: Driven, now: float = 0.0) -> None:
    worker.exchange(finished=worker.exchange(99, now).leases, now=now)


# Who begins


def test_the_first_requests_are_to_be_pushed_until_somebody_has_pushed_them_all(world: RedisMap) -> None:
    first, second = world.worker(), world.worker()
    assert join(first, "one")
    first.push(entry("1"))
    assert join(second, "one")
    first.exchange(pushed=[entry("2")], is_seeded=True)
    assert not join(world.worker(), "one")


def test_a_harvest_that_is_continued_finds_its_work(world: RedisMap) -> None:
    world.joined("one").exchange(1, pushed=[entry("1"), entry("2")], is_seeded=True)
    world.close_workers()
    again = world.worker()
    assert not join(again, "one")
    assert again.bodies(now=LEASE) == ["1", "2"]


def test_another_harvest_begins_without_the_work_of_the_former(world: RedisMap) -> None:
    first = world.joined("one")
    lease = first.exchange(1, pushed=[entry("1"), entry("2"), entry("1")], is_seeded=True).leases[0]
    first.note(DAY, "depth", "12")
    second = world.worker()
    assert join(second, "two")
    assert second.counts().left == 0
    assert second.noted(DAY, "depth") is None
    assert second.push(entry("1")).duplicates == 0
    assert first.exchange(finished=[lease], is_seeded=True).refused == 1
    assert join(world.worker(), "two")
    assert ending(first) == ENDED


def test_a_program_beside_joins_no_harvest(world: RedisMap) -> None:
    beside = world.beside()
    with pytest.raises(RuntimeError, match="only a worker"):
        join(beside, "one")


def test_a_worker_ends_no_harvest_that_it_has_not_joined(world: RedisMap) -> None:
    worker = world.worker()
    for work in (worker.queue.ending, worker.queue.ended):
        with pytest.raises(RuntimeError, match="only who has joined"):
            worker.run(work())


# Who ends


def test_the_end_is_one_workers_only(world: RedisMap) -> None:
    workers = [world.joined() for _ in range(4)]
    assert [ending(one) for one in workers] == [YOURS, GOES_ON, GOES_ON, GOES_ON]
    assert ending(workers[0]) == YOURS
    end(workers[0])
    assert [ending(one) for one in workers] == [ENDED] * 4


@pytest.mark.parametrize("left", ["waiting", "delayed", "leased here", "leased elsewhere"])
def test_nothing_ends_while_anything_is_left(world: RedisMap, left: str) -> None:
    worker, other = world.joined(), world.joined()
    worker.push(entry("1", due=20.0 if left == "delayed" else None))
    if left.startswith("leased"):
        (worker if left == "leased here" else other).lease()
    assert ending(worker) == GOES_ON
    make_all(other, 100.0)
    worker.extend(now=100.0)
    assert ending(worker) == YOURS


def test_the_right_to_end_passes_on_after_the_time_of_a_lease_in_silence(world: RedisMap) -> None:
    silent, heard, other = (world.joined() for _ in range(3))
    assert ending(silent) == YOURS
    for now, whose in ((LEASE - 0.1, GOES_ON), (LEASE, YOURS)):
        other.extend(now=now)
        assert ending(other) == whose
    silent.extend(now=LEASE)
    assert ending(silent) == GOES_ON
    end(silent)
    assert ending(heard) == GOES_ON


def test_the_right_to_end_is_kept_by_any_sign_of_life(world: RedisMap) -> None:
    closer, other = world.joined(), world.joined()
    assert ending(closer) == YOURS
    closer.extend(now=29.0)
    other.exchange(now=58.0)
    assert ending(other) == GOES_ON


@pytest.mark.parametrize("way", ["closed", "pushed"])
def test_the_right_to_end_is_given_up(world: RedisMap, way: str) -> None:
    closer, other = world.joined(), world.joined()
    assert ending(closer) == YOURS
    if way == "closed":
        closer.stop()
    else:
        closer.push(entry("1"))
        make_all(other)
    assert ending(other) == YOURS


def test_a_push_of_what_was_seen_does_not_give_the_right_up(world: RedisMap) -> None:
    closer, other = world.joined(), world.joined()
    closer.push(entry("1"))
    make_all(other)
    make_all(closer)
    assert ending(closer) == YOURS
    assert closer.push(entry("1")).duplicates == 1
    assert ending(other) == GOES_ON


def test_what_is_pushed_into_an_ended_harvest_is_made_and_it_stays_ended(world: RedisMap) -> None:
    worker = world.joined()
    worker.exchange(is_seeded=True)
    assert ending(worker) == YOURS
    end(worker)
    world.beside().push(entry("1"))
    again = world.worker()
    assert not join(again, "first")
    assert ending(again) == GOES_ON
    make_all(again, 30.0)
    assert ending(again) == ENDED


def test_work_that_redis_has_lost_does_not_end(world: RedisMap) -> None:
    worker = world.joined()
    worker.exchange(pushed=[entry("1")], is_seeded=True)
    for key in world.all_keys():
        world.server.ask("DEL", key)
    with pytest.raises(QueueError, match=r"has lost what it knew of segment '2021-02-13': .*; run again"):
        ending(worker)
    # Somebody else was started meanwhile, and has not pushed everything yet.
    world.joined()
    with pytest.raises(QueueError, match="has lost what it knew"):
        ending(worker)


# Calls that are cut off


@pytest.mark.parametrize("cuts", CUTS[:2])
def test_calls_that_were_cut_off_answer_as_if_they_were_not(world: RedisMap, cuts: list[str]) -> None:
    async def call() -> list[Any]:
        async with behind_proxy(world.server, map_name=world.name) as (proxy, queue):
            answers: list[Any] = []

            async def cut(work: Any) -> Any:
                proxy.cuts = list(cuts)
                answers.append(await work)
                assert proxy.cuts == []
                return answers[-1]

            pushed = [entry("1"), entry("2"), entry("1")]
            await cut(queue.join(DAY, "one"))
            answer = await cut(queue.exchange(Changes(pushed=pushed, is_seeded=True), 3, 0.0))
            answers[-1] = [lease.body for lease in answer.leases], answer.duplicates
            await queue.exchange(Changes(finished=answer.leases), 0, 0.0)
            for work in (queue.ending(), queue.ended(), queue.ending()):
                await cut(work)
            await cut(queue.join(DAY, "one"))
            return answers

    assert asyncio.run(call()) == [True, ([b"1", b"2"], 1), YOURS, None, ENDED, False]


# Redis away


def tried_for(worker: Driven, seconds: float) -> None:
    """Its next call has been tried for so long."""
    worker.queue._told["away"] = seconds


def test_a_time_in_which_redis_was_away_is_held_against_nobody(world: RedisMap) -> None:
    first, second = world.joined(), world.joined()
    leases = first.exchange(1, pushed=[entry("1"), entry("2")]).leases
    tried_for(second, LEASE)
    assert [lease.body for lease in second.lease(9, now=LEASE + 5.0)] == [b"2"]
    assert len(second.run(second.queue.workers())) == 2
    assert first.exchange(finished=leases, now=LEASE + 6.0).refused == 0


@pytest.mark.parametrize("cut_off", [False, True])
def test_silence_counts_where_redis_was_there(world: RedisMap, cut_off: bool) -> None:
    first, other, second = (world.joined() for _ in range(3))
    first.exchange(1, pushed=[entry("1")])
    if cut_off:
        # Not Redis was away, but this worker, which another one has not noticed.
        other.extend(now=LEASE)
        tried_for(second, LEASE)
    assert [lease.attempt for lease in second.lease(9, now=LEASE + 5.0)] == [2]
