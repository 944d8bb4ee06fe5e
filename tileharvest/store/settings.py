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


def store_opener(settings: BaseSettings, *, read_only: bool = False) -> Callable[[], TileStore]:
    """Returns a function that opens the store. Raises ConfigurationError for an address that no store can
    have.

    The function raises StoreError, and ConfigurationError if the environment cannot be used for S3. A store
    that is opened `read_only` creates nothing and deletes nothing, and need not exist yet.
    """
    address = setting(settings, "TILE_STORE")
    if not address:
        return partial(FileStore, data_folder(settings) / "tiles", read_only=read_only)
    from tileharvest.store.s3 import S3Store, parse_s3_url  # noqa: PLC0415 - only who uses S3 loads its client

    return partial(S3Store, *parse_s3_url(address), read_only=read_only)


def open_store_for_reading(settings: BaseSettings) -> TileStore:
    """Opens the store without creating or deleting anything. The store need not exist yet."""
    return store_opener(settings, read_only=True)()
