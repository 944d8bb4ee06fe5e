"""A project of somebody else whose spider scrapy-redis feeds, and which kills itself at given moments.

`python fed_spider.py SPIDER SCHEDULER REDIS_URL LEFT MOMENT...` crawls once for each moment, each time in a
process of its own, and then again until nobody has any start URL left, but no more than LEFT times. A moment
is `made:N`, when the N-th start URL is about to become a request, or `pushed:N`, when the N-th was given to
the scheduler.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import redis
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.linkextractors import LinkExtractor
from scrapy.settings import default_settings
from scrapy.spiders import Rule
from scrapy_redis.spiders import RedisCrawlSpider, RedisSpider

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request
    from scrapy.http import Response

BATCH: Final = 16

_LOADED: Final = (
    "scrapy.core.downloader.handlers.http11",
    "scrapy.core.engine",
    "scrapy.logformatter",
    "scrapy.pipelines",
    "scrapy.statscollectors",
    "scrapy_redis.dupefilter",
    "scrapy_redis.pipelines",
    "scrapy_redis.scheduler",
    "tileharvest.queue.redis.queue",
    "tileharvest.queue.redis.start_urls",
    "tileharvest.scheduler.fingerprint",
    "tileharvest.scheduler.scheduler",
)


class FedSpider(RedisSpider):  # type: ignore[misc]  # it ships no types
    """Serves each start URL; what it found goes to Redis, by scrapy-redis' own pipeline."""

    name = "fed"
    redis_batch_size = BATCH
    killed_at = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._passed = dict.fromkeys(("made", "pushed"), 0)

    def make_request_from_data(self, data: bytes) -> Request:
        self._pass("made")
        request: Request = super().make_request_from_data(data)
        return request

    def next_requests(self) -> Iterator[Request]:
        for request in super().next_requests():
            yield request
            self._pass("pushed")

    def parse(self, response: Response) -> Iterator[dict[str, str]]:
        yield {"url": response.url}

    def _pass(self, moment: str) -> None:
        self._passed[moment] += 1
        if self.killed_at == f"{moment}:{self._passed[moment]}":
            os.kill(os.getpid(), signal.SIGKILL)


class LinkSpider(RedisCrawlSpider):  # type: ignore[misc]  # it ships no types
    """Follows the links of its start URLs."""

    name = "links"
    rules = (Rule(LinkExtractor(), callback="found", follow=True),)

    def found(self, response: Response) -> Iterator[dict[str, str]]:
        yield {"url": response.url}


def crawl(spider: type[RedisSpider], scheduler: str, redis_url: str, killed_at: str = "") -> int:
    """Crawls in a process of its own, and returns how that ended. It ends when there is nothing to do."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    settings = {
        "SCHEDULER": scheduler,
        "REDIS_URL": redis_url,
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "SCHEDULER_PERSIST": True,
        "ITEM_PIPELINES": {"scrapy_redis.pipelines.RedisPipeline": 300},
        # The spider is first idle as soon as it has begun.
        "MAX_IDLE_TIME_BEFORE_CLOSE": 1,
        "LEASE_SECONDS": 2,
        "TELNETCONSOLE_ENABLED": False,
        "REMOTE_CONTROL_ENABLED": False,
        "LOG_LEVEL": "ERROR",
    }
    process = AsyncCrawlerProcess(settings)
    process.crawl(spider, killed_at=killed_at)
    process.start()
    sys.stdout.flush()
    os._exit(0)


def main(name: str, scheduler: str, redis_url: str, left: str, *moments: str) -> None:
    spider = {kind.name: kind for kind in (FedSpider, LinkSpider)}[name]
    components = (
        default_settings.DOWNLOADER_MIDDLEWARES_BASE,
        default_settings.EXTENSIONS_BASE,
        default_settings.SPIDER_MIDDLEWARES_BASE,
    )
    of_scrapy = (name.rpartition(".")[0] for name in chain.from_iterable(components))
    # Each crawl is forked off this process, and need not load again what this one has.
    for module in (*_LOADED, *of_scrapy):
        import_module(module)
    for moment in moments:
        assert os.WTERMSIG(crawl(spider, scheduler, redis_url, moment)) == signal.SIGKILL, moment
    with redis.Redis.from_url(redis_url) as server:
        for _ in range(int(left)):
            crawl(spider, scheduler, redis_url)
            if not server.keys(f"{name}:start_urls*"):
                break


if __name__ == "__main__":
    main(*sys.argv[1:])
