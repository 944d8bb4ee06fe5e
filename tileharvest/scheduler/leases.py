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

    def __init__(self, scheduler: Scheduler, lease: Lease, request: Request) -> None:
        self._scheduler = scheduler
        self.lease = lease
        self.errback = request.errback
        """The request's own errback."""
        self.is_at_spider = False
        """Whether its answer or its failure has come to the spider. Before that, a repeat or a redirect that
        is made of this one takes its place."""
        self._items = 0
        """The items that came of it and are not through their pipelines."""
        self._is_consumed = False
        self.reason = ""
        """Why it has failed. Empty if it has not."""

    async def consume(self, output: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yields the items of a callback or errback.

        Its requests go to the engine from here. Scrapy would let them wait for its pipelines, and a kill
        after the end of the lease could lose them.
        """
        async for one in output:
            if isinstance(one, Request):
                self._scheduler.crawl(one)
                continue
            self._items += one is not None
            yield one
        self.consumed()

    def consumed(self, reason: str = "") -> None:
        """The callback or errback has come to its end, or has failed for this reason."""
        self._is_consumed = True
        self._end_if_through(reason)

    def item_through(self, reason: str = "") -> None:
        """An item has passed its pipelines, or has failed for this reason."""
        self._items -= 1
        self._end_if_through(reason)

    def _end_if_through(self, reason: str) -> None:
        self.reason = self.reason or reason
        if self._is_consumed and not self._items:
            self._scheduler.through(self)

    def __call__(self, failure: Failure) -> Any:
        is_of_answer, self.is_at_spider = self.is_at_spider, True
        output: Any = failure
        if self.errback is not None:
            try:
                output = self.errback(failure)
            except Exception as error:
                if not isinstance(error, CloseSpider):
                    self.reason = f"errback raised {error!r}"
                self._scheduler.through(self)
                raise
        if isinstance(output, Failure):
            # IgnoreRequest is not a failure: the request is offsite, robots.txt forbids it, or its status is
            # unwanted.
            if not isinstance(output.value, IgnoreRequest):
                self.reason = str(output.value) or type(output.value).__name__
            self._scheduler.through(self)
            return output
        # What comes of an answer that a spider middleware refused passes the middlewares.
        return output if is_of_answer else self._consume_output(output)

    async def _consume_output(self, output: Any) -> AsyncIterator[Any]:
        """Yields the items of what an errback has returned, which may be anything that Scrapy accepts."""
        each = await ensure_awaitable(iterate_spider_output(output))
        async for one in self.consume(as_async_generator(each)):
            yield one


class LeaseMiddleware:
    """The spider middleware that lets the scheduler know when a request is through.

    It must be the nearest to the engine, so that it sees what all others let through. It also keeps the
    spider open while the queue knows of anything to come.
    """

    def __init__(self) -> None:
        self.scheduler: Scheduler | None = None
        """Our scheduler. None before it is made, and under another one."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        middleware = cls()
        for signal in (signals.item_scraped, signals.item_dropped, signals.item_error):
            crawler.signals.connect(middleware.item_through, signal)
        crawler.signals.connect(middleware.spider_error, signals.spider_error)
        return middleware

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        scheduler = self.scheduler
        if scheduler is None or scheduler.is_open:
            async for one in start:
                yield one
        if scheduler is not None and scheduler.is_open:
            # The engine looks whether the spider is idle when this ends.
            await scheduler.until_nothing_waits()

    def process_spider_input(self, response: Response) -> None:
        if (handed := self._handed(response)) is not None:
            handed.is_at_spider = True

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        handed = self._handed(response)
        async for one in result if handed is None else handed.consume(result):
            yield one

    def item_through(self, response: Response | Failure | None, failure: Failure | None = None) -> None:
        if (handed := self._handed(response)) is not None:
            handed.item_through(f"an item's pipeline raised {failure.value!r}" if failure else "")

    def spider_error(self, response: Response | Failure | None, failure: Failure) -> None:
        if (handed := self._handed(response)) is not None:
            handed.consumed(f"callback raised {failure.value!r}")

    def _handed(self, response: Response | Failure | None) -> Handed | None:
        request = getattr(response, "request", None)
        return None if request is None or self.scheduler is None else self.scheduler.handed(request)
