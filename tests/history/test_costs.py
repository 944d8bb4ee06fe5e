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


@pytest.mark.parametrize(
    "cost",
    [Cost(requests=1), Cost(received_bytes=1), Cost(stored_bytes=1), Cost(spared_bytes=1)],
    ids=["requests", "received", "stored", "spared"],
)
def test_whatever_else_was_counted_is_more_than_time(cost: Cost) -> None:
    assert not cost.is_time_alone
    assert not (cost + Cost(seconds=3)).is_time_alone


def test_time_alone_is_no_other_cost() -> None:
    assert Cost(seconds=3).is_time_alone
    assert NO_COST.is_time_alone


def test_what_may_come_before_the_next_call_is_counted_ahead_until_nothing_comes(traffic: Traffic) -> None:
    """At each moment, were the process killed, no less was handed on than there was."""
    handed_on = NO_COST
    traffic.count_ahead(list)
    for requests in (16, 40, 110, 3, 0, 50, 1, 15):
        handed_on += traffic.take()
        traffic.requests += requests
        traffic.received_bytes += 1000 * requests
        assert handed_on.requests >= traffic.requests
        assert handed_on.received_bytes >= traffic.received_bytes
    traffic.settle()
    assert handed_on + traffic.take() == traffic.total


def test_little_is_counted_ahead_where_little_is_asked(traffic: Traffic) -> None:
    handed_on = NO_COST
    traffic.count_ahead(list)
    for requests in (0, 100, 10, 2, 2, 2, 2, 2):
        traffic.requests += requests
        handed_on += traffic.take()
    assert handed_on.requests == traffic.requests + 16


def test_little_is_counted_ahead_before_anything_was_asked(traffic: Traffic) -> None:
    """A small map that is killed has most of its daily budget left."""
    traffic.count_ahead(list)
    assert traffic.take() == Cost(16, 16 * 32_768)


def test_it_is_told_once_when_half_of_what_was_counted_ahead_is_asked(traffic: Traffic) -> None:
    told: list[int] = []
    traffic.count_ahead(lambda: told.append(traffic.requests))
    traffic.take()
    traffic.recorded()
    assert all(traffic.ask() for _ in range(16))
    assert told == [8]
    traffic.take()
    traffic.recorded()
    assert all(traffic.ask() for _ in range(48))
    assert told == [8, 16 + 24]


def test_of_several_requests_those_start_whose_cost_is_recorded(traffic: Traffic) -> None:
    told: list[int] = []
    traffic.count_ahead(lambda: told.append(traffic.requests))
    assert traffic.ask(3) == 0
    traffic.take()
    traffic.recorded()
    assert [traffic.ask(10), traffic.ask(10), traffic.ask(10)] == [10, 6, 0]
    assert (traffic.requests, told) == (16, [0, 10, 16, 16])
    traffic.settle()
    assert traffic.ask(10) == 10


def test_nothing_starts_while_more_bytes_came_than_are_recorded(traffic: Traffic) -> None:
    told: list[int] = []
    traffic.count_ahead(lambda: told.append(traffic.received_bytes))
    traffic.take()
    traffic.recorded()
    traffic.received_bytes = 384 * 1024
    assert traffic.ask()
    assert told == [384 * 1024], "half of the bytes are spent"
    traffic.received_bytes += 1
    assert not traffic.ask()
    assert told[1:] == [384 * 1024 + 1]
    traffic.take()
    assert not traffic.ask()
    traffic.recorded()
    assert traffic.requests == 1
    assert traffic.ask()


@pytest.mark.parametrize(
    ("concurrency", "size", "too_low"), [(4, 400_000, 1_075_712), (32, 30_000, 0)], ids=["large", "small"]
)
def test_a_kill_leaves_no_more_bytes_uncounted_than_is_said(
    traffic: Traffic, concurrency: int, size: int, too_low: int
) -> None:
    """The figures are those of docs/reliability.md. Nothing is recorded any more after the first time."""
    traffic.count_ahead(list)
    handed_on = traffic.take()
    traffic.recorded()
    under_way = 0
    while True:
        while under_way < concurrency and traffic.ask():
            under_way += 1
        if not under_way:
            break
        under_way -= 1
        traffic.received_bytes += size
    assert traffic.requests <= handed_on.requests
    assert max(traffic.received_bytes - handed_on.received_bytes, 0) == too_low


def test_a_site_that_has_sent_no_bytes_yet_may_be_asked(traffic: Traffic) -> None:
    """It has answered HEAD only. Then no bytes are counted ahead."""
    traffic.count_ahead(list)
    for _ in range(40):
        assert not traffic.take().received_bytes > 16 * 32_768
        traffic.recorded()
        assert traffic.ask()
