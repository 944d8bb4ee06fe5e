"""The end of a lease: when everything that came of its request is through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, signals
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.utils.asyncgen import as_async_generator
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.spider import iterate_spider_output
from twisted.python.failure import Failure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from tileharvest.queue.port import Lease
    from tileharvest.scheduler.scheduler import Scheduler

LEASE = "lease"
"""Key of meta: `{"id": ..., "attempt": ...}`, which names the lease of a request, or of its origin."""


class Handed:
    """A request that was handed to Scrapy's engine, until its lease ends.

    The lease ends when the callback or errback has come to its end, the requests that came of it are
    enqueued, and its items have passed their pipelines. Until then this is the request's errback, because no
    spider middleware sees what an errback yields when a request could not be downloaded.
    """

    def __init__(self, scheduler: Scheduler, lease: Lease, errback: Any) -> None:
        self.scheduler = scheduler
        self.lease = lease
        self.errback = errback
        """The request's own errback."""
        self.is_at_spider = False
        """Whether its answer or its failure has come to the spider. Before that, a repeat or a redirect that
        is made of this one takes its place."""
        self.items = 0
        """The items that came of it and are not through their pipelines."""
        self.is_consumed = False
        """Whether its callback or errback has come to its end, or another request has taken its place."""
        self.reason = ""
        """Why it has failed. Empty if it has not."""

    async def __call__(self, failure: Failure) -> Any:
        is_of_answer, self.is_at_spider = self.is_at_spider, True
        try:
            output = failure if self.errback is None else self.errback(failure)
            if isinstance(output, Failure):
                output.raiseException()
            each = await ensure_awaitable(iterate_spider_output(output))
        except Exception as error:
            # For an errback that raises what it was given Scrapy sends no signal.
            reason = f"errback raised {error!r}"
            if error is failure.value:
                reason = str(error) or type(error).__name__
            # IgnoreRequest is not a failure: the request is offsite, robots.txt forbids it, or its status is
            # unwanted.
            if isinstance(error, (CloseSpider, IgnoreRequest)):
                reason = ""
            self.is_consumed = True
            self.scheduler.through(self, reason)
            raise
        if is_of_answer:
            # What comes of an answer that a spider middleware refused passes the middlewares.
            return each
        return self.scheduler.middleware.process_spider_output(failure, as_async_generator(each))


class LeaseMiddleware:
    """The spider middleware that lets the scheduler know when a request is through.

    It must be the nearest to the engine, so that it sees what all others let through. It also keeps the
    spider open while the queue knows of anything to come.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self.scheduler: Scheduler | None = None
        """Our scheduler. None before it is made, and under another one."""
        self.handed: dict[tuple[int, int], Handed] = {}
        """By id and attempt: what the engine has of the scheduler."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        middleware = cls(crawler)
        for signal in (signals.item_scraped, signals.item_dropped, signals.item_error):
            crawler.signals.connect(middleware.item_through, signal)
        crawler.signals.connect(middleware.spider_error, signals.spider_error)
        return middleware

    def handed_as(self, request: Request | None) -> Handed | None:
        """Returns what was handed to the engine as this request, or as the one of which this was made."""
        key = None if request is None else request.meta.get(LEASE)
        return self.handed.get((key["id"], key["attempt"])) if isinstance(key, dict) else None

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        scheduler = self.scheduler
        if scheduler is None or scheduler.is_open:
            async for one in start:
                yield one
        if scheduler is not None:
            # The engine looks whether the spider is idle when this ends.
            await scheduler.until_nothing_waits()

    def process_spider_input(self, response: Response) -> None:
        if (handed := self.handed_as(response.request)) is not None:
            handed.is_at_spider = True

    async def process_spider_output(
        self, response: Response | Failure, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Yields the items of a callback or errback.

        Its requests go to the engine from here. Scrapy would let them wait for its pipelines, and a kill
        after the end of the lease could lose them.
        """
        handed = self.handed_as(getattr(response, "request", None))
        async for one in result:
            if handed is not None and isinstance(one, Request):
                self._crawler.engine.crawl(one)
                continue
            if handed is not None:
                handed.items += one is not None
            yield one
        if handed is not None:
            handed.is_consumed = True
            handed.scheduler.through(handed)

    def item_through(self, response: Response | Failure | None, failure: Failure | None = None) -> None:
        if (handed := self.handed_as(getattr(response, "request", None))) is not None:
            handed.items -= 1
            reason = f"an item's pipeline raised {failure.value!r}" if failure else ""
            handed.scheduler.through(handed, reason)

    def spider_error(self, response: Response | Failure | None, failure: Failure) -> None:
        if (handed := self.handed_as(getattr(response, "request", None))) is not None:
            handed.is_consumed = True
            handed.scheduler.through(handed, f"callback raised {failure.value!r}")
