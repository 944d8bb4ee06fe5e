"""A crawl that looks what a person has told it, and does that."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.middlewares.making import run_jumping
from tests.queue.polite_memory import comes_true, polite_memory
from tests.scheduler.polite_crawl import NOON, Crawl, crawling
from tileharvest.errors import QueueError
from tileharvest.maps.quiet_hours import QuietHours
from tileharvest.politeness.reasons import Reason
from tileharvest.politeness.rules import Rules
from tileharvest.queue import orders
from tileharvest.scheduler.politeness import LOOK

if TYPE_CHECKING:
    import pytest


def test_what_does_not_change_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    checks = []

    async def test() -> None:
        async with crawling(lambda: checks.append(1)) as crawl:
            crawl.offers()
            await orders.set_rate(crawl.queue, "2/s")
            for _ in range(3):
                await crawl.politeness.look()
            assert crawl.worker.apart == [0.0, 0.5]

    run_jumping(test())
    assert [record.getMessage() for record in caplog.records] == ["the rate of map 'world', set by hand: 2/s"]
    assert len(checks) == 4


def test_an_order_to_stop_is_obeyed_once() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await orders.stop(crawl.queue, "budget: 7 requests")
            for _ in range(2):
                await crawl.politeness.look()
            (error,) = crawl.ends
            assert error is not None
            assert error.reason == "budget: 7 requests"

    run_jumping(test())


def test_an_order_to_stop_from_before_it_began_is_not_for_it() -> None:
    async def test() -> None:
        async with polite_memory() as queue:
            await orders.stop(queue)
            crawl = Crawl(queue, None)
            await crawl.politeness.begin()
            await crawl.politeness.look()
            assert crawl.ends == []
            await orders.stop(queue)
            await crawl.politeness.look()
            assert crawl.ends == ["stopped"]
            await crawl.politeness.end()

    run_jumping(test())


def test_quiet_hours_hold_requests_back_beside_a_pause(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with polite_memory() as queue:
            crawl = Crawl(queue, Rules("map.example.net", 4, quiet=(QuietHours.parse("12:00-13:00"),)))
            politeness = crawl.politeness
            await orders.pause(queue, "10:00")
            for _ in range(2):
                await crawl.politeness.look()
            assert politeness.reasons == {Reason.PAUSED, Reason.QUIET}
            crawl.local_time = NOON.replace(hour=13)
            await crawl.politeness.look()
            assert politeness.reasons == {Reason.PAUSED}

    run_jumping(test())
    assert len([record for record in caplog.records if "quiet hours" in record.getMessage()]) == 1


def test_it_goes_on_looking_until_it_ends() -> None:
    checks: list[int] = []

    async def test() -> None:
        async with crawling(lambda: checks.append(1)) as crawl:
            await orders.pause(crawl.queue, "10:00")
            await comes_true(lambda: bool(crawl.politeness.reasons))
            await crawl.politeness.end()
            looks = len(checks)
            await asyncio.sleep(60)
            assert len(checks) == looks

    run_jumping(test())


def test_orders_that_came_with_an_answer_are_obeyed_without_a_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    async def ask(segment: str) -> dict[str, str]:
        asked.append(segment)
        return {}

    async def test() -> None:
        async with crawling() as crawl:
            monkeypatch.setattr(crawl.queue, "notes", ask)
            await comes_true(lambda: bool(asked))
            asked.clear()
            await asyncio.sleep(LOOK / 2)
            crawl.politeness.exchanged({"paused": "10:00"})
            await comes_true(lambda: bool(crawl.politeness.reasons))
            assert asked == []
            # Without a further answer the next look asks.
            await comes_true(lambda: not crawl.politeness.reasons)
            assert asked == [""]

    run_jumping(test())


def test_an_answer_from_before_a_look_does_not_take_back_what_the_look_has_heard() -> None:
    """An amendment of maps.toml looks between two looks of every second."""

    async def test() -> None:
        async with crawling() as crawl:
            await asyncio.sleep(LOOK / 2)
            crawl.politeness.exchanged({})
            await orders.pause(crawl.queue, "10:00")
            await crawl.politeness.look()
            wakes = crawl.wakes
            await asyncio.sleep(LOOK / 2)
            assert crawl.politeness.reasons == {Reason.PAUSED}
            assert crawl.wakes == wakes

    run_jumping(test())


def test_it_ends_although_the_queue_loses_a_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Works like redis-py, which may take a cancellation for a timeout of its own, and tries again."""
    notes: dict[str, str] = {}
    under_way = asyncio.Event()

    async def lose(segment: str) -> dict[str, str]:
        under_way.set()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3)
        return notes

    async def test() -> None:
        async with crawling() as crawl:
            monkeypatch.setattr(crawl.queue, "notes", lose)
            await under_way.wait()
            await asyncio.wait_for(crawl.politeness.end(), 60)

    run_jumping(test())


def test_a_queue_that_cannot_be_asked_any_more_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    error = QueueError("disk full")

    async def fail(segment: str) -> None:
        raise error

    async def test() -> None:
        async with crawling() as crawl:
            monkeypatch.setattr(crawl.queue, "notes", fail)
            await comes_true(lambda: bool(crawl.errors))
            await asyncio.sleep(60)
            await crawl.politeness.end()
            assert crawl.errors == [error]

    run_jumping(test())


def test_a_crawl_that_can_hear_no_more_orders_ends() -> None:
    """Here because the disk cannot be looked at."""

    def check() -> None:
        raise PermissionError(13, "Permission denied")

    async def test() -> None:
        async with crawling() as crawl:
            crawl.check = check
            await comes_true(lambda: bool(crawl.errors))
            await crawl.politeness.end()
            assert "Permission denied" in str(crawl.errors[0])

    run_jumping(test())
