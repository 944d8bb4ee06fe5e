"""The images of an import: stored in batches, before the day that names them is recorded."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from tileharvest.history.imported_day import record_day

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tileharvest.history.database import History
    from tileharvest.history.imported_day import DayRecord, ImportedDay
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.versions import Image

_BATCH: Final = 256
"""Images that are stored together, with their bytes in memory until then: 10 MB if each has 40 KB. As many of
the batch before may be there, too. A store syncs them together, as one sync takes 1 to 20 ms."""


class ImportedImages:
    """Stores the images of an import, and records its days once their images are stored.

    A batch is stored in a thread, while the next one is read."""

    def __init__(self, store: TileStore) -> None:
        self._store = store
        self._batch: dict[Image, bytes] = {}
        self._thread = ThreadPoolExecutor(1, "import-store")
        self._storing: Future[set[Image]] | None = None
        self._new_bytes = 0
        """Bytes of the batches so far that were not in the store before."""

    def put(self, image: Image, body: bytes) -> None:
        """Stores the image with its batch: at the latest when `durable` is called. Raises StoreError for any
        image of the batch before."""
        self._batch[image] = body
        if len(self._batch) >= _BATCH:
            self._store_batch()

    def durable(self) -> int:
        """Stores what is left, so that all images outlive kills and power cuts. Returns how many bytes were
        not in the store before, since the last call. Raises StoreError."""
        self._store_batch()
        self._wait()
        new, self._new_bytes = self._new_bytes, 0
        return new

    def record(self, history: History, day: ImportedDay) -> DayRecord:
        """Records a day whose images are stored. Raises HistoryError."""
        return record_day(history, day)

    def _store_batch(self) -> None:
        self._wait()
        batch, self._batch = self._batch, {}
        if batch:
            self._storing = self._thread.submit(self._store.put, batch)

    def _wait(self) -> None:
        """Waits until the batch before is stored."""
        storing, self._storing = self._storing, None
        if storing is not None:
            self._new_bytes += sum(image.size for image in storing.result())
