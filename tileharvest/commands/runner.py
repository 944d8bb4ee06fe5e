"""The runner, which harvests many maps side by side in one process."""

from __future__ import annotations

import asyncio
import importlib
import logging
import resource
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from scrapy import Spider
from scrapy.crawler import Crawler, CrawlerProcessBase

from tileharvest.commands.progress import HarvestProgress
from tileharvest.commands.terminal import say
from tileharvest.renderers.registry import USUAL
from tileharvest.spiders.log import WHOSE
from tileharvest.spiders.tiles import SPIDERS

_logger = logging.getLogger(__name__)

_LOOK: Final = 0.25
"""Seconds between two looks which maps wait while there is no place for another one, and which harvests have
started after the signal to stop."""
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
        ended: Callable[[str, Spider | None], Awaitable[None]],
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
        self._stopping: dict[str, asyncio.Task[None]] = {}
        self.is_stopping = False
        """Whether a signal has ended all harvests of this process."""
        self.fault: OSError | None = None
        """Why what was to be written of a harvest could not be. The harvests go on."""

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
        asyncio.get_event_loop().create_task(self._run(names))
        # The reactor must not stop after the first crawl: another one may follow.
        self._process.start(stop_after_crawl=False, install_signal_handlers=False)

    async def _run(self, names: AsyncIterator[str]) -> None:
        # Importing the reactor too early would install another one. To mypy it is a mere module.
        reactor: Any = importlib.import_module("twisted.internet.reactor")
        beginning = asyncio.ensure_future(self._begin_all(names))

        def end() -> None:
            # It may have stopped already.
            with suppress(RuntimeError):
                reactor.stop()

        def signalled() -> None:
            if self.is_stopping:
                end()
                return
            self.is_stopping = True
            beginning.cancel()
            self._stop_crawlers()
            words = "what is on the way finishes, and nothing is lost; press Ctrl-C again to quit at once"
            say(f"stopping: {words}")

        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, signalled)
        await asyncio.wait([beginning])
        if not beginning.cancelled() and (mistake := beginning.exception()) is not None:
            _logger.error("a mistake in the program has ended the harvests", exc_info=mistake)
        while self._under_way:
            await asyncio.wait(self._under_way, timeout=_LOOK)
            if self.is_stopping:
                # A harvest that was about to start at the signal has started meanwhile.
                self._stop_crawlers()
        end()

    def _stop_crawlers(self) -> None:
        """Stops each harvest that runs. What is on the way finishes."""
        for name, crawler in self._crawlers.items():
            # A crawler has no engine before it starts.
            with suppress(RuntimeError):
                if crawler.engine.running and name not in self._stopping:
                    self._stopping[name] = asyncio.ensure_future(crawler.engine.stop_async())

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
        # Any spider of tiles harvests any map. A project may have its spiders somewhere else.
        self._crawlers[name] = self._process.create_crawler(SPIDERS[USUAL.name])
        task = asyncio.ensure_future(self._harvest(name, self._crawlers[name]))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _harvest(self, name: str, crawler: Crawler) -> None:
        if not self._is_alone:
            WHOSE.set(name)
        try:
            self._progress.begin()
            self._progress.watch(name, crawler)
            await self._process.crawl(crawler, map=name, **self._arguments)
        # The other maps go on.
        except Exception:
            _logger.exception("a mistake in the program has ended the harvest of map '%s'", name)
        # Not reached after the second signal, so that the map stays under way.
        del self._crawlers[name]
        self._progress.remove(name)
        try:
            await self._ended(name, crawler.spider)
        except OSError as error:
            self.fault = error
