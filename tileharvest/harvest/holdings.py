"""The holdings that a harvest writes to: a history, which the harvests of a process share, and a store."""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

from tileharvest.history.costs import NO_COST, spend
from tileharvest.history.database import History

if TYPE_CHECKING:
    from datetime import date

    from tileharvest.history.costs import Cost
    from tileharvest.store.port import TileStore


_LOCK: Final = Lock()
_CLOSING: Final = ExitStack()
"""Closes the histories that harvests of this process have opened, copies for dry runs too."""
_OPEN: Final[dict[str, History]] = {}
"""The histories that this process has open. All of its harvests share one object for each database: its
threads, its connections, and the statements that SQLAlchemy has prepared, which take a megabyte and a tenth
of a second."""


def shared_history(url: str) -> History:
    """Opens the history, unless this process has it open. It stays open until the process ends. Raises
    HistoryError."""
    with _LOCK:
        if url not in _OPEN:
            _OPEN[url] = _CLOSING.enter_context(History.open(url))
        return _OPEN[url]


@atexit.register
def close_histories() -> None:
    """Closes the histories that harvests of this process have opened."""
    _OPEN.clear()
    _CLOSING.close()


@dataclass(frozen=True, slots=True)
class Holdings:
    """Opens the history that the settings name, or a temporary one for a dry run, and has the store."""

    url: str
    """SQLAlchemy's address of the history."""
    store: TileStore
    dry_map: str | None = None
    """The map of a dry run, or None. Its history is copied, and the copy is thrown away."""

    def open_history(self) -> History:
        """Opens the history, or a temporary copy for a dry run, until the process ends. Raises
        HistoryError."""
        if self.dry_map is None:
            return shared_history(self.url)
        known = self.begun_history()
        copy = History.open_temporary() if known is None else known.dry_copy(self.dry_map)
        return _CLOSING.enter_context(copy)

    def begun_history(self) -> History | None:
        """Returns the history itself, also for a dry run. Returns None if there is none yet. Raises
        HistoryError."""
        is_begun = self.url in _OPEN or History.is_begun(self.url)
        return shared_history(self.url) if is_begun else None

    def spend(self, day: date, cost: Cost) -> None:
        """Adds the cost of a dry run to the day's spending in the history itself.

        For another run this does nothing, because its cost is recorded already. Raises HistoryError.
        """
        if self.dry_map is not None and cost != NO_COST:
            spend(shared_history(self.url), self.dry_map, day, cost)
