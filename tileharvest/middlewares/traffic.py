"""The middleware nearest to the network: it keeps to robots.txt, and counts what is sent and received."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scrapy.exceptions import IgnoreRequest

from tileharvest.politeness.reasons import FORBIDDEN, HeldBackError
from tileharvest.queue.requests import STATE, state_of
from tileharvest.scheduler.crawl import crawl_of

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from tileharvest.scheduler.crawl import Crawl


class TrafficMiddleware:
    """Lets requests leave, and adds up the bytes that come back.

    A request that the crawl's `robots` do not allow ends before it is sent, and its errback hears of it.
    Scrapy's own middleware asks for robots.txt at the first request to a host, takes an error for leave to do
    anything, and keeps to no Crawl-delay of a queue that others share. Here the spider reads robots.txt
    before it offers requests. A spider that has read none may ask for anything.

    A request that is made beside the queue waits until politeness gives it a turn, and so does each repeat
    and redirect of it. That raises the errors of `Politeness.aside`. Politeness counts the requests; under
    another scheduler, which has none, they are counted here.

    A request that was held back at the last moment goes back to the scheduler as it was: that was no attempt.
    """

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl
        self._traffic = crawl.traffic

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawl_of(crawler))

    def process_request(self, request: Request) -> Awaitable[None] | None:
        robots, politeness = self._crawl.robots, self._crawl.politeness
        if robots.rules and not robots.allows(request.url):
            state_of(request).was_sent = False
            raise IgnoreRequest(FORBIDDEN)
        if politeness is None:
            self._traffic.requests += 1
        elif STATE in request.meta and request.meta[STATE].is_aside:
            return politeness.aside()
        return None

    def process_response(self, request: Request, response: Response) -> Response:
        if response.body:
            self._traffic.received_bytes += len(response.body)
            if self._crawl.politeness is not None:
                self._crawl.politeness.received()
        return response

    def process_exception(self, request: Request, exception: Exception) -> Request | None:
        if not isinstance(exception, HeldBackError):
            return None
        state_of(request).was_sent = False
        return request.replace(dont_filter=True)
