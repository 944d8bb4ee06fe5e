"""What every queue allows of a budget."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.contracts.paces import AskedHost


def test_no_more_is_leased_than_the_budget_has(asked: AskedHost) -> None:
    worker = asked.map("one")
    worker.allow(asked.host, requests=5)
    worker.fill(20)
    assert len(worker.ask(3).leases) == 3
    assert len(worker.ask(9).leases) == 2
    answer = worker.ask(9)
    assert (answer.leases, worker.queue.lacking) == ([], None)
    assert answer.held_until is not None
    worker.start(5)
    worker.ask(9)
    assert worker.queue.lacking == "requests"


def test_a_budget_that_is_spent_to_the_last_request_lacks_nothing_where_nothing_waits(
    asked: AskedHost,
) -> None:
    worker = asked.map("one")
    worker.allow(asked.host, requests=5)
    worker.fill(5)
    worker.ask(9)
    worker.start(5)
    answer = worker.ask(9)
    assert (answer.leases, answer.held_until, worker.queue.lacking) == ([], None, None)


def test_what_was_leased_and_not_sent_is_not_spent(asked: AskedHost) -> None:
    worker = asked.map("one")
    worker.allow(asked.host, requests=5)
    worker.fill(20)
    leases = worker.ask(5).leases
    worker.start(2, was_sent=False)
    worker.exchange(0, asked.clock.now, finished=leases[:2], returned=leases[2:])
    assert len(worker.ask(9).leases) == 5


def test_what_is_made_aside_counts(asked: AskedHost) -> None:
    worker = asked.map("one")
    worker.fill(20)
    worker.allow(asked.host, requests=5)
    assert [worker.take_turn(asked.pace()) for _ in range(2)] == [(0.0, 0.0)] * 2
    assert len(worker.ask(9).leases) == 3
    assert worker.take_turn(asked.pace()) is None


@pytest.mark.parametrize("before", [{}, {"requests": 3}, {"requests": 50}])
def test_another_budget_counts_what_the_run_has_spent_under_the_one_before(
    asked: AskedHost, before: dict[str, int]
) -> None:
    worker = asked.map("one")
    if before:
        worker.allow(asked.host, **before)
    worker.fill(40)
    leases = worker.ask(2).leases
    worker.start(2)
    worker.exchange(0, asked.clock.now, finished=leases)
    worker.allow(asked.host, amends=True, requests=5)
    assert len(worker.ask(9).leases) == 3
    worker.start(3)
    assert worker.ask(9).leases == []
    assert worker.queue.lacking == "requests"
    worker.allow(asked.host, amends=True)
    assert len(worker.ask(9).leases) == 9


@pytest.mark.parametrize("budget", [{"received_bytes": 100}, {"seconds": 60.0}])
def test_nothing_is_leased_when_bytes_or_seconds_are_spent(
    asked: AskedHost, budget: dict[str, float]
) -> None:
    worker = asked.map("one")
    worker.allow(asked.host, **budget)
    worker.fill(20)
    assert len(worker.ask(2).leases) == 2
    worker.start(1, 99)
    worker.work(59.5)
    assert len(worker.ask(2).leases) == 2
    worker.start(1, 1)
    worker.work(60.0)
    assert worker.ask(2).leases == []
    assert worker.queue.lacking == ("bytes" if "received_bytes" in budget else "seconds")


def test_each_map_of_a_host_has_its_own_budget(asked: AskedHost) -> None:
    one, other = asked.map("one"), asked.map("other")
    for worker, requests in ((one, 2), (other, 7)):
        worker.allow(asked.host, requests=requests)
        worker.fill(20)
    assert [len(worker.ask(9).leases) for worker in (one, other)] == [2, 7]


def test_the_next_run_has_the_whole_budget_again(asked: AskedHost) -> None:
    worker = asked.map("one")
    for requests in (3, 4):
        worker.allow(asked.host, requests=requests)
        assert all(worker.take_turn(asked.pace()) for _ in range(requests))
        assert worker.take_turn(asked.pace()) is None
        worker.stop()
        worker.open(asked.clock.now)


def test_however_it_goes_no_more_is_started_than_the_budget_has_and_all_of_it(asked: AskedHost) -> None:
    worker, chance = asked.map("one"), Random(2)
    worker.allow(asked.host, requests=50)
    worker.fill(200)
    leases, started, under_way = [], 0, []
    for _ in range(200):
        leases += worker.ask(chance.randint(0, 9)).leases
        for _ in range(chance.randint(0, len(leases))):
            under_way.append(leases.pop())
            worker.start(1)
        ended = [under_way.pop() for _ in range(chance.randint(0, len(under_way)))]
        sent = [lease for lease in ended if chance.random() < 0.8]
        worker.queue.traffic.requests -= len(ended) - len(sent)
        started += len(sent)
        returned = [leases.pop() for _ in range(chance.randint(0, min(2, len(leases))))]
        worker.exchange(0, asked.clock.now, finished=ended, returned=returned)
        assert started + len(under_way) <= 50
    assert started + len(under_way) + len(leases) == 50
