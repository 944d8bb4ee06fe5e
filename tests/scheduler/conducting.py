"""Crawls whose conduct is tested, without Scrapy: what they were told, and when they woke."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.queue.paced_memory import paced_memory
from tileharvest.history.costs import Traffic
from tileharvest.politeness.rules import Rules
from tileharvest.scheduler.conduct import Conduct

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tileharvest.errors import BudgetError, QueueError
    from tileharvest.queue.paced import Paced

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOST = "map.example.net"


class Exchanging:
    """Hears how far apart requests are to start."""

    def __init__(self) -> None:
        self.apart: list[float] = []
        self.not_before = 0.0
        self.anew = 0

    def lease_anew(self) -> None:
        self.anew += 1

    def keep_apart(self, seconds: float) -> None:
        self.apart.append(seconds)

    def wait_until(self, moment: float) -> None:
        self.not_before = moment


class Crawl:
    """What behaves, with what it was told; its times stand still unless they are set."""

    def __init__(self, queue: Paced, rules: Rules | None, check: Any = lambda: None) -> None:
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
            rules=rules,
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
async def crawling(check: Any = lambda: None, **rules: Any) -> AsyncIterator[Crawl]:
    async with paced_memory() as queue:
        crawl = Crawl(queue, Rules(HOST, 4, **rules), check)
        await crawl.conduct.begin()
        try:
            yield crawl
        finally:
            await crawl.conduct.end()
