"""The history that the settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from tileharvest.history.connection import parse_address
from tileharvest.history.database import History
from tileharvest.maps.settings import data_folder, setting

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


def database_url(settings: BaseSettings) -> str:
    """Returns SQLAlchemy's address of the history. Raises ConfigurationError for none that can be used."""
    file = data_folder(settings) / "history.sqlite"
    url = str(setting(settings, "DATABASE_URL") or f"sqlite:///{quote(str(file))}")
    parse_address(url)
    return url


def open_history(settings: BaseSettings) -> History:
    """Opens the history for writing, and makes or upgrades it before."""
    return History.open(database_url(settings))


def open_history_for_reading(settings: BaseSettings) -> History:
    """Opens the history. Raises HistoryError if there is none yet, or if it cannot be read."""
    return History.open_read_only(database_url(settings))


def open_history_if_any(settings: BaseSettings) -> History | None:
    """Opens the history, or returns None if there is none yet."""
    return open_history_for_reading(settings) if History.is_begun(database_url(settings)) else None
