"""A crawl that spends no more than it may, alone or with others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from scrapy import Request

from tests.middlewares.making import run_jumping
from tests.queue.paced_memory import comes_true
from tests.scheduler.conducting import HOST, Crawl, crawling
from tileharvest.errors import BudgetError
from tileharvest.maps.budgets import Budget
from tileharvest.queue import directions
from tileharvest.queue.allowance import AT_ONCE
from tileharvest.queue.pace import Amount, Worked
from tileharvest.queue.requests import STATE, RequestState, state_of
from tileharvest.tiles.questions import TileQuestion


def meta(size: int) -> dict[str, Any]:
    """Of a request whose answer is expected to be so long."""
    return {STATE: RequestState(TileQuestion(expected_bytes=size))}


async def got(crawl: Crawl, size: int, *, was_sent: bool = True) -> None:
    """A GET that was expected to cost 900 bytes has cost so many."""
    request = Request(f"http://{HOST}/0.png", meta=meta(900))
    await comes_true(lambda: crawl.conduct.comes(request))
    state_of(request).received_bytes, state_of(request).was_sent = size, was_sent
    crawl.conduct.over(request)


def test_the_budget_that_another_worker_has_found_spent_ends_it() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await directions.stop(crawl.queue, "budget: 1,000 requests")
            await comes_true(lambda: bool(crawl.ends))
            (error,) = crawl.ends
            assert error is not None
            assert error.reason == "budget: 1,000 requests"

    run_jumping(test())


def test_a_spent_budget_ends_it_and_all_other_workers() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await crawl.conduct.allow(Budget(seconds=60))
            crawl.worked = 59.9
            await asyncio.sleep(60)
            assert crawl.ends == []
            crawl.worked = 60.0
            await comes_true(lambda: bool(crawl.ends))
            await comes_true(lambda: crawl.conduct._steering.now.stop is not None)
            # Its own order is not for itself.
            await asyncio.sleep(60)
            (error,) = crawl.ends
            assert error is not None
            assert error.reason == "budget: 60 s"
            assert (await directions.directions(crawl.queue)).spent == "budget: 60 s"
            assert not crawl.conduct.may_offer()

    run_jumping(test())


def test_what_was_left_of_the_day_is_told_by_the_budget_of_the_day() -> None:
    async def test() -> None:
        budgets = {"budget": Budget(requests=40), "daily_budget": Budget(requests=70)}
        async with crawling(**budgets) as crawl:
            await crawl.conduct.allow(Budget(requests=30))
            crawl.conduct._spent("requests")
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
            await crawl.conduct.allow(Budget(requests=40))
            crawl.conduct._spent("requests")
            await comes_true(lambda: bool(crawl.ends))
            (error,) = crawl.ends
            assert error is not None
            assert error.reason == "budget: 40 requests"
            assert str(error).endswith("kept; run it again to go on")

    run_jumping(test())


def test_the_time_that_others_have_worked_before_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    others = 0.0

    async def test() -> None:
        nonlocal others
        async with crawling() as crawl:
            alone = crawl.queue.worked

            async def worked(seconds: float) -> Worked:
                return await alone(max(seconds, others))

            monkeypatch.setattr(crawl.queue, "worked", worked)
            await crawl.conduct.allow(Budget(seconds=60))
            others = 50.0
            await comes_true(lambda: crawl.conduct._worked_before == 50.0)
            crawl.worked = 9.9
            await asyncio.sleep(60)
            assert crawl.ends == []
            crawl.worked = 10.0
            await comes_true(lambda: bool(crawl.ends))

    run_jumping(test())


def test_a_probe_that_the_budget_does_not_allow_ends_it() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await crawl.conduct.allow(Budget(requests=1))
            assert await crawl.conduct.may_probe()
            assert crawl.ends == []
            assert not await crawl.conduct.may_probe()
            (error,) = crawl.ends
            assert error is not None
            assert error.reason == "budget: 1 request"

    run_jumping(test())


def test_what_it_was_granted_and_has_not_spent_is_for_the_others_when_it_ends() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await crawl.conduct.allow(Budget(requests=AT_ONCE))
            request = Request(f"http://{HOST}/0.png", method="HEAD")
            await comes_true(lambda: crawl.conduct.comes(request))
            assert not (await crawl.queue.grant(Amount(1), Amount())).is_granted
            await crawl.conduct.end()
            assert (await crawl.queue.grant(Amount(AT_ONCE - 1), Amount())).is_granted

    run_jumping(test())


def test_what_it_has_not_spent_is_for_the_others_while_it_has_nothing_to_do() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await crawl.conduct.allow(Budget(requests=AT_ONCE))
            request = Request(f"http://{HOST}/0.png", method="HEAD")
            await comes_true(lambda: crawl.conduct.comes(request))
            crawl.conduct.idles()
            await asyncio.sleep(1)
            assert (await crawl.queue.grant(Amount(AT_ONCE - 1), Amount())).is_granted

    run_jumping(test())


def test_of_a_budget_only_what_was_received_is_spent() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await crawl.conduct.allow(Budget(received_bytes=1000))
            await got(crawl, 100)
            await got(crawl, 900)
            with pytest.raises(TimeoutError):
                await got(crawl, 1)
            assert len(crawl.ends) == 1

    run_jumping(test())


def test_what_was_not_sent_is_not_spent() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await crawl.conduct.allow(Budget(requests=1))
            for _ in range(3):
                await got(crawl, 0, was_sent=False)
            await got(crawl, 0)
            with pytest.raises(TimeoutError):
                await got(crawl, 0)

    run_jumping(test())


def test_a_head_is_not_held_up_for_the_bytes_of_the_get_that_may_follow() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await crawl.conduct.allow(Budget(received_bytes=100))
            assert crawl.conduct.comes(Request(f"http://{HOST}/a", method="HEAD", meta=meta(500)))
            assert not crawl.conduct.comes(Request(f"http://{HOST}/a", meta=meta(500)))

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
            await crawl.conduct.allow(Budget(requests=1))
            await crawl.conduct.aside()
            with pytest.raises(BudgetError, match="budget: 1 request"):
                await crawl.conduct.aside()

    run_jumping(test())


def test_what_is_received_aside_counts_for_the_budget() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await crawl.conduct.allow(Budget(received_bytes=100))
            await crawl.conduct.received_aside(60)
            with pytest.raises(BudgetError, match="budget: 100 B"):
                await crawl.conduct.received_aside(60)

    run_jumping(test())
