"""What a harvest writes to: a history, which the harvests of a process share, and a store."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

from tileharvest.history.costs import NO_COST, spend
from tileharvest.history.database import History
from tileharvest.store.port import DryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from datetime import date

    from tileharvest.history.costs import Cost
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.versions import Image


class OpenHistories:
    """The histories that this process has open. All its harvests share one of each database.

    So they share its threads, its connections and what SQLAlchemy has prepared, which takes a megabyte and
    the tenth of a second. May be used by several threads.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: dict[str, History] = {}
        self._users: dict[str, int] = {}
        self._keepers = 0

    def has(self, url: str) -> bool:
        """Returns whether the history is open."""
        return url in self._open

    @contextmanager
    def borrow(self, url: str) -> Iterator[History]:
        """Opens the history, or has it from who has opened it. The last one closes it. Raises
        HistoryError."""
        with self._lock:
            if url not in self._open:
                self._open[url] = History.open(url)
            self._users[url] = self._users.get(url, 0) + 1
            history = self._open[url]
        try:
            yield history
        finally:
            with self._lock:
                self._users[url] -= 1
                self._close_unused()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keeps open within the block what was opened once, though nobody may need it for a while."""
        with self._lock:
            self._keepers += 1
        try:
            yield
        finally:
            with self._lock:
                self._keepers -= 1
                self._close_unused()

    def _close_unused(self) -> None:
        if self._keepers:
            return
        for url in [url for url, users in self._users.items() if not users]:
            del self._users[url]
            self._open.pop(url).close()


HISTORIES: Final = OpenHistories()


@dataclass(frozen=True, slots=True)
class Holdings:
    """Opens the history and the store that the settings name; or, for a dry run, what forgets all of it."""

    url: str
    """SQLAlchemy's address of the history."""
    store: Callable[[], TileStore]
    """Opens the store."""
    dry_map: str | None = None
    """The map of a dry run: its history is copied, and the copy thrown away. None where all is kept."""

    def has_history(self) -> bool:
        """Returns whether a first harvest has begun one.

        Raises HistoryError where a server cannot be asked.
        """
        return HISTORIES.has(self.url) or History.is_begun(self.url)

    def open_history(self) -> AbstractContextManager[History]:
        """Raises HistoryError, now or within, saying what to do."""
        if self.dry_map is None:
            return HISTORIES.borrow(self.url)
        if not self.has_history():
            return History.open_temporary()
        with History.open_read_only(self.url) as history:
            return history.dry_copy(self.dry_map)

    def open_to_look(self) -> AbstractContextManager[History]:
        """Opens the history as it is, also for a dry run. Raises HistoryError, now or within."""
        return HISTORIES.borrow(self.url) if self.dry_map is None else History.open_read_only(self.url)

    def spend(self, day: date, cost: Cost) -> None:
        """Adds what a dry run has cost to the day's spending, which is kept.

        After another run this does nothing: the history has its cost already. Raises HistoryError.
        """
        if self.dry_map is not None and cost != NO_COST:
            with HISTORIES.borrow(self.url) as history:
                spend(history, self.dry_map, day, cost)

    def open_store(self) -> TileStore:
        """Raises StoreError, saying what to do."""
        return self.store() if self.dry_map is None else DryStore()


class StoreWriter:
    """Puts the images of a harvest into its store.

    What comes while others are stored is stored next, all together: a disk takes about as long for many as
    for one, and nothing that is asked of the site waits for it. Used from one event loop.
    """

    def __init__(self, store: TileStore) -> None:
        self.store = store
        self._waiting: dict[Image, bytes] = {}
        self._untold: set[Image] = set()
        """New ones of which nobody was told so."""
        self._under_way: dict[Image, asyncio.Future[None]] = {}
        """What waits, and what is being stored: an image that comes twice is stored once."""
        self.is_storing = False
        """Whether the store has not answered yet."""

    async def put(self, image: Image, body: bytes) -> bool:
        """Puts the image into the store. When it returns, the image outlives kills and power cuts.

        Returns whether it was not there before; of those who put the same one, to one alone. Raises
        StoreError.
        """
        stored = self._under_way.get(image)
        if stored is None:
            stored = self._under_way[image] = asyncio.get_running_loop().create_future()
            self._waiting[image] = body
            if not self.is_storing:
                self._store_waiting()
        # Whoever is cancelled must not take the image from the others who wait for the same one.
        await asyncio.shield(stored)
        is_new = image in self._untold
        self._untold.discard(image)
        return is_new

    def _store_waiting(self) -> None:
        images, self._waiting = self._waiting, {}
        self.is_storing = True
        # A bare future, no task: at its end asyncio.run cancels tasks, and nobody would hear of the images.
        job = asyncio.get_running_loop().run_in_executor(None, self.store.put_all, images)
        job.add_done_callback(lambda job: self._told(images, job))

    def _told(self, images: Mapping[Image, bytes], job: asyncio.Future[set[Image]]) -> None:
        self.is_storing = False
        failure = job.exception()
        if failure is None:
            self._untold |= job.result()
        for image in images:
            stored = self._under_way.pop(image)
            if failure is None:
                stored.set_result(None)
            else:
                stored.set_exception(failure)
        if self._waiting:
            self._store_waiting()
