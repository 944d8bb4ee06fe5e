"""The throttle of one map, on a clock that jumps, beside others that share its state in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

import pytest

from tests.middlewares.making import JumpingLoop
from tileharvest.history.costs import CostMeter
from tileharvest.maps.budgets import Budget
from tileharvest.maps.rates import LONGEST, Delay
from tileharvest.maps.times import QuietHours
from tileharvest.politeness.map_throttle import MapThrottle
from tileharvest.politeness.rules import Rules
from tileharvest.politeness.sqlite import SqliteThrottle
from tileharvest.politeness.throttle import SET_BACK
from tileharvest.politeness.waits import HoldReason

HOST: Final = "map.example.net"
CDN: Final = "cdn.example.net"
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
        owed, meter = Rules(HOST, **{"concurrency": 4, **rules}), CostMeter(clock=now)
        throttle = MapThrottle(self.shared, name, owed, meter, lasts=LASTS, zone=UTC)
        throttle.budget = budget
        await throttle.look()
        yield throttle
        await throttle.close()


def now() -> float:
    return BEGIN.timestamp() + asyncio.get_running_loop().time()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.shared.open()
    yield world
    await world.shared.close()


async def started(throttle: MapThrottle, host: str = HOST) -> bool:
    """Makes a request that is answered at once. Returns whether it could start."""
    if not await throttle.turn(host):
        return False
    throttle._cost_meter.requests += 1
    throttle.left(host)
    return True


async def starts_of(throttle: MapThrottle, number: int, host: str = HOST) -> list[float]:
    """When a number of requests start, one after the other."""
    starts = []
    for _ in range(number):
        assert await started(throttle, host)
        starts.append(now() - BEGIN.timestamp())
    return starts


async def test_requests_keep_the_gap_of_the_map_and_none_wait_without_one(world: World) -> None:
    async with world.asking("free") as free, world.asking("slow", gap=Delay.of(2.0)) as slow:
        assert await starts_of(free, 5) == [0.0] * 5
        assert await starts_of(slow, 4) == pytest.approx([0, 2, 4, 6])


async def test_requests_that_start_together_take_a_place_each_and_give_it_back(world: World) -> None:
    async with world.asking() as throttle:
        assert await throttle.turn(HOST, 9) == 4
        waiting = asyncio.ensure_future(throttle.turn(HOST, 2))
        await asyncio.sleep(1)
        assert not waiting.done()
        throttle.left(HOST, 3)
        assert [await waiting, await throttle.turn(HOST, 9)] == [2, 1]
        waiting = asyncio.ensure_future(throttle.turn(HOST))
        await asyncio.sleep(1)
        throttle.end()
        assert await waiting == 0


async def test_what_slows_a_map_down_counts_from_the_last_request_and_the_slowest_holds(world: World) -> None:
    async with world.asking(gap=Delay.of(0.1)) as throttle:
        await started(throttle)
        throttle.slow_down(7)
        throttle.slow_down(2)
        throttle.adapted = 3
        assert await starts_of(throttle, 2) == pytest.approx([7, 14])


async def test_a_random_gap_is_drawn_for_each_request(world: World) -> None:
    async with world.asking(gap=Delay(0.5, 1.5)) as throttle:
        gaps = [later - earlier for earlier, later in pairwise(await starts_of(throttle, 30))]
        assert all(0.5 - 1e-6 <= gap <= 1.5 + 1e-6 for gap in gaps)
        assert len({round(gap, 3) for gap in gaps}) > 20


@pytest.mark.parametrize(("late", "starts"), [(0.25, [0.25, 0.45]), (0.35, [0.4, 0.6])])
async def test_a_process_that_is_late_keeps_the_gap_and_loses_a_start_that_it_missed(
    world: World, late: float, starts: list[float]
) -> None:
    async with world.asking(gap=Delay.of(0.2)) as throttle:
        await started(throttle)
        starting = asyncio.ensure_future(starts_of(throttle, 2))
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, JumpingLoop)
        loop.jumped += late
        assert await starting == pytest.approx(starts)


async def test_a_clock_that_is_set_back_stops_no_map(world: World) -> None:
    async with world.asking(gap=Delay.of(1.0)) as throttle:
        await starts_of(throttle, 2)
        world.set_back = 3600.0
        (start,) = await starts_of(throttle, 1)
        assert start <= SET_BACK + 3


async def test_a_rate_by_hand_counts_from_the_next_look_on(world: World) -> None:
    async with world.asking(gap=Delay.of(0.1)) as throttle:
        assert await started(throttle)
        await throttle.look(rate=Delay.of(5.0))
        assert await starts_of(throttle, 1) == pytest.approx([5.0])
        await throttle.look(rate=Delay.of(1.0))
        assert await starts_of(throttle, 2) == pytest.approx([6.0, 7.0])


@pytest.mark.parametrize(
    ("held", "reason"),
    [("paused", HoldReason.PAUSED), ("rest", HoldReason.RESTING), ("down", HoldReason.DOWN)],
)
@pytest.mark.parametrize(("gap", "later"), [(30.0, 5.0), (0.2, 0.1)])
async def test_what_holds_requests_back_ends_a_wait_for_a_turn_and_says_why(
    world: World, held: str, reason: HoldReason, gap: float, later: float
) -> None:
    """Also a wait for a start that is reserved."""
    async with world.asking(gap=Delay.of(gap)) as throttle:
        await starts_of(throttle, 1)
        waiting = asyncio.ensure_future(throttle.turn(HOST))
        await asyncio.sleep(later)
        if held == "paused":
            await throttle.look(is_paused=True)
        elif held == "rest":
            await throttle.rest(HOST, 60)
        else:
            throttle.down.add(CDN)
        assert not await waiting
        assert now() - BEGIN.timestamp() <= later + 1
        ends = pytest.approx(BEGIN.timestamp() + later + 60, abs=1e-3) if held == "rest" else None
        assert throttle.held == (reason, ends)


async def test_a_rest_holds_all_maps_of_the_host_until_it_ends_whatever_the_clock_does(world: World) -> None:
    async with world.asking("a") as one, world.asking("b") as other:
        one.down |= {HOST, CDN}
        await one.rest(HOST, 60)
        await other.look()
        # That the host is down counts only if nothing else holds.
        assert one.held == other.held == (HoldReason.RESTING, now() + 60)
        await asyncio.sleep(60)
        await one.look()
        await other.look()
        assert (one.held, other.held) == ((HoldReason.DOWN, None), None)
        one.down.remove(CDN)
        assert one.held == (HoldReason.DOWN, None)
        one.down.remove(HOST)
        world.set_back = 3600.0
        assert (one.held, other.held) == (None, None)
        await one.rest(HOST, 2 * LONGEST)
        await other.look()
        assert one.held == other.held == (HoldReason.RESTING, now() - 3600 + LONGEST)


async def test_a_rest_of_another_host_holds_what_is_asked_of_that_one_by_all_workers(world: World) -> None:
    async with world.asking("a") as one, world.asking("b") as other, other.place(CDN):
        await one.rest(CDN, 60)
        await other.look()
        assert (one.held, other.held) == (None, None)
        assert await starts_of(one, 1) == [0]
        assert await starts_of(other, 1, CDN) == [60]
        assert await starts_of(one, 1, CDN) == [60]


async def test_quiet_hours_hold_until_they_end_unless_they_have_a_rate(world: World) -> None:
    quiet = (QuietHours.parse("11:00-13:00"),)

    async with (
        world.asking("a", quiet=quiet) as none,
        world.asking("b", quiet=quiet, quiet_gap=Delay.of(6.0)) as less,
    ):
        assert none.held == (HoldReason.QUIET, (BEGIN + timedelta(hours=1)).timestamp())
        assert await starts_of(less, 2) == pytest.approx([0, 6])


async def test_the_time_of_work_stands_still_while_requests_are_held_back(world: World) -> None:
    async with world.asking() as throttle:
        throttle._cost_meter.start()
        await asyncio.sleep(2)
        await throttle.look(is_paused=True)
        await asyncio.sleep(50)
        await throttle.look()
        await asyncio.sleep(3)
        assert throttle._cost_meter.worked == pytest.approx(5)


async def test_a_worker_with_nothing_to_ask_leaves_its_places_to_others_until_it_asks(world: World) -> None:
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


async def test_all_workers_together_make_exactly_the_requests_of_the_budget(world: World) -> None:
    budget = Budget(requests=10)
    async with world.asking(budget=budget) as one, world.asking(budget=budget) as other:
        made = 0
        await one.look()
        await other.look()
        # What was granted and does not start goes back.
        assert await other.turn(HOST)
        other.left(HOST)
        while await started(one):
            made += 1 + await started(other)
        assert made == 10
        assert (one.held, one.lacking) == ((HoldReason.ENDING, None), "requests")


async def test_bytes_and_seconds_of_all_workers_spend_the_budget(world: World) -> None:
    budget = Budget(bytes=1_000, seconds=100)
    async with world.asking(budget=budget) as one, world.asking(budget=budget) as other:
        one.count_bytes(600)
        await one.look()
        await other.look()
        assert other.held is None
        other.count_bytes(400)
        assert (other.held, other.lacking) == ((HoldReason.ENDING, None), "bytes")
        one._cost_meter.seconds = 100
        await one.look()
        assert one.lacking in ("bytes", "seconds")


async def test_at_another_host_its_limits_hold_for_all_maps_together(world: World) -> None:
    elsewhere = {"limits_at": lambda host: (1, Delay.of(2.0)), "gap": Delay.of(0.5)}
    async with world.asking("a", **elsewhere) as one, world.asking("b", **elsewhere) as other:
        async with one.place(CDN):
            waiting = asyncio.ensure_future(other.turn(CDN))
            await asyncio.sleep(3)
            assert not waiting.done()
        for throttle in (one, other):
            await throttle.look(is_busy=throttle is other)
        assert await waiting
        other.left(CDN)
        assert await starts_of(other, 2, CDN) == pytest.approx([5, 7], abs=1.1)


async def test_the_map_keeps_its_delay_and_concurrency_and_one_budget_at_every_host(world: World) -> None:
    async with world.asking(gap=Delay.of(2.0), concurrency=2, budget=Budget(requests=3)) as throttle:
        assert await starts_of(throttle, 2, CDN) == pytest.approx([0, 2])
        assert throttle.concurrency(CDN) == 2
        assert [await started(throttle), await started(throttle)] == [True, False]
