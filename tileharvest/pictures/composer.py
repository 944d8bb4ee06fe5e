"""Composed pictures: tiles of levels that the history lacks, made of those of a deeper one that it has.

A tile is made of its four children, scaled down by two, and these of theirs, down to the first level of
which there are images. Every picture on the way is kept, so that the next one, a step to the side or one
level deeper, is made of few. A picture of 384 x 384 pixels takes about 25 ms, which includes reading and
unpacking the images below it. One of six levels, with 4,096 images, takes half a minute the first time.
"""

from __future__ import annotations

import hashlib
import io
import logging
import threading
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from PIL import Image as Pillow

from tileharvest.history.areas import MOST_COLUMNS
from tileharvest.history.changes import last_changes
from tileharvest.history.recorded_versions import shown
from tileharvest.pictures.cache import Picture, PictureMemory
from tileharvest.pictures.pixels import UNREADABLE, decoded, stored
from tileharvest.tiles.grid import TileRange

if TYPE_CHECKING:
    from datetime import date, datetime

    from tileharvest.history.database import History
    from tileharvest.store.cache import DiskCache
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.grid import Tile
    from tileharvest.tiles.layers import Size

_log = logging.getLogger(__name__)

MOST_REMEMBERED: Final = 64 << 20
"""Bytes of composed pictures: about 400 of 384 x 384 pixels."""

_COMPRESSION: Final = 1
"""Of zlib: 9 ms for a picture of 384 x 384 pixels, and 17 % more bytes than with 6, which takes 32."""
_MOST_WARNED: Final = 10_000
_FORM: Final = "composed 1"
"""Another number for each other way of composing: the cache outlives the program."""


class ComposerStoppedError(Exception):
    """`stop` was called: the picture is not composed to its end."""


@dataclass(frozen=True, slots=True)
class PastLayer:
    """A layer as it was on a day, for pictures of levels that it lacks."""

    history: History
    layer: int
    day: date
    source: int
    """The zoom whose images the pictures are made of."""
    tile_size: Size
    days: tuple[date, ...]
    """Days with a harvest, in order. Whatever last changed before the last of them is settled: no harvest
    changes it again."""
    ended: tuple[datetime | None, ...]
    """For each of them when it was settled, as `MapOutline` tells it: an import of a day changes it."""

    @property
    def settled(self) -> date:
        return self.days[-1]

    def settled_at(self, day: date) -> str:
        """Names the state of what was to be seen by that day, one of `days`."""
        return str(self.ended[bisect_right(self.days, day) - 1])


@dataclass(frozen=True, slots=True)
class Composition:
    """A picture that is to be made."""

    tile: Tile
    key: str
    """The same for the same picture: its ETag, and its name in memory and in the cache on disk."""
    parts: Parts | None
    """None where the key follows from the day alone: then the parts are still to be asked for."""


Parts: TypeAlias = "tuple[Composition | str | None, ...]"
"""What a picture is made of, in the order of the tile's children: a picture, an image's name, or nothing."""


class Composer:
    """May be used by several threads; each picture is made by one of them."""

    def __init__(
        self, store: TileStore, cache: DiskCache | None = None, most_remembered: int = MOST_REMEMBERED
    ) -> None:
        """What was composed is looked for in memory, and then in the cache on disk if there is one."""
        self._store = store
        self._cache = cache
        self._memory = PictureMemory(most_remembered)
        self._stopping = threading.Event()
        self._warned: set[str] = set()

    def composition(self, past: PastLayer, tile: Tile) -> Composition | None:
        """Returns how the tile's picture is composed; None where nothing was there. Raises HistoryError.

        Costs one question to the history where the tile changed last on a settled day, and else one per
        picture below it that did not.
        """
        changed = last_changes(past.history, past.layer, past.source, TileRange.of(tile), past.day)
        return self._composition(past, tile, changed[tile]) if tile in changed else None

    def picture(self, past: PastLayer, composition: Composition) -> Picture:
        """Returns the picture. Raises HistoryError, and ComposerStoppedError after `stop`."""
        return self._memory.get(composition.key, lambda: self._remembered(past, composition))

    def parts(self, past: PastLayer, area: TileRange) -> dict[Tile, Composition | str]:
        """Returns what each tile of the area shows: an image's name, or a picture that is to be made.

        Tiles that were not there are absent. The area is of the layer's source zoom or a coarser one. One
        question to the history, and more where `composition` has more. Raises HistoryError.
        """
        if area.zoom == past.source:
            return {
                tile: name
                for part in area.slices(MOST_COLUMNS)
                for tile, name in shown(past.history, past.layer, part, past.day).items()
                if name is not None
            }
        changed = last_changes(past.history, past.layer, past.source, area, past.day)
        return {tile: self._composition(past, tile, last) for tile, last in changed.items()}

    def image(self, past: PastLayer, part: Composition | str) -> tuple[Pillow.Image | None, bool]:
        """Returns the pixels of a part in RGBA, in the size of the layer's tiles, and whether it is whole.

        There are none, and it is not whole, where an image cannot be read. Raises what `picture` does.
        """
        if isinstance(part, Composition):
            picture = self.picture(past, part)
            return decoded(picture.body, past.tile_size), picture.whole
        image = self._image(part, past.tile_size)
        return image, image is not None

    def stop(self) -> None:
        """Ends what is being composed, an image later, and begins nothing more."""
        self._stopping.set()

    def _composition(self, past: PastLayer, tile: Tile, last: date) -> Composition:
        settled = last < past.settled
        # What may change again today is named by what it is made of.
        parts = None if settled else self._parts(past, tile)
        content = (str(last), past.settled_at(last)) if parts is None else [_name(part) for part in parts]
        named = repr((past.layer, past.source, past.tile_size, str(tile), content))
        return Composition(tile, hashlib.sha1(named.encode(), usedforsecurity=False).hexdigest(), parts)

    def _parts(self, past: PastLayer, tile: Tile) -> Parts:
        self._go_on()
        found = self.parts(past, TileRange.of(tile).at_zoom(tile.zoom + 1))
        return tuple(found.get(child) for child in tile.children())

    def _remembered(self, past: PastLayer, composition: Composition) -> Picture:
        if self._cache is None:
            return self._compose(past, composition)
        name = f"{_FORM} {composition.key}"
        kept = self._cache.get(name)
        if kept is not None:
            return Picture(kept, whole=True)
        picture = self._compose(past, composition)
        if picture.whole:
            self._cache.put(name, picture.body)
        return picture

    def _compose(self, past: PastLayer, composition: Composition) -> Picture:
        parts = self._parts(past, composition.tile) if composition.parts is None else composition.parts
        size, whole = past.tile_size, True
        width, height = size
        canvas = Pillow.new("RGBA", (2 * width, 2 * height))
        for number, part in enumerate(parts):
            self._go_on()
            if part is None:
                continue
            image, is_whole = self.image(past, part)
            whole = whole and is_whole
            if image is not None:
                canvas.paste(image, (number % 2 * width, number // 2 * height))
        # Pillow weighs the colours of a box by their opacity, so that no edge gets dark.
        body = io.BytesIO()
        canvas.reduce(2).save(body, "PNG", compress_level=_COMPRESSION)
        return Picture(body.getvalue(), whole)

    def _image(self, name: str, size: Size) -> Pillow.Image | None:
        try:
            return stored(self._store, name, size)
        except UNREADABLE as error:
            # Once for each image, however many pictures it belongs in.
            if name not in self._warned and len(self._warned) < _MOST_WARNED:
                self._warned.add(name)
                _log.warning("image %s is left out of composed pictures: %s", name, error)
            return None

    def _go_on(self) -> None:
        if self._stopping.is_set():
            raise ComposerStoppedError


def _name(part: Composition | str | None) -> str | None:
    return part.key if isinstance(part, Composition) else part
