"""A crawl that spends no more than it may, alone or with others."""

from __future__ import annotations

import asyncio

import pytest
from scrapy import Request

from tests.middlewares.making import run_jumping
from tests.queue.polite_memory import comes_true
from tests.scheduler.polite_crawl import HOST, Crawl, crawling
from tileharvest.errors import BudgetError
from tileharvest.maps.budgets import Budget
from tileharvest.politeness.rate_limit import Account, Host, Spent
from tileharvest.queue import orders
from tileharvest.queue.port import Changes, Entry
from tileharvest.queue.requests import state_of


async def got(crawl: Crawl, size: int, *, was_sent: bool = True) -> None:
    """A GET has cost so many bytes."""
    request = Request(f"http://{HOST}/0.png")
    assert crawl.politeness.starts_now(request)
    state_of(request).was_sent = was_sent
    receive(crawl, size)
    crawl.politeness.over(request)


def receive(crawl: Crawl, size: int) -> None:
    crawl.traffic.received_bytes += size
    crawl.politeness.received()


def test_the_budget_that_another_worker_has_found_spent_ends_it() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await orders.stop(crawl.queue, "budget: 1,000 requests")
            await comes_true(lambda: bool(crawl.ends))
            (error,) = crawl.ends
            assert error is not None
            assert error.reason == "budget: 1,000 requests"

    run_jumping(test())


def test_a_spent_budget_ends_it_and_all_other_workers() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await crawl.politeness.allow(Budget(seconds=60))
            crawl.worked = 59.9
            await asyncio.sleep(60)
            assert crawl.ends == []
            crawl.worked = 60.0
            await comes_true(lambda: bool(crawl.ends))
            await comes_true(lambda: crawl.politeness._orders.stop is not None)
            # Its own order is not for itself.
            await asyncio.sleep(60)
            (error,) = crawl.ends
            assert error is not None
            assert error.reason == "budget: 60 s"
            assert (await orders.orders_of(crawl.queue)).spent == "budget: 60 s"
            assert crawl.politeness.reasons

    run_jumping(test())


def test_what_was_left_of_the_day_is_told_by_the_budget_of_the_day() -> None:
    async def test() -> None:
        budgets = {"budget": Budget(requests=40), "daily_budget": Budget(requests=70)}
        async with crawling(**budgets) as crawl:
            await crawl.politeness.allow(Budget(requests=30))
            crawl.politeness._end_for_all(crawl.politeness._exceeded("requests"))
            await comes_true(lambda: bool(crawl.ends))
            (error,) = crawl.ends
            assert error is not None
            assert error.reason == "daily budget: 70 requests"
            assert str(error).endswith("run it again tomorrow to go on")

    run_jumping(test())


def test_the_budget_of_the_run_is_told_where_that_is_less_than_what_is_left_of_the_day() -> None:
    async def test() -> None:
        budgets = {"budget": Budget(requests=40), "daily_budget": Budget(requests=70)}
        async with crawling(**budgets) as crawl:
            await crawl.politeness.allow(Budget(requests=40))
            crawl.politeness._end_for_all(crawl.politeness._exceeded("requests"))
            await comes_true(lambda: bool(crawl.ends))
            (error,) = crawl.ends
            assert error is not None
            assert error.reason == "budget: 40 requests"
            assert str(error).endswith("kept; run it again to go on")

    run_jumping(test())


def test_the_time_that_others_have_worked_before_counts() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            other = Account("world", spent=Spent(seconds=50.0))

            def begin(known: Host, now: float) -> None:
                known.begin(known.tell("7-other", other, now), Budget(seconds=60))

            await crawl.queue._hosts.change(Host, HOST, 0.0, begin)
            await crawl.politeness.allow(Budget(seconds=60))
            crawl.worked = 9.9
            await asyncio.sleep(60)
            assert crawl.ends == []
            crawl.worked = 10.0
            await comes_true(lambda: bool(crawl.ends))

    run_jumping(test())


def test_a_probe_that_the_budget_does_not_allow_ends_it() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await crawl.politeness.allow(Budget(requests=1))
            assert await crawl.politeness.claim_probe(HOST, 1.0)
            assert crawl.ends == []
            assert not await crawl.politeness.claim_probe("other.example.net", 1.0)
            (error,) = crawl.ends
            assert error is not None
            assert error.reason == "budget: 1 request"

    run_jumping(test())


def test_nothing_further_starts_when_the_bytes_are_spent() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await crawl.politeness.allow(Budget(received_bytes=1000))
            crawl.offers()
            await crawl.queue.set_pace(crawl.politeness.pace)
            await crawl.queue.exchange(Changes([Entry(b"1", "day", b"1")]), 0, 0.0)
            await got(crawl, 100)
            assert crawl.worker.anew == 0
            await got(crawl, 900)
            assert crawl.worker.anew == 1
            assert (await crawl.queue.exchange(Changes(), 9, 0.0)).leases == []
            crawl.politeness.exchanged()
            (error,) = crawl.ends
            assert error is not None
            assert error.reason == "budget: 1.0 kB"
            assert crawl.politeness.reasons

    run_jumping(test())


def test_what_was_not_sent_is_not_spent() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await crawl.politeness.allow(Budget(requests=1))
            for _ in range(3):
                await got(crawl, 0, was_sent=False)
            assert crawl.queue.spent.requests == 0
            await got(crawl, 0)
            assert crawl.queue.spent.requests == 1

    run_jumping(test())


def test_what_waits_for_more_requests_than_there_are_ends_it() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await crawl.politeness.allow(Budget(requests=1))
            crawl.offers()
            await crawl.queue.set_pace(crawl.politeness.pace)
            entries = [Entry(name, "day", name) for name in (b"1", b"2")]
            answer = await crawl.queue.exchange(Changes(entries), 9, 0.0)
            assert len(answer.leases) == 1
            await got(crawl, 0)
            crawl.politeness.exchanged()
            assert not crawl.politeness.reasons
            await crawl.queue.exchange(Changes(finished=answer.leases), 9, 0.0)
            crawl.politeness.exchanged()
            assert crawl.politeness.reasons
            (error,) = crawl.ends
            assert error is not None
            assert error.reason == "budget: 1 request"

    run_jumping(test())


def test_whatever_else_is_short_ends_it() -> None:
    def check() -> None:
        raise BudgetError("the disk is full", "min_free: 2 GB")

    async def test() -> None:
        async with crawling(check) as crawl:
            await comes_true(lambda: bool(crawl.ends))
            assert [str(error) for error in crawl.ends] == ["the disk is full"]

    run_jumping(test())


def test_what_is_asked_aside_counts_for_the_budget() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await crawl.politeness.allow(Budget(requests=1))
            await crawl.politeness.aside()
            with pytest.raises(BudgetError, match="budget: 1 request"):
                await crawl.politeness.aside()

    run_jumping(test())


def test_what_is_received_aside_counts_for_the_budget() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await crawl.politeness.allow(Budget(received_bytes=100))
            await crawl.politeness.aside()
            receive(crawl, 100)
            with pytest.raises(BudgetError, match="budget: 100 B"):
                await crawl.politeness.aside()

    run_jumping(test())


def test_a_request_waits_until_what_it_costs_is_recorded() -> None:
    """Else a kill would leave it uncounted, where a database is late."""

    async def test() -> None:
        async with crawling() as crawl:
            crawl.traffic.count_ahead(list)
            request = Request(f"http://{HOST}/0.png")
            assert not crawl.politeness.starts_now(request)
            crawl.traffic.take()
            crawl.traffic.recorded()
            await comes_true(lambda: crawl.wakes > 0)
            assert [crawl.politeness.starts_now(request) for _ in range(17)] == [True] * 16 + [False]
            wakes = crawl.wakes
            crawl.traffic.take()
            crawl.traffic.recorded()
            assert [crawl.politeness.count_starts(40), crawl.politeness.count_starts(40)] == [40, 8]
            await comes_true(lambda: crawl.wakes > wakes)

    run_jumping(test())
