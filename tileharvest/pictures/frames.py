"""Frames of a film: views of a layer, drawn tile by tile, with soft outlines around changes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from math import floor
from typing import TYPE_CHECKING, Final

from PIL import Image, ImageFilter

from tileharvest.pictures.difference import differing_cells
from tileharvest.pictures.pixels import shrunk
from tileharvest.tiles.grid import Tile, TileRange

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Executor

    from tileharvest.pictures.composer import Composer, Composition, PastLayer
    from tileharvest.tiles.layers import Size

    Part = Composition | str
    """What a tile shows: a picture that can be composed, or an image's name."""

_AT_ONCE: Final = 64
"""Tiles that are unpacked together before they are drawn. A view from far away may have thousands."""
_NEAR: Final = 4
"""The distance in cells from a change to its outline, as the radius of a box blur."""
_SOFT: Final = 2
"""The deviation in cells of the Gaussian blur that makes an outline soft."""
_GLOW: Final = (255, 225, 70)
"""The colour of an outline, which is visible on grass, water, sand and snow."""


@dataclass(frozen=True)
class Lens:
    """The part of a zoom that a film shows, and the scale at which it shows it."""

    zoom: int
    tile_size: Size
    scale: float
    """Pixels of the film for one pixel of a tile."""
    size: Size
    """The film's width and height in pixels."""
    corner: tuple[int, int]
    """Left and top, in pixels of the film, counted from the grid's origin."""

    def edges(self, tile: Tile) -> tuple[int, int, int, int]:
        """Returns left, top, right and bottom of a tile, in pixels of the film.

        Neighbours touch each other, whatever the scale.
        """
        (across, down), (x, y) = self._step, self.corner
        left, right = (floor(column * across + 0.5) - x for column in (tile.column, tile.column + 1))
        top, bottom = (floor(row * down + 0.5) - y for row in (tile.row, tile.row + 1))
        return left, top, right, bottom

    def tiles(self) -> TileRange:
        """Returns the tiles that the film shows, in part or whole."""
        (across, down), (left, top), (width, height) = self._step, self.corner, self.size
        first = floor((left + 0.5) / across), floor((top + 0.5) / down)
        last = floor((left + width - 0.5) / across), floor((top + height - 0.5) / down)
        return TileRange.between(Tile.at(self.zoom, *first), Tile.at(self.zoom, *last))

    @cached_property
    def _step(self) -> tuple[float, float]:
        width, height = self.tile_size
        return width * self.scale, height * self.scale


class Frames:
    """Draws the frames of a film. The pool unpacks tiles; everything else happens in the caller's thread."""

    def __init__(self, composer: Composer, lens: Lens, ground: tuple[int, int, int], pool: Executor) -> None:
        """`ground` is the colour where nothing is."""
        self._composer = composer
        self._lens = lens
        self._ground = ground
        self._pool = pool
        self._shown: Mapping[Tile, Part] = {}
        """What the last frame shows."""
        self.image = Image.new("RGB", lens.size, ground)
        """The last frame, in RGB. Do not draw on it."""

    def next(self, past: PastLayer | None) -> None:
        """Draws the next frame: only tiles that differ from the last one. `past` is None for a day on which
        nothing was there yet. Raises HistoryError."""
        parts = {} if past is None else self._composer.parts(past, self._lens.tiles())
        differing = [tile for tile in {**self._shown, **parts} if self._shown.get(tile) != parts.get(tile)]
        image = self.image.copy()
        for start in range(0, len(differing), _AT_ONCE):
            group = differing[start : start + _AT_ONCE]
            pictures = self._pool.map(partial(self._draw, past), group, map(parts.get, group))
            for tile, picture in zip(group, pictures, strict=True):
                image.paste(picture or self._ground, self._lens.edges(tile))
        self._shown, self.image = parts, image

    def _draw(self, past: PastLayer | None, tile: Tile, part: Part | None) -> Image.Image | None:
        """Returns a tile on the ground, in the size in which it is shown, or None if there is nothing to
        show."""
        if past is None or part is None:
            return None
        image, _ = self._composer.image(past, part)
        left, top, right, bottom = self._lens.edges(tile)
        size = right - left, bottom - top
        if image is None or 0 in size:
            return None
        if size != image.size:
            # Enlarged blocks keep their edges.
            is_smaller = size[0] < image.width
            near = Image.Resampling.NEAREST
            image = shrunk(image, size, past.has_one_zoom) if is_smaller else image.resize(size, near)
        flat = Image.new("RGB", size, self._ground)
        flat.paste(image, mask=image)
        return flat


def outline_between(before: Image.Image, after: Image.Image) -> Image.Image | None:
    """Returns a soft line around the parts of two images that differ noticeably, as a mask a third as wide
    and high, or None if nothing differs. Parts that lie close together share a line."""
    differing = differing_cells(before, after)
    if differing.getbbox() is None:
        return None
    near = differing.filter(ImageFilter.BoxBlur(_NEAR)).point(_ANY)
    return near.filter(ImageFilter.GaussianBlur(_SOFT)).point(_HALF)


def light(image: Image.Image, outline: Image.Image) -> None:
    """Draws an outline on an image."""
    image.paste(_GLOW, (0, 0), outline.resize(image.size, Image.Resampling.BILINEAR))


_ANY: Final = [0] + [255] * 255
"""A table for Pillow's `point` that turns each value but 0 into 255."""
_HALF: Final = [round(230 * (1 - abs(value - 127.5) / 127.5)) for value in range(256)]
"""A table for Pillow's `point`. The line is strongest where the blurred edge has half of its light."""
