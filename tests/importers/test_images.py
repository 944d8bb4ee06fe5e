from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from tileharvest.errors import StoreError
from tileharvest.importers.images import ImportedImages
from tileharvest.tiles.versions import Image

if TYPE_CHECKING:
    from collections.abc import Mapping

BATCH = 256


class SlowStore:
    """Stores nothing before it may, and notes whether it might in time."""

    def __init__(self) -> None:
        self.may_store = Event()
        self.stored: list[tuple[int, bool]] = []
        """The images of each batch, and whether the batch might be stored in time."""

    def put(self, images: Mapping[Image, bytes]) -> set[Image]:
        self.stored.append((len(images), self.may_store.wait(10)))
        return set(images)


def imported(store: Any, number: int) -> ImportedImages:
    images = ImportedImages(store)
    for one in range(number):
        images.put(Image(f"{one:040x}", "png", 1), b"x")
    return images


def test_the_next_batch_is_read_while_one_is_stored() -> None:
    store = SlowStore()
    images = imported(store, BATCH + 1)
    store.may_store.set()
    assert images.durable() == BATCH + 1
    assert store.stored == [(BATCH, True), (1, True)]
    assert images.durable() == 0


def test_a_batch_that_cannot_be_stored_ends_the_import_before_its_day_is_recorded() -> None:
    class Full(SlowStore):
        def put(self, images: Mapping[Image, bytes]) -> set[Image]:
            raise StoreError("the disk is full")

    images = imported(Full(), 1)
    with pytest.raises(StoreError, match="the disk is full"):
        images.durable()
