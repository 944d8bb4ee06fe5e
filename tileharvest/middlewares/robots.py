"""Leaves alone what robots.txt forbids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from scrapy.exceptions import IgnoreRequest

from tileharvest.queue.requests import NOT_SENT

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from tileharvest.politeness.robots import Robots

FORBIDDEN: Final = "robots.txt forbids it"
"""Why a tile has failed that was not asked for."""


class RobotsMiddleware:
    """Ends a request that the spider's `robots` do not allow, before it is sent: its errback hears of it.

    Scrapy's own asks for robots.txt at the first request to a host, takes an error for leave to do anything,
    and keeps to no Crawl-delay of a queue that others share. Here the spider has asked before. A spider
    without `robots` may ask for anything.
    """

    def __init__(self, spider: Any) -> None:
        self._spider = spider

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler.spider)

    def process_request(self, request: Request) -> None:
        robots: Robots | None = getattr(self._spider, "robots", None)
        if robots is not None and not robots.is_open and not robots.allows(request.url):
            request.meta[NOT_SENT] = True
            raise IgnoreRequest(FORBIDDEN)
