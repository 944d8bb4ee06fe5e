"""The yardstick: a plain Scrapy spider that asks HEAD for every tile of a generated site.

    python -m bench.stock http://127.0.0.1:8080 7

It has Scrapy's default settings but for 32 requests at a time and the log level.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess

from bench.site import tile_paths

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.http import Response

CONCURRENCY: Final = 32


class StockSpider(Spider):
    """A spider that yields its requests one by one, as Scrapy's documentation shows it."""

    name = "stock"
    url: str
    depth: int

    async def start(self) -> AsyncIterator[Request]:
        for path in tile_paths(self.depth):
            yield Request(f"{self.url}/{path}", method="HEAD")

    def parse(self, response: Response) -> None:
        pass


def main(url: str, depth: int) -> None:
    limits = ("CONCURRENT_REQUESTS", "CONCURRENT_REQUESTS_PER_DOMAIN")
    process = CrawlerProcess({**dict.fromkeys(limits, CONCURRENCY), "LOG_LEVEL": "INFO"})
    process.crawl(StockSpider, url=url, depth=depth)
    process.start()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
