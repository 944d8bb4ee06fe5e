"""Pictures of a place before and after, side by side, with frames around the parts that differ."""

from __future__ import annotations

import io
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageFont

from tileharvest.history.recorded_versions import shown
from tileharvest.pictures.pixels import BACKGROUND, UNREADABLE, stored

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

    from tileharvest.history.database import History
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.grid import TileRange
    from tileharvest.tiles.layers import Size

LARGEST_FILE: Final = 1_000_000
"""The most bytes of a picture. All services that take messages accept this size."""
PANEL: Final = 588
"""The width of each half in pixels. Both together are less than 1200 wide, and 2, 3 or 4 scaled tiles fit
exactly."""

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


@dataclass(frozen=True, slots=True)
class Half:
    """One side of the picture."""

    heading: str
    image: Image.Image
    """RGB, as wide as a panel."""


def change_picture(
    history: History,
    store: TileStore,
    places: Iterable[tuple[int, TileRange, Size]],
    day: date,
    before: date | None,
) -> bytes | None:
    """Returns a PNG of the first place with a visible difference between the day before `day` and `day`.

    Returns None if no place has one: most maps have many places with blank tiles only. A place is a layer's
    id, an area of the layer, and the size of its tiles. `before` is the day of the harvest before, which the
    heading names, or None if there was none. An image that cannot be read is left blank. Takes a quarter of a
    second for each place. Raises HistoryError.
    """
    eve = day - timedelta(days=1)
    for layer, area, size in places:
        halves = (
            Half("before" if before is None else str(before), _seen(history, store, layer, area, size, eve)),
            Half(str(day), _seen(history, store, layer, area, size, day)),
        )
        differing = differing_cells(halves[0].image, halves[1].image)
        if differing.getbbox() is not None:
            return as_small_png(side_by_side(*halves, frame_around(differing)))
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


def side_by_side(before: Half, after: Half, frame: Image.Image) -> Image.Image:
    """Returns both halves below their headings, with the frame in each."""
    width, height = before.image.size
    whole = Image.new("RGB", (2 * width + GAP, height + HEADING), _PAPER)
    frame = frame.crop((0, 0, width, height))
    draw = ImageDraw.Draw(whole)
    for left, half in ((0, before), (width + GAP, after)):
        whole.paste(half.image, (left, HEADING))
        whole.paste(_FRAME, (left, HEADING), frame)
        draw.text((left + GAP, HEADING // 2), half.heading, _INK, ImageFont.load_default(_TEXT), "lm")
    return whole


def as_small_png(image: Image.Image) -> bytes:
    """Returns a PNG of less than `LARGEST_FILE` bytes. If the image needs more, it gets fewer colours, and
    then fewer pixels."""
    body = _as_png(image)
    while len(body) >= LARGEST_FILE:
        # The octree keeps rare colours. Pillow's default method lets a red roof in a green land fade, and
        # other methods can take minutes.
        body = _as_png(image.quantize(256, Image.Quantize.FASTOCTREE))
        image = image.reduce(2)
    return body


def _seen(
    history: History, store: TileStore, layer: int, area: TileRange, tile_size: Size, day: date
) -> Image.Image:
    """Returns the area as it was by the end of the day."""
    width = PANEL // len(area.columns)
    size = width, max(1, round(width * tile_size[1] / tile_size[0]))
    canvas = Image.new("RGB", (width * len(area.columns), size[1] * len(area.rows)), BACKGROUND)
    for tile, name in shown(history, layer, area, day).items():
        image = None if name is None else _image(store, name, size)
        if image is not None:
            column, row = area.columns.index(tile.x), area.rows.index(tile.y)
            canvas.paste(image, (column * width, (len(area.rows) - 1 - row) * size[1]), image)
    return canvas


def _image(store: TileStore, name: str, size: Size) -> Image.Image | None:
    try:
        return stored(store, name, size)
    except UNREADABLE:
        return None


def _as_png(image: Image.Image) -> bytes:
    body = io.BytesIO()
    image.save(body, "PNG", optimize=True)
    return body.getvalue()
