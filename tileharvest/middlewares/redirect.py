"""Follows redirects of tiles: hosts put old addresses onto new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from scrapy.downloadermiddlewares.redirect import RedirectMiddleware

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response


class TileRedirectMiddleware(RedirectMiddleware):
    """Scrapy's, without its care for a Referer header, which our requests do not have.

    What it sends elsewhere is never filtered: a host may put many tiles onto one address.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Makes it without Scrapy's look for its Referer middleware, which warns that there is none."""
        middleware = cls(crawler.settings)
        middleware.crawler = crawler
        return middleware

    def _redirect(self, redirected: Request, request: Request, reason: Any) -> Request:
        followed = super()._redirect(redirected, request, reason)
        followed.dont_filter = True
        return followed

    def handle_referer(self, request: Request, response: Response) -> None:
        """Nothing to do."""
