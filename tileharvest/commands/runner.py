"""The runner, which harvests many maps side by side in one process."""

from __future__ import annotations

import asyncio
import importlib
import logging
import signal
from contextlib import contextmanager, suppress
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from scrapy.settings import BaseSettings, Settings, SettingsAttribute
from scrapy.utils.defer import deferred_from_coro

from tileharvest.commands.settings import most_under_way
from tileharvest.commands.terminal import say
from tileharvest.errors import ConfigurationError
from tileharvest.maps.settings import described_map
from tileharvest.politeness.reasons import Reason
from tileharvest.spiders.log import WHOSE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from scrapy import Spider
    from scrapy.crawler import Crawler, CrawlerProcessBase

_logger = logging.getLogger(__name__)

_LOOK: Final = 0.5
"""Seconds between two looks which maps wait, while there is no place for another map."""

_MOMENT: Final = 0.1
"""Seconds between two looks for harvests that have started after the signal to stop."""

_APART: Final = 0.01
"""Seconds between the beginnings of two harvests. A harvest that has begun asks its site meanwhile, so that
its first request does not wait for a hundred beginnings."""

_MADE_UP: Final = 10
"""The beginnings that are made up for if the event loop is late. With only one in each turn of a busy loop,
the last map would begin late, because tiles of the first maps take the CPU."""

_UNMOVED: Final = 10.0
"""Seconds without a request after which a map counts as waiting. Its site is slow, or does not answer."""

_WAITING: Final = 10
"""The most maps under way for each place, waiting ones included. Each takes a megabyte of memory."""

_HELD: Final = frozenset({Reason.PAUSED, Reason.QUIET, Reason.DOWN})
"""The reasons for which a map may wait for minutes or hours."""


class CrawlSettings(Settings):
    """Settings that are cheap to copy. Scrapy copies them for each crawler, and then reads nearly all of
    them. That takes 2.4 ms of CPU with its own class, and 0.3 ms with this one.

    A copy behaves like Scrapy's deep copy. It shares a value with the original until the value is set, or
    until a value that can be changed is read.
    """

    _shared: set[str]
    """The names of the settings whose values may be shared with other copies."""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Returns a copy of the settings that is of this class."""
        copied = cls.__new__(cls)
        copied.frozen = settings.frozen
        copied.attributes = settings.copy().attributes
        copied._shared = set()
        return copied

    def copy(self) -> Self:
        copied = type(self).__new__(type(self))
        copied.frozen = self.frozen
        copied.attributes = self.attributes.copy()
        copied._shared = set(self.attributes)
        self._shared = set(self.attributes)
        return copied

    def __getitem__(self, name: str) -> Any:
        attribute = self.attributes.get(name)
        if attribute is None:
            return None
        if type(attribute.value) in _UNCHANGEABLE or name not in self._shared:
            return attribute.value
        self._own(name)
        return self.attributes[name].value

    def set(self, name: str, value: Any, priority: int | str = "project") -> None:
        if not self.frozen and name in self._shared:
            self._own(name)
        super().set(name, value, priority)

    def update(self, values: Any, priority: int | str = "project") -> None:  # type: ignore[override]  # as Scrapy
        """Sets all values, as Scrapy does, but passes over those that both share.

        Scrapy updates the settings of each crawler with the settings of which they are a copy.
        """
        if not isinstance(values, CrawlSettings):
            super().update(values, priority)
            return
        self._assert_mutability()
        for name, attribute in list(values.attributes.items()):
            if self.attributes.get(name) is not attribute:
                self.set(name, values[name], attribute.priority)

    def _own(self, name: str) -> None:
        """Gives the setting a value that is shared with nobody."""
        self._shared.discard(name)
        if name in self.attributes:
            self.attributes[name] = _copied(self.attributes[name])


_UNCHANGEABLE: Final = frozenset({bool, int, float, str, type(None)})
"""Types whose values cannot be changed."""


def _copied(attribute: SettingsAttribute) -> SettingsAttribute:
    """Returns what `deepcopy` returns, in a quarter of the time."""
    value = attribute.value
    if type(value) is BaseSettings:
        copied: Any = BaseSettings()
        copied.attributes = {key: _copied(one) for key, one in value.attributes.items()}
        copied.frozen = value.frozen
    elif type(value) is list and _UNCHANGEABLE.issuperset(map(type, value)):
        copied = value.copy()
    else:
        copied = value if type(value) in _UNCHANGEABLE else deepcopy(value)
    made = SettingsAttribute(copied, attribute.priority)
    # Otherwise it would have the highest priority of the settings inside.
    made.priority = attribute.priority
    return made


class RunnerListener(Protocol):
    """Hears of the harvests of a Runner."""

    def begun(self, name: str, crawler: Crawler) -> None:
        """Called when the map's crawler is about to start. Scrapy's signals tell of its spider later."""
        ...

    def ended(self, name: str, spider: Spider | None) -> None:
        """Called when the map's crawl is over. The spider is None if a mistake in the program has kept Scrapy
        from making it."""
        ...


class Places:
    """The maps under way, and whether there is a place for another one. Pure.

    A map that waits leaves its place to another map: it is paused, has quiet hours, or its host does not
    answer. When it goes on it need not wait for a place, so for a while more maps may work than there are
    places.
    """

    def __init__(self, at_once: int, most: int) -> None:
        """At most `most` maps are ever under way. With one place, maps come strictly one after the other,
        also when one of them waits."""
        if min(at_once, most) < 1:
            raise ValueError(f"{at_once} maps at once, of {most} at most, are none")
        self._at_once = at_once
        self._most = min(most, at_once if at_once == 1 else at_once * _WAITING)
        self._asked: dict[str, tuple[int, float]] = {}
        """For each map under way, the number of its requests and when that was last seen to change."""
        self._waiting: set[str] = set()

    def take(self, name: str, now: float) -> None:
        """Adds a map that begins. `now` is in seconds of a clock that never goes backwards."""
        self._asked[name] = (0, now)

    def look(self, name: str, requests: int, *, is_held: bool, now: float) -> None:
        """Notes how many requests the map has made. `is_held` says that it may make none at the moment."""
        before, since = self._asked[name]
        if requests != before:
            self._asked[name], since = (requests, now), now
        if is_held or now - since >= _UNMOVED:
            self._waiting.add(name)
        else:
            self._waiting.discard(name)

    def leave(self, name: str) -> None:
        """Removes a map that is done."""
        del self._asked[name]
        self._waiting.discard(name)

    @property
    def is_any_free(self) -> bool:
        """Whether another map may begin."""
        under_way = len(self._asked)
        return under_way - len(self._waiting) < self._at_once and under_way < self._most


async def spread(names: AsyncIterator[str], clock: Callable[[], float]) -> AsyncIterator[str]:
    """Yields the names with pauses, so that maps begin `_APART` seconds apart. If the event loop is late, at
    most `_MADE_UP` and one names come without a pause between them, however long each beginning takes."""
    now = due = clock()
    async for name in names:
        yield name
        due = max(due, now - _MADE_UP * _APART) + _APART
        if due > now:
            await asyncio.sleep(max(0.0, due - clock()))
            now = clock()


class Runner:
    """Harvests maps side by side in Scrapy's process, with a crawler for each map.

    An asynchronous generator of names gives the maps. The runner asks it for the next map when there is a
    place, and the generator may wait as long as it likes. If one harvest fails, the others go on.
    """

    def __init__(
        self,
        process: CrawlerProcessBase,
        listener: RunnerListener,
        *,
        at_once: int,
        arguments: Mapping[str, str],
        is_alone: bool = False,
    ) -> None:
        """`arguments` are the spiders' arguments besides the map. `is_alone` says that there will be only one
        map, so that lines of the log need not name it."""
        self._process = process
        process.settings = CrawlSettings.of(process.settings)
        self._listener = listener
        self._arguments = dict(arguments)
        self._is_alone = is_alone
        most = most_under_way()
        if most < at_once:
            say(f"`ulimit -n` lets this process open files for {most} maps at once, not for {at_once}")
        self._places = Places(at_once, most)
        self._crawlers: dict[str, Crawler] = {}
        self._under_way: dict[asyncio.Task[None], str] = {}
        self._beginning: asyncio.Task[None] | None = None
        self._quits = False
        self.is_stopping = False
        """Whether a signal has told this process to end all harvests."""

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
        level = str(self._process.settings["LOG_LEVEL"])
        with HISTORIES.kept(), _lines_from(level):
            self._process.start(stop_after_crawl=False)

    async def _run(self, names: AsyncIterator[str]) -> None:
        # Importing the reactor too early would install another one. To mypy it is a mere module.
        reactor: Any = importlib.import_module("twisted.internet.reactor")

        _call_at_signals(self._stop, self._quit)
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

    def _stop(self) -> None:
        self.is_stopping = True
        if self._beginning is not None:
            self._beginning.cancel()
        say("stopping: what is on the way finishes, and nothing is lost; press Ctrl-C again to quit at once")

    def _quit(self) -> None:
        self._quits = True

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
        async for name in spread(names, asyncio.get_running_loop().time):
            self._begin(name)
            await self._place()

    async def _place(self) -> None:
        """Returns when there is a place for another map."""
        from tileharvest.scheduler.crawl import crawl_of

        while not self._places.is_any_free:
            await asyncio.wait(self._under_way, timeout=_LOOK, return_when=asyncio.FIRST_COMPLETED)
            now = asyncio.get_running_loop().time()
            for name, crawler in self._crawlers.items():
                crawl = crawl_of(crawler)
                requests = 0 if crawl.harvest is None else crawl.harvest.traffic.requests
                reasons = set() if crawl.politeness is None else crawl.politeness.reasons
                self._places.look(name, requests, is_held=not _HELD.isdisjoint(reasons), now=now)

    def _begin(self, name: str) -> None:
        self._places.take(name, asyncio.get_running_loop().time())
        self._crawlers[name] = self._process.create_crawler(self._spider_of(name))
        task = asyncio.ensure_future(self._harvest(name, self._crawlers[name]))
        self._under_way[task] = name
        task.add_done_callback(self._under_way.pop)

    def _spider_of(self, name: str) -> type[Spider]:
        from tileharvest.spiders.renderers import spider_of

        try:
            return spider_of(described_map(self._process.settings, name).renderer)
        except ConfigurationError:
            # Any spider ends with the same error, as the end of this map alone.
            return spider_of("")

    async def _harvest(self, name: str, crawler: Crawler) -> None:
        from tileharvest.scheduler.crawl import forget

        if not self._is_alone:
            WHOSE.set(name)
        try:
            self._listener.begun(name, crawler)
            await self._process.crawl(crawler, map=name, **self._arguments)
        # The other maps go on.
        except Exception as mistake:
            _logger.error(
                "a mistake in the program has ended the harvest of map '%s'", name, exc_info=mistake
            )
        # Not reached after the second signal, so that the map stays under way.
        self._places.leave(name)
        del self._crawlers[name]
        self._listener.ended(name, crawler.spider)
        forget(crawler)


@contextmanager
def _lines_from(level: str) -> Iterator[None]:
    """Prevents lines of the log below this level from being made.

    Scrapy makes all lines and lets its handler drop them, which takes a hundredth of the CPU of slow maps.
    """
    before = logging.root.manager.disable
    logging.disable(max(before, logging.getLevelNamesMapping().get(level, logging.NOTSET) - 1))
    try:
        yield
    finally:
        logging.disable(before)


def _call_at_signals(called: Callable[[], object], *later: Callable[[], object]) -> None:
    """Calls `called` at the first signal and each of `later` at the next ones, before Scrapy's own handler.

    Scrapy sets another handler after each signal, and so does this.
    """
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        end: Any = signal.getsignal(number)

        def handle(received: int, frame: Any, end: Any = end) -> None:
            # Not called at once, because the signal may have interrupted a write to the same stream.
            loop.call_soon_threadsafe(called)
            end(received, frame)
            if later:
                _call_at_signals(*later)

        signal.signal(number, handle)
