"""Each request's own delay is kept, from the start of the one before it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from tests.middlewares.making import run_jumping
from tests.queue.paced_memory import HeldByOthers, comes_true
from tileharvest.maps.budgets import Budget
from tileharvest.queue.allowance import Allowance
from tileharvest.queue.requests import DELAY
from tileharvest.scheduler.turn import Turn


class Clock:
    """Of a turn whose random numbers are given one after the other."""

    def __init__(self, *random: float) -> None:
        self.now = 100.0
        self.woken = 0
        self._random = iter(random)
        self.turn = Turn(clock=lambda: self.now, random=lambda: next(self._random), wake=self._wake)

    def _wake(self) -> None:
        self.woken += 1


def request(delay: Any = None) -> Any:
    return SimpleNamespace(method="HEAD", meta={} if delay is None else {DELAY: delay})


def test_a_request_without_a_delay_starts_at_once() -> None:
    clock = Clock()
    assert clock.turn.comes(request())
    assert clock.turn.comes(request())


def test_the_first_request_does_not_wait() -> None:
    assert Clock(0.5).turn.comes(request(30))


def test_a_delay_counts_from_the_start_of_the_request_before() -> None:
    async def test() -> None:
        clock, late = Clock(0.5, 0.5), request(2.0)
        assert clock.turn.comes(request())
        clock.now += 1.5
        assert not clock.turn.comes(late)
        clock.now += 0.5
        assert clock.turn.comes(late)
        clock.turn.stop()

    run_jumping(test())


def test_a_random_delay_is_drawn_once_for_each_request() -> None:
    async def test() -> None:
        clock, first, second = Clock(0.25, 0.75), request([1.0, 3.0]), request([1.0, 3.0])
        assert clock.turn.comes(request())
        for one, delay in ((first, 1.5), (second, 2.5)):
            clock.now += delay - 0.1
            assert not clock.turn.comes(one)
            assert not clock.turn.comes(one)
            clock.now += 0.1
            assert clock.turn.comes(one)
        clock.turn.stop()

    run_jumping(test())


def test_it_tells_when_a_request_that_had_to_wait_may_start() -> None:
    async def test() -> None:
        clock, late = Clock(0.5), request(0.01)
        assert clock.turn.comes(request())
        assert not clock.turn.comes(late)
        assert not clock.turn.comes(late)
        await comes_true(lambda: clock.woken > 0)
        assert clock.woken == 1

    run_jumping(test())


def test_it_tells_of_each_request_that_had_to_wait() -> None:
    async def test() -> None:
        clock = Clock(0.5, 0.5)
        assert clock.turn.comes(request())
        for woken in (1, 2):
            late = request(5)
            assert not clock.turn.comes(late)
            await asyncio.sleep(60)
            assert clock.woken == woken
            clock.now += 5
            assert clock.turn.comes(late)

    run_jumping(test())


def test_a_turn_that_has_stopped_wakes_nobody() -> None:
    async def test() -> None:
        clock = Clock(0.5)
        assert clock.turn.comes(request())
        assert not clock.turn.comes(request(5))
        clock.turn.stop()
        await asyncio.sleep(60)
        assert clock.woken == 0

    run_jumping(test())


def test_a_turn_that_has_stopped_waits_for_nothing_that_may_yet_be_granted() -> None:
    async def test() -> None:
        clock, purse, budget = Clock(), HeldByOthers(), Budget(requests=1)
        clock.turn.allowance = Allowance(
            purse,
            budget,
            more=clock._wake,
            spent=lambda what: None,
            failed=lambda error: None,  # type: ignore[arg-type]
        )
        assert not clock.turn.comes(request())
        clock.turn.stop()
        async with asyncio.timeout(60):
            await clock.turn.allowance.give_back()

    run_jumping(test())
