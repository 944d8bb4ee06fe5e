"""How a crawl ends: once, for the first failure, and with what that means for the spider's close."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, NotConfigured

from tests.middlewares.making import run_jumping
from tileharvest.errors import AlreadyHarvestedError, BudgetError, QueueError, StoreError
from tileharvest.history.costs import Traffic
from tileharvest.politeness.reasons import Reason
from tileharvest.politeness.waits import Wait, noted
from tileharvest.scheduler.crawl import Crawl, crawl_of, harvest_of
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Rig:
    """A crawl of which the engine and the politeness only note what they are told."""

    def __init__(self) -> None:
        self.closed: list[str] = []
        self.cut_short = 0
        crawler: Any = Crawler(Spider)
        crawler.spider = Spider("stub")
        crawler.engine = SimpleNamespace(close_spider_async=self._close, _slot=SimpleNamespace(closing=None))
        politeness: Any = SimpleNamespace(cut_short=self._cut_short)
        self.crawl = Crawl(crawler)
        self.crawl.politeness = politeness

    async def _close(self, reason: str) -> None:
        self.closed.append(reason)

    def _cut_short(self) -> None:
        self.cut_short += 1


async def soon() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def running(test: Callable[[Rig], None]) -> Rig:
    """Returns the rig after the test has run in a crawl whose spider is open."""
    rig = Rig()

    async def run() -> None:
        rig.crawl._opened()
        test(rig)
        await soon()

    asyncio.run(run())
    return rig


def test_a_failure_closes_the_spider_with_the_name_of_its_exit_status() -> None:
    error = BudgetError("all is spent", "budget: 3 requests")
    rig = running(lambda rig: rig.crawl.end(error))
    assert (rig.closed, rig.cut_short, rig.crawl.ending) == (["budget"], 1, error)
    assert rig.crawl.is_ending


def test_the_first_failure_counts_and_nothing_is_ended_twice(caplog: pytest.LogCaptureFixture) -> None:
    def test(rig: Rig) -> None:
        rig.crawl.end(QueueError("first"))
        rig.crawl.end(StoreError("second"))
        rig.crawl.end("stopped")

    rig = running(test)
    assert (rig.closed, rig.cut_short, str(rig.crawl.ending)) == (["error"], 1, "first")
    assert caplog.messages == ["first"]


def test_a_failure_that_comes_while_it_ends_is_told_too(caplog: pytest.LogCaptureFixture) -> None:
    def test(rig: Rig) -> None:
        rig.crawl.end("stopped")
        rig.crawl.end(StoreError("the disk is full"))

    rig = running(test)
    assert (rig.closed, str(rig.crawl.ending)) == (["stopped"], "the disk is full")
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_an_end_that_is_no_error_is_told_at_its_level(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        running(lambda rig: rig.crawl.end(AlreadyHarvestedError("nothing to do")))
        running(lambda rig: rig.crawl.end(BudgetError("all is spent", "budget")))
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]


def test_an_end_before_the_spider_is_open_waits_for_that(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    rig.crawl.end(QueueError("no queue"))
    assert caplog.messages == []
    with pytest.raises(CloseSpider) as closed:
        rig.crawl._opened()
    assert closed.value.reason == "error"
    assert caplog.messages == ["no queue"]


def test_what_the_spider_begins_is_cancelled_first() -> None:
    rig = Rig()

    async def run() -> None:
        rig.crawl._opened()
        rig.crawl.beginning = asyncio.ensure_future(asyncio.sleep(60))
        rig.crawl.end("stopped")
        await soon()
        assert rig.crawl.beginning.cancelled()

    asyncio.run(run())
    assert rig.closed == ["stopped"]


def test_a_spider_that_scrapy_closes_is_not_closed_again() -> None:
    def test(rig: Rig) -> None:
        rig.crawl.crawler.engine._slot.closing = object()  # type: ignore[union-attr, assignment]
        rig.crawl.end(StoreError("too late"))

    assert running(test).closed == []


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (None, True),
        (BudgetError("spent", "budget"), True),
        (BudgetError("full", "min_free", is_all_kept=False), False),
        (StoreError("full"), False),
    ],
)
def test_some_failures_drop_results(error: Any, kept: bool) -> None:
    crawl = Rig().crawl
    if error is not None:
        crawl.end(error)
    assert crawl.is_all_kept is kept


def test_all_parts_of_a_crawler_get_the_same_crawl() -> None:
    one, other = Crawler(Spider), Crawler(Spider)
    assert crawl_of(one) is crawl_of(one)
    assert crawl_of(one) is not crawl_of(other)


def test_who_needs_a_harvest_is_switched_off_without_one() -> None:
    with pytest.raises(NotConfigured):
        harvest_of(Crawler(Spider))


class Held:
    """A politeness that holds requests back for these waits and reasons."""

    def __init__(self, *waits: tuple[str, float], reasons: frozenset[Reason] = frozenset()) -> None:
        self._waits = waits
        self.reasons = reasons

    def waits(self, since: float) -> Iterator[Wait]:
        for what, until in self._waits:
            yield Wait(what, since, until)


REST = ("the host, which has asked to be left alone", 60.0)
ANSWER = Wait("http://map.example.net/0.png to answer", 2.0, 32.0)


def told_after(seconds: float, held: Held, *, noting: str = "", answer: Wait | None = None) -> Wait | None:
    """Returns the wait of a crawl that has made no progress for so many seconds, asked every second."""
    rig = Rig()
    politeness: Any = held
    rig.crawl.politeness = politeness
    rig.crawl.oldest_requests = [lambda: None, lambda: answer]

    async def test() -> Wait | None:
        with noted(rig.crawl.waits, noting) if noting else nullcontext():
            for _ in range(int(seconds)):
                rig.crawl.wait()
                await asyncio.sleep(1)
            return rig.crawl.wait()

    found: Wait | None = run_jumping(test())
    return found


def test_nothing_is_said_before_five_seconds_have_passed() -> None:
    assert told_after(4, Held(REST)) is None
    assert told_after(5, Held(REST)) == Wait(REST[0], 0.0, REST[1])


def test_a_request_is_waited_for_from_its_beginning() -> None:
    assert told_after(6, Held(), answer=ANSWER) is None
    assert told_after(7, Held(), answer=ANSWER) == ANSWER


def test_what_is_known_best_is_told_first() -> None:
    told = told_after(9, Held(REST), answer=ANSWER)
    assert told is not None
    assert told.what == REST[0]
    told = told_after(9, Held(REST), noting="another attempt", answer=ANSWER)
    assert told is not None
    assert told.what == "another attempt"


@pytest.mark.parametrize("reason", [Reason.PAUSED, Reason.QUIET])
def test_what_a_person_or_an_hour_holds_up_is_told_elsewhere(reason: Reason) -> None:
    assert told_after(9, Held(REST, reasons=frozenset({reason}))) is None


def test_a_crawl_that_gets_on_waits_for_nothing() -> None:
    rig = Rig()
    politeness: Any = Held()
    rig.crawl.politeness = politeness
    rig.crawl.oldest_requests = [lambda: ANSWER]

    async def test() -> None:
        for _ in range(20):
            rig.crawl.traffic.requests += 1
            assert rig.crawl.wait() is None
            await asyncio.sleep(1)

    run_jumping(test())


def test_the_log_tells_each_wait_once_and_until_when(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    politeness: Any = Held(REST)
    rig.crawl.politeness = politeness

    async def test() -> None:
        with noted(rig.crawl.waits, "robots.txt to answer"):
            for _ in range(9):
                rig.crawl.say_wait()
                await asyncio.sleep(1)

    with caplog.at_level(logging.INFO):
        run_jumping(test())
    assert caplog.messages == ["waiting for robots.txt to answer; no end is known"]


def harvesting(waits_for: str | None, at_most: float | None = None) -> Rig:
    """Returns a crawl whose harvest waits for this, for so many more seconds at most."""
    rig = Rig()
    harvest: Any = SimpleNamespace(
        traffic=Traffic(), tally=Counter(), waits_for=waits_for, waits_for_at_most=at_most
    )
    politeness: Any = Held()
    rig.crawl.politeness, rig.crawl.harvest = politeness, harvest
    return rig


@pytest.mark.parametrize("what", ["the store", "the history"])
@pytest.mark.parametrize(("at_most", "until"), [(None, None), (20.0, 29.0)])
def test_what_a_harvest_waits_for_is_told_as_what_it_is_and_until_when(
    what: str, at_most: float | None, until: float | None
) -> None:
    async def test() -> Wait | None:
        rig = harvesting(what, at_most)
        rig.crawl.wait()
        await asyncio.sleep(9)
        return rig.crawl.wait()

    assert run_jumping(test()) == Wait(what, 0.0, until)


def test_nothing_is_told_where_nobody_knows_what_a_harvest_waits_for() -> None:
    async def test() -> Wait | None:
        rig = harvesting(None)
        rig.crawl.wait()
        await asyncio.sleep(60)
        return rig.crawl.wait()

    assert run_jumping(test()) is None


def test_a_harvest_that_gets_on_waits_for_nothing_though_a_part_of_it_does() -> None:
    rig = harvesting(None)

    async def test() -> None:
        assert rig.crawl.harvest is not None
        with noted(rig.crawl.waits, "the next turn to store an image"):
            for _ in range(20):
                rig.crawl.harvest.tally[Outcome.IGNORED] += 1
                assert rig.crawl.wait() is None
                await asyncio.sleep(1)

    run_jumping(test())


def test_a_short_pause_is_not_told_as_a_wait_for_the_history() -> None:
    rig = harvesting("the history")

    async def test() -> tuple[Wait | None, Wait | None]:
        rig.crawl.wait()
        await asyncio.sleep(9)
        told = rig.crawl.wait()
        with noted(rig.crawl.waits, "another attempt", 1.0):
            return told, rig.crawl.wait()

    assert run_jumping(test()) == (Wait("the history", 0.0), None)
