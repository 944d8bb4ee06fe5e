"""Hooks into Scrapy's engine, which tell when a request is completely processed.

Scrapy's scheduler interface does not tell that. In Scrapy 2.19 a request is through (its items have passed
the pipelines, and its children are enqueued) exactly when the engine removes it from the set
`engine._slot.inprogress`. The engine asks for the next request when `engine._slot.nextcall` is scheduled.
`engine.downloader.active` has the requests that are on the way. A public `finish_request` of Scrapy's would
take this module's place.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from scrapy.utils.defer import aiter_errback, iter_errback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def is_closing(engine: Any) -> bool:
    """Returns whether the engine closes: no further request starts, and it waits for those on the way."""
    slot = getattr(engine, "_slot", None)
    return slot is None or getattr(slot, "closing", None) is not None


def process_in_turn(engine: Any) -> None:
    """Makes the engine process what a callback yields in a loop, if CONCURRENT_ITEMS is 1.

    Scrapy uses a queue and two tasks for each answer, whatever the setting. They take a tenth of what a tile
    costs. The loop processes the same in the same order. With another setting nothing is changed.
    """
    scraper = engine.scraper
    if scraper.concurrent_items != 1:
        return
    process = scraper._process_spidermw_output_async

    async def handled(result: Iterable[Any] | AsyncIterator[Any], request: Any, response: Any) -> None:
        errback = scraper.handle_spider_error
        if isinstance(result, AsyncIterator):
            async for output in aiter_errback(result, errback, request, response):
                await process(output, response)
        else:
            for output in iter_errback(result, errback, request, response):
                await process(output, response)

    scraper.handle_spider_output_async = handled


def allow_at_once(engine: Any, concurrency: int) -> None:
    """Lets so many requests be on the way from now on, to whatever hosts."""
    downloader = engine.downloader
    downloader.total_concurrency = downloader.domain_concurrency = concurrency
    for slot in downloader.slots.values():
        slot.concurrency = concurrency


class EngineHook(set[Any]):
    """A set that takes the place of the engine's set `inprogress`, and calls back for each request that
    leaves it. It also makes the engine ask for requests.

    A scheduler is made before its engine. Until `attach` nothing is on the way, and `wake` does nothing.
    """

    def __init__(self, on_complete: Callable[[Any], None]) -> None:
        super().__init__()
        self._on_complete = on_complete
        self._slot: Any = None
        self.on_the_way: set[Any] = set()
        """The requests on the way, including those that wait for a connection."""

    def attach(self, engine: Any) -> None:
        """Takes its place in the engine. Raises RuntimeError if the engine is not built as expected: better
        no harvest than one whose requests are never finished."""
        slot = getattr(engine, "_slot", None)
        nextcall = getattr(slot, "nextcall", None)
        active: Any = getattr(getattr(engine, "downloader", None), "active", None)
        places = isinstance(getattr(slot, "inprogress", None), set) and isinstance(active, set)
        if not places or not hasattr(nextcall, "schedule"):
            raise RuntimeError(
                "this version of Scrapy keeps its requests in other places than engine._slot.inprogress and"
                " engine.downloader.active: install the version that requirements.txt names"
            )
        assert slot is not None
        self.update(slot.inprogress)
        slot.inprogress = self
        self._slot = slot
        self.on_the_way = active

    def remove(self, request: Any) -> None:
        super().remove(request)
        self._on_complete(request)

    def wake(self) -> None:
        """Makes the engine ask for a request soon. Does nothing if the engine closes."""
        if self._slot is not None and self._slot.closing is None:
            self._slot.nextcall.schedule()
