"""The settings of the commands, and the history and the queues that the settings name."""

from __future__ import annotations

import asyncio
import glob
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import unquote
from zoneinfo import ZoneInfo

from scrapy.settings import BaseSettings
from scrapy.spiderloader import get_spider_loader

from tileharvest.commands.project_command import number, value
from tileharvest.errors import ConfigurationError, nearest
from tileharvest.history.database import History
from tileharvest.history.settings import open_history_if_any
from tileharvest.maps.description import MapDescription
from tileharvest.maps.settings import all_maps, data_folder, described_map, maps_file
from tileharvest.queue.port import Entry, RequestQueue
from tileharvest.queue.settings import has_local_worker, has_queue, open_beside, workers_on
from tileharvest.queue.sqlite.queue import file_stem
from tileharvest.scheduler.settings import queue_name
from tileharvest.spiders.tiles import TileSpider

Told = TypeVar("Told")

AT_ONCE: Final = value(
    "how many maps are harvested side by side (default: 16)", number(int, 1), default=16, metavar="N"
)


@dataclass(frozen=True, slots=True)
class QueueOwner:
    """A map, or a spider that harvests no map, as the owner of a queue."""

    settings: BaseSettings
    name: str
    description: MapDescription | None
    """None for a spider."""

    @property
    def kind(self) -> str:
        return "spider" if self.description is None else "map"

    @property
    def queue(self) -> str:
        """The name of the queue.

        A spider has one for each set of arguments: the one at which a crawl works is meant, or else that
        without arguments, or else the one that was used last.
        """
        if self.description is not None:
            return self.name
        name = queue_name(self.settings, self.name)
        begins = glob.escape(file_stem(f"{name}:"))
        files = data_folder(self.settings).glob(f"queues/{begins}*.sqlite")
        newest = sorted(files, key=lambda file: file.stat().st_mtime, reverse=True)
        with_arguments = [unquote(file.stem) for file in newest]
        known = [name, *with_arguments] if has_queue(self.settings, name) else [*with_arguments, name]
        return next((one for one in known if has_local_worker(self.settings, one)), known[0])

    @property
    def in_words(self) -> str:
        """Returns a text such as `map 'small'` or `spider 'quotes'`."""
        return f"{self.kind} '{self.name}'"

    @property
    def run(self) -> str:
        """Returns `harvest` or `crawl`: what works on the queue, and the command that starts it."""
        return "crawl" if self.description is None else "harvest"

    @property
    def zone_info(self) -> ZoneInfo:
        return ZoneInfo("UTC") if self.description is None else self.description.zone_info

    def ask(self, question: Callable[[RequestQueue], Awaitable[Told]]) -> Told:
        """Returns the answer of the question. The queue may be in use, and is made if there is none.

        Must not be called inside an event loop. Raises QueueError.
        """

        async def ask() -> Told:
            async with open_beside(self.settings, self.queue) as queue:
                return await question(queue)

        return asyncio.run(ask())

    def ask_if_any(self, question: Callable[[RequestQueue], Awaitable[Told]], otherwise: Told) -> Told:
        """Returns the answer of the question, or `otherwise` if there is no queue. Makes no queue."""
        return self.ask(question) if has_queue(self.settings, self.queue) else otherwise

    def push(self, entries: list[Entry]) -> None:
        """Puts these requests into the queue. Must not be called inside an event loop. Raises QueueError."""
        self.ask(lambda queue: queue.exchange(entries, (), 0, (), time.time()))

    @property
    def workers(self) -> int:
        """How many workers are at the queue now, or 0 if that cannot be found out."""
        return workers_on(self.settings, self.queue)


def queue_owner(settings: BaseSettings, name: str) -> QueueOwner:
    """Returns the map or the spider of that name, and the map if there are both.

    Raises ConfigurationError for an unknown name. It suggests the nearest name.
    """
    try:
        return QueueOwner(settings, name, described_map(settings, name))
    except ConfigurationError:
        # All spiders are loaded only for a name that is none of a map.
        owners = {owner.name: owner for owner in queue_owners(settings)}
        if name not in owners and all(owner.description for owner in owners.values()):
            raise
    if name not in owners:
        hint = nearest(name, owners, f"there are {', '.join(owners)}")
        raise ConfigurationError(f"there is neither a map nor a spider '{name}'; {hint}")
    return owners[name]


def queue_owners(settings: BaseSettings) -> Sequence[QueueOwner]:
    """Returns all maps, and then all spiders of the project that harvest no map: each has a queue of its own.

    Raises ConfigurationError.
    """
    loader = get_spider_loader(settings)
    spiders = [name for name in loader.list() if not issubclass(loader.load(name), TileSpider)]
    maps = all_maps(settings) if maps_file(settings).exists() or not spiders else {}
    return [QueueOwner(settings, name, maps.get(name)) for name in dict.fromkeys([*maps, *spiders])]


def ask_history(settings: BaseSettings, question: Callable[[History], Told]) -> Told | None:
    """Returns the answer of the question, or None if there is no history yet. Raises HistoryError."""
    with open_history_if_any(settings) or nullcontext() as history:
        return None if history is None else question(history)
