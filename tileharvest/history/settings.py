"""Opens the history that the settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileharvest.history.database import History
from tileharvest.maps.settings import data_folder

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


def database_url(settings: BaseSettings) -> str:
    """SQLAlchemy's address of the history."""
    return settings["DATABASE_URL"] or f"sqlite:///{data_folder(settings) / 'history.sqlite'}"


def open_history_for_reading(settings: BaseSettings) -> History:
    """Raises HistoryError where there is none yet, or it cannot be read."""
    return History.open_read_only(database_url(settings))


def open_history_if_any(settings: BaseSettings) -> History | None:
    """As `open_history_for_reading`, but None where there is none yet."""
    return open_history_for_reading(settings) if has_history(settings) else None


def has_history(settings: BaseSettings) -> bool:
    """Whether a first harvest has begun a history; also on a server. Raises HistoryError where it cannot be
    asked."""
    return History.is_begun(database_url(settings))
