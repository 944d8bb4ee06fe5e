"""Each request's own delay is kept, from the start of the one before it."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tests.middlewares.making import run_jumping
from tests.scheduler.polite_crawl import crawling
from tileharvest.queue.requests import DELAY

if TYPE_CHECKING:
    import pytest


def request(delay: Any = None) -> Any:
    return SimpleNamespace(meta={} if delay is None else {DELAY: delay})


def test_a_request_without_a_delay_starts_at_once() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            assert crawl.politeness.starts_now(request())
            assert crawl.politeness.starts_now(request())

    run_jumping(test())


def test_the_first_request_does_not_wait() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            assert crawl.politeness.starts_now(request(30))

    run_jumping(test())


def test_a_delay_counts_from_the_start_of_the_request_before() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            late = request(2.0)
            assert crawl.politeness.starts_now(request())
            await asyncio.sleep(1.5)
            assert not crawl.politeness.starts_now(late)
            await asyncio.sleep(0.5)
            assert crawl.politeness.starts_now(late)

    run_jumping(test())


def test_a_random_delay_is_drawn_once_for_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([0.25, 0.75])
    monkeypatch.setattr(random, "random", lambda: next(drawn))

    async def test() -> None:
        async with crawling() as crawl:
            first, second = request([1.0, 3.0]), request([1.0, 3.0])
            assert crawl.politeness.starts_now(request())
            for one, delay in ((first, 1.5), (second, 2.5)):
                await asyncio.sleep(delay - 0.1)
                assert not crawl.politeness.starts_now(one)
                assert not crawl.politeness.starts_now(one)
                await asyncio.sleep(0.1)
                assert crawl.politeness.starts_now(one)

    run_jumping(test())


def test_it_tells_of_each_request_that_had_to_wait() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            before = crawl.wakes
            assert crawl.politeness.starts_now(request())
            for woken in (1, 2):
                late = request(5)
                assert not crawl.politeness.starts_now(late)
                assert not crawl.politeness.starts_now(late)
                await asyncio.sleep(60)
                assert crawl.wakes - before == woken
                assert crawl.politeness.starts_now(late)

    run_jumping(test())
