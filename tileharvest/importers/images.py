"""The images of an import: stored in the background, several at a time."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Self

from tileharvest.errors import StoreError
from tileharvest.history.imported_day import record_day
from tileharvest.history.unnamed_images import LeavingImageError, let_stay, take_back

if TYPE_CHECKING:
    from concurrent.futures import Future
    from types import TracebackType

    from tileharvest.history.database import History
    from tileharvest.history.imported_day import DayRecord, ImportedDay
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.versions import Image

_WRITERS: Final = 8
"""Threads that store images. Each image is flushed to the disk, which takes 1 to 20 ms, and disks do several
of that together."""
_UNDER_WAY: Final = 256
"""Images that wait to be stored, with their bytes in memory: 10 MB where each has 40 KB."""


class ImportedImages:
    """Stores the images of an import in the background, several at a time."""

    def __init__(self, store: TileStore) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(_WRITERS, "import-store")
        self._waiting: deque[Future[int]] = deque()
        self._bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(cancel_futures=True)

    def join(self, history: str) -> None:
        """Notes that the history of this identity uses the store. Raises StoreError."""
        self._store.join(history)

    def put(self, image: Image, body: bytes) -> None:
        """Returns before the image is stored. Raises StoreError for this image or an earlier one."""
        self._waiting.append(self._threads.submit(self._put, image, body))
        while len(self._waiting) > _UNDER_WAY:
            self._bytes += self._waiting.popleft().result()

    def durable(self) -> int:
        """Waits until all images outlive kills and power cuts. Returns the bytes that were not in the store
        before, since the last call. Raises StoreError."""
        while self._waiting:
            self._bytes += self._waiting.popleft().result()
        new, self._bytes = self._bytes, 0
        return new

    def record(self, history: History, day: ImportedDay) -> DayRecord:
        """Records a day whose images are stored. Raises HistoryError.

        That is LeavingImageError where a clean-up has just removed one of them: the next import puts it
        again.
        """
        try:
            return record_day(history, day)
        except LeavingImageError as error:
            let_stay(history, error.names)
            for name in error.names:
                try:
                    self._store.named(name)
                except StoreError:
                    raise error from None
            take_back(history, error.names)
        return record_day(history, day)

    def _put(self, image: Image, body: bytes) -> int:
        return image.size if self._store.put(image, body) else 0
