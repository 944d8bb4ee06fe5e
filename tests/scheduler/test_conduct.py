"""A crawl that keeps to what its host may expect, and does what it is told."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request

from tests.middlewares.making import run_jumping
from tests.scheduler.paced_memory import comes_true, paced_memory
from tileharvest.courtesy import Courtesy
from tileharvest.errors import BudgetError, QueueError
from tileharvest.history.costs import Traffic
from tileharvest.maps.budgets import Budget
from tileharvest.maps.quiet_hours import QuietHours
from tileharvest.maps.rates import Gap
from tileharvest.scheduler import directions
from tileharvest.scheduler.allowance import AT_ONCE
from tileharvest.scheduler.conduct import Conduct
from tileharvest.scheduler.pacing import Amount, Pace, Worked
from tileharvest.scheduler.requests import DELAY, EXPECTED_BYTES, NOT_SENT, RECEIVED_BYTES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tileharvest.scheduler.paced import Paced

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOST = "map.example.net"


class Exchanging:
    """Hears how far apart requests are to start."""

    def __init__(self) -> None:
        self.apart: list[float] = []
        self.not_before = 0.0

    def keep_apart(self, seconds: float) -> None:
        self.apart.append(seconds)

    def wait_until(self, moment: float) -> None:
        self.not_before = moment


class Crawl:
    """What behaves, with what it was told; its times stand still unless they are set."""

    def __init__(self, queue: Paced, courtesy: Courtesy | None, check: Any = lambda: None) -> None:
        self.queue = queue
        self.local_time = NOON
        self.worked = 0.0
        self.wakes = 0
        self.traffic = Traffic(clock=lambda: self.worked)
        self.ends: list[BudgetError | None] = []
        self.errors: list[QueueError] = []
        self.exchanging: Any = Exchanging()
        self.conduct = Conduct(
            queue,
            "world",
            courtesy=courtesy,
            local_time=lambda: self.local_time,
            clock=lambda: 0.0,
            wake=self._wake,
            stop=self.ends.append,
            failed=self.errors.append,
            traffic=self.traffic,
            check=check,
        )

    def _wake(self) -> None:
        self.wakes += 1

    def offers(self) -> None:
        pace = self.conduct.pace
        assert pace is not None
        self.conduct.offers(self.exchanging, pace)


@asynccontextmanager
async def crawling(check: Any = lambda: None, **courtesy: Any) -> AsyncIterator[Crawl]:
    async with paced_memory() as queue:
        crawl = Crawl(queue, Courtesy(HOST, 4, **courtesy), check)
        await crawl.conduct.begin()
        try:
            yield crawl
        finally:
            await crawl.conduct.end()


def test_a_paused_map_offers_nothing_until_it_is_resumed(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with crawling() as crawl:
            assert crawl.conduct.may_offer()
            await directions.pause(crawl.queue, "10:00")
            await comes_true(lambda: not crawl.conduct.may_offer())
            going_on, wakes = asyncio.ensure_future(crawl.conduct.may_go_on()), crawl.wakes
            await directions.resume(crawl.queue)
            await asyncio.wait_for(going_on, 5)
            assert crawl.conduct.may_offer()
            assert crawl.wakes > wakes

    run_jumping(test())
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert line == (
        "map 'world' is paused since 10:00: nothing is asked; `scrapy resume world` lets it go on"
    )


def test_a_pause_is_no_time_worked() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            crawl.worked = 5.0
            await directions.pause(crawl.queue, "10:00")
            await comes_true(lambda: not crawl.conduct.may_offer())
            crawl.worked = 100.0
            await directions.resume(crawl.queue)
            await comes_true(crawl.conduct.may_offer)
            crawl.worked = 101.0
            assert crawl.traffic.worked == 6.0

    run_jumping(test())


def test_who_waits_for_the_end_of_a_pause_ends_with_the_crawl() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await directions.pause(crawl.queue, "10:00")
            await comes_true(lambda: not crawl.conduct.may_offer())
            waiting = asyncio.ensure_future(crawl.conduct.may_go_on())
            await asyncio.sleep(0)
            crawl.conduct.cut_short()
            await asyncio.wait([waiting], timeout=5)
            assert waiting.cancelled()

    run_jumping(test())


def test_after_its_end_nothing_is_asked_aside() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            crawl.conduct.cut_short()
            with pytest.raises(asyncio.CancelledError):
                await crawl.conduct.aside()

    run_jumping(test())


def test_an_order_to_stop_ends_it() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await directions.stop(crawl.queue)
            await comes_true(lambda: bool(crawl.ends))
            assert crawl.ends == [None]

    run_jumping(test())


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
            assert error.reason == "budget: 1 requests"

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


async def got(crawl: Crawl, size: int, **meta: Any) -> None:
    """A GET that was expected to cost 900 bytes has cost so many."""
    request = Request(f"http://{HOST}/0.png", meta={EXPECTED_BYTES: 900})
    await comes_true(lambda: crawl.conduct.comes(request))
    request.meta.update({RECEIVED_BYTES: size, **meta})
    crawl.conduct.over(request)


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
                await got(crawl, 0, **{NOT_SENT: True})
            await got(crawl, 0)
            with pytest.raises(TimeoutError):
                await got(crawl, 0)

    run_jumping(test())


def test_a_head_is_not_held_up_for_the_bytes_of_the_get_that_may_follow() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await crawl.conduct.allow(Budget(received_bytes=100))
            meta = {EXPECTED_BYTES: 500}
            assert crawl.conduct.comes(Request(f"http://{HOST}/a", method="HEAD", meta=meta))
            assert not crawl.conduct.comes(Request(f"http://{HOST}/a", meta=meta))

    run_jumping(test())


def test_whatever_else_is_short_ends_it() -> None:
    def check() -> None:
        raise BudgetError("the disk is full", "min_free: 2 GB")

    async def test() -> None:
        async with crawling(check) as crawl:
            await comes_true(lambda: bool(crawl.ends))
            assert [str(error) for error in crawl.ends] == ["the disk is full"]

    run_jumping(test())


def test_requests_are_kept_apart_by_the_longer_of_the_gaps_of_map_and_host() -> None:
    async def test() -> None:
        async with crawling(gap=Gap(0.1, 0.1), host_gap=Gap(0.5, 0.9)) as crawl:
            crawl.offers()
            assert crawl.exchanging.apart == [0.5]

    run_jumping(test())


def test_a_rate_set_by_hand_is_the_pace_at_once() -> None:
    async def test() -> None:
        async with crawling(gap=Gap(0.5, 0.5)) as crawl:
            crawl.offers()
            await directions.set_rate(crawl.queue, "10/s")
            await comes_true(lambda: len(crawl.exchanging.apart) > 1)
            assert crawl.exchanging.apart == [0.5, 0.1]
            assert crawl.conduct.pace == Pace(HOST, 4, Gap(0.1, 0.1))

    run_jumping(test())


def test_a_rate_set_by_hand_is_not_faster_than_robots_and_quiet_hours_want() -> None:
    quiet = QuietHours.parse("18:00-23:00")

    async def test() -> None:
        async with crawling(quiet=(quiet,), quiet_gap=Gap(9.0, 9.0)) as crawl:
            await directions.set_rate(crawl.queue, "10/s")
            await comes_true(lambda: crawl.conduct._steering.now.rate is not None)
            crawl.conduct.obey(Gap(3.0, 3.0))
            assert crawl.conduct.pace == Pace(HOST, 4, Gap(3.0, 3.0))
            crawl.local_time = NOON + timedelta(hours=7)
            assert crawl.conduct.pace == Pace(HOST, 4, Gap(9.0, 9.0))

    run_jumping(test())


def test_quiet_hours_hold_everything_back_until_they_end(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with crawling(quiet=(QuietHours.parse("12:00-23:00"),)) as crawl:
            assert not crawl.conduct.may_offer()
            going_on = asyncio.ensure_future(crawl.conduct.may_go_on())
            crawl.local_time = NOON + timedelta(hours=11)
            await asyncio.wait_for(going_on, 5)

    run_jumping(test())
    assert "map 'world' has quiet hours: nothing is asked until 2026-11-21 23:00 UTC" in caplog.text


def test_a_rate_that_is_set_while_the_first_requests_are_prepared_holds_for_them() -> None:
    async def test() -> None:
        async with crawling(gap=Gap(0.1, 0.1)) as crawl:
            pace = crawl.conduct.pace
            assert pace is not None
            await directions.set_rate(crawl.queue, "2/s")
            await comes_true(lambda: crawl.conduct._steering.gap == Gap(0.5, 0.5))
            crawl.conduct.offers(crawl.exchanging, pace)
            await comes_true(lambda: crawl.exchanging.apart[-1] == 0.5)

    run_jumping(test())


def test_what_is_asked_aside_waits_while_it_is_paused() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await directions.pause(crawl.queue, "10:00")
            await comes_true(lambda: not crawl.conduct.may_offer())
            asking = asyncio.ensure_future(crawl.conduct.aside())
            await asyncio.sleep(60)
            assert not asking.done()
            await directions.resume(crawl.queue)
            await asyncio.wait_for(asking, 5)

    run_jumping(test())


def test_a_clock_that_is_put_back_holds_up_what_is_asked_aside_no_longer_than_the_gap() -> None:
    async def test() -> None:
        async with crawling(gap=Gap(0.01, 0.01)) as crawl:
            crawl.conduct._clock = lambda: 3600.0
            await crawl.conduct.aside()
            crawl.conduct._clock = lambda: 0.0
            await asyncio.wait_for(crawl.conduct.aside(), 5)

    run_jumping(test())


def test_what_is_asked_aside_waits_no_longer_when_the_crawl_ends() -> None:
    async def test() -> None:
        async with crawling(gap=Gap(3600.0, 3600.0)) as crawl:
            await crawl.conduct.aside()
            asking = asyncio.ensure_future(crawl.conduct.aside())
            await asyncio.sleep(0)
            crawl.conduct.cut_short()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(asking, 5)

    run_jumping(test())


def test_what_is_asked_aside_keeps_the_gap_of_the_host_too() -> None:
    async def test() -> None:
        async with crawling(gap=Gap(0.01, 0.01), host_gap=Gap(3600.0, 3600.0)) as crawl:
            crawl.conduct._clock = lambda: 100.0
            await crawl.conduct.aside()
            asking = asyncio.ensure_future(crawl.conduct.aside())
            await asyncio.sleep(0.02)
            assert not asking.done()
            crawl.offers()
            assert crawl.exchanging.not_before == 3700.0
            crawl.conduct.cut_short()
            await asyncio.wait([asking], timeout=5)

    asyncio.run(test())


def test_what_is_asked_aside_counts_for_the_budget() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await crawl.conduct.allow(Budget(requests=1))
            await crawl.conduct.aside()
            with pytest.raises(BudgetError, match="budget: 1 requests"):
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


def test_nobody_is_woken_for_a_request_whose_turn_comes_after_the_end() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            first, late = (Request(f"http://{HOST}/{name}", meta={DELAY: 30}) for name in "ab")
            assert crawl.conduct.comes(first)
            assert not crawl.conduct.comes(late)
            crawl.conduct.cut_short()
            wakes = crawl.wakes
            await asyncio.sleep(60)
            assert crawl.wakes == wakes

    run_jumping(test())


def test_the_first_request_that_is_offered_keeps_its_distance_from_the_last_one_aside() -> None:
    async def test() -> None:
        async with crawling(gap=Gap(0.5, 0.5)) as crawl:
            crawl.conduct._clock = lambda: 100.0
            await crawl.conduct.aside()
            crawl.offers()
            assert crawl.exchanging.not_before == 100.5

    run_jumping(test())
