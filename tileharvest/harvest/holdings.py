"""The holdings that a harvest writes to: a history, which the harvests of a process share, and a store."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

from tileharvest.history.costs import NO_COST, spend
from tileharvest.history.database import History

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from datetime import date

    from tileharvest.history.costs import Cost
    from tileharvest.store.port import TileStore


_LOCK: Final = Lock()
_OPEN: Final[dict[str, History]] = {}
"""The histories that this process has open. All of its harvests share one object for each database: its
threads, its connections, and the statements that SQLAlchemy has prepared, which take a megabyte and a tenth
of a second."""
_USERS: Final[Counter[str]] = Counter()
"""How many use each of them. Who uses all of them, whichever come, counts for the empty name."""


@contextmanager
def borrowed(url: str) -> Iterator[History]:
    """Opens the history, unless it is open. The last user closes it. Raises HistoryError."""
    with _LOCK:
        if url not in _OPEN:
            _OPEN[url] = History.open(url)
        history = _OPEN[url]
        _USERS[url] += 1
    try:
        yield history
    finally:
        _leave(url)


@contextmanager
def kept_open() -> Iterator[None]:
    """Keeps histories open until the block ends, even when nobody uses them."""
    with _LOCK:
        _USERS[""] += 1
    try:
        yield
    finally:
        _leave("")


def _leave(url: str) -> None:
    with _LOCK:
        _USERS[url] -= 1
        for unused in [one for one in _OPEN if not (_USERS[one] or _USERS[""])]:
            _OPEN.pop(unused).close()


@dataclass(frozen=True, slots=True)
class Holdings:
    """Opens the history that the settings name, or a temporary one for a dry run, and has the store."""

    url: str
    """SQLAlchemy's address of the history."""
    store: TileStore
    dry_map: str | None = None
    """The map of a dry run, or None. Its history is copied, and the copy is thrown away."""

    def open_history(self) -> AbstractContextManager[History]:
        """Opens the history, or a temporary copy for a dry run. Raises HistoryError, now or when it is
        entered."""
        if self.dry_map is None:
            return borrowed(self.url)
        if not History.is_begun(self.url):
            return History.open_temporary()
        with History.open_read_only(self.url) as history:
            return history.dry_copy(self.dry_map)

    def open_to_look(self) -> AbstractContextManager[History | None]:
        """Opens the history itself for reading, also for a dry run. None is entered if there is none yet.
        Raises HistoryError, now or when it is entered."""
        if self.dry_map is None:
            return borrowed(self.url) if self.url in _OPEN or History.is_begun(self.url) else nullcontext()
        return History.open_read_only(self.url) if History.is_begun(self.url) else nullcontext()

    def spend(self, day: date, cost: Cost) -> None:
        """Adds the cost of a dry run to the day's spending in the history itself.

        For another run this does nothing, because its cost is recorded already. Raises HistoryError.
        """
        if self.dry_map is not None and cost != NO_COST:
            with borrowed(self.url) as history:
                spend(history, self.dry_map, day, cost)
