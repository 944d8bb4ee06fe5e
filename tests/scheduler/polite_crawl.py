"""Crawls that are to be polite, without Scrapy: what they were told, and when they woke."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.queue.polite_memory import polite_memory
from tileharvest.errors import QueueError
from tileharvest.politeness.rules import Rules
from tileharvest.scheduler.politeness import Politeness

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tileharvest.errors import BudgetError
    from tileharvest.queue.polite_queue import PoliteQueue

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOST = "map.example.net"


class Worker:
    """Hears how far apart requests are to start."""

    def __init__(self) -> None:
        self.apart: list[float] = []
        self.anew = 0
        self.ago: list[float] = []

    def started(self, ago: float = 0.0) -> None:
        self.ago.append(ago)

    def lease_anew(self) -> None:
        self.anew += 1

    def keep_apart(self, seconds: float) -> None:
        self.apart.append(seconds)


class Crawl:
    """A politeness, with what its queue and worker were told. Its times stand still unless a test sets
    them."""

    def __init__(self, queue: PoliteQueue, rules: Rules | None, check: Any = lambda: None) -> None:
        self.queue = queue
        self.check = check
        self.local_time = NOON
        self.worked = 0.0
        self.wakes = 0
        self.traffic = queue.traffic
        self.traffic.clock = lambda: self.worked
        self.ends: list[Any] = []
        self.errors: list[Any] = []
        self.worker: Any = Worker()
        self.politeness = Politeness(
            queue,
            "world",
            self,
            rules=rules,
            local_time=lambda: self.local_time,
        )

    def wake(self) -> None:
        self.wakes += 1

    def end(self, why: BudgetError | QueueError | str) -> None:
        (self.errors if isinstance(why, QueueError) else self.ends).append(why)

    def offers(self) -> None:
        pace = self.politeness.pace
        assert pace is not None
        self.politeness.offers(self.worker, pace)


@asynccontextmanager
async def crawling(check: Any = lambda: None, **rules: Any) -> AsyncIterator[Crawl]:
    async with polite_memory() as queue:
        crawl = Crawl(queue, Rules(HOST, 4, **rules), check)
        await crawl.politeness.begin()
        try:
            yield crawl
        finally:
            await crawl.politeness.end()
