"""Makes requests beside the queue wait for their turn, and sends held back ones to the queue again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tileharvest.politeness.gate import HeldBackError
from tileharvest.queue.requests import STATE, state_of
from tileharvest.scheduler.crawl import crawl_of

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from scrapy import Request
    from scrapy.crawler import Crawler

    from tileharvest.scheduler.crawl import Crawl


class AsideMiddleware:
    """Lets each request that is made beside the queue wait until our scheduler gives it a turn. Repeats and
    redirects of it wait too: they cost the owner as much. Raises what `Politeness.aside` raises.

    A request that was held back at the last moment goes back to the scheduler as it was: that was no
    attempt.
    """

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawl_of(crawler))

    def process_request(self, request: Request) -> Awaitable[None] | None:
        if STATE not in request.meta or not state_of(request).is_aside:
            return None
        politeness = self._crawl.politeness
        return None if politeness is None else politeness.aside()

    def process_exception(self, request: Request, exception: Exception) -> Request | None:
        if not isinstance(exception, HeldBackError):
            return None
        state_of(request).was_sent = False
        return request.replace(dont_filter=True)
