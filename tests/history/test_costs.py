"""The costs of a harvest while a process works, by a clock that the test sets."""

from __future__ import annotations

import pytest

from tileharvest.history.costs import NO_COST, Cost, Traffic


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def traffic(clock: Clock) -> Traffic:
    return Traffic(clock=clock)


def test_no_time_passes_before_the_start(traffic: Traffic, clock: Clock) -> None:
    clock.now += 5
    assert traffic.worked == 0
    traffic.start()
    clock.now += 5
    assert traffic.worked == 5


def test_a_pause_is_not_counted_however_often_it_begins(traffic: Traffic, clock: Clock) -> None:
    traffic.start()
    for step in (traffic.pause, traffic.pause, traffic.resume, traffic.resume):
        clock.now += 1
        step()
    clock.now += 10
    # Before the first pause, from the first end of it on, and since.
    assert traffic.worked == 1 + 1 + 10


def test_what_is_paused_before_the_start_begins_with_the_end_of_the_pause(
    traffic: Traffic, clock: Clock
) -> None:
    traffic.pause()
    traffic.start()
    clock.now += 5
    assert traffic.worked == 0
    traffic.resume()
    clock.now += 2
    assert traffic.worked == 2


def test_the_end_of_a_pause_starts_nothing(traffic: Traffic, clock: Clock) -> None:
    traffic.pause()
    traffic.resume()
    clock.now += 5
    assert traffic.worked == 0


def test_each_part_of_a_cost_is_handed_on_once(traffic: Traffic, clock: Clock) -> None:
    traffic.start()
    traffic.requests, traffic.received_bytes, traffic.stored_bytes, traffic.spared_bytes = 1, 20, 300, 4000
    clock.now += 5
    assert traffic.take() == Cost(1, 20, 300, 4000, 5.0)
    assert traffic.take() == NO_COST
    traffic.requests += 2
    traffic.seconds += 0.5
    clock.now += 1
    assert traffic.take() == Cost(2, 0, 0, 0, 1.5)
    assert traffic.total == Cost(3, 20, 300, 4000, 6.5)
