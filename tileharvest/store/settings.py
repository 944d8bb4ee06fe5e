"""The store that the settings name: a folder or a bucket on S3."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tileharvest.maps.settings import data_folder, setting
from tileharvest.store.files import FileStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import BaseSettings

    from tileharvest.store.port import TileStore


def store_opener(settings: BaseSettings) -> Callable[[], TileStore]:
    """Returns a function that opens the store. Raises ConfigurationError for an address that no store can
    have.

    The function raises StoreError, and ConfigurationError if the environment cannot be used for S3. Opening
    creates nothing.
    """
    address = setting(settings, "TILE_STORE")
    if not address:
        return partial(FileStore, data_folder(settings) / "tiles")
    from tileharvest.store.s3 import S3Store, parse_s3_url  # noqa: PLC0415 - only who uses S3 loads its client

    return partial(S3Store, *parse_s3_url(address))


def open_store(settings: BaseSettings) -> TileStore:
    """Opens the store, which need not exist yet. Raises as `store_opener` does."""
    return store_opener(settings)()
