"""The store that the settings name: a folder, or a bucket on S3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tileharvest.maps.settings import data_folder
from tileharvest.store.files import FileStore

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy.settings import BaseSettings

    from tileharvest.store.port import TileStore


@dataclass(frozen=True, slots=True)
class StorePlace:
    """Where a store is that is not opened yet."""

    folder: Path
    bucket: tuple[str, str] | None = None
    """Bucket and prefix on S3; None when the store is the folder."""

    @classmethod
    def parse(cls, text: str, folder: Path) -> StorePlace:
        """Returns the place of an address such as `s3://bucket/prefix`, and the folder for an empty text.

        Raises ConfigurationError for any other address.
        """
        if not text:
            return cls(folder)
        from tileharvest.store.s3 import parse_s3_url  # noqa: PLC0415 - only who uses S3 loads its client

        return cls(folder, parse_s3_url(text))

    def open(self, *, read_only: bool = False) -> TileStore:
        """Raises StoreError, or ConfigurationError where the environment cannot be used for S3."""
        if self.bucket is None:
            return FileStore(self.folder, read_only=read_only)
        from tileharvest.store.s3 import S3Store  # noqa: PLC0415 - only who uses S3 loads its client

        return S3Store(*self.bucket, read_only=read_only)


def store_place(settings: BaseSettings) -> StorePlace:
    """Returns where the images are. Raises ConfigurationError for what names no place."""
    return StorePlace.parse(settings["TILE_STORE"], data_folder(settings) / "tiles")


def open_store_for_reading(settings: BaseSettings) -> TileStore:
    """Opens the store, of which nothing need exist yet. Creates nothing and deletes nothing."""
    return store_place(settings).open(read_only=True)
