"""The holdings that a harvest writes to: a history, which the harvests of a process share, and a store."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

from tileharvest.history.costs import NO_COST, spend
from tileharvest.history.database import History
from tileharvest.store.port import DryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from datetime import date

    from tileharvest.history.costs import Cost
    from tileharvest.store.port import TileStore


class OpenHistories:
    """The histories that this process has open. All of its harvests share one object for each database.

    They share its threads, its connections, and the statements that SQLAlchemy has prepared, which take a
    megabyte and a tenth of a second. May be used by several threads.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: dict[str, History] = {}
        self._users: dict[str, int] = {}
        self._keepers = 0

    @contextmanager
    def borrow(self, url: str) -> Iterator[History]:
        """Opens the history, unless it is open. The last user closes it. Raises HistoryError."""
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
    def borrow_begun(self, url: str) -> Iterator[History | None]:
        """Lends the history as `borrow` does, or None if there is none yet. Raises HistoryError."""
        with self.borrow(url) if url in self._open or History.is_begun(url) else nullcontext() as lent:
            yield lent

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keeps histories open until the block ends, even when nobody uses them."""
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
    """Opens the history and the store that the settings name. For a dry run it opens temporary ones
    instead."""

    url: str
    """SQLAlchemy's address of the history."""
    store: Callable[[], TileStore]
    """Opens the store."""
    dry_map: str | None = None
    """The map of a dry run, or None. Its history is copied, and the copy is thrown away."""

    def open_history(self) -> AbstractContextManager[History]:
        """Opens the history, or a temporary copy for a dry run. Raises HistoryError, now or when it is
        entered."""
        if self.dry_map is None:
            return HISTORIES.borrow(self.url)
        if not History.is_begun(self.url):
            return History.open_temporary()
        with History.open_read_only(self.url) as history:
            return history.dry_copy(self.dry_map)

    def open_to_look(self) -> AbstractContextManager[History | None]:
        """Opens the history itself for reading, also for a dry run. None is entered if there is none yet.
        Raises HistoryError, now or when it is entered."""
        if self.dry_map is None:
            return HISTORIES.borrow_begun(self.url)
        return History.open_read_only(self.url) if History.is_begun(self.url) else nullcontext()

    def spend(self, day: date, cost: Cost) -> None:
        """Adds the cost of a dry run to the day's spending in the history itself.

        For another run this does nothing, because its cost is recorded already. Raises HistoryError.
        """
        if self.dry_map is not None and cost != NO_COST:
            with HISTORIES.borrow(self.url) as history:
                spend(history, self.dry_map, day, cost)

    def open_store(self) -> TileStore:
        """Opens the store, or for a dry run one that keeps nothing. Raises StoreError."""
        return self.store() if self.dry_map is None else DryStore()
