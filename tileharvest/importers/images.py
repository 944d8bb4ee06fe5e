"""The images of an import: stored in batches, before the day that names them is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.versions import Image

_BATCH: Final = 256
"""Images that are stored together, with their bytes in memory until then: 10 MB if each has 40 KB. A store
syncs them together, as one sync takes 1 to 20 ms."""


class ImportedImages:
    """Stores the images of an import in batches."""

    def __init__(self, store: TileStore) -> None:
        self._store = store
        self._batch: dict[Image, bytes] = {}
        self._new_bytes = 0

    def put(self, image: Image, body: bytes) -> None:
        """Stores the image with its batch: at the latest when `durable` is called. Raises StoreError for any
        image of the batch."""
        self._batch[image] = body
        if len(self._batch) >= _BATCH:
            self._store_batch()

    def durable(self) -> int:
        """Stores what is left, so that all images outlive kills and power cuts. Returns how many bytes were
        not in the store before, since the last call. Raises StoreError."""
        self._store_batch()
        new, self._new_bytes = self._new_bytes, 0
        return new

    def _store_batch(self) -> None:
        batch, self._batch = self._batch, {}
        if batch:
            self._new_bytes += sum(image.size for image in self._store.put(batch))
