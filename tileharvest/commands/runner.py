"""The runner, which harvests many maps side by side in one process."""

from __future__ import annotations

import asyncio
import importlib
import logging
import resource
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from scrapy.utils.defer import deferred_from_coro

from tileharvest.commands.terminal import say
from tileharvest.errors import ConfigurationError
from tileharvest.maps.settings import described_map
from tileharvest.spiders.log import WHOSE

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler, CrawlerProcessBase

    from tileharvest.commands.progress import HarvestProgress

_logger = logging.getLogger(__name__)

_LOOK: Final = 0.5
"""Seconds between two looks which maps wait, while there is no place for another map."""

_MOMENT: Final = 0.1
"""Seconds between two looks for harvests that have started after the signal to stop."""

_APART: Final = 0.01
"""Seconds between the beginnings of two harvests. A harvest that has begun asks its site meanwhile, so that
its first request does not wait for a hundred beginnings."""

_WAITING: Final = 10
"""The most maps under way for each place, waiting ones included. Each takes a megabyte of memory."""


class Runner:
    """Harvests maps side by side in Scrapy's process, with a crawler for each map.

    An asynchronous generator of names gives the maps. The runner asks it for the next map when there is a
    place, and the generator may wait as long as it likes. If one harvest fails, the others go on.
    """

    def __init__(
        self,
        process: CrawlerProcessBase,
        progress: HarvestProgress,
        ended: Callable[[str, Spider | None], None],
        *,
        at_once: int,
        arguments: Mapping[str, str],
        is_alone: bool = False,
    ) -> None:
        """`ended` is called when a map's crawl is over. The spider is None if a mistake in the program has
        kept Scrapy from making it. `arguments` are the spiders' arguments besides the map. `is_alone` says
        that there will be only one map, so that lines of the log need not name it."""
        self._process = process
        self._progress = progress
        self._ended = ended
        self._arguments = dict(arguments)
        self._is_alone = is_alone
        self._at_once = at_once
        # Each map has seven open files.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self._crawlers: dict[str, Crawler] = {}
        self._under_way: set[asyncio.Task[None]] = set()
        self._beginning: asyncio.Task[None] | None = None
        self._quits = False
        self.is_stopping = False
        """Whether a signal has ended all harvests of this process."""

    @property
    def under_way(self) -> list[str]:
        """The maps whose harvests have begun and not ended, in this order. After `run` they are the maps that
        the second signal has cut short."""
        return list(self._crawlers)

    def run(self, names: AsyncIterator[str]) -> None:
        """Harvests these maps. Returns when all of them are done, or when signals have ended them.

        Runs Scrapy's event loop, which can be run once. After the first SIGINT or SIGTERM the requests on the
        way finish. The second signal ends everything at once.
        """
        from tileharvest.harvest.holdings import HISTORIES

        asyncio.get_event_loop().create_task(self._run(names))
        # The reactor must not stop after the first crawl: another one may follow.
        with HISTORIES.kept():
            self._process.start(stop_after_crawl=False)

    async def _run(self, names: AsyncIterator[str]) -> None:
        # Importing the reactor too early would install another one. To mypy it is a mere module.
        reactor: Any = importlib.import_module("twisted.internet.reactor")

        _call_at_signals(self._signalled)
        reactor.addSystemEventTrigger("before", "shutdown", lambda: deferred_from_coro(self._last_ended()))
        self._beginning = asyncio.ensure_future(self._begin_all(names))
        try:
            await asyncio.wait([self._beginning])
            if not self._beginning.cancelled() and (mistake := self._beginning.exception()) is not None:
                _logger.error("a mistake in the program has ended the harvests", exc_info=mistake)
            while self._under_way:
                await asyncio.wait(self._under_way)
        finally:
            # After a signal Scrapy stops the reactor itself.
            if reactor.running and not self.is_stopping:
                reactor.stop()

    def _signalled(self) -> None:
        self._quits = self.is_stopping
        self.is_stopping = True
        if self._quits:
            return
        if self._beginning is not None:
            self._beginning.cancel()
        say("stopping: what is on the way finishes, and nothing is lost; press Ctrl-C again to quit at once")

    async def _last_ended(self) -> None:
        """Returns when no harvest is under way, or when the second signal has come.

        Scrapy stops the harvests that run when the first signal comes. A harvest that was about to start is
        stopped here once it has started.
        """
        stopping = set()
        while self._under_way and not self._quits:
            for crawler in self._crawlers.values():
                # The crawler may have no engine yet.
                with suppress(RuntimeError):
                    if crawler.engine.running:
                        stopping.add(asyncio.ensure_future(crawler.engine.stop_async()))
            await asyncio.wait(self._under_way, timeout=_MOMENT)

    async def _begin_all(self, names: AsyncIterator[str]) -> None:
        async for name in names:
            self._begin(name)
            await asyncio.sleep(_APART)
            while not self._has_place():
                await asyncio.wait(self._under_way, timeout=_LOOK, return_when=asyncio.FIRST_COMPLETED)

    def _has_place(self) -> bool:
        """Returns whether another map may begin.

        A map that waits leaves its place to another map. When it goes on it need not wait for a place, so for
        a while more maps may work than there are places. With one place, maps come strictly one after the
        other, also when one of them waits.
        """
        under_way = len(self._crawlers)
        if self._at_once == 1:
            return under_way == 0
        working = under_way - len(self._progress.held_up())
        return working < self._at_once and under_way < self._at_once * _WAITING

    def _begin(self, name: str) -> None:
        from tileharvest.spiders.renderers import spider_of

        try:
            renderer = described_map(self._process.settings, name).renderer
        except ConfigurationError:
            # Any spider ends with the same error, as the end of this map alone.
            renderer = ""
        self._crawlers[name] = self._process.create_crawler(spider_of(renderer))
        task = asyncio.ensure_future(self._harvest(name, self._crawlers[name]))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _harvest(self, name: str, crawler: Crawler) -> None:
        if not self._is_alone:
            WHOSE.set(name)
        try:
            self._progress.begin()
            self._progress.watch(name, crawler, is_dry=self._arguments.get("dry") == "1")
            await self._process.crawl(crawler, map=name, **self._arguments)
        # The other maps go on.
        except Exception:
            _logger.exception("a mistake in the program has ended the harvest of map '%s'", name)
        # Not reached after the second signal, so that the map stays under way.
        del self._crawlers[name]
        self._progress.remove(name)
        self._ended(name, crawler.spider)


def _call_at_signals(called: Callable[[], object]) -> None:
    """Calls `called` at each signal before Scrapy's own handler.

    Scrapy sets another handler after each signal, and so does this, until Scrapy ignores them.
    """
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        end: Any = signal.getsignal(number)

        def handle(received: int, frame: Any, end: Any = end) -> None:
            # Not called at once, because the signal may have interrupted a write to the same stream.
            loop.call_soon_threadsafe(called)
            end(received, frame)
            _call_at_signals(called)

        if callable(end):
            signal.signal(number, handle)
