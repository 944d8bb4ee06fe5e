"""Spiders that harvest nothing: what they ask for is told by their arguments, or by the pages they get."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from twisted.python.failure import Failure

from tileharvest.errors import BudgetError, QueueError
from tileharvest.queue.segments import Segment
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.scheduler.request_writer import RequestWriter
from tileharvest.scheduler.scheduler import scheduler_of


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
        """An errback."""

    def _request(self, order: dict[str, Any]) -> Request:
        callbacks = {key: getattr(self, order[key]) for key in ("callback", "errback") if key in order}
        return Request(**{**order, **callbacks})


class NamelessSpider(StubSpider):
    """A spider whose requests, except the first, have callbacks without a name."""

    def parse(self, response: Response) -> Iterator[Any]:
        for found in super().parse(response):
            if isinstance(found, Request):
                found = found.replace(callback=partial(self.note))  # noqa: PLW2901
            yield found


class WatchingSpider(StubSpider):
    """Counts the exchanges with new requests during which the engine may take the crawl for finished."""

    async def start(self) -> AsyncIterator[Request]:
        scheduler = scheduler_of(self.crawler)
        assert scheduler is not None
        exchange = scheduler.queue.exchange

        async def watched(entries: Any, *others: Any) -> Any:
            found = await exchange(entries, *others)
            if entries and not scheduler.has_pending_requests():
                self.crawler.stats.inc_value("scheduler/overlooked")
            return found

        scheduler.queue.exchange = watched  # type: ignore[method-assign]
        async for request in super().start():
            yield request


class FailingQueueSpider(StubSpider):
    """Its queue fails once, when it is to take the links of the first page. The page ends after that. With
    the argument `ends` a budget has ended the crawl by then, which keeps all results."""

    ends = ""

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        scheduler, failed = scheduler_of(self.crawler), asyncio.Event()
        assert scheduler is not None
        exchange = scheduler.queue.exchange

        async def fail(*_: Any) -> Any:
            scheduler.queue.exchange = exchange
            if self.ends:
                crawl_of(self.crawler).end(BudgetError("all is spent", "budget"))
            failed.set()
            raise QueueError("the disk is full")

        scheduler.queue.exchange = fail
        for found in super().parse(response):
            yield found
        await failed.wait()


class BlockingSpider(StubSpider):
    """Blocks its process at each page until the file of the setting BLOCKS_UNTIL is there."""

    def parse(self, response: Response) -> Iterator[Any]:
        while not Path(self.settings["BLOCKS_UNTIL"]).exists():
            time.sleep(0.01)
        yield from super().parse(response)


class RenamedSpider(StubSpider):
    """Loses a callback after its requests were enqueued."""

    async def start(self) -> AsyncIterator[Request]:
        type(self).parse_item = StubSpider.note  # type: ignore[attr-defined]
        scheduler_of(self.crawler)._writer = RequestWriter(self)
        async for request in super().start():
            yield request
        del type(self).parse_item  # type: ignore[attr-defined]
        scheduler_of(self.crawler)._writer = RequestWriter(self)


class OtherSegments:
    """A resolver that has another segment whenever it is asked."""

    numbers = count()

    def __init__(self, zone: Any, started: Any) -> None:
        pass

    def segment_at(self, request: Any, moment: datetime) -> Segment:
        return Segment(f"segment-{next(self.numbers)}", moment, None)


class DropsCounted:
    """An extension that counts what is dropped, as Scrapy tells it."""

    def __init__(self, crawler: Crawler) -> None:
        self._stats = crawler.stats
        crawler.signals.connect(self.dropped, signals.request_dropped)
        crawler.signals.connect(self.scheduled, signals.request_scheduled)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def dropped(self, request: Request) -> None:
        self._stats.inc_value(f"told/dropped/{urlsplit(request.url).path}")

    def scheduled(self, request: Request) -> None:
        if urlsplit(request.url).path == "/forbidden":
            raise IgnoreRequest


class SlowListener:
    """An extension that takes its time over each item, for which Scrapy lets two links of its page wait."""

    def __init__(self, crawler: Crawler) -> None:
        crawler.signals.connect(self.scraped, signals.item_scraped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def scraped(self) -> None:
        await asyncio.sleep(0.3)


class ForgetfulMiddleware:
    """A downloader middleware that makes one request in place of another, and takes nothing over of that."""

    def process_response(self, request: Request, response: Response) -> Request | Response:
        other = Request(response.urljoin("2"), callback=request.callback)
        return other if request.url.endswith("/1") else response


class RefusingPipeline:
    """Raises for an item that says it is bad."""

    def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
        if item.get("bad"):
            raise ValueError("this item is no good")
        return item


class AppendingPipeline:
    """Records each item's address in the file of the setting EFFECTS, so that no kill takes it back."""

    def __init__(self, file: str) -> None:
        self._file = file

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler.settings["EFFECTS"])

    def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
        with open(self._file, "a", encoding="utf-8") as effects:  # noqa: PTH123 - no path
            effects.write(f"{item['url']}\n")
            effects.flush()
            os.fsync(effects.fileno())
        return item
