"""One scheduler that is driven without an engine: how fast it is, and how much memory it needs.

    python -m bench.scheduler KIND REQUESTS FOLDER

KIND is `tileharvest-sqlite`, `tileharvest-memory`, `scrapy-memory` or `scrapy-jobdir`. All requests are
enqueued; then each is taken and finished. The program prints one JSON object. Each measurement needs a
process of its own.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.core.scheduler import Scheduler as ScrapyScheduler
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.request import RequestFingerprinter

from tileharvest.scheduler.fingerprint import SegmentFingerprinter
from tileharvest.scheduler.scheduler import Scheduler
from tileharvest.scheduler.settings import scheduling_for

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK = 1_000
"""Requests after which the event loop may run. One callback has far fewer children."""


class PageSpider(Spider):
    """A spider with the callback that the requests name."""

    name = "bench"

    def page(self, response: Any) -> None:
        """Exists only for its name; nothing calls it."""


def requests(spider: PageSpider, count: int) -> Iterator[Request]:
    """Yields requests that all differ and are as long as those of tiles."""
    for number in range(count):
        url = f"http://127.0.0.1:8000/world-lighting/{number:08d}.png?c=1620832981"
        yield Request(url, method="HEAD", callback=spider.page, meta={"tile": [0, number, 1]})


def crawler_for(kind: str, count: int, folder: Path) -> Crawler:
    """Returns as much of a crawler as a scheduler needs."""
    settings = Settings()
    settings.setmodule("tileharvest.settings")
    settings.set("TILEHARVEST_DATA", str(folder))
    settings.set("SCHEDULER_QUEUE", "memory" if kind == "tileharvest-memory" else "sqlite")
    settings.set("SEEN_EXPECTED", count)
    settings.set("DEDUP_IGNORE_QUERY", ["c"])
    # Scrapy's default looks at the engine's downloader, and here is no engine. This one is faster anyway.
    settings.set("SCHEDULER_PRIORITY_QUEUE", "scrapy.pqueues.ScrapyPriorityQueue")
    if kind == "scrapy-jobdir":
        settings.set("JOBDIR", str(folder / "job"))
    crawler = Crawler(PageSpider, settings)
    crawler.crawling = True
    crawler.spider = PageSpider()
    crawler.stats = MemoryStatsCollector(crawler)
    fingerprinter = RequestFingerprinter if kind.startswith("scrapy") else SegmentFingerprinter
    crawler.request_fingerprinter = fingerprinter.from_crawler(crawler)
    return crawler


def drive_scrapy(crawler: Crawler, count: int) -> dict[str, float]:
    """Drives Scrapy's own scheduler. It has no call for a finished request."""
    spider = crawler.spider
    assert isinstance(spider, PageSpider)
    scheduler = ScrapyScheduler.from_crawler(crawler)
    scheduler.open(spider)
    began = time.perf_counter()
    for request in requests(spider, count):
        scheduler.enqueue_request(request)
    waiting = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = sum(1 for _ in iter(scheduler.next_request, None))
    seconds = time.perf_counter() - began
    assert taken == count
    seen: set[Any] = scheduler.df.fingerprints  # type: ignore[attr-defined]
    memory = sys.getsizeof(seen) + sum(map(sys.getsizeof, seen))
    scheduler.close("finished")
    return {"seconds": seconds, "seen_bytes": memory, "waiting_kilobytes": waiting}


async def drive_ours(crawler: Crawler, count: int) -> dict[str, float]:
    """Drives our scheduler, and plays the engine's part: it completes each request as soon as it is taken."""
    spider = crawler.spider
    assert isinstance(spider, PageSpider)
    scheduler = Scheduler(crawler, scheduling_for(crawler))
    await scheduler._open()
    scheduler._start()
    worker = scheduler.worker
    began = time.perf_counter()
    for number, request in enumerate(requests(spider, count)):
        assert scheduler.enqueue_request(request)
        if number % CHUNK == 0:
            # The queue's thread must keep up, or the requests would wait in memory.
            while len(worker._untold.pushed) > CHUNK:
                worker.look_again()
                await asyncio.sleep(0.001)
    waiting = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = 0
    while taken < count:
        taken_request = scheduler.next_request()
        if taken_request is None:
            worker.look_again()
            await asyncio.sleep(0)
            continue
        scheduler._completed(taken_request)
        taken += 1
    while not worker.is_empty:  # noqa: ASYNC110 - it has no event for what only a bench asks
        await asyncio.sleep(0.001)
    seconds = time.perf_counter() - began
    filters = scheduler._scheduling.queue._queue._statements._filters  # type: ignore[attr-defined]
    memory = sum(found.memory_bytes for found in filters.values())
    await scheduler._close()
    return {"seconds": seconds, "seen_bytes": memory, "waiting_kilobytes": waiting}


def main(kind: str, count: int, folder: Path) -> None:
    """Measures, and prints the figures."""
    crawler = crawler_for(kind, count, folder)
    figures = (
        drive_scrapy(crawler, count) if kind.startswith("scrapy") else asyncio.run(drive_ours(crawler, count))
    )
    print(  # noqa: T201 - it is the result
        json.dumps(
            {
                "kind": kind,
                "requests": count,
                "requests_per_second": count / figures["seconds"],
                "seen_bytes_per_request": figures["seen_bytes"] / count,
                "waiting_megabytes": figures["waiting_kilobytes"] / 1024,
                "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
