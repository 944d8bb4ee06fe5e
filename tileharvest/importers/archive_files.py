"""The files of an archive, in a folder of this computer or in a bucket on S3. They are only read."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore

from tileharvest.errors import ConfigurationError, StoreError
from tileharvest.store.s3 import REQUEST, connected, parse_s3_url
from tileharvest.store.s3_errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from obstore.store import ObjectStore

_S3: Final = "s3://"
_PART: Final = 1 << 20
"""The bytes of a file that are copied at a time."""
_RETRIES: Final = 4
"""How often a request to S3 is made again, at growing pauses."""


class ArchiveFiles:
    """Reads the files of an archive. Names are relative to the archive, with slashes. Threads may share an
    object.

    Methods raise StoreError if a file is there and cannot be read.
    """

    def __init__(self, place: str) -> None:
        """`place` is a folder or `s3://bucket/prefix`. Endpoint and credentials for S3 come from the
        environment. Raises ConfigurationError for any other place."""
        self.place = place.rstrip("/")
        self._prefix = ""
        self._store: ObjectStore
        if place.startswith(_S3):
            bucket, prefix = parse_s3_url(place, "the archive's address")
            self._prefix = f"{prefix}/" if prefix else ""
            self._store = connected(bucket, REQUEST, retries=_RETRIES)
            return
        folder = Path(place)
        if not folder.is_dir():
            raise ConfigurationError(f"there is no folder {place}; nothing was changed")
        self._store = LocalStore(folder.absolute())

    def read(self, name: str) -> bytes | None:
        """Returns the bytes of a file, or None if there is no such file."""
        with self._told(name):
            try:
                return bytes(obstore.get(self._store, self._prefix + name).bytes())
            except FileNotFoundError:
                return None

    def has(self, name: str) -> bool:
        """Returns whether the file is there."""
        with self._told(name):
            try:
                obstore.head(self._store, self._prefix + name)
            except FileNotFoundError:
                return False
            return True

    def folders(self, name: str) -> list[str]:
        """Returns the names of the folders in a folder, sorted. Returns none if the folder is missing."""
        with self._told(name):
            found = obstore.list_with_delimiter(self._store, self._prefix + name)
        return sorted(folder.rstrip("/").rpartition("/")[2] for folder in found["common_prefixes"])

    def copy(self, name: str, target: Path) -> None:
        """Copies a file to `target`, a part at a time. The file must exist."""
        with self._told(name), target.open("wb") as file:
            for part in obstore.get(self._store, self._prefix + name).stream(min_chunk_size=_PART):
                file.write(part)

    @contextmanager
    def _told(self, name: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            # Obstore's own text may hold secrets of S3. For a folder a fixed hint will do.
            said = Refusal.of(error).line() if self.place.startswith(_S3) else "check its rights and its disk"
            failure = StoreError(f"{self.place}/{name} cannot be read: {said}; what was imported is kept")
        else:
            return
        raise failure
