"""The yardstick: a plain Scrapy spider that asks HEAD for every tile of a generated site.

    python -m bench.stock http://127.0.0.1:8080 7

It has Scrapy's default settings but for 32 requests at a time and the log level. Its last line on standard
output is its own measurement as JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess

from bench.site import tile_paths

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.http import Response

CONCURRENCY = 32


class StockSpider(Spider):
    """A spider that yields its requests one by one, as Scrapy's documentation shows it."""

    name = "stock"

    def __init__(self, url: str, depth: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.url = url
        self.depth = depth
        self.answered = 0
        self.started_at = time.monotonic()

    async def start(self) -> AsyncIterator[Request]:
        self.started_at = time.monotonic()
        for path in tile_paths(self.depth):
            yield Request(f"{self.url}/{path}", method="HEAD")

    def parse(self, response: Response) -> None:
        self.answered += 1

    def closed(self, reason: str) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        seconds = time.monotonic() - self.started_at
        measured = {
            "reason": reason,
            "tiles": self.answered,
            "tiles_per_second": self.answered / seconds,
            "cpu_seconds": used.ru_utime + used.ru_stime,
            "max_rss_mb": used.ru_maxrss / 1024,
        }
        sys.stdout.write(json.dumps(measured) + "\n")


def main(url: str, depth: int) -> None:
    process = CrawlerProcess(
        {
            "CONCURRENT_REQUESTS": CONCURRENCY,
            "CONCURRENT_REQUESTS_PER_DOMAIN": CONCURRENCY,
            "LOG_LEVEL": "INFO",
        }
    )
    process.crawl(StockSpider, url=url, depth=depth)
    process.start()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
