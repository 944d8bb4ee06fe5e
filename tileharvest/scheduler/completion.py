"""How a request is processed, and when completely: the one place that knows Scrapy's engine from inside.

Scrapy's scheduler interface has no word for it. In Scrapy 2.19 a request is through (its items have passed
the pipelines, its children are enqueued) exactly when the engine removes it from the set
`engine._slot.inprogress`; the engine asks for the next request when `engine._slot.nextcall` is scheduled;
and `engine.downloader.active` has the requests that are on the way. Should Scrapy gain a public
`finish_request`, that would take this module's place.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from scrapy.utils.defer import aiter_errback, iter_errback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def is_closing(engine: Any) -> bool:
    """Returns whether no further request starts, and what is on the way is waited for."""
    slot = getattr(engine, "_slot", None)
    return slot is None or getattr(slot, "closing", None) is not None


def process_in_turn(engine: Any) -> None:
    """Make the engine process what a callback yields without a queue and two tasks for each answer.

    Scrapy uses them for any number of CONCURRENT_ITEMS. For one at a time they take a tenth of what a tile
    costs, and a loop does the same in the same order. Where the setting allows several, nothing is changed.
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
    """Let so many requests be on the way from now on, to whatever host."""
    downloader = engine.downloader
    downloader.total_concurrency = downloader.domain_concurrency = concurrency
    for slot in downloader.slots.values():
        slot.concurrency = concurrency


class EngineHook(set[Any]):
    """Takes the place of the engine's set `inprogress`, to call back for each request that leaves it. It also
    makes the engine ask for requests.

    A scheduler is made before its engine. Until `attach`, nothing is on the way and nobody is woken.
    """

    def __init__(self, on_complete: Callable[[Any], None]) -> None:
        super().__init__()
        self._on_complete = on_complete
        self._slot: Any = None
        self.on_the_way: set[Any] = set()
        """The requests that are on the way, those included that wait for a connection."""

    def attach(self, engine: Any) -> None:
        """Raises RuntimeError where the engine is not as known: better no harvest than one whose requests are
        never finished."""
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
        """Make the engine ask for a request soon. Harmless when it closes."""
        if self._slot is not None and self._slot.closing is None:
            self._slot.nextcall.schedule()
