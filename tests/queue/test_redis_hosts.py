"""How the workers on a Redis keep one limit of a host: shares, starts, budgets, and who gets what waits."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import msgspec
import pytest

from tests.contracts.paces import Clock
from tests.queue.redis_maps import HOST, OF_HOST, RedisMap
from tests.queue.test_redis_calls import CUTS, behind_proxy
from tests.scheduler.driving import LEASE, Driven, entry
from tileharvest.history.costs import Traffic
from tileharvest.maps.budgets import Budget
from tileharvest.maps.rates import Gap
from tileharvest.politeness.rate_limit import HORIZON, Host, Pace, Spent
from tileharvest.queue.port import SILENT, Changes

if TYPE_CHECKING:
    from collections.abc import Sequence


def push(worker: Driven, number: int, now: float = 0.0) -> None:
    worker.push(*(entry(str(one)) for one in range(number)), now=now)


def starts(worker: Driven, wanted: int, now: float = 0.0) -> list[float]:
    return [lease.start for lease in worker.lease(wanted, now)]


def gaps(found: Sequence[float]) -> list[float]:
    return [later - sooner for sooner, later in pairwise(found)]


def known(world: RedisMap) -> Host:
    return msgspec.json.decode(world.server.ask("GET", OF_HOST), type=Host)


# Shares


@dataclass(eq=False)
class Simulated:
    """A worker that has as much on the way as it may have, as far as it knows."""

    queue: Driven
    world: RedisMap
    share: int = 0
    in_flight: int = 0

    @property
    def name(self) -> str:
        process: str = self.queue.queue._hosts.process
        return process

    def exchange(self, now: float, chance: Random) -> None:
        told = self.in_flight
        # It starts more while the answer is on its way, which may tell it of a smaller share.
        self.in_flight = max(told, chance.choice([0, self.share]))
        share = self.queue.exchange(now=now, in_flight=told).share
        assert share is not None
        self.share = share

    def go_on(self, chance: Random) -> None:
        self.in_flight = chance.choice([0, self.in_flight // 2, *[max(self.in_flight, self.share)] * 2])

    def settle(self, now: float, chance: Random) -> None:
        """Until it has no more on the way than it was told."""
        self.exchange(now, chance)
        self.in_flight = min(self.in_flight, self.share)
        self.exchange(now, chance)
        self.in_flight = min(self.in_flight, self.share)


class Fleet:
    """Workers of two maps of one host that come, go and are killed, in an order that a number tells."""

    def __init__(self, worlds: Sequence[RedisMap], seed: int) -> None:
        self.chance = Random(seed)
        self.limits = {world: self.chance.randint(1, 7) for world in worlds}
        self.host_limit: int | None = None
        self.now = 0.0
        self.alive: list[Simulated] = []
        self.come()
        self.change()

    def __call__(self) -> float:
        return self.now

    def pace(self, world: RedisMap) -> Pace:
        return Pace(HOST, self.limits[world], host_concurrency=self.host_limit)

    def step(self) -> None:
        ways = [self.come, self.end, self.kill, self.pass_time, self.change, self.exchange]
        self.chance.choices(ways, [4, 1, 1, 1, 1, 20])[0]()
        for world, limit in self.limits.items():
            assert sum(one.in_flight for one in self.alive if one.world is world) <= limit
        assert self.host_limit is None or sum(one.in_flight for one in self.alive) <= self.host_limit

    def come(self) -> None:
        if len(self.alive) < 6:
            world = self.chance.choice([*self.limits])
            self.alive.append(
                Simulated(world.polite(self.pace(world), clock=self, lease_seconds=SILENT), world)
            )

    def end(self) -> None:
        if self.alive:
            self.alive.pop(self.chance.randrange(len(self.alive))).queue.stop()

    def kill(self) -> None:
        if self.alive:
            self.alive.pop(self.chance.randrange(len(self.alive)))

    def exchange(self) -> None:
        if self.alive:
            one = self.chance.choice(self.alive)
            one.exchange(self.now, self.chance)
            one.go_on(self.chance)

    def pass_time(self) -> None:
        for one in self.alive:
            one.exchange(self.now, self.chance)
            one.in_flight = min(one.in_flight, one.share)
        self.now += 20.0

    def change(self) -> None:
        """Sets another pace while they work. Requests that are on the way by then stay on the way."""
        if self.alive:
            one = self.chance.choice(self.alive)
            self.limits[one.world] = self.chance.randint(1, 7)
            self.host_limit = self.chance.choice([None, *range(1, 10)])
            one.queue.run(one.queue.queue.set_pace(self.pace(one.world)))
            for other in self.alive:
                other.settle(self.now, self.chance)

    def fair(self) -> dict[Simulated, int]:
        """One at a time to who has least, the oldest first."""
        order = [process.id for process in known(self.alive[0].world).processes]
        shares = dict.fromkeys(sorted(self.alive, key=lambda one: order.index(one.name)), 0)
        of_map = Counter(self.limits)
        for _ in range(sum(self.limits.values()) if self.host_limit is None else self.host_limit):
            if eligible := [one for one in shares if of_map[one.world]]:
                least = min(eligible, key=shares.__getitem__)
                shares[least] += 1
                of_map[least.world] -= 1
        return shares


@pytest.mark.parametrize("seed", range(8))
def test_all_workers_of_two_maps_together_never_have_more_on_the_way_than_is_allowed(
    world: RedisMap, seed: int
) -> None:
    with RedisMap(world.server) as other:
        fleet = Fleet([world, other], seed)
        for _ in range(100):
            fleet.step()
        fleet.come()
        for _ in range(4):
            # The killed are forgotten, and those who have too much hear of it.
            fleet.pass_time()
        assert {one: one.share for one in fleet.alive} == fleet.fair()


def test_a_worker_that_is_only_heard_of_keeps_its_share(world: RedisMap) -> None:
    pace, clock = Pace(HOST, 4, host_concurrency=4), Clock(0.0)
    with RedisMap(world.server) as other:
        paused, late = (one.polite(pace, clock=clock, lease_seconds=SILENT) for one in (world, other))
        assert paused.exchange(in_flight=4).share == 2
        for clock.now in (20.0, 40.0, 60.0):
            paused.extend(now=clock.now)
            assert late.exchange(now=clock.now).share == 0
        clock.now = 90.0
        assert late.exchange(now=clock.now).share == 4


def test_a_share_of_a_map_grows_only_when_its_others_are_known_to_have_less(world: RedisMap) -> None:
    first = world.polite(Pace(HOST, 4))
    assert first.exchange().share == 4
    second = world.polite(Pace(HOST, 4))
    assert second.exchange().share == 0
    assert first.exchange(in_flight=1).share == 2
    # It may have begun more before it heard of that.
    assert second.exchange().share == 0
    assert first.exchange(in_flight=3).share == 2
    assert second.exchange().share == 1
    first.stop()
    assert second.exchange().share == 4


def test_a_step_that_tells_the_others_nothing_new_changes_nothing_in_redis(world: RedisMap) -> None:
    """Or each worker would find another state than the one that it knows, and make its step twice."""
    clock = Clock(0.0)
    first, second = (world.polite(Pace(HOST, 4), clock=clock, lease_seconds=SILENT) for _ in range(2))
    for worker in (first, second, first, second):
        worker.exchange(in_flight=1)
    state = world.server.ask("GET", OF_HOST)
    assert first.exchange(in_flight=2, ahead=7).share == 2
    second.queue.traffic.requests = 5
    assert second.exchange(in_flight=2).share == 2
    assert world.server.ask("GET", OF_HOST) == state
    # Only a sign of life is owed from time to time, and what the others have to reckon with.
    clock.now = SILENT / 6
    first.extend(now=clock.now)
    assert [one.heard for one in known(world).processes] == [clock.now, 0.0]


def test_what_a_process_spends_is_told_as_soon_as_its_map_has_a_budget(world: RedisMap) -> None:
    first, second = world.polite(), world.polite()
    first.exchange()
    first.queue.traffic.requests = 5
    first.exchange()
    first.run(first.queue.allow(HOST, Budget(requests=9)))
    second.exchange(0)
    assert second.queue.spent.requests == 5


# Starts


def test_the_starts_of_three_workers_are_as_far_apart_as_the_rate_says(world: RedisMap) -> None:
    chance, pace = Random(1), Pace(HOST, 30, Gap.of_rate(8.0))
    workers = [world.polite(pace) for _ in range(3)]
    push(workers[0], 100)
    now, found = 0.0, []
    while now < 4:
        some = starts(chance.choice(workers), chance.randint(1, 5), now)
        assert all(now <= start <= now + HORIZON for start in some)
        found += some
        now += chance.random() / 10
    gaps = [later - sooner for sooner, later in pairwise(sorted(found))]
    # It was asked more often than the rate allows, so none of it is lost either.
    assert gaps == pytest.approx([1 / 8] * len(gaps))
    assert len(found) >= 4 * 8


@pytest.mark.parametrize("wrong", [5e8, 0.0, -3.0])
def test_starts_are_told_on_the_callers_clock(world: RedisMap, wrong: float) -> None:
    def clock() -> float:
        return time.time() + wrong

    pace = Pace(HOST, 100, Gap.of_rate(10.0))
    workers = [world.polite(pace, clock=clock, server_clock=True) for _ in range(2)]
    push(workers[0], 9, clock())
    began = clock()
    found = [start for worker in workers for start in starts(worker, 2, clock())]
    assert gaps(found) == pytest.approx([0.1] * 3, abs=0.05)
    assert found[0] - began < 60


def test_workers_that_ask_at_the_same_moment_are_given_no_start_twice(world: RedisMap) -> None:
    workers = [world.polite(Pace(HOST, 100, Gap.of_rate(100.0))) for _ in range(3)]
    push(workers[0], 40)

    async def ask(worker: Driven) -> list[float]:
        found: list[float] = []
        for _ in range(4):
            answer = await worker.queue.exchange(Changes(), 3, 0.0)
            found += [lease.start for lease in answer.leases]
        return found

    async def together() -> list[float]:
        found = await asyncio.gather(*(ask(worker) for worker in workers))
        return sorted(start for some in found for start in some)

    for worker in workers:
        # A client belongs to the loop that it was used in first.
        worker.stop()

    async def whole() -> list[float]:
        for worker in workers:
            await worker.queue.open(0.0)
        try:
            # Until each has its share. Without one it would be given no start, and which of them comes
            # often enough to get one before the others are done would be a matter of luck.
            for worker in workers * 3:
                await worker.queue.exchange(Changes(), 0, 0.0)
            return await together()
        finally:
            for worker in workers:
                await worker.queue.close()

    assert asyncio.run(whole()) == pytest.approx([number / 100 for number in range(36)])


def test_what_is_known_of_a_host_is_forgotten_two_days_after_its_last_request(world: RedisMap) -> None:
    worker = world.polite(Pace(HOST, 100, host_gap=Gap(30.0, 30.0)))
    push(worker, 9)
    worker.lease(9)
    assert 172_799 <= world.server.ask("TTL", OF_HOST) <= 172_800


@pytest.mark.parametrize("content", [b"{", b"\xff", b'{"written": "now"}'])
def test_what_is_no_state_of_a_host_is_begun_anew(world: RedisMap, content: bytes) -> None:
    worker = world.polite(Pace(HOST, 7))
    world.server.ask("SET", OF_HOST, content)
    assert worker.exchange().share == 7


def test_random_gaps_are_drawn_anew_in_each_exchange_of_each_worker(world: RedisMap) -> None:
    gap, host_gap, chance = Gap(0.1, 0.3), Gap(0.2, 0.25), Random(3)
    pace = Pace(HOST, 30, gap, host_gap=host_gap)
    workers = [world.polite(pace, random=chance.random) for _ in range(3)]
    push(workers[0], 60)
    now, found = 0.0, []
    for number in range(60):
        found += starts(workers[number % 3], 1, now)
        now = found[-1]
    gaps = [later - sooner for sooner, later in pairwise(found)]
    assert len({round(gap, 9) for gap in gaps}) > 50
    assert all(host_gap.least - 1e-9 <= gap <= 0.3 + 1e-9 for gap in gaps)
    # Half of the draws of the map's gap are below any of the host's, which then counts.
    assert 15 <= sum(gap <= host_gap.most for gap in gaps) <= 55


def test_the_starts_of_a_host_are_divided_among_the_maps_that_have_work(world: RedisMap) -> None:
    pace = Pace(HOST, 100, host_gap=Gap(0.05, 0.05))
    with RedisMap(world.server) as other:
        busy, idle = world.polite(pace), other.polite(pace)
        push(busy, 99)
        idle.lease(9)
        assert len(starts(busy, 99)) == 11
        push(idle, 99, 60.0)
        assert starts(idle, 1, 60.0) == [60.0]
        assert len(starts(busy, 99, 60.0)) == 5


def test_another_gap_holds_for_all_workers_at_once_whoever_sets_it(world: RedisMap) -> None:
    first, second = (world.polite(Pace(HOST, 9, Gap(3600.0, 3600.0))) for _ in range(2))
    push(first, 9)
    assert starts(first, 9) == [0.0]
    assert starts(second, 9, 1.0) == []
    first.run(first.queue.set_pace(Pace(HOST, 9, Gap(2.0, 2.0))))
    assert starts(second, 9, 2.0) == [2.0]
    second.run(second.queue.set_pace(Pace(HOST, 9)))
    assert starts(first, 2, 2.0) == [0.0, 0.0]


# Budgets


def test_workers_spend_one_budget_together_and_those_that_have_ended_count(world: RedisMap) -> None:
    first, second = (world.polite() for _ in range(2))
    for worker in (first, second):
        worker.run(worker.queue.allow(HOST, Budget(requests=10, received_bytes=100, seconds=60)))
    push(first, 50)
    assert len(first.lease(4)) == 4
    first.queue.traffic = Traffic(4, 20, seconds=20.0)
    first.exchange(0)
    first.stop()
    assert len(second.lease(20)) == 6
    assert second.queue.spent == Spent(4, 20, 20.0)
    late = world.polite()
    # Its own budget does not matter.
    late.run(late.queue.allow(HOST, Budget(requests=1000)))
    assert (late.queue.budget.requests, late.lease(20)) == (10, [])
    assert late.queue.lacking is None
    late.queue.traffic = Traffic(seconds=2.0)
    late.exchange(0)
    second.queue.traffic = Traffic(seconds=50.0)
    second.exchange(0, ahead=6)
    assert late.queue.spent.seconds == 22.0
    second.queue.traffic.requests = 6
    second.lease(1)
    late.lease(1)
    assert (second.queue.lacking, late.queue.lacking) == ("requests", "requests")
    second.stop()
    late.stop()
    anew = world.polite()
    anew.run(anew.queue.allow(HOST, Budget(requests=3)))
    assert len(anew.lease(20)) == 3


@pytest.mark.parametrize("cuts", CUTS)
def test_a_step_that_was_cut_off_is_made_once(world: RedisMap, cuts: list[str]) -> None:
    async def claim() -> list[bool]:
        async with behind_proxy(world.server, map_name=world.name) as (proxy, queue):
            hosts = queue.hosts()
            hosts.open()
            proxy.cuts = list(cuts)
            return [await hosts.change(Host, HOST, 0.0, lambda known, now: known.claim_probe(now, 9.0))]

    assert asyncio.run(claim()) == [True]


# Who gets what waits


def test_a_worker_takes_no_more_than_its_part_of_what_waits(world: RedisMap) -> None:
    first, second, third = (world.worker() for _ in range(3))
    push(first, 10)
    answer = first.exchange(99)
    assert (len(answer.leases), answer.held_until) == (4, pytest.approx(0.1))
    assert first.exchange(0).held_until is not None
    assert [len(worker.lease(99)) for worker in (second, third, second, third)] == [2, 2, 1, 1]


def test_a_worker_alone_takes_everything_and_is_not_held_up(world: RedisMap) -> None:
    world.worker()
    alone = world.worker()
    push(alone, 10, now=LEASE)
    answer = alone.exchange(7, LEASE)
    assert (len(answer.leases), answer.held_until, answer.share) == (7, None, None)
    assert alone.exchange(0, LEASE).held_until is None
