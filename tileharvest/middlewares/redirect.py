"""Follows redirects of tiles: hosts put old addresses onto new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from scrapy.downloadermiddlewares.redirect import RedirectMiddleware

from tileharvest.middlewares.diff import answer_of
from tileharvest.queue.requests import question_of
from tileharvest.scheduler.crawl import crawl_of

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from tileharvest.scheduler.crawl import Crawl


class TileRedirectMiddleware(RedirectMiddleware):
    """Scrapy's, without its care for a Referer header, which our requests do not have.

    What it sends elsewhere is never filtered: a host may put many tiles onto one address. What the map's
    renderer understands as an answer of its own is not sent elsewhere.
    """

    _crawl: Crawl

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Makes it without Scrapy's look for its Referer middleware, which warns that there is none."""
        middleware = cls(crawler.settings)
        middleware.crawler = crawler
        middleware._crawl = crawl_of(crawler)
        return middleware

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Request | Response:
        if 300 <= response.status < 400 and self._is_answer(request, response):
            return response
        return super().process_response(request, response)

    def _is_answer(self, request: Request, response: Response) -> bool:
        harvest, question = self._crawl.harvest, question_of(request)
        if harvest is None or question is None or question.tile is None:
            return False
        answer = answer_of(response)
        return harvest.understood(answer, question.tile).status != answer.status

    def _redirect(self, redirected: Request, request: Request, reason: Any) -> Request:
        followed = super()._redirect(redirected, request, reason)
        followed.dont_filter = True
        return followed

    def handle_referer(self, request: Request, response: Response) -> None:
        """Nothing to do."""
