"""The fleet's yardstick: a walk down the same map as scrapy-redis does it, with its default settings.

    python -m bench.stock_redis ETAGS LEVELS CONCURRENCY REDIS_URL

ETAGS is a JSON file with every tile's address and ETag. The spider holds it in memory, so a look-up costs
next to nothing, and it records nothing. LEVELS is how many slashes the addresses of the deepest tiles have. A
`RedisSpider` never ends by itself, so it works until SIGTERM. Then it writes what it found to standard
output, as one line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from scrapy import Request
from scrapy.crawler import CrawlerProcess
from scrapy_redis.spiders import RedisSpider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response

NAME: Final = "walker"
SEEDS: Final = f"{NAME}:start_urls"
"""The list in Redis from which the walk starts."""
READY: Final = "The walk begins"
"""What a worker logs when it can be told to end. Scrapy opens a spider before that: a SIGTERM between the two
ends the process without closing the spider, which then tells no counts."""


class Walker(RedisSpider):  # type: ignore[misc] # it has no types
    """A spider that asks HEAD for a tile, compares its ETag, and asks for the four tiles below."""

    name = NAME

    def __init__(self, etags: str, levels: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._etags: dict[str, str] = json.loads(Path(etags).read_text(encoding="utf-8"))
        self._levels = int(levels)
        self._unchanged = 0
        self._changed = 0

    async def start(self) -> AsyncIterator[Any]:
        self.logger.info(READY)
        async for request in super().start():
            yield request

    def parse(self, response: Response) -> Iterator[Request]:
        url = response.url
        if (response.headers["ETag"] or b"").decode() == self._etags[url]:
            self._unchanged += 1
        else:
            self._changed += 1
        if url.count("/") < self._levels:
            above = url.removesuffix(".png")
            for digit in "0123":
                yield Request(f"{above}/{digit}.png", method="HEAD")

    def closed(self, reason: str) -> None:
        found = {"reason": reason, "unchanged": self._unchanged, "changed": self._changed}
        sys.stdout.write(json.dumps(found) + "\n")


def main(etags: str, levels: str, concurrency: str, redis_url: str) -> None:
    process = CrawlerProcess(
        {
            "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
            "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
            "REDIS_URL": redis_url,
            "CONCURRENT_REQUESTS": int(concurrency),
            "CONCURRENT_REQUESTS_PER_DOMAIN": int(concurrency),
            "LOG_LEVEL": "INFO",
        }
    )
    process.crawl(Walker, etags=etags, levels=levels)
    process.start()


if __name__ == "__main__":
    main(*sys.argv[1:])
