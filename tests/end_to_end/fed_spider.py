"""Spiders of somebody else that scrapy-redis feeds."""

from collections.abc import Iterator

from scrapy.http import Response
from scrapy_redis.spiders import RedisSpider


class FedSpider(RedisSpider):  # type: ignore[misc]  # it ships no types
    """Serves each start URL."""

    name = "fed"

    def parse(self, response: Response) -> Iterator[dict[str, str]]:
        yield {"url": response.url}
