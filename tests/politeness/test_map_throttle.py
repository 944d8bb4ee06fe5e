"""The throttle of one map, on a clock that jumps, beside others that share its state in memory."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from inspect import Signature, signature
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.middlewares.making import run_jumping
from tileharvest.history.costs import CostMeter
from tileharvest.maps.budgets import Budget
from tileharvest.maps.rates import NO_DELAY, Delay
from tileharvest.maps.times import QuietHours
from tileharvest.politeness.map_throttle import MapThrottle
from tileharvest.politeness.rules import Rules
from tileharvest.politeness.sqlite import SqliteThrottle
from tileharvest.politeness.waits import HoldReason

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

HOST: Final = "map.example.net"
BEGIN: Final = datetime(2026, 5, 1, 12, tzinfo=UTC)
"""The moment at which the clock jumps off."""
LASTS: Final = 600.0
UNLIMITED: Final = Budget()


class World:
    """Hosts, and the maps of one process that ask them."""

    def __init__(self) -> None:
        self.shared = SqliteThrottle()
        self.shared.clock = lambda: now() - self.set_back
        self.set_back = 0.0
        """The seconds by which the clock was set back."""

    @asynccontextmanager
    async def asking(
        self, name: str = "m", *, budget: Budget = UNLIMITED, **rules: Any
    ) -> AsyncIterator[MapThrottle]:
        throttle = MapThrottle(
            self.shared,
            name,
            Rules(HOST, **{"concurrency": 4, **rules}),
            CostMeter(clock=now),
            lasts=LASTS,
            zone=UTC,
        )
        await throttle.open(budget)
        yield throttle
        await throttle.close()


def now() -> float:
    return BEGIN.timestamp() + asyncio.get_running_loop().time()


def jumping(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs a test with a world of its own, on a clock that jumps."""

    async def running(*values: Any) -> None:
        world = World()
        await world.shared.open()
        try:
            await test(world, *values)
        finally:
            await world.shared.close()

    def run(**values: Any) -> None:
        run_jumping(running(*values.values()))

    run.__name__ = test.__name__
    parameters = list(signature(test).parameters.values())
    run.__signature__ = Signature(parameters[1:])  # type: ignore[attr-defined]
    return run


async def started(throttle: MapThrottle, host: str = HOST, wanted: int = 1) -> bool:
    """Makes a request that is answered at once. Returns whether it could start."""
    if not await throttle.turn(host, wanted):
        return False
    throttle.count_request()
    throttle.left(host)
    return True


async def starts_of(throttle: MapThrottle, number: int, host: str = HOST) -> list[float]:
    """When a number of requests start, one after the other."""
    starts = []
    for _ in range(number):
        assert await started(throttle, host, number)
        starts.append(now() - BEGIN.timestamp())
    return starts


@jumping
async def test_a_map_without_a_rate_is_free_and_never_waits(world: World) -> None:
    async with world.asking() as throttle:
        assert throttle.is_free(HOST)
        assert await starts_of(throttle, 5) == [0.0] * 5


@jumping
async def test_requests_keep_the_gap_of_the_map(world: World) -> None:
    async with world.asking(gap=Delay.of(2.0)) as throttle:
        assert not throttle.is_free(HOST)
        assert await starts_of(throttle, 4) == pytest.approx([0, 2, 4, 6])


@jumping
async def test_a_delay_that_robots_txt_asks_for_counts_from_the_last_request_on(world: World) -> None:
    async with world.asking() as throttle:
        await started(throttle)
        throttle.slow_down(7)
        assert await starts_of(throttle, 2) == pytest.approx([7, 14])


@jumping
async def test_a_random_gap_is_drawn_for_each_request(world: World) -> None:
    async with world.asking(gap=Delay(0.5, 1.5)) as throttle:
        gaps = [later - earlier for earlier, later in pairwise(await starts_of(throttle, 30))]
        assert all(0.5 - 1e-6 <= gap <= 1.5 + 1e-6 for gap in gaps)
        assert len({round(gap, 3) for gap in gaps}) > 20


@jumping
async def test_a_process_that_is_late_keeps_the_gap_and_loses_the_starts_that_it_missed(world: World) -> None:
    async with world.asking(gap=Delay.of(0.05)) as throttle:
        await started(throttle, HOST, 5)
        await asyncio.sleep(0.23)
        # The second and the third start are too old.
        assert await starts_of(throttle, 2) == pytest.approx([0.23, 0.28])


@jumping
async def test_a_rate_by_hand_counts_from_the_next_look_on(world: World) -> None:
    async with world.asking(gap=Delay.of(0.1)) as throttle:
        assert await started(throttle, HOST, 2)
        await throttle.look(rate=Delay.of(5.0))
        # The second start, at 0.1, was reserved and is lost.
        assert await starts_of(throttle, 1) == pytest.approx([5.1])
        await throttle.look(rate=Delay.of(1.0))
        assert await starts_of(throttle, 2) == pytest.approx([6.1, 7.1])


@jumping
async def test_a_host_that_refuses_more_is_asked_more_slowly(world: World) -> None:
    async with world.asking(gap=Delay.of(0.1)) as throttle:
        throttle.slow_down(0.5)
        throttle.slow_down(0.2)
        assert await starts_of(throttle, 2) == pytest.approx([0, 0.5])


@pytest.mark.parametrize("held", ["paused", "rest", "down"])
@jumping
async def test_what_holds_requests_back_ends_a_wait_for_a_turn_and_says_why(world: World, held: str) -> None:
    async with world.asking(gap=Delay.of(30.0)) as throttle:
        await starts_of(throttle, 1)
        waiting = asyncio.ensure_future(throttle.turn(HOST))
        await asyncio.sleep(5)
        if held == "paused":
            await throttle.look(is_paused=True)
        elif held == "rest":
            await throttle.rest(HOST, 60)
        else:
            throttle.is_down = True
        assert not await waiting
        assert now() - BEGIN.timestamp() <= 6
        reason = {"paused": HoldReason.PAUSED, "rest": HoldReason.RESTING, "down": HoldReason.DOWN}[held]
        ends = pytest.approx(BEGIN.timestamp() + 65, abs=1e-3) if held == "rest" else None
        assert throttle.held == (reason, ends)


@jumping
async def test_that_a_host_is_down_is_told_only_if_nothing_else_holds(
    world: World,
) -> None:
    async with world.asking() as throttle:
        throttle.is_down = True
        assert throttle.held == (HoldReason.DOWN, None)
        await throttle.rest(HOST, 60)
        assert throttle.held == (HoldReason.RESTING, now() + 60)
        throttle.is_down = False
        await asyncio.sleep(60)
        assert throttle.held is None


@jumping
async def test_a_rest_that_is_over_does_not_come_back_with_a_clock_that_is_set_back(world: World) -> None:
    async with world.asking() as throttle:
        await throttle.rest(HOST, 60)
        await asyncio.sleep(60)
        await throttle.look()
        world.set_back = 3600.0
        assert throttle.held is None


@jumping
async def test_a_rest_holds_the_other_maps_of_the_host_from_their_next_look_on(world: World) -> None:
    async with world.asking("a") as one, world.asking("b") as other:
        await one.rest(HOST, 60)
        await other.look()
        assert other.held == (HoldReason.RESTING, now() + 60)
        await asyncio.sleep(60)
        assert other.held is None


@jumping
async def test_quiet_hours_hold_until_they_end_unless_they_have_a_rate(world: World) -> None:
    quiet = (QuietHours.parse("11:00-13:00"),)

    async with (
        world.asking("a", quiet=quiet) as none,
        world.asking("b", quiet=quiet, quiet_gap=Delay.of(6.0)) as less,
    ):
        assert none.held == (HoldReason.QUIET, (BEGIN + timedelta(hours=1)).timestamp())
        assert await starts_of(less, 2) == pytest.approx([0, 6])


@jumping
async def test_the_time_of_work_stands_still_while_requests_are_held_back(world: World) -> None:
    async with world.asking() as throttle:
        throttle._cost_meter.start()
        await asyncio.sleep(2)
        await throttle.look(is_paused=True)
        await asyncio.sleep(50)
        await throttle.look()
        await asyncio.sleep(3)
        assert throttle._cost_meter.worked == pytest.approx(5)


@jumping
async def test_a_worker_with_nothing_to_ask_leaves_its_places_to_others_until_it_asks_again(
    world: World,
) -> None:
    async with world.asking() as one, world.asking() as other:
        await one.look(is_busy=False)
        await other.look()
        assert (one.concurrency(HOST), other.concurrency(HOST)) == (0, 4)
        await other.look(is_busy=False)
        # It need not wait for its next look.
        assert await starts_of(one, 1) == [0]
        assert (one.concurrency(HOST), other.concurrency(HOST)) == (4, 0)
        # Who does not look has no place any more when the others may think that it is gone.
        await asyncio.sleep(LASTS)
        assert one.concurrency(HOST) == 0


@jumping
async def test_all_workers_together_make_exactly_the_requests_of_the_budget(world: World) -> None:
    budget = Budget(requests=10)
    async with world.asking(budget=budget) as one, world.asking(budget=budget) as other:
        made = 0
        await one.look()
        await other.look()
        while await started(one):
            made += 1 + await started(other)
        assert made == 10
        assert (one.held, one.lacking) == ((HoldReason.SPENT, None), "requests")


@jumping
async def test_requests_that_were_taken_and_not_made_go_back_to_the_budget(world: World) -> None:
    async with world.asking(budget=Budget(requests=10)) as stays:
        async with world.asking(budget=Budget(requests=10)) as leaves:
            await stays.look()
            await leaves.look()
            await starts_of(leaves, 1)
            assert await leaves.turn(HOST)
        assert await started(stays)
        assert stays.spent.requests == 2


@jumping
async def test_bytes_and_seconds_of_all_workers_spend_the_budget(world: World) -> None:
    budget = Budget(bytes=1_000, seconds=100)
    async with world.asking(budget=budget) as one, world.asking(budget=budget) as other:
        one.count_bytes(600)
        await one.look()
        await other.look()
        assert other.held is None
        other.count_bytes(400)
        assert (other.held, other.lacking) == ((HoldReason.SPENT, None), "bytes")
        one._cost_meter.seconds = 100
        await one.look()
        assert one.lacking in ("bytes", "seconds")


@jumping
async def test_a_request_elsewhere_keeps_the_limits_there_and_waits_for_a_place(world: World) -> None:
    elsewhere = {"limits_at": lambda host: (1, Delay.of(2.0))}

    async with world.asking(**elsewhere) as throttle:
        starts = []

        async def ask() -> None:
            async with throttle.place("cdn.example.net"):
                starts.append(now() - BEGIN.timestamp())
                await asyncio.sleep(3)

        await asyncio.gather(ask(), ask())
        assert starts == pytest.approx([0, 3])


@jumping
async def test_maps_that_ask_another_host_divide_its_places(world: World) -> None:
    elsewhere, host = {"limits_at": lambda host: (1, NO_DELAY)}, "cdn.example.net"
    async with world.asking("a", **elsewhere) as one, world.asking("b", **elsewhere) as other:
        assert await one.turn(host)
        assert one.is_full(host)
        waiting = asyncio.ensure_future(started(other, host))
        for _ in range(8):
            await asyncio.sleep(1)
            await one.look()
            await other.look()
        assert not waiting.done()
        one.left(host)
        await one.look()
        await other.look()
        assert await waiting


@jumping
async def test_the_map_keeps_its_delay_and_concurrency_and_one_budget_at_every_host(world: World) -> None:
    async with world.asking(gap=Delay.of(2.0), concurrency=2, budget=Budget(requests=3)) as throttle:
        host = "cdn.example.net"
        assert await starts_of(throttle, 2, host) == pytest.approx([0, 2])
        assert throttle.concurrency(host) == 2
        assert [await started(throttle), await started(throttle)] == [True, False]


@jumping
async def test_of_two_that_wait_for_their_turn_the_last_request_of_the_budget_is_for_one(
    world: World,
) -> None:
    async with world.asking(budget=Budget(requests=2), gap=Delay.of(2.0)) as throttle:
        await starts_of(throttle, 1)
        assert sorted(await asyncio.gather(started(throttle), started(throttle))) == [False, True]
