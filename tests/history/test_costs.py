"""The costs of a harvest while a process works, by a clock that the test sets."""

from __future__ import annotations

import pytest

from tileharvest.history.costs import NO_COST, Cost, CostMeter


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cost_meter(clock: Clock) -> CostMeter:
    return CostMeter(clock=clock)


def test_a_pause_is_not_counted_however_often_it_begins(cost_meter: CostMeter, clock: Clock) -> None:
    cost_meter.start()
    for step in (cost_meter.pause, cost_meter.pause, cost_meter.resume, cost_meter.resume):
        clock.now += 1
        step()
    clock.now += 10
    # Before the first pause, from the first end of it on, and since.
    assert cost_meter.worked == 1 + 1 + 10


def test_what_is_paused_before_the_start_begins_with_the_end_of_the_pause(
    cost_meter: CostMeter, clock: Clock
) -> None:
    cost_meter.pause()
    cost_meter.start()
    clock.now += 5
    assert cost_meter.worked == 0
    cost_meter.resume()
    clock.now += 2
    assert cost_meter.worked == 2


def test_each_part_of_a_cost_is_handed_on_once(cost_meter: CostMeter, clock: Clock) -> None:
    cost_meter.start()
    cost_meter.requests, cost_meter.received_bytes, cost_meter.stored_bytes, cost_meter.spared_bytes = (
        1,
        20,
        300,
        4000,
    )
    clock.now += 5
    assert cost_meter.take() == Cost(1, 20, 300, 4000, 5.0)
    assert cost_meter.take() == NO_COST
    cost_meter.requests += 2
    cost_meter.seconds += 0.5
    clock.now += 1
    assert cost_meter.take() == Cost(2, 0, 0, 0, 1.5)
    assert cost_meter.total == Cost(3, 20, 300, 4000, 6.5)
