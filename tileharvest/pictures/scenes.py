"""Scenes: pictures of a rectangle of a layer on a day, and on two days side by side."""

from __future__ import annotations

import io
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageFont

from tileharvest.errors import StoreError
from tileharvest.pictures.composer import Composer, PastLayer
from tileharvest.pictures.pixels import UNREADABLE, background, limited
from tileharvest.tiles.ground import Ground

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

    from tileharvest.history.database import History
    from tileharvest.history.outlines import LayerOutline, MapOutline
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.grid import Tile, TileRange
    from tileharvest.tiles.layers import Size

HALF: Final = 336
"""The width in pixels of each of two pictures side by side: twice the pixels that the page's panel has for
it."""
MOST_ACROSS: Final = 4
"""The most tiles along an edge of a picture. They have more pixels than the picture shows."""
MOST_COMPOSED: Final = 1024
"""The most images that are read for a picture of a level that the history lacks. Each takes 10 ms."""
MOST_DRAWN: Final = 64
"""The most tiles of a picture if tiles do not nest by two. They take 48 MB if they have 500 x 500 pixels."""
GAP: Final = 8
HEADING: Final = 32
_TEXT: Final = 18
_PAPER: Final = "#ffffff"
_INK: Final = "#202020"
_FRAME: Final = "#ff00c8"
"""No block of the game has this colour."""
CELL: Final = 3
"""The width in pixels of a cell, whose pixels are compared as one, and of the line of a frame."""
_NOTICEABLE: Final = 12
"""The least difference of two cells that counts, of 255. Lossy images of the same thing differ by a few."""

_PANEL: Final = 588
"""The width in pixels of each half of a message's picture. Both together are less than 1200 wide."""
_MARGIN: Final = 24
"""Pixels of the margin around a difference, which show where it lies."""
_SMALLEST: Final = 120
"""The least pixels along an edge of a part. A smaller part would be enlarged more than threefold."""
_QUALITY: Final = 88


@dataclass(frozen=True, slots=True)
class Scenes:
    """Pictures of a layer. May be used by several threads.

    The methods raise HistoryError, one of `UNREADABLE` if an image cannot be read, and ComposerStoppedError
    while the viewer is being stopped.
    """

    _store: TileStore
    _composer: Composer
    _history: History
    _map: MapOutline
    _layer: LayerOutline
    """A layer of the map."""

    def zoom(self, ground: Ground, day: date) -> int | None:
        """Returns the deepest zoom at which the ground is at most `MOST_ACROSS` tiles wide and high.

        If tiles do not nest by two, only zooms with images count, and the ground may be more tiles wide.
        Returns None if nothing is there by that day, or if too many images would be read.
        """
        kept, factor = self._layer.kept_zooms(day), self._layer.factor
        if not kept:
            return None
        zooms = range(kept[-1], -32, -1) if factor == 2 else kept[::-1]
        zoom = next((one for one in zooms if _across(ground, one, factor) <= MOST_ACROSS), zooms[-1])
        source = self._layer.source_zoom(zoom, day)
        if source is None:
            return None
        below = ground.tiles(source, factor)
        # Python's `len` counts no more than 2^63 tiles.
        most = MOST_DRAWN if source == zoom else MOST_COMPOSED
        return zoom if len(below.columns) * len(below.rows) <= most else None

    def mosaic(self, ground: Ground, zoom: int, day: date) -> Image.Image:
        """Returns the ground as it was at the end of the day, in RGB, in the pixels of that zoom.

        A place without tiles shows the map's own background."""
        factor, described = self._layer.factor, self._layer.described(day)
        area, size = ground.tiles(zoom, factor), limited(described.tile_size)
        width, height = size
        canvas = Image.new(
            "RGB", (width * len(area.columns), height * len(area.rows)), background(described.background)
        )
        for tile, image in self._images(ground, zoom, day, size):
            place = (area.columns.index(tile.x) * width, area.rows[::-1].index(tile.y) * height)
            canvas.paste(image, place, image)
        return canvas.crop(ground.pixels(zoom, size, factor))

    def before_and_after(self, ground: Ground, zoom: int, before: date, after: date) -> bytes | None:
        """Returns a JPEG of the ground on two days, side by side, cropped to the part that differs
        noticeably.

        Returns None if nothing differs: tiles at a map's edge may be blank.
        """
        old, new = self.mosaic(ground, zoom, before), self.mosaic(ground, zoom, after)
        if old.size != new.size:
            old = old.resize(new.size)
        seen = differing_cells(old, new).getbbox()
        if seen is None:
            return None
        box = around((seen[0] * CELL, seen[1] * CELL, seen[2] * CELL, seen[3] * CELL), new.size)
        old, new = old.crop(box), new.crop(box)
        height = max(1, round(HALF * new.height / new.width))
        both = Image.new("RGB", (2 * HALF + GAP, height), "#ffffff")
        for left, image in ((0, old), (HALF + GAP, new)):
            # Enlarged blocks keep their edges. The pixels of a smaller picture are averages.
            way = Image.Resampling.NEAREST if image.width < HALF else Image.Resampling.BOX
            both.paste(image.resize((HALF, height), way), (left, 0))
        return as_jpeg(both)

    def _images(self, ground: Ground, zoom: int, day: date, size: Size) -> list[tuple[Tile, Image.Image]]:
        """Returns the image of each tile that was there."""
        past = PastLayer.of(self._history, self._map, self._layer, day, zoom, size)
        if past is None:
            return []
        area = ground.tiles(zoom, self._layer.factor)
        drawn = [
            (tile, self._composer.image(past, part))
            for tile, part in self._composer.parts(past, area).items()
        ]
        found = [(tile, image) for tile, (image, is_whole) in drawn if image is not None and is_whole]
        if len(found) < len(drawn):
            raise StoreError("an image cannot be read")
        return found


def change_picture(
    history: History,
    store: TileStore,
    outline: MapOutline,
    views: Iterable[tuple[str, TileRange]],
    day: date,
) -> bytes | None:
    """Returns a JPEG of the first view that differs visibly between the day before `day` and `day`, with
    frames around what differs.

    Returns None if no view does: most maps have many places with blank tiles only. A view is a layer's name,
    and tiles of the layer. A view with an image that cannot be read is left out. Raises HistoryError.
    """
    before, composer = outline.day_before(day), Composer(store)
    for name, area in views:
        layer = outline.layer(name)
        assert layer is not None
        scenes = Scenes(store, composer, history, outline, layer)
        ground = Ground.of(area, layer.factor)
        try:
            seen = [scenes.mosaic(ground, area.zoom, one) for one in (day - timedelta(days=1), day)]
        except UNREADABLE:
            continue
        size = _PANEL, max(1, round(_PANEL * seen[1].height / seen[1].width))
        old, new = (image.resize(size, Image.Resampling.BOX) for image in seen)
        differing = differing_cells(old, new)
        if differing.getbbox() is not None:
            heading = "before" if before is None else str(before)
            return as_jpeg(side_by_side((heading, old), (str(day), new), frame_around(differing)))
    return None


def differing_cells(before: Image.Image, after: Image.Image) -> Image.Image:
    """Returns a mask with a pixel for each cell, which is 255 if the two images differ noticeably there. Both
    images have one size."""
    red, green, blue = ImageChops.difference(before, after).split()
    strongest = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    return strongest.reduce(CELL).point([255 if value >= _NOTICEABLE else 0 for value in range(256)])


def frame_around(differing: Image.Image) -> Image.Image:
    """Returns a mask, in pixels, of frames around the cells that differ, a few pixels away from them."""
    # Cells that lie close together share a frame, so that not each leaf of a tree has its own.
    around = differing.filter(ImageFilter.MaxFilter(7))
    frame = ImageChops.subtract(around.filter(ImageFilter.MaxFilter(3)), around)
    return frame.resize((frame.width * CELL, frame.height * CELL), Image.Resampling.NEAREST)


def side_by_side(
    before: tuple[str, Image.Image], after: tuple[str, Image.Image], frame: Image.Image
) -> Image.Image:
    """Returns both halves, each a heading and an image in RGB, with the frame in each."""
    width, height = before[1].size
    whole = Image.new("RGB", (2 * width + GAP, height + HEADING), _PAPER)
    frame = frame.crop((0, 0, width, height))
    draw = ImageDraw.Draw(whole)
    for left, (heading, image) in ((0, before), (width + GAP, after)):
        whole.paste(image, (left, HEADING))
        whole.paste(_FRAME, (left, HEADING), frame)
        draw.text((left + GAP, HEADING // 2), heading, _INK, ImageFont.load_default(_TEXT), "lm")
    return whole


def as_jpeg(image: Image.Image) -> bytes:
    body = io.BytesIO()
    # With subsampling a red torch on a grey wall would lose its colour.
    image.save(body, "JPEG", quality=_QUALITY, subsampling=0)
    return body.getvalue()


def around(box: tuple[int, int, int, int], size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Returns the part of an image of that size to show around a box: some pixels more on each side.

    The part is large enough to be seen. If there is room, its longer edge is at most twice its shorter one.
    """
    width, height = box[2] - box[0] + 2 * _MARGIN, box[3] - box[1] + 2 * _MARGIN
    wide, high = max(width, height // 2, _SMALLEST), max(height, width // 2, _SMALLEST)
    left, right = _span(box[0], box[2], wide, size[0])
    top, bottom = _span(box[1], box[3], high, size[1])
    return left, top, right, bottom


def _span(first: int, last: int, length: int, most: int) -> tuple[int, int]:
    length = min(length, most)
    start = min(max(0, (first + last - length) // 2), most - length)
    return start, start + length


def _across(ground: Ground, zoom: int, factor: int) -> int:
    area = ground.tiles(zoom, factor)
    return max(len(area.columns), len(area.rows))
