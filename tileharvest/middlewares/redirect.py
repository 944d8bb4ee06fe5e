"""Follows redirects of tiles: hosts put old addresses onto new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scrapy.downloadermiddlewares.redirect import RedirectMiddleware

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response


class TileRedirectMiddleware(RedirectMiddleware):
    """Scrapy's, without its care for a Referer header, which our requests do not have."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Without Scrapy's look for its Referer middleware, which warns that there is none."""
        middleware = cls(crawler.settings)
        middleware.crawler = crawler
        return middleware

    def handle_referer(self, request: Request, response: Response) -> None:
        """Nothing to do."""
