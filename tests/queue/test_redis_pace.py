"""How several workers on a queue in Redis keep one pace: shares, the rate, rests, and who gets what waits."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import msgspec
import pytest

from tests.queue.redis_maps import HOST, OF_HOST, SHARES, RedisMap
from tests.scheduler.driving import Driven, entry
from tileharvest.maps.rates import Gap
from tileharvest.politeness.pace import Pace

if TYPE_CHECKING:
    from collections.abc import Sequence

HORIZON = 0.5
"""Seconds by which starts are given ahead."""


def push(worker: Driven, number: int, now: float = 0.0) -> None:
    worker.push(*(entry(str(one)) for one in range(number)), now=now)


def starts(worker: Driven, wanted: int, now: float = 0.0) -> list[float]:
    return [lease.start for lease in worker.lease(wanted, now)]


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
        client: str = self.queue.queue._session.client
        return client

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
            self.alive.append(Simulated(world.joined(pace=self.pace(world), now=self.now), world))

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
        """The pace, while they work. What is on the way by then is on the way."""
        if self.alive:
            one = self.chance.choice(self.alive)
            self.limits[one.world] = self.chance.randint(1, 7)
            self.host_limit = self.chance.choice([None, *range(1, 10)])
            one.queue.run(one.queue.queue.set_pace(self.pace(one.world)))
            for other in self.alive:
                other.settle(self.now, self.chance)

    def fair(self) -> dict[Simulated, int]:
        """One at a time to who has least, the oldest first."""
        shares = dict.fromkeys(sorted(self.alive, key=lambda one: (self.joined(one), one.name)), 0)
        of_map = Counter(self.limits)
        for _ in range(sum(self.limits.values()) if self.host_limit is None else self.host_limit):
            if eligible := [one for one in shares if of_map[one.world]]:
                least = min(eligible, key=shares.__getitem__)
                shares[least] += 1
                of_map[least.world] -= 1
        return shares

    def joined(self, one: Simulated) -> float:
        record = one.world.server.ask("HGET", SHARES, one.name)
        joined: float = msgspec.msgpack.decode(record)[2]
        return joined


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
    pace = Pace(HOST, 4, host_concurrency=4)
    with RedisMap(world.server) as other:
        paused, late = world.joined(pace=pace), other.joined(pace=pace)
        assert paused.exchange(in_flight=4).share == 2
        for now in (20.0, 40.0, 60.0):
            paused.extend(now=now)
            assert late.exchange(now=now).share == 0
        assert late.exchange(now=90.0).share == 4


def test_a_share_grows_only_when_the_others_are_known_to_have_less(world: RedisMap) -> None:
    pace = Pace(HOST, 4)
    first = world.joined(pace=pace)
    assert first.exchange().share == 4
    second = world.joined(pace=pace)
    assert second.exchange().share == 0
    assert first.exchange(in_flight=1).share == 2
    # It may have begun more before it heard of that.
    assert second.exchange().share == 0
    assert first.exchange(in_flight=3).share == 2
    assert second.exchange().share == 1
    first.stop()
    assert second.exchange().share == 4


def test_a_worker_without_a_share_leases_nothing_and_looks_again_soon(world: RedisMap) -> None:
    pace = Pace(HOST, 1)
    first, second = world.joined(pace=pace), world.joined(pace=pace, now=1.0)
    push(first, 3, now=1.0)
    answer = second.exchange(3, 1.0)
    assert (answer.share, answer.leases) == (0, [])
    assert answer.held_until is not None
    assert 1 < answer.held_until <= 2


# The rate


def test_the_starts_of_three_workers_are_as_far_apart_as_the_rate_says(world: RedisMap) -> None:
    chance, pace = Random(1), Pace(HOST, 30, Gap.of_rate(8.0))
    workers = [world.joined(pace=pace) for _ in range(3)]
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


def test_what_was_not_asked_while_nothing_was_to_do_is_not_made_up_for(world: RedisMap) -> None:
    worker = world.joined(pace=Pace(HOST, 100, Gap.of_rate(10.0)))
    push(worker, 100)
    assert starts(worker, 1) == [0.0]
    assert starts(worker, 99, 60.0) == pytest.approx([60.0, 60.1, 60.2, 60.3, 60.4, 60.5])


@pytest.mark.parametrize(("rate", "later"), [(100.0, 0.1), (0.5, 2 - HORIZON)])
def test_who_is_held_up_by_the_rate_learns_when_to_ask_again(
    world: RedisMap, rate: float, later: float
) -> None:
    worker = world.joined(pace=Pace(HOST, 100, Gap.of_rate(rate)))
    push(worker, 100)
    answer = worker.exchange(99)
    assert 0 < len(answer.leases) < 99
    assert answer.held_until == pytest.approx(later)
    assert worker.exchange(now=later).held_until is not None
    assert worker.lease(now=later)


def test_starts_are_told_on_the_callers_clock(world: RedisMap) -> None:
    worker = world.joined(pace=Pace(HOST, 100, Gap.of_rate(10.0)), server_clock=True)
    push(worker, 9, 5e9)
    assert starts(worker, 2, 5e9) == pytest.approx([5e9, 5e9 + 0.1], abs=0.001)


def test_what_is_known_of_a_host_is_forgotten_some_minutes_after_its_last_request(world: RedisMap) -> None:
    worker = world.joined(pace=Pace(HOST, 100, host_gap=Gap(30.0, 30.0)))
    push(worker, 9)
    worker.lease(9)
    assert 630 <= world.server.ask("TTL", OF_HOST) <= 631
    assert 600 <= world.server.ask("TTL", SHARES) <= 601


def test_random_gaps_are_drawn_anew_in_each_exchange_of_each_worker(world: RedisMap) -> None:
    gap, host_gap = Gap(0.1, 0.3), Gap(0.2, 0.25)
    workers = [world.joined(pace=Pace(HOST, 30, gap, host_gap=host_gap)) for _ in range(3)]
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


def test_as_much_is_leased_ahead_as_a_random_gap_allows_in_the_mean(world: RedisMap) -> None:
    worker = world.joined(pace=Pace(HOST, 100, Gap(0.0, 0.2)))
    push(worker, 99)
    assert len(starts(worker, 99)) == 6


def test_the_starts_of_a_host_are_divided_among_the_maps_that_have_work(world: RedisMap) -> None:
    pace = Pace(HOST, 100, host_gap=Gap(0.05, 0.05))
    with RedisMap(world.server) as other:
        busy, idle = world.joined(pace=pace), other.joined(pace=pace)
        push(busy, 99)
        idle.lease(9)
        assert len(starts(busy, 99)) == 11
        push(idle, 99, 60.0)
        assert starts(idle, 1, 60.0) == [60.0]
        assert len(starts(busy, 99, 60.0)) == 5


def test_another_gap_holds_for_all_workers_at_once_whoever_sets_it(world: RedisMap) -> None:
    first, second = (world.joined(pace=Pace(HOST, 9, Gap(3600.0, 3600.0))) for _ in range(2))
    beside = world.beside()
    push(first, 9)
    assert starts(first, 9) == [0.0]
    assert starts(second, 9, 1.0) == []
    beside.run(beside.queue.set_pace(Pace(HOST, 9, Gap(2.0, 2.0))))
    assert starts(second, 9, 2.0) == [2.0]
    second.run(second.queue.set_pace(Pace(HOST, 9)))
    assert starts(first, 2, 2.0) == [0.0, 0.0]


# Rests


def test_a_host_that_rests_is_left_alone_by_all_workers_of_all_maps(world: RedisMap) -> None:
    with RedisMap(world.server) as other:
        workers = [world.joined(), world.joined(pace=Pace(HOST, 100, Gap.of_rate(10.0))), other.joined()]
        push(workers[1], 9)
        push(workers[2], 9)
        workers[0].run(workers[0].queue.rest(HOST, 20.0))
        for worker in workers:
            answer = worker.exchange(9, 19.5)
            assert (answer.leases, answer.held_until) == ([], 20.0)
        assert starts(workers[1], 2, 20.0) == pytest.approx([20.0, 20.1])
        assert workers[2].lease(now=20.0)


def test_of_several_rests_the_one_that_ends_last_counts(world: RedisMap) -> None:
    worker = world.joined()
    push(worker, 9)
    for seconds in (5.0, 60.0, 20.0):
        worker.run(worker.queue.rest(HOST, seconds))
    assert worker.exchange(9).held_until == 60.0


def test_other_hosts_do_not_rest(world: RedisMap) -> None:
    worker = world.joined()
    push(worker, 9)
    worker.run(worker.queue.rest("other.example.net", 60.0))
    assert len(worker.lease(9)) == 9


@pytest.mark.parametrize(("host", "seconds"), [("", 5.0), (HOST, float("inf")), (HOST, float("nan"))])
def test_what_is_no_rest_is_refused(world: RedisMap, host: str, seconds: float) -> None:
    worker = world.joined()
    with pytest.raises(ValueError, match="cannot rest"):
        worker.run(worker.queue.rest(host, seconds))


# Who gets what waits


def test_a_worker_takes_no_more_than_its_part_of_what_waits(world: RedisMap) -> None:
    first, second, third = (world.worker() for _ in range(3))
    push(first, 10)
    answer = first.exchange(99)
    assert (len(answer.leases), answer.held_until) == (4, pytest.approx(0.1))
    assert [len(worker.lease(99)) for worker in (second, third, second, third)] == [2, 2, 1, 1]


def test_a_worker_alone_takes_everything_and_is_not_held_up(world: RedisMap) -> None:
    world.worker()
    alone = world.worker()
    push(alone, 10, now=30.0)
    answer = alone.exchange(7, 30.0)
    assert (len(answer.leases), answer.held_until, answer.share) == (7, None, None)
    assert alone.exchange(0, 30.0).held_until is None
