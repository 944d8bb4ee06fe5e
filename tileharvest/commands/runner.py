"""Many maps harvested side by side in one process."""

from __future__ import annotations

import asyncio
import importlib
import logging
import signal
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from scrapy.settings import Settings
from scrapy.utils.defer import deferred_from_coro

from tileharvest.commands.settings import most_under_way
from tileharvest.commands.terminal import say
from tileharvest.errors import ConfigurationError
from tileharvest.harvest.holdings import HISTORIES
from tileharvest.maps.settings import described_map
from tileharvest.politeness.reasons import Reason
from tileharvest.scheduler.crawl import crawl_of, forget
from tileharvest.spiders.log import PrintableRecord
from tileharvest.spiders.renderers import spider_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from scrapy import Spider
    from scrapy.crawler import Crawler, CrawlerProcessBase

_logger = logging.getLogger(__name__)

_LOOK: Final = 0.5
"""Seconds between two looks at which maps wait, while there is no place for another one."""

_MOMENT: Final = 0.1
"""Seconds between two looks for harvests that have started after they were told to stop."""

_APART: Final = 0.01
"""Seconds between the beginnings of two harvests. What has begun asks its site meanwhile, so that the first
request does not wait for a hundred beginnings."""

_UNMOVED: Final = 10.0
"""Seconds without a request after which a map is said to wait. Its site is slow, or does not answer."""

_WAITING: Final = 10
"""So many maps may be under way for each place, those that wait included. Each takes a megabyte of memory."""

_HELD: Final = frozenset({Reason.PAUSED, Reason.QUIET, Reason.DOWN})
"""The reasons for which a map may wait for minutes or hours."""


_whose: Final[ContextVar[str | None]] = ContextVar("whose", default=None)
"""The map for which the present task works, or None. A task has it from the one that made it, and so has the
answer that it waits for."""


class CrawlSettings(Settings):
    """Settings that cost little to copy, as Scrapy does for each crawler: 20 microseconds of CPU instead of
    2,000.

    A copy has values of its own, as Scrapy's copies have. It shares each value with the settings that were
    copied until the value is set, or is asked for and can be changed.
    """

    _shared: set[str]
    """The names of the settings that may be shared with others."""

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
        """As Scrapy does it. What both share is the same already: Scrapy updates the settings of each crawler
        with those that they are a copy of."""
        if not isinstance(values, CrawlSettings):
            super().update(values, priority)
            return
        self._assert_mutability()
        for name, attribute in list(values.attributes.items()):
            if self.attributes.get(name) is not attribute:
                self.set(name, values[name], attribute.priority)

    def _own(self, name: str) -> None:
        """Let the setting have a value that is shared with nobody."""
        self._shared.discard(name)
        if name in self.attributes:
            self.attributes[name] = deepcopy(self.attributes[name])


_UNCHANGEABLE: Final = frozenset({bool, int, float, str, type(None)})
"""The types of values that nobody can change."""


class RunnerListener(Protocol):
    """Who is told of the harvests."""

    def begun(self, name: str, crawler: Crawler) -> None:
        """The map's crawler is made, and is about to start. Its spider comes with Scrapy's signals."""
        ...

    def ended(self, name: str, spider: Spider | None) -> None:
        """The map's crawl is over. There is no spider where a mistake in the program kept it from being
        made."""
        ...


class Places:
    """Which maps are under way, and whether there is a place for one more. Pure.

    A map that waits leaves its place to another one: it is paused, has quiet hours, or its host does not
    answer. When it goes on it is not held up, so for a while more maps may work than there are places.
    """

    def __init__(self, at_once: int, most: int) -> None:
        """No more than `most` are ever under way. With one place the maps come strictly one after the other,
        whatever they wait for."""
        if min(at_once, most) < 1:
            raise ValueError(f"{at_once} maps at once, of {most} at most, are none")
        self._at_once = at_once
        self._most = min(most, at_once if at_once == 1 else at_once * _WAITING)
        self._asked: dict[str, tuple[int, float]] = {}
        """By map under way, its requests, and when it was last seen to have made one."""
        self._waiting: set[str] = set()

    def take(self, name: str, now: float) -> None:
        """The map begins. `now` is in seconds that never go backwards."""
        self._asked[name] = (0, now)

    def look(self, name: str, requests: int, *, is_held: bool, now: float) -> None:
        """The map has made so many requests by now. `is_held` says that it may make none."""
        before, since = self._asked[name]
        if requests != before:
            self._asked[name], since = (requests, now), now
        if is_held or now - since >= _UNMOVED:
            self._waiting.add(name)
        else:
            self._waiting.discard(name)

    def leave(self, name: str) -> None:
        """The map is done."""
        del self._asked[name]
        self._waiting.discard(name)

    @property
    def is_any_free(self) -> bool:
        """Whether another map may begin."""
        under_way = len(self._asked)
        return under_way - len(self._waiting) < self._at_once and under_way < self._most


class Runner:
    """Harvests maps side by side in Scrapy's process, a crawler for each.

    The maps come in the order of their source, an asynchronous generator of names. It is asked for the next
    one when there is a place, and may then wait for as long as it likes. What fails in one harvest is its
    own: the others go on, and so does the source.
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
        """`arguments` are those of each spider, besides the map. `is_alone` says that there will be one map
        only: then the lines of the log need not say whose they are."""
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
        """Whether a person has sent a signal to end all harvests."""

    @property
    def under_way(self) -> list[str]:
        """The maps whose harvests have begun and not ended, in this order. After `run` these are the ones
        that were left at once."""
        return list(self._crawlers)

    def run(self, names: AsyncIterator[str]) -> None:
        """Returns when the source has ended and so have its harvests, or when a person has ended them.

        It runs Scrapy's event loop, which can be run once. The first SIGINT or SIGTERM lets what is on the
        way finish, the second ends everything at once.
        """
        asyncio.get_event_loop().create_task(self._run(names))
        # After this crawl there may be another one.
        level = str(self._process.settings["LOG_LEVEL"])
        with HISTORIES.kept(), _lines_from(level), nullcontext() if self._is_alone else _maps_named():
            self._process.start(stop_after_crawl=False)

    async def _run(self, names: AsyncIterator[str]) -> None:
        # To import it too early would install another reactor. It is a module only to mypy.
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
            # After a signal Scrapy stops it.
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
        """Returns when no harvest is under way, or the second signal has come. Scrapy has stopped those that
        ran when the first came. One that was about to start is stopped here when it has."""
        stopping = set()
        while self._under_way and not self._quits:
            for crawler in self._crawlers.values():
                # It may have no engine yet.
                with suppress(RuntimeError):
                    if crawler.engine.running:
                        stopping.add(asyncio.ensure_future(crawler.engine.stop_async()))
            await asyncio.wait(self._under_way, timeout=_MOMENT)

    async def _begin_all(self, names: AsyncIterator[str]) -> None:
        async for name in names:
            self._begin(name)
            await asyncio.sleep(_APART)
            await self._place()

    async def _place(self) -> None:
        """Returns when there is a place for another map."""
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
        try:
            return spider_of(described_map(self._process.settings, name).renderer)
        except ConfigurationError:
            # Any spider says what is wrong, as the end of this map's harvest alone.
            return spider_of("")

    async def _harvest(self, name: str, crawler: Crawler) -> None:
        _whose.set(name)
        try:
            self._listener.begun(name, crawler)
            await self._process.crawl(crawler, map=name, **self._arguments)
        # It is this map's own: the others go on.
        except Exception as mistake:
            _logger.error(
                "a mistake in the program has ended the harvest of map '%s'", name, exc_info=mistake
            )
        # Not where everything was ended at once: then the map is still under way.
        self._places.leave(name)
        del self._crawlers[name]
        self._listener.ended(name, crawler.spider)
        forget(crawler)


class _RecordOfMap(PrintableRecord):
    """A line of the log that says of which map it is, unless it is of none or says so itself."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.whose = _whose.get()

    def getMessage(self) -> str:  # noqa: N802 - the library's name
        """Called for lines only that are written."""
        message, whose = super().getMessage(), f"map '{self.whose}'"
        return message if self.whose is None or whose in message else f"{whose}: {message}"


@contextmanager
def _maps_named() -> Iterator[None]:
    """Lets all lines of the log say of which map they are: ours, Scrapy's, and those of other libraries.

    Scrapy makes its handler anew for each crawler, so that it cannot be told.
    """
    before = logging.getLogRecordFactory()
    logging.setLogRecordFactory(_RecordOfMap)
    try:
        yield
    finally:
        logging.setLogRecordFactory(before)


@contextmanager
def _lines_from(level: str) -> Iterator[None]:
    """Lets no line of the log be made that would not be written. Scrapy's logger lets all of them pass, and
    leaves the choice to its handler: a hundredth of the time of maps that are asked slowly."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.getLevelNamesMapping().get(level, logging.NOTSET) - 1))
    try:
        yield
    finally:
        logging.disable(before)


def _call_at_signals(called: Callable[[], object], *later: Callable[[], object]) -> None:
    """Calls it at the first signal, and the next ones at those that follow, besides what Scrapy does then.
    Scrapy sets other handlers for each."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        end: Any = signal.getsignal(number)

        def handle(received: int, frame: Any, end: Any = end) -> None:
            # Not called here: what the signal interrupts may be writing to the same stream.
            loop.call_soon_threadsafe(called)
            end(received, frame)
            if later:
                _call_at_signals(*later)

        signal.signal(number, handle)
