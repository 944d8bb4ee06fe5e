"""Ends requests that robots.txt forbids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from scrapy.exceptions import IgnoreRequest

from tileharvest.queue.requests import state_of
from tileharvest.scheduler.crawl import crawl_of

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from tileharvest.scheduler.crawl import Crawl

FORBIDDEN: Final = "robots.txt forbids it"
"""The reason of a tile's failure that was not asked for."""


class RobotsMiddleware:
    """Ends a request that the crawl's `robots` do not allow, before it is sent: its errback hears of it.

    Scrapy's own asks for robots.txt at the first request to a host, takes an error for leave to do anything,
    and keeps to no Crawl-delay of a queue that others share. Here the spider has asked before. One that has
    asked for no robots.txt may ask for anything.
    """

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawl_of(crawler))

    def process_request(self, request: Request) -> None:
        robots = self._crawl.robots
        if not robots.is_open and not robots.allows(request.url):
            state_of(request).was_sent = False
            raise IgnoreRequest(FORBIDDEN)
