"""How a crawl ends: once, for the first failure, and with what that means for the spider's close."""

import asyncio
import logging
import time
from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, Final

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler

from tests.middlewares.making import run_jumping
from tileharvest.errors import BudgetError, QueueError, StoreError
from tileharvest.politeness.waits import Hold, HoldReason, Wait, noted
from tileharvest.scheduler.crawl import CrawlContext
from tileharvest.tiles.outcomes import Outcome


class Rig:
    """A crawl of which the engine only notes what it is told."""

    def __init__(self) -> None:
        self.closed: list[str] = []
        crawler: Any = Crawler(Spider)
        crawler.spider = Spider("stub")
        crawler.engine = SimpleNamespace(close_spider_async=self._close)
        self.crawl = CrawlContext(crawler)

    async def _close(self, reason: str) -> None:
        self.closed.append(reason)


async def soon() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def opened() -> Rig:
    """Returns a crawl whose spider is open."""
    rig = Rig()
    rig.crawl._opened()
    return rig


async def test_the_first_failure_closes_the_spider_with_the_name_of_its_exit_status(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig, error = opened(), BudgetError("all is spent", "budget: 3 requests")
    for why in (error, StoreError("second"), "stopped"):
        rig.crawl.end(why)
    await soon()
    assert (rig.closed, rig.crawl.ending, rig.crawl.is_ending) == (["budget"], error, True)
    assert caplog.messages == ["all is spent"]


async def test_a_failure_that_comes_while_it_ends_is_told_too(caplog: pytest.LogCaptureFixture) -> None:
    rig = opened()
    rig.crawl.end("stopped")
    rig.crawl.end(StoreError("the disk is full"))
    await soon()
    assert (rig.closed, str(rig.crawl.ending)) == (["stopped"], "the disk is full")
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_an_end_before_the_spider_is_open_waits_for_that(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    rig.crawl.end(QueueError("no queue"))
    assert caplog.messages == []
    rig.crawl._opened()
    # The scheduler offers nothing then, and closes the spider with this reason when it is idle.
    assert (rig.closed, rig.crawl.is_ending, rig.crawl.close_reason) == ([], True, "error")
    assert caplog.messages == ["no queue"]


async def test_what_the_spider_begins_is_cancelled_first() -> None:
    rig = opened()
    rig.crawl.beginning = asyncio.ensure_future(asyncio.sleep(60))
    rig.crawl.end("stopped")
    await soon()
    assert rig.crawl.beginning.cancelled()
    assert rig.closed == ["stopped"]


@pytest.mark.parametrize(
    ("errors", "kept"),
    [
        ([], True),
        ([BudgetError("spent", "budget")], True),
        ([BudgetError("full", "min_free", is_all_kept=False)], False),
        ([StoreError("full")], False),
        ([BudgetError("spent", "budget"), StoreError("full")], False),
    ],
)
def test_some_failures_drop_results(errors: list[Any], kept: bool) -> None:
    crawl = Rig().crawl
    for error in errors:
        crawl.end(error)
    assert crawl.is_all_kept is kept


REST: Final = "the host, which has asked to be left alone"
QUIET: Final = "the end of the quiet hours"
ANSWER: Final = Wait("http://map.example.net/0.png to answer", 32.0)


def waiting(reason: HoldReason | None = None, answer: Wait | None = None) -> CrawlContext:
    """Returns a crawl that the throttle holds for this reason, for a minute, or that waits for an answer."""
    crawl: Any = Rig().crawl
    hold = None if reason is None else Hold(reason, time.time() + 60)
    crawl.throttle = SimpleNamespace(held=hold, host="the host")
    crawl.oldest_requests = [lambda: None, lambda: answer]
    found: CrawlContext = crawl
    return found


@pytest.mark.parametrize(
    ("told", "reason", "noting", "answer"),
    [
        (REST, HoldReason.RESTING, "", ANSWER),
        ("another attempt", HoldReason.RESTING, "another attempt", ANSWER),
        (QUIET, HoldReason.QUIET, "", ANSWER),
        (None, HoldReason.PAUSED, "", None),
        (None, None, "", None),
    ],
    ids=["rest before answer", "noted before all", "quiet hours", "paused, told elsewhere", "nothing"],
)
def test_what_is_known_best_is_told_after_five_seconds(
    told: str | None, reason: HoldReason | None, noting: str, answer: Wait | None
) -> None:
    async def test() -> list[Wait | None]:
        crawl = waiting(reason, answer)
        with noted(crawl.waits, noting) if noting else nullcontext():
            found = []
            for _ in range(10):
                found.append(crawl.wait())
                await asyncio.sleep(1)
            return found

    found = run_jumping(test())
    assert found[:5] == [None] * 5
    assert (None if found[-1] is None else found[-1].what) == told


@pytest.mark.parametrize("gets", ["requests", "results"])
def test_a_crawl_that_gets_on_waits_for_nothing(gets: str) -> None:
    async def test() -> None:
        crawl: Any = waiting(answer=ANSWER)
        tally = Counter[Outcome]()
        if gets == "results":
            crawl.harvest = SimpleNamespace(tally=tally)
        for _ in range(20):
            tally[Outcome.IGNORED] += 1
            crawl.cost_meter.requests += gets == "requests"
            assert crawl.wait() is None
            await asyncio.sleep(1)

    run_jumping(test())


def test_the_log_tells_each_wait_once_and_until_when(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        crawl = waiting(HoldReason.RESTING)
        with noted(crawl.waits, "robots.txt to answer"):
            for _ in range(9):
                crawl.say_wait()
                await asyncio.sleep(1)

    with caplog.at_level(logging.INFO):
        run_jumping(test())
    assert caplog.messages == ["waiting for robots.txt to answer; no end is known"]
