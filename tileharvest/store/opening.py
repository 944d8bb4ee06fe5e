"""Where the store is: a folder, or a bucket on S3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tileharvest.store.files import FileStore

if TYPE_CHECKING:
    from pathlib import Path

    from tileharvest.store.port import TileStore


@dataclass(frozen=True, slots=True)
class StorePlace:
    """A store that is not opened yet."""

    folder: Path
    bucket: tuple[str, str] | None = None
    """Bucket and prefix on S3; None: the store is the folder."""

    @classmethod
    def parse(cls, text: str, folder: Path) -> StorePlace:
        """The place of an address such as `s3://bucket/prefix`; the folder where the text is empty.

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
        from tileharvest.store.s3 import S3Store  # noqa: PLC0415 - as above

        return S3Store(*self.bucket, read_only=read_only)
