"""A harvest's images on their way into the store: each of them once, and counted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileharvest.history.costs import Traffic
    from tileharvest.politeness.limits import Room
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.versions import Image


class Storing:
    """Puts images into a store, and adds those that were not there to the traffic. Used from one event
    loop; what blocks is moved to threads."""

    def __init__(self, store: TileStore, traffic: Traffic, room: Room | None) -> None:
        """`room` stays free on the disk; None: that does not matter."""
        self._store = store
        self._traffic = traffic
        self._room = room
        self._under_way: dict[Image, asyncio.Task[None]] = {}

    async def put(self, image: Image, body: bytes) -> None:
        """When it returns, the image outlives kills and power cuts. Raises StoreError, and BudgetError where
        too little room would be left."""
        task = self._under_way.get(image)
        if task is None:
            # One at a time: of two, both would find that the image is not there yet, and both count it.
            task = self._under_way[image] = asyncio.create_task(self._put_and_count(image, body))
        # Whoever is cancelled must not take the image from the others who wait for the same one.
        await asyncio.shield(task)

    async def _put_and_count(self, image: Image, body: bytes) -> None:
        try:
            if self._room is not None:
                self._room.check(image.size, is_all_kept=False)
            if await asyncio.to_thread(self._store.put, image, body):
                self._traffic.stored_bytes += image.size
        finally:
            del self._under_way[image]
