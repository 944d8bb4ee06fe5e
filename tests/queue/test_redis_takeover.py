"""A replica takes over that had not heard of the last moments: the queue goes back, its workers do not."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.queue.redis_maps import RedisMap
from tests.scheduler.driving import entry
from tileharvest.errors import QueueError

if TYPE_CHECKING:
    from tests.servers.redis import RedisServer
    from tileharvest.queue.port import Lease

TILES: Final = 40
"""Below tile n lie the tiles 3n + 1, 3n + 2 and 3n + 3."""
OPTIONS: Final = {"lease_seconds": 10.0, "max_attempts": 1000}


class Walk:
    """Two workers walk down from tile 0. Whoever has asked for a tile pushes those below it, and tells later
    that it is finished: its result must be durable before."""

    def __init__(self, world: RedisMap, random: Random) -> None:
        self._random = random
        self._now = 0.0
        self._workers = [world.joined(**OPTIONS) for _ in range(2)]
        self._held: list[list[Lease]] = [[], []]
        self._asked: list[list[Lease]] = [[], []]
        """The held leases below which everything was pushed."""
        self.asked: set[int] = set()
        self._workers[0].exchange(pushed=[entry("0")], is_seeded=True)

    def step(self) -> bool:
        """One of the workers does something. Returns whether it is told that nothing is left."""
        self._now += 1.0
        number = self._random.randrange(2)
        worker, held, asked = self._workers[number], self._held[number], self._asked[number]
        worker.extend(*held, *asked, now=self._now)
        if held and self._random.randrange(2):
            lease = held.pop()
            tile = int(lease.body)
            children = [entry(str(child)) for child in range(3 * tile + 1, 3 * tile + 4) if child < TILES]
            worker.push(*children, now=self._now)
            self.asked.add(tile)
            asked.append(lease)
            return False
        wanted = self._random.randrange(1, 3)
        held += worker.exchange(wanted, self._now, finished=list(asked)).leases
        asked.clear()
        word: Any = None if held else worker.run(worker.queue.ending())
        return word == "yours"


def kept(world: RedisMap) -> dict[str, tuple[bytes, int]]:
    """All that Redis has of the map, as a replica copies it."""
    return {key: (world.server.ask("DUMP", key), world.server.ask("PTTL", key)) for key in world.all_keys()}


def go_back(world: RedisMap, heard: dict[str, tuple[bytes, int]]) -> None:
    world.server.ask("DEL", *world.all_keys())
    for key, (content, left) in heard.items():
        world.server.ask("RESTORE", key, max(left, 0), content)


@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.repetition) for seed in range(8, 20))]
)
def test_no_tile_is_lost_with_the_moments_of_which_a_replica_had_not_heard(
    server: RedisServer, seed: int
) -> None:
    random = Random(seed)
    with RedisMap(server) as world:
        walk = Walk(world, random)
        for _ in range(random.randrange(60)):
            walk.step()
        heard = kept(world)
        for _ in range(random.randrange(1, 20)):
            walk.step()
        go_back(world, heard)
        while not walk.step():
            pass
        assert walk.asked == set(range(TILES))


def test_what_was_pushed_before_the_queue_went_back_is_found_again_by_what_was_finished_after(
    world: RedisMap,
) -> None:
    """The result of a tile may become durable only after what lies below it was pushed, and lost."""
    worker = world.joined()
    (parent,) = worker.exchange(1, now=1.0, pushed=[entry("parent")]).leases
    heard = kept(world)
    worker.push(entry("child"), now=2.0)
    go_back(world, heard)
    assert worker.exchange(finished=[parent], now=3.0).refused == 1
    (again,) = worker.lease(9, now=4.0)
    assert (again.body, again.attempt) == (b"parent", 2)
    # What ends now was leased before, too.
    assert worker.exchange(finished=[parent], now=5.0).refused == 1
    worker.exchange(pushed=[entry("child")], finished=[again], now=6.0)
    assert worker.bodies(now=7.0) == ["child"]


def test_leases_of_others_are_held_where_the_queue_went_back_for_one_worker(world: RedisMap) -> None:
    worker, other = world.joined(), world.joined()
    (lease,) = other.exchange(1, now=1.0, pushed=[entry("its")]).leases
    heard = kept(world)
    worker.push(entry("lost"), now=2.0)
    go_back(world, heard)
    worker.push(entry("new"), now=3.0)
    assert other.exchange(finished=[lease], now=4.0).refused == 0


def test_a_request_at_its_last_attempt_is_not_given_up_as_the_queue_went_back(world: RedisMap) -> None:
    worker = world.joined(max_attempts=1)
    (lease,) = worker.exchange(1, now=1.0, pushed=[entry("last")]).leases
    heard = kept(world)
    worker.push(entry("lost"), now=2.0)
    go_back(world, heard)
    assert worker.exchange(finished=[lease], now=3.0).refused == 1
    assert worker.bodies(now=4.0) == ["last"]


@pytest.mark.parametrize("others", [0, 1, 3])
def test_a_harvest_whose_first_requests_were_lost_is_not_taken_for_one_that_has_made_them(
    world: RedisMap, others: int
) -> None:
    """First requests may take many exchanges, of which only one notices that those before it are lost."""
    worker = world.joined()
    heard = kept(world)
    worker.push(entry("first"), now=1.0)
    go_back(world, heard)
    for number in range(others):
        worker.push(entry(f"other {number}"), now=2.0)
    worker.exchange(is_seeded=True, now=3.0)
    with pytest.raises(QueueError, match="has lost what it knew"):
        worker.run(worker.queue.ending())


def test_another_worker_can_make_all_first_requests_of_a_harvest_after_some_were_lost(
    world: RedisMap,
) -> None:
    worker = world.joined()
    heard = kept(world)
    worker.push(entry("first"), now=1.0)
    go_back(world, heard)
    worker.exchange(is_seeded=True, now=2.0)
    other = world.joined()
    other.exchange(is_seeded=True, now=3.0)
    assert worker.run(worker.queue.ending()) == "yours"
