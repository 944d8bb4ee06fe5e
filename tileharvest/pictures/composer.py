"""Composed pictures: tiles of levels that the history lacks, made of the tiles of a deeper level.

A tile is made of its four children, scaled down by two. They are made of their own children, and so on down
to the first level that has images. Every picture on the way is kept, so that the next picture, a step to the
side or one level deeper, needs few new ones. A picture of 384 x 384 pixels takes about 25 ms, including the
reading and unpacking of the images below it. A picture six levels above its 4,096 images takes half a minute
the first time.
"""

from __future__ import annotations

import hashlib
import io
import logging
import threading
from bisect import bisect_right
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from PIL import Image as Pillow

from tileharvest.history.areas import MOST_COLUMNS
from tileharvest.history.changes import last_changes
from tileharvest.history.recorded_versions import shown
from tileharvest.pictures.pixels import UNREADABLE, decoded, shrunk, stored
from tileharvest.tiles.grid import TileRange

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date, datetime

    from tileharvest.history.database import History
    from tileharvest.history.outlines import LayerOutline, MapOutline
    from tileharvest.store.cache import DiskCache
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.grid import Tile
    from tileharvest.tiles.layers import Size

_log = logging.getLogger(__name__)

MOST_REMEMBERED: Final = 64 << 20
"""Bytes of composed pictures: about 400 of 384 x 384 pixels."""

_COMPRESSION: Final = 1
"""Of zlib: 9 ms for a picture of 384 x 384 pixels, and 17 % more bytes than with 6, which takes 32."""
_FORM: Final = "composed 1"
"""The way of composing, a part of each name in the cache on disk. Change the number with the way: the cache
outlives the program."""


class ComposerStoppedError(Exception):
    """The composer was stopped before the picture was finished."""


@dataclass(frozen=True, slots=True)
class PastLayer:
    """A layer as it was on a day."""

    history: History
    layer: int
    day: date
    source: int
    """The zoom whose images the pictures are made of."""
    tile_size: Size
    days: tuple[date, ...]
    """The days with a harvest, in order. A change before the last of them is settled: no later harvest
    changes it."""
    ended: tuple[datetime | None, ...]
    """For each of these days the moment at which its harvest ended, as `MapOutline` has it. The import of a
    day changes the moment."""
    has_one_zoom: bool = False
    """Whether the site has a single zoom, as a canvas has. A palette's pixels are not blended then."""

    @classmethod
    def of(
        cls,
        history: History,
        outline: MapOutline,
        layer: LayerOutline,
        day: date,
        zoom: int,
        tile_size: Size | None = None,
    ) -> PastLayer | None:
        """Returns the layer as it was on a day, for pictures of this zoom. The tiles have the size of that
        day unless another one is given.

        Returns None if the layer had no images of this zoom or a deeper one by that day.
        """
        source = layer.source_zoom(zoom, day)
        if source is None:
            return None
        then = layer.described(day)
        size, is_one = tile_size or then.tile_size, then.depth == 1
        return cls(history, layer.id, day, source, size, outline.days, outline.ended, is_one)

    @property
    def settled(self) -> date:
        return self.days[-1]

    def settled_at(self, day: date) -> str:
        """Returns a text that changes whenever the history up to a day of `days` changes."""
        return str(self.ended[bisect_right(self.days, day) - 1])


@dataclass(frozen=True, slots=True)
class Composition:
    """A picture that can be composed."""

    tile: Tile
    key: str
    """Equal for equal pictures. It is the picture's ETag, and its name in memory and in the cache on disk."""
    parts: Parts | None
    """What the picture is made of. None if the history has not been asked for it yet, because the key of a
    settled picture follows from the day alone."""


Parts: TypeAlias = "tuple[Composition | str | None, ...]"
"""For each of the tile's children, in order, a picture, an image's name, or None if nothing is there."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A composed picture."""

    body: bytes
    """A PNG file."""
    whole: bool
    """False if an image that belongs in it could not be read."""


@contextmanager
def composing(store: TileStore, most_remembered: int = MOST_REMEMBERED) -> Iterator[Composer]:
    """Yields a composer for one export. If the block raises, nothing more is composed."""
    composer = Composer(store, most_remembered=most_remembered)
    try:
        yield composer
    except BaseException:
        composer.stop()
        raise


class Composer:
    """Makes composed pictures. May be used by several threads."""

    def __init__(
        self, store: TileStore, cache: DiskCache | None = None, most_remembered: int = MOST_REMEMBERED
    ) -> None:
        """`cache` keeps composed pictures on disk. `most_remembered` is the bytes of pictures in memory."""
        self._store = store
        self._cache = cache
        self._room = most_remembered
        self._remembered: OrderedDict[str, Picture] = OrderedDict()
        """The composed pictures that were used last, by their keys."""
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self.unreadable: set[str] = set()
        """The images that could not be read. Pictures are made without them."""

    def picture(self, past: PastLayer, composition: Composition) -> Picture:
        """Returns the picture, from memory or from disk if it is there. Raises HistoryError, and
        ComposerStoppedError after `stop`.

        A picture that is not whole is not kept, because its images may be restored.
        """
        key, kept = composition.key, None
        with self._lock:
            if key in self._remembered:
                self._remembered.move_to_end(key)
                return self._remembered[key]
        if self._cache is not None:
            kept = self._cache.get(f"{_FORM} {key}")
        picture = self._compose(past, composition) if kept is None else Picture(kept, whole=True)
        if picture.whole:
            if self._cache is not None and kept is None:
                self._cache.put(f"{_FORM} {key}", picture.body)
            self._remember(key, picture)
        return picture

    def parts(self, past: PastLayer, area: TileRange) -> dict[Tile, Composition | str]:
        """Returns what each tile of the area shows: an image's name, or a picture that can be composed.

        Tiles that were not there are absent. The area is of the layer's source zoom or of a coarser one. Asks
        the history once, and once more for each picture below a tile whose last change is not settled. Raises
        HistoryError.
        """
        if area.zoom == past.source:
            return {
                tile: name
                for part in area.slices(MOST_COLUMNS)
                for tile, version in shown(past.history, past.layer, part, past.day).items()
                if (name := version.image_name) is not None
            }
        changed = last_changes(past.history, past.layer, past.source, area, past.day)
        return {tile: self._composition(past, tile, last) for tile, last in changed.items()}

    def image(self, past: PastLayer, part: Composition | str) -> tuple[Pillow.Image | None, bool]:
        """Returns the pixels of a part in RGBA, in the size of the layer's tiles, and whether it is whole.

        Returns None and False for an image that cannot be read. Raises what `picture` raises.
        """
        if isinstance(part, Composition):
            picture = self.picture(past, part)
            return decoded(picture.body, past.tile_size), picture.whole
        image = self._image(part, past.tile_size)
        return image, image is not None

    def stop(self) -> None:
        """Ends what is being composed after the next image, and begins nothing more."""
        self._stopping.set()

    def _composition(self, past: PastLayer, tile: Tile, last: date) -> Composition:
        settled = last < past.settled
        # A picture that may change again today is named by its parts.
        parts = None if settled else self._parts(past, tile)
        content: list[str | None] = [str(last), past.settled_at(last)]
        if parts is not None:
            content = [part.key if isinstance(part, Composition) else part for part in parts]
        named = repr((past.layer, past.source, past.tile_size, str(tile), content))
        return Composition(tile, hashlib.sha1(named.encode(), usedforsecurity=False).hexdigest(), parts)

    def _parts(self, past: PastLayer, tile: Tile) -> Parts:
        self._go_on()
        found = self.parts(past, TileRange.of(tile).at_zoom(tile.zoom + 1))
        return tuple(found.get(child) for child in tile.children())

    def _remember(self, key: str, picture: Picture) -> None:
        """Keeps a picture. The pictures that were not used for longest make room for it."""
        with self._lock:
            if key not in self._remembered:
                self._remembered[key] = picture
                self._room -= len(picture.body)
            # The newest picture stays, whatever its size: its maker may need it at once.
            while self._room < 0 and len(self._remembered) > 1:
                _, oldest = self._remembered.popitem(last=False)
                self._room += len(oldest.body)

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
        body = io.BytesIO()
        shrunk(canvas, size, past.has_one_zoom).save(body, "PNG", compress_level=_COMPRESSION)
        return Picture(body.getvalue(), whole)

    def _image(self, name: str, size: Size) -> Pillow.Image | None:
        try:
            return stored(self._store, name, size)
        except UNREADABLE as error:
            # Once for each image, however many pictures it belongs in.
            if name not in self.unreadable:
                self.unreadable.add(name)
                _log.warning("image %s is left out of composed pictures: %s", name, error)
            return None

    def _go_on(self) -> None:
        if self._stopping.is_set():
            raise ComposerStoppedError
