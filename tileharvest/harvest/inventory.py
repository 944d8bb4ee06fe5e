"""An inventory: the images that the history names, compared with those that the store holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tileharvest.errors import StoreError
from tileharvest.history.recorded_versions import named_images

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileharvest.history.database import History
    from tileharvest.history.recorded_versions import NamedImage
    from tileharvest.store.port import HeldImage, TileStore


@dataclass(frozen=True, slots=True)
class Inventory:
    """What was found. What a running harvest has stored and not recorded yet is among the unnamed."""

    images: int
    """Different images that versions name."""
    missing: Sequence[tuple[NamedImage, str]]
    """The images that versions name and the store does not hold as it should, each once, with a line such as
    `it is not there`. In the order of map, layer, tile and day."""
    unnamed: Sequence[HeldImage] | None
    """The store's images that no version names, as a kill between an image and its row leaves
    them. None where only one map was looked at."""

    @classmethod
    def take(
        cls, history: History, store: TileStore, map_name: str | None, *, reads_bytes: bool
    ) -> Inventory:
        """Compares both ways; for a single map only what its versions name. `reads_bytes` reads every image
        and compares its sha1, which takes as long as copying the store.

        Keeps the names of all images in memory, some 150 bytes each. Raises HistoryError for an unknown map,
        and StoreError where the store cannot be listed.
        """
        # First, so that whatever is in it and is named by nobody was so when the history was read.
        held = {one.name: one for one in store.held()}
        named = named_images(history, map_name)
        missing = [
            (one, why)
            for one in named
            if (why := _fault(store, one, held.get(one.image.file_name), reads_bytes=reads_bytes)) is not None
        ]
        names = {one.image.file_name for one in named}
        unnamed = None if map_name else sorted(one for name, one in held.items() if name not in names)
        return cls(len(named), missing, unnamed)


def _fault(store: TileStore, named: NamedImage, held: HeldImage | None, *, reads_bytes: bool) -> str | None:
    """Returns what is wrong with an image, or None. `held` is what the store's list has of it."""
    image = named.image
    if held is not None and held.size == image.size and not reads_bytes:
        return None
    # What is not in the list may have been stored since.
    try:
        found = len(store.named(image.file_name))
    except StoreError as error:
        # What to do is said once for all of them.
        return str(error).removesuffix(": restore it from a backup")
    return None if found == image.size else f"it has {found} bytes instead of {image.size}"
