"""What a harvest writes to: history and store as the settings name them, or dry ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tileharvest.history.database import History
from tileharvest.store.port import DryStore

if TYPE_CHECKING:
    from tileharvest.store.port import TileStore
    from tileharvest.store.settings import StorePlace


class Holdings(Protocol):
    """Opens what a harvest writes to; the dry ones forget all of it at the end."""

    def has_history(self) -> bool:
        """Whether a first harvest has begun one."""
        ...

    def open_history(self) -> History:
        """Raises HistoryError, saying what to do."""
        ...

    def open_store(self) -> TileStore:
        """Raises StoreError, saying what to do."""
        ...


@dataclass(frozen=True, slots=True)
class LocalHoldings:
    """They are kept."""

    url: str
    """SQLAlchemy's address of the history."""
    store: StorePlace

    def has_history(self) -> bool:
        return is_there(self.url)

    def open_history(self) -> History:
        return History.open(self.url)

    def open_store(self) -> TileStore:
        return self.store.open()


@dataclass(frozen=True, slots=True)
class DryHoldings:
    """A copy of the map's history that is thrown away, and a store that keeps nothing."""

    url: str
    map_name: str

    def has_history(self) -> bool:
        return is_there(self.url)

    def open_history(self) -> History:
        if not is_there(self.url):
            return History.open_temporary()
        with History.open_read_only(self.url) as history:
            return history.dry_copy(self.map_name)

    def open_store(self) -> TileStore:
        return DryStore()


def is_there(url: str) -> bool:
    """Whether a first harvest has begun a history. Raises HistoryError where a server cannot be asked."""
    return History.is_begun(url)
