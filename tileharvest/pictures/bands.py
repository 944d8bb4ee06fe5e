"""Bands: the tiles of an area beside each other, as a picture of any size from top to bottom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from PIL import Image as Pillow

from tileharvest.tiles.grid import Tile, TileRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from concurrent.futures import Executor

    from tileharvest.tiles.ground import Ground

    Row: TypeAlias = Mapping[Tile, Callable[[], Pillow.Image | None]]
    """What draws each tile of a row of tiles that has something to show."""

_BAND: Final = 40 << 20
"""Bytes of a band of RGBA at most, unless a single line has more: 384 lines of 24,576 pixels
have 38 million. A wider picture has several bands in a row of tiles, each drawn of the same tiles."""


class PixelBox(NamedTuple):
    """A rectangle of pixels of one zoom of a layer, counted to the right and down from the grid's origin."""

    left: int
    top: int
    right: int
    """The first column that does not belong to it."""
    bottom: int
    """The first line that does not belong to it."""

    @classmethod
    def of(cls, ground: Ground, zoom: int, factor: int, size: tuple[int, int]) -> PixelBox:
        """Returns the pixels of a zoom that have part of the ground.

        `size` is a tile's width and height, and `factor` that of the layer's pyramid.
        """
        area, (width, height) = ground.tiles(zoom, factor), size
        first = Tile(zoom, area.x_from, area.y_to)
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
        """Returns the tiles of a zoom that have pixels in it."""
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
    """Yields the picture of a box from top to bottom, in bands of RGBA. None is higher than a tile.

    `size` is a tile's width and height. `row` is asked for each row of tiles, once for each of its bands;
    what it returns is drawn by the pool. Where a tile has nothing to show the picture is transparent.
    """
    width, height = size
    most_lines = max(1, most_bytes // (4 * box.width))
    top = box.top
    while top < box.bottom:
        bottom = min(box.bottom, (top // height + 1) * height, top + most_lines)
        band = PixelBox(box.left, top, box.right, bottom)
        canvas = Pillow.new("RGBA", (band.width, band.height))

        def paste(
            tile: Tile,
            draw: Callable[[], Pillow.Image | None],
            canvas: Pillow.Image = canvas,
            band: PixelBox = band,
        ) -> None:
            image = draw()
            if image is not None:
                canvas.paste(image, (tile.column * width - band.left, tile.row * height - band.top))

        drawn = row(band.tiles(zoom, size))
        # Whatever fails is raised here, and nothing is pasted into a band that was handed out.
        for _ in pool.map(paste, drawn.keys(), drawn.values()):
            pass
        yield canvas
        top = bottom


def strips(pictures: Iterable[Pillow.Image], height: int) -> Iterator[Pillow.Image]:
    """Yields bands of any heights as strips of one height. The last one may be lower."""
    rest: Pillow.Image | None = None
    for band in pictures:
        whole = band if rest is None else _below(rest, band)
        last = whole.height - whole.height % height
        for top in range(0, last, height):
            yield whole.crop((0, top, whole.width, top + height))
        rest = whole.crop((0, last, whole.width, whole.height)) if last < whole.height else None
    if rest is not None:
        yield rest


def _below(upper: Pillow.Image, lower: Pillow.Image) -> Pillow.Image:
    both = Pillow.new(upper.mode, (upper.width, upper.height + lower.height))
    both.paste(upper, (0, 0))
    both.paste(lower, (0, upper.height))
    return both
