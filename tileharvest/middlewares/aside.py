"""Lets what the queue does not offer wait for its turn, and what it has offered go back when that is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tileharvest.politeness.gate import HeldBackError
from tileharvest.queue.requests import ASIDE, NOT_SENT

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from scrapy import Request
    from scrapy.crawler import Crawler


class AsideMiddleware:
    """Asks our scheduler for the turn of each request that has ASIDE in its meta, its repeats and redirects
    too: they cost the owner as much. Others pass. Raises what the scheduler's `aside` raises.

    A request that was held back at the last moment goes back to the scheduler as it was: that was no
    attempt.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def process_request(self, request: Request) -> Awaitable[None] | None:
        if ASIDE not in request.meta:
            return None
        scheduler: Any = getattr(self._crawler.engine, "scheduler", None)
        # Other schedulers than ours know no such turn.
        aside: Awaitable[None] | None = scheduler.aside() if hasattr(scheduler, "aside") else None
        return aside

    def process_exception(self, request: Request, exception: Exception) -> Request | None:
        if not isinstance(exception, HeldBackError):
            return None
        request.meta[NOT_SENT] = True
        return request.replace(dont_filter=True)
