"""The story of some pixels: the days on which they changed, whatever else their tiles show.

A tile has a new version if any of its bytes differs. Here the versions of all tiles on a rectangle are cut to
the rectangle and compared. Lossless images are compared pixel by pixel, others in cells that are large enough
for the noise of JPEG and WebP to even out.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha1
from typing import TYPE_CHECKING, Final, TypeAlias

from PIL import Image, ImageChops

from tileharvest.history.recorded_versions import story
from tileharvest.pictures.pixels import UNREADABLE, background, limited, on_ground, stored
from tileharvest.pictures.threads import drawing_threads, each_in_order

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from tileharvest.history.database import History
    from tileharvest.history.outlines import LayerOutline
    from tileharvest.pictures.pixels import Box
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.grid import Tile
    from tileharvest.tiles.ground import Ground

CELL: Final = 8
"""The least pixels along a cell's edge. JPEG codes blocks of 8 x 8 pixels."""
THRESHOLD: Final = 8
"""The least difference, of 255, between the average colours of two cells that counts as a change if an image
is lossy.

This was measured on 80 real tiles, packed as JPEG of quality 75 to 95 and as WebP of 75 and 90, each compared
with each other and with the PNG: none of 2,907,000 cells of JPEG differs by more, and at most two of
4,360,000 cells of WebP do. Of 397 real changes, on cuts of 200 x 150 pixels as JPEG, all 390 with 16 or more
visibly different pixels are found, and 2 of the 7 with fewer.
"""
MOST_TILES: Final = 16
MOST_PIXELS: Final = 1 << 20

_AHEAD: Final = 16
"""The number of images that are unpacked in advance, so that the threads have work."""

Days: TypeAlias = "list[tuple[date, dict[Tile, str | None]]]"
"""Days, oldest first. Each has the tiles with a version of that day, and the names of their images. A tile
that was gone has None."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """A day on which the pixels changed."""

    day: date
    share: float
    """The share of the rectangle that changed: above 0, and 1 in the first chapter."""
    is_empty: bool
    """Whether the rectangle shows nothing any more."""
    is_damaged: bool
    """Whether an image could not be read. Its part of the rectangle is left empty."""
    cells: Image.Image
    """The average colours of the cells."""
    digest: bytes | None
    """A digest of all pixels, or None if an image is lossy, because then equal pictures need not have equal
    pixels."""

    def shows(self, other: Chapter) -> bool:
        """Returns whether the two chapters look the same."""
        if self.digest is not None and other.digest is not None:
            return self.digest == other.digest
        return not _share(_cells_that_differ(self.cells, other.cells))


class PixelStory:
    """Finds the story of a rectangle's pixels. Used by one thread, for which others unpack images."""

    def __init__(self, store: TileStore, layer: LayerOutline, zoom: int, ground: Ground) -> None:
        """`zoom` is a zoom of which the layer has images. Raises ValueError if the ground is too large or too
        small."""
        described = layer.latest
        # Tiles of days with another size are scaled to this one.
        self._tile_size = size = limited(described.tile_size)
        self._behind = background(described.background)
        self._store = store
        self._layer = layer
        self._area = ground.tiles(zoom, layer.factor)
        if len(self._area) > MOST_TILES:
            raise ValueError(f"it lies on {len(self._area)} tiles, and {MOST_TILES} are the most")
        self._box = left, top, right, bottom = ground.pixels(zoom, size, layer.factor)
        width, height = self._extent = right - left, bottom - top
        # Each pixel of a canvas is somebody's work, and PNG keeps it as it is.
        least = 1 if described.depth == 1 and described.image_extension == "png" else CELL
        if min(width, height) < least or width * height > MOST_PIXELS:
            raise ValueError(
                f"it has {width} x {height} pixels, and must have {least} along each edge at least,"
                f" and {MOST_PIXELS:,} in all at most"
            )

    def days(self, history: History) -> Days:
        """Returns the days on which a tile of the rectangle has a version. Raises HistoryError."""
        days: dict[date, dict[Tile, str | None]] = {}
        for tile in self._area:
            for version in story(history, self._layer.id, tile):
                days.setdefault(version.day, {})[tile] = version.image_name
        return sorted(days.items())

    def chapters(self, days: Days) -> Iterator[Chapter]:
        """Yields the days on which the pixels changed, oldest first, as soon as each is found.

        The first chapter is the day on which something appeared. Each day is compared with the last chapter,
        so pixels that change little by little are found, too.
        """
        shown: dict[Tile, str | None] = {}
        damaged: set[Tile] = set()
        canvas = Image.new("RGBA", self._extent)
        last: Image.Image | None = None
        was_lossy = False
        # Threads unpack the images some days in advance.
        with drawing_threads() as threads:
            asked = [one for _, names in days for one in names.items()]
            parts = each_in_order(threads, self._part, asked, _AHEAD)
            for day, names in days:
                for tile in names:
                    part = next(parts)
                    canvas.paste(part or (0, 0, 0, 0), self._place(tile)[0])
                    damaged = damaged | {tile} if part is None else damaged - {tile}
                shown |= names
                whole, is_lossy = on_ground(canvas, self._behind), any(map(_is_lossy, shown.values()))
                is_empty = not damaged and canvas.getchannel("A").getextrema() == (0, 0)
                if last is None:
                    share = 0.0 if is_empty else 1.0
                else:
                    share = share_of_change(last, whole, is_lossy=is_lossy or was_lossy)
                if share:
                    last, was_lossy = whole, is_lossy
                    digest = None if is_lossy else sha1(whole.tobytes(), usedforsecurity=False).digest()
                    yield Chapter(day, share, is_empty, bool(damaged), cells_of(whole), digest)

    def _part(self, asked: tuple[Tile, str | None]) -> Image.Image | None:
        """Returns the part of the rectangle that an image shows, in RGBA, or None if it cannot be read."""
        tile, name = asked
        left, top, right, bottom = box = self._place(tile)[1]
        if name is None:
            return Image.new("RGBA", (right - left, bottom - top))
        try:
            return stored(self._store, name, self._tile_size).crop(box)
        except UNREADABLE:
            return None

    def _place(self, tile: Tile) -> tuple[Box, Box]:
        """Returns the box of the rectangle in which the tile's part lies, and the box of the tile that the
        part shows."""
        width, height = self._tile_size
        x, y = self._area.columns.index(tile.x) * width, self._area.rows[::-1].index(tile.y) * height
        left, top, right, bottom = self._box
        part = max(left - x, 0), max(top - y, 0), min(right - x, width), min(bottom - y, height)
        return (part[0] + x - left, part[1] + y - top, part[2] + x - left, part[3] + y - top), part


def _is_lossy(name: str | None) -> bool:
    return name is not None and not name.endswith(".png")


def share_of_change(before: Image.Image, after: Image.Image, *, is_lossy: bool) -> float:
    """Returns the share, 0 to 1, of two RGB images of one size that differs. It counts pixels, or cells if an
    image is lossy."""
    difference = ImageChops.difference(before, after)
    place = difference.getbbox()
    if place is None:
        return 0
    if is_lossy:
        return _share(_cells_that_differ(cells_of(before), cells_of(after)))
    # Most changes are small, so cutting to them saves time.
    red, green, blue = difference.crop(place).split()
    differing = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    return _count(differing) / (before.width * before.height)


def cells_of(image: Image.Image) -> Image.Image:
    """Returns the average colours of an image's cells. No cell is smaller than `CELL`."""
    size = max(1, image.width // CELL), max(1, image.height // CELL)
    return image.resize(size, Image.Resampling.BOX)


def _cells_that_differ(before: Image.Image, after: Image.Image) -> Image.Image:
    by = ImageChops.difference(before, after).convert("L", (1 / 3, 1 / 3, 1 / 3, 0))
    return by.point([255 if value > THRESHOLD else 0 for value in range(256)])


def _share(differing: Image.Image) -> float:
    """Returns the share of an image's pixels that are not 0."""
    return _count(differing) / (differing.width * differing.height)


def _count(differing: Image.Image) -> int:
    return differing.width * differing.height - differing.histogram()[0]
