"""An inventory: the images that the history names, compared with those that the store holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tileharvest.errors import StoreError
from tileharvest.history.recorded_versions import named_images

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileharvest.history.database import History
    from tileharvest.history.recorded_versions import RecordedVersion
    from tileharvest.store.port import HeldImage, TileStore


class Inventory(NamedTuple):
    """The result of the comparison. Images that a running harvest has stored and not recorded yet count as
    unnamed."""

    images: int
    """The number of different images that versions name."""
    missing: Sequence[tuple[RecordedVersion, str]]
    """The images that versions name and that are missing or damaged in the store, each once, with a reason
    such as `it is not there`. They are ordered by map, layer, tile and day."""
    unnamed: Sequence[HeldImage] | None
    """The store's images that no version names. A kill between an image and its row leaves such images. None
    if only one map was looked at."""

    @classmethod
    def take(
        cls, history: History, store: TileStore, map_name: str | None, *, reads_bytes: bool
    ) -> Inventory:
        """Compares the history with the store. For a single map only the images of its versions are looked
        at.

        `reads_bytes` reads every image and compares its sha1, which takes as long as copying the store. The
        names of all images are in memory, with some 150 bytes each. Raises HistoryError for an unknown map,
        and StoreError if the store cannot be listed.
        """
        # The store is listed first. An image in this list was recorded, if at all, before the history is
        # read.
        held = {one.name: one for one in store.held()}
        named = named_images(history, map_name)
        names = {one.image.file_name for one in named}
        missing = []
        for one in named:
            listed = held.get(one.image.file_name)
            is_sound = listed is not None and listed.size == one.image.size and not reads_bytes
            # An image that is not in the list may have been stored since.
            if not is_sound and (why := _fault(store, one)) is not None:
                missing.append((one, why))
        unnamed = None if map_name else sorted(one for name, one in held.items() if name not in names)
        return cls(len(named), missing, unnamed)


def _fault(store: TileStore, named: RecordedVersion) -> str | None:
    """Reads an image. Returns what is wrong with it, or None."""
    try:
        found = len(store.named(named.image.file_name))
    except StoreError as error:
        # The advice is left out here, because it is given once for all images.
        return str(error).removesuffix(": restore it from a backup")
    return None if found == named.image.size else f"it has {found} bytes instead of {named.image.size}"
