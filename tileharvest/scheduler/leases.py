"""The end of a lease: when everything that came of its request is through."""

from __future__ import annotations

from collections.abc import AsyncIterator
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, signals
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.utils.asyncgen import as_async_generator
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.misc import arg_to_iter
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from tileharvest.queue.port import Lease
    from tileharvest.scheduler.scheduler import Scheduler

LEASE = "lease"
"""Key of meta: `{"id": ..., "attempt": ...}`, which names the lease of a request. A request that the program
makes of another one has that one's key, and is not meant."""


class Handed:
    """A request that was handed to Scrapy's engine, until its lease ends."""

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.is_at_spider = False
        """Whether its answer or its failure has come to the spider. Before that, a request which is made of
        this one takes its place, such as a repeat or a redirect."""
        self.items = 0
        """The items that came of it and are not through their pipelines."""
        self.is_consumed = False
        """Whether its callback or errback has come to its end."""
        self.reason = ""
        """Why it has failed. Empty if it has not."""

    @property
    def is_through(self) -> bool:
        return self.is_consumed and not self.items


class LeaseMiddleware:
    """The spider middleware that lets the scheduler know when a request is through: its callback or errback
    has come to its end, the requests that came of it are enqueued, and its items have passed their pipelines.

    It must be the nearest to the engine, so that it sees what all others let through. It also keeps the
    spider open while the queue knows of anything to come, because a scheduler cannot wake the engine.
    """

    def __init__(self) -> None:
        self.scheduler: Scheduler | None = None
        """Our scheduler. None before it is made, and under another one."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        middleware = cls()
        crawler.signals.connect(middleware.item_through, signals.item_scraped)
        crawler.signals.connect(middleware.item_through, signals.item_dropped)
        crawler.signals.connect(middleware.item_error, signals.item_error)
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
        handed = self._handed(response)
        if handed is not None:
            handed.is_at_spider = True

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        handed = self._handed(response)
        async for one in result:
            if handed is not None:
                handed.items += one is not None and not isinstance(one, Request)
            yield one
        if handed is not None:
            self._consumed(handed)

    def item_through(self, response: Response | Failure | None) -> None:
        self._item_through(response)

    def item_error(self, response: Response | Failure | None, failure: Failure) -> None:
        self._item_through(response, f"an item's pipeline raised {failure.value!r}")

    def spider_error(self, response: Response | Failure | None, failure: Failure) -> None:
        handed = self._handed(response)
        if handed is not None:
            self._consumed(handed, f"callback raised {failure.value!r}")

    def _handed(self, response: Response | Failure | None) -> Handed | None:
        request = getattr(response, "request", None)
        if request is None or self.scheduler is None:
            return None
        return self.scheduler.handed(request)

    def _item_through(self, response: Response | Failure | None, reason: str = "") -> None:
        handed = self._handed(response)
        if handed is not None:
            handed.items -= 1
            handed.reason = handed.reason or reason
            self._end_if_through(handed)

    def _consumed(self, handed: Handed, reason: str = "") -> None:
        handed.is_consumed = True
        handed.reason = handed.reason or reason
        self._end_if_through(handed)

    def _end_if_through(self, handed: Handed) -> None:
        if handed.is_through and self.scheduler is not None:
            self.scheduler.through(handed)


class Errback:
    """The errback of a request that has been handed to the engine. It calls the request's own one, and ends
    the lease. No spider middleware sees what an errback yields when a request could not be downloaded."""

    def __init__(self, scheduler: Scheduler, handed: Handed, request: Request) -> None:
        self._scheduler = scheduler
        self._handed = handed
        self.own = request.errback

    def __call__(self, failure: Failure) -> Any:
        is_of_answer, self._handed.is_at_spider = self._handed.is_at_spider, True
        output: Any = failure
        if self.own is not None:
            try:
                output = self.own(failure)
            except Exception as error:
                if not isinstance(error, CloseSpider):
                    self._handed.reason = f"errback raised {error!r}"
                self._scheduler.through(self._handed)
                raise
        if isinstance(output, Failure):
            # IgnoreRequest is not a failure: the request is offsite, robots.txt forbids it, or its status is
            # unwanted.
            if not isinstance(output.value, IgnoreRequest):
                self._handed.reason = str(output.value) or type(output.value).__name__
            self._scheduler.through(self._handed)
            return output
        # What comes of an answer that a spider middleware refused passes the middlewares.
        return output if is_of_answer else self._consumed(output)

    async def _consumed(self, output: Any) -> AsyncIterator[Any]:
        if isinstance(output, Deferred):
            output = await maybe_deferred_to_future(output)
        elif isawaitable(output):
            output = await output
        handed = self._handed
        each = output if isinstance(output, AsyncIterator) else arg_to_iter(output)
        async for one in as_async_generator(each):
            handed.items += one is not None and not isinstance(one, Request)
            yield one
        handed.is_consumed = True
        if handed.is_through:
            self._scheduler.through(handed)
