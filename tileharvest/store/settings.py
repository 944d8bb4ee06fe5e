"""Opens the store that the settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileharvest.maps.settings import data_folder
from tileharvest.store.opening import StorePlace

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from tileharvest.store.port import TileStore


def open_store_for_reading(settings: BaseSettings) -> TileStore:
    """The store, of which nothing need exist yet. Nothing is created, and nothing deleted."""
    return store_place(settings).open(read_only=True)


def store_place(settings: BaseSettings) -> StorePlace:
    """Where the images are; not opened yet. Raises ConfigurationError for what names no place."""
    return StorePlace.parse(settings["TILE_STORE"], data_folder(settings) / "tiles")
