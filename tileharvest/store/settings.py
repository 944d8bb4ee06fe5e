"""The store that the settings name: a folder or a bucket on S3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileharvest.maps.settings import data_folder, setting
from tileharvest.store.files import FileStore

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from tileharvest.store.port import TileStore


def open_store(settings: BaseSettings) -> TileStore:
    """Opens the store that the settings name, which need not exist yet. This creates nothing, and asks no
    service.

    Raises ConfigurationError for an address that no store can have, and for an environment that cannot be
    used for S3.
    """
    address = setting(settings, "TILE_STORE")
    if not address:
        return FileStore(data_folder(settings) / "tiles")
    from tileharvest.store.s3 import S3Store, parse_s3_url  # noqa: PLC0415 - only who uses S3 loads its client

    return S3Store(*parse_s3_url(address))
