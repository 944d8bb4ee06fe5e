"""Bands: horizontal parts of a picture that is put together from tiles and may be larger than the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from PIL import Image as Pillow

from tileharvest.tiles.grid import Tile, TileRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from concurrent.futures import Executor

    from tileharvest.tiles.ground import Ground

    Row: TypeAlias = Mapping[Tile, Callable[[], Pillow.Image | None]]
    """The tiles of a row that show something, each with the function that draws it."""

_BAND: Final = 40 << 20
"""The most bytes of a band of RGBA, unless a single line has more. 384 lines of 24,576 pixels have 38
million. In a wider picture a row of tiles has several bands, and its tiles are drawn once for each band."""


class PixelBox(NamedTuple):
    """A rectangle of pixels of one zoom. Pixels are counted to the right and down from the grid's origin."""

    left: int
    top: int
    right: int
    """The first column that does not belong to it."""
    bottom: int
    """The first line that does not belong to it."""

    @classmethod
    def of(cls, ground: Ground, zoom: int, factor: int, size: tuple[int, int]) -> PixelBox:
        """Returns the pixels of a zoom that show part of the ground.

        `size` is a tile's width and height, and `factor` that of the layer's pyramid.
        """
        area, (width, height) = ground.tiles(zoom, factor), size
        first, _ = area.corners
        x, y = first.column * width, first.row * height
        left, top, right, bottom = ground.pixels(zoom, size, factor)
        return cls(x + left, y + top, x + right, y + bottom)

    @property
    def width(self) -> int:
        return self.right - self.left

    @property
    def height(self) -> int:
        return self.bottom - self.top

    def tiles(self, zoom: int, size: tuple[int, int]) -> TileRange:
        """Returns the tiles of a zoom that have pixels in the box."""
        width, height = size
        return TileRange.between(
            Tile.at(zoom, self.left // width, self.top // height),
            Tile.at(zoom, (self.right - 1) // width, (self.bottom - 1) // height),
        )


def bands(
    box: PixelBox,
    zoom: int,
    size: tuple[int, int],
    row: Callable[[TileRange], Row],
    pool: Executor,
    most_bytes: int = _BAND,
) -> Iterator[Pillow.Image]:
    """Yields the picture of a box from top to bottom, in bands of RGBA. No band is higher than a tile.

    `size` is a tile's width and height. `row` is asked for each row of tiles, once for each of its bands, and
    the pool draws what it returns. The picture is transparent where no tile shows anything. Each band is let
    go of before the next one is made: a caller that does the same holds one of them in memory.
    """
    height = size[1]
    most_lines = max(1, most_bytes // (4 * box.width))
    top = box.top
    while top < box.bottom:
        bottom = min(box.bottom, (top // height + 1) * height, top + most_lines)
        band = PixelBox(box.left, top, box.right, bottom)
        yield _drawn(band, size, row(band.tiles(zoom, size)), pool)
        top = bottom


def _drawn(band: PixelBox, size: tuple[int, int], tiles: Row, pool: Executor) -> Pillow.Image:
    (width, height), canvas = size, Pillow.new("RGBA", (band.width, band.height))

    def paste(tile: Tile, draw: Callable[[], Pillow.Image | None]) -> None:
        image = draw()
        if image is not None:
            canvas.paste(image, (tile.column * width - band.left, tile.row * height - band.top))

    # Whatever fails is raised here, and nothing is pasted into a band that was handed out.
    for _ in pool.map(paste, tiles.keys(), tiles.values()):
        pass
    return canvas
