"""Spiders of somebody else that scrapy-redis feeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import Rule
from scrapy_redis.spiders import RedisCrawlSpider, RedisSpider

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.http import Response


class FedSpider(RedisSpider):  # type: ignore[misc]  # it ships no types
    """Serves each start URL."""

    name = "fed"

    def parse(self, response: Response) -> Iterator[dict[str, str]]:
        yield {"url": response.url}


class LinkSpider(RedisCrawlSpider):  # type: ignore[misc]  # it ships no types
    """Follows the links of its start URLs."""

    name = "links"
    rules = (Rule(LinkExtractor(), callback="found", follow=True),)

    def found(self, response: Response) -> Iterator[dict[str, str]]:
        yield {"url": response.url}
