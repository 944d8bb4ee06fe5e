"""Spiders that harvest nothing: what they ask for is told by their arguments, or by the pages they get."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from scrapy import Request, Spider, signals

from tileharvest.queue import orders
from tileharvest.queue.codec import VERSION, QueuedRequest, encode
from tileharvest.queue.port import Changes, Entry
from tileharvest.queue.sqlite.queue import SqliteQueue
from tileharvest.scheduler.engine import process_in_turn
from tileharvest.scheduler.scheduler import Scheduler
from tileharvest.scheduler.settings import scheduling_for
from tileharvest.scheduler.spider import HeldSpider
from tileharvest.spiders.settings import suit_tiles

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings
    from twisted.python.failure import Failure


class StubSpider(Spider):
    """Begins with the requests of the argument `orders`, a JSON list of dicts as `Request` takes them, with
    callbacks by name."""

    name = "stub"
    orders = "[]"

    async def start(self) -> AsyncIterator[Request]:
        for order in json.loads(self.orders):
            yield self._request(order)

    def parse(self, response: Response) -> Iterator[Any]:
        """An item, and a request for each line of the page: an address, or JSON as in `orders`."""
        yield {"url": response.url}
        for line in response.body.decode().splitlines() if response.status == 200 else ():
            order = json.loads(line) if line.startswith("{") else {"url": line}
            yield self._request({**order, "url": response.urljoin(order["url"])})

    def note(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "status": response.status}

    def raise_error(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
        raise ValueError("this page is no good")

    def yield_bad_item(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "bad": True}

    def failed(self, failure: Failure) -> None:
        self.logger.info("the spider saw to %s", type(failure.value).__name__)

    def _request(self, order: dict[str, Any]) -> Request:
        callbacks = {key: getattr(self, order[key]) for key in ("callback", "errback") if key in order}
        return Request(**{**order, **callbacks})


class HoldingSpider(StubSpider, HeldSpider):
    """Holds the scheduler before it begins."""

    name = "held"
    holds_scheduler = True

    async def start(self) -> AsyncIterator[Request]:
        scheduler: Any = self.crawler.engine.scheduler
        if await scheduler.release("some work", continued=False) is not None:
            async for request in super().start():
                yield request


class NamelessSpider(StubSpider):
    """A spider whose requests, except the first, have callbacks without a name."""

    def parse(self, response: Response) -> Iterator[Any]:
        for found in super().parse(response):
            if isinstance(found, Request):
                found = found.replace(callback=partial(self.note))  # noqa: PLW2901
            yield found


class VisitedSpider(StubSpider):
    """While it parses a page, another process pushes the addresses in it into the spider's queue."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
        bodies = [
            encode(QueuedRequest(version=VERSION, url=url, callback="note"))
            for url in response.body.decode().splitlines()
        ]

        async def push() -> None:
            queue = SqliteQueue(Path(self.settings["TILEHARVEST_DATA"], "queues", "stub.sqlite"))
            await queue.open_beside()
            await queue.exchange(Changes([Entry(body, "", None) for body in bodies]), 0, time.time())
            await queue.close()

        with ThreadPoolExecutor(1) as elsewhere:
            elsewhere.submit(asyncio.run, push()).result()


class SuitedSpider(StubSpider):
    """Has of Scrapy what the spiders of tiles have."""

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        super().update_settings(settings)
        suit_tiles(settings)


class HurriedSpider(SuitedSpider):
    """Has no delay before its first request, and ends Scrapy's delay at each answer. AutoThrottle changes the
    delay at each answer, too.

    Scrapy takes the last request to have started when the machine did. On a machine that has just started it
    would make the first request wait.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.begin_delay, signals.request_reached_downloader)
        return spider

    def begin_delay(self, request: Request) -> None:
        downloader: Any = self.crawler.engine.downloader
        slot = downloader.slots[request.meta["download_slot"]]
        slot.delay = self.settings.getfloat("DOWNLOAD_DELAY") if slot.lastseen else 0.0

    def note(self, response: Response) -> Iterator[Any]:
        downloader: Any = self.crawler.engine.downloader
        for slot in downloader.slots.values():
            slot.delay = 0.0
            if slot.latercall is not None:
                slot.latercall.cancel()
                downloader._latercall(slot)
        yield from super().note(response)


class RefusingPipeline:
    """Raises for an item that says it is bad."""

    def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
        if item.get("bad"):
            raise ValueError("this item is no good")
        return item


class AppendingPipeline:
    """Records each item's address in the file of the setting EFFECTS, so that no kill takes it back."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(Path(crawler.settings["EFFECTS"]))

    def open_spider(self) -> None:
        self._effects = self._file.open("a", encoding="utf-8")

    def close_spider(self) -> None:
        self._effects.close()

    def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
        self._effects.write(f"{item['url']}\n")
        self._effects.flush()
        os.fsync(self._effects.fileno())
        return item


class AheadScheduler(Scheduler):
    """A scheduler whose clock is ahead by the seconds of the setting AHEAD."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        ahead = crawler.settings.getfloat("AHEAD")
        return cls(crawler, replace(scheduling_for(crawler), clock=lambda: time.time() + ahead))


_LOGGER = logging.getLogger(__name__)


def tell(what: str, url: str) -> None:
    _LOGGER.info("event %s %s", what, urlsplit(url).path)


class SlowPipeline:
    """Lets an item pass only after some turns of the event loop."""

    async def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
        for _ in range(20):
            await asyncio.sleep(0)
        tell("item", item["url"])
        return item


class StoppedScheduler(Scheduler):
    """Which a person tells to stop while it opens its queue, joins its work or completes it, and which hears
    of it then: at the method of the queue that the setting STOPPED_AT names. That answers when the queue is
    closed, or the seconds of the setting STOPPED_LONG are over."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        scheduler = super().from_crawler(crawler)
        queue, method = scheduler._scheduling.queue, crawler.settings["STOPPED_AT"]
        queue = queue if hasattr(queue, method) else scheduler._scheduling.shared
        ask = getattr(queue, method)

        async def ask_stopped(*arguments: Any) -> Any:
            setattr(queue, method, ask)
            await orders.stop(queue)
            async with asyncio.timeout(5):
                while not scheduler._politeness.is_over:  # noqa: ASYNC110 - it knows of no event
                    await asyncio.sleep(0.01)
            with suppress(TimeoutError):
                async with asyncio.timeout(crawler.settings.getfloat("STOPPED_LONG")):
                    while scheduler._is_open:  # noqa: ASYNC110 - it knows of no event
                        await asyncio.sleep(0.01)
            return await ask(*arguments)

        setattr(queue, method, ask_stopped)
        return scheduler


class WatchedScheduler(Scheduler):
    """Tells what is enqueued, and what is through."""

    def enqueue_request(self, request: Request) -> bool:
        if self._crawler.settings.getbool("IN_TURN"):
            process_in_turn(self._crawler.engine)
        tell("enqueued", request.url)
        return super().enqueue_request(request)

    def _completed(self, request: Request) -> None:
        tell("through", request.url)
        super()._completed(request)
