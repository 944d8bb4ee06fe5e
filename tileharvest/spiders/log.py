"""Scrapy's log format, without lines about single tiles unless the level is DEBUG."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Self

from scrapy.logformatter import LogFormatter

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.logformatter import LogFormatterResult
    from twisted.python.failure import Failure


class QuietLogFormatter(LogFormatter):
    """Builds no message that would be thrown away: on a harvest of 100,000 tiles they cost seconds.

    Scrapy's root logger lets every level pass and leaves the choice to its handler, so that the level
    must be read from the settings; asking a logger would always say yes.
    """

    def __init__(self, *, debugging: bool) -> None:
        self._debugging = debugging

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        level = logging.getLevelNamesMapping().get(str(crawler.settings["LOG_LEVEL"]), logging.NOTSET)
        return cls(debugging=level <= logging.DEBUG)

    def crawled(  # type: ignore[override]
        self, request: Request, response: Response, spider: Spider
    ) -> LogFormatterResult | None:
        return super().crawled(request, response, spider) if self._debugging else None

    def scraped(  # type: ignore[override]
        self, item: Any, response: Response | Failure | None, spider: Spider
    ) -> LogFormatterResult | None:
        return super().scraped(item, response, spider) if self._debugging else None
