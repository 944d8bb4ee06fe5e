"""Frames of a film: views of a layer, drawn tile by tile, with soft outlines around changes."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import floor
from typing import TYPE_CHECKING, Final, NamedTuple

from PIL import Image, ImageFilter

from tileharvest.pictures.difference import CELL, differing_cells
from tileharvest.tiles.grid import Tile, TileRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from concurrent.futures import Executor

    from tileharvest.pictures.composer import Composer, Composition, PastLayer
    from tileharvest.tiles.layers import Size

    Shown = Mapping[Tile, Composition | str]
    """The tiles that were there, each with the part that it shows."""
    Box = tuple[int, int, int, int]
    """Left, top, right and bottom, in pixels of a picture."""

MOST_KEPT: Final = 32 << 20
"""Bytes of drawn tiles that are kept in memory: 75 tiles of 384 x 384 pixels. A moving camera shows the tiles
of a moment ago again. A camera that stays needs none of them."""

ANY: Final = [0] + [255] * 255
"""A table for Pillow's `point` that turns each value but 0 into 255."""
EDGE: Final = 6
"""The width in pixels of the margin of a region, in which nothing differs. The edges of regions are multiples
of it, so that they lie between the cells of an outline, and between the squares of 2 x 2 pixels that have one
colour in a video."""
_NEAR: Final = 4
"""The distance in cells from a change to its outline, as the radius of a box blur."""
_SOFT: Final = 2
"""The deviation in cells of the Gaussian blur that makes an outline soft."""
REACH: Final = CELL * (_NEAR + 3 * _SOFT + 2)
"""The farthest distance in pixels from a change to a pixel of its outline. Pillow's Gaussian blur consists of
three box blurs, each of which reaches as far as the deviation. One cell is added because a cell may differ in
part only, and another because cells are mixed with their neighbours when an outline is enlarged."""
_MOST_REGIONS: Final = 64
"""The most boxes that are united one by one. More boxes become a single one, because uniting them takes
time."""
_AT_ONCE: Final = 64
"""Tiles that are unpacked together before they are drawn."""
_GLOW: Final = (255, 225, 70)
"""The colour of an outline, which is visible on grass, water, sand and snow."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A view of a layer on a day, without lettering."""

    corner: tuple[int, int]
    """Left and top, in pixels of the film, counted from the grid's origin."""
    shown: Shown = field(repr=False)
    image: Image.Image
    """RGB, in the film's size. Do not draw on it."""
    changed: tuple[Box, ...]
    """The regions in which the scene may differ from the scene before, or have an outline."""


class Patch(NamedTuple):
    """A part of a picture, which replaces what is there."""

    left: int
    top: int
    image: Image.Image


class Outline(NamedTuple):
    """A soft line around changes."""

    mask: Image.Image
    """The line's opacity, in an image a third as wide and high as the picture."""
    boxes: tuple[Box, ...]
    """The regions in which the line lies."""
    strength: float = 1
    """The strength of the line, from 0 to 1."""


@dataclass(frozen=True)
class Lens:
    """The scale at which a film shows the tiles of a zoom, and the film's size."""

    zoom: int
    tile_size: Size
    scale: float
    """Pixels of the film for one pixel of a tile."""
    size: Size
    """The film's width and height in pixels."""

    @cached_property
    def _step(self) -> tuple[float, float]:
        width, height = self.tile_size
        return width * self.scale, height * self.scale

    def edges(self, tile: Tile) -> tuple[int, int, int, int]:
        """Returns left, top, right and bottom of a tile, in pixels of the film from the grid's origin.

        Neighbours touch each other, whatever the scale.
        """
        across, down = self._step
        left, right = (floor(column * across + 0.5) for column in (tile.column, tile.column + 1))
        top, bottom = (floor(row * down + 0.5) for row in (tile.row, tile.row + 1))
        return left, top, right, bottom

    def tiles(self, corner: tuple[int, int]) -> TileRange:
        """Returns the tiles that a frame with this upper left corner shows, in part or whole."""
        (across, down), (left, top), (width, height) = self._step, corner, self.size
        first = floor((left + 0.5) / across), floor((top + 0.5) / down)
        last = floor((left + width - 0.5) / across), floor((top + height - 0.5) / down)
        return TileRange.between(Tile.at(self.zoom, *first), Tile.at(self.zoom, *last))


class Frames:
    """Draws the scenes of a film. The pool unpacks tiles; everything else happens in the caller's thread."""

    def __init__(
        self,
        composer: Composer,
        lens: Lens,
        ground: tuple[int, int, int],
        pool: Executor,
        most_kept: int = MOST_KEPT,
    ) -> None:
        """`ground` is the colour where nothing is, and `most_kept` the bytes of drawn tiles that are kept."""
        self._composer = composer
        self._lens = lens
        self._ground = ground
        self._pool = pool
        self._kept: OrderedDict[tuple[Tile, Composition | str], Image.Image] = OrderedDict()
        self._room = most_kept
        self.damaged: set[Tile] = set()
        """The tiles that were drawn without an image that cannot be read."""

    def shown(self, past: PastLayer | None, corner: tuple[int, int]) -> Shown:
        """Returns the parts that the tiles of a frame with this corner show. `past` is None for a day on
        which nothing was there yet.

        Costs as much as `Composer.parts`. Raises HistoryError.
        """
        return {} if past is None else self._composer.parts(past, self._lens.tiles(corner))

    def scene(
        self, past: PastLayer | None, shown: Shown, corner: tuple[int, int], before: Scene | None = None
    ) -> Scene:
        """Returns the scene from a corner. If the scene before has the same corner, only tiles that differ
        are drawn."""
        size = self._lens.size
        is_new = before is None or before.corner != corner
        if before is None or is_new:
            before = Scene(corner, {}, Image.new("RGB", size, self._ground), ())
        elif before.shown == shown:
            return Scene(corner, shown, before.image, ())
        image = before.image.copy()
        tiles = self._lens.tiles(corner)
        differing = [
            tile
            for tile in {**before.shown, **shown}
            if tile in tiles and before.shown.get(tile) != shown.get(tile)
        ]
        there = [] if past is None else [(tile, shown[tile]) for tile in differing if tile in shown]
        # Groups of tiles fit into memory. A view from far away may have thousands of tiles.
        for start in range(0, len(there), _AT_ONCE):
            group = there[start : start + _AT_ONCE]
            drawn = self._pool.map(partial(self._tile, past), group)
            for key, picture in zip(group, drawn, strict=True):
                self._paste(image, key[0], picture, corner)
                self._keep(key, picture)
        for tile in differing:
            if tile not in shown:
                self._paste(image, tile, None, corner)
        boxes = [(0, 0, *size)] if is_new else [self._box(tile, corner) for tile in differing]
        return Scene(corner, shown, image, regions(boxes, size, REACH))

    def _paste(
        self, image: Image.Image, tile: Tile, picture: Image.Image | None, corner: tuple[int, int]
    ) -> None:
        image.paste(self._ground if picture is None else picture, self._box(tile, corner))

    def _box(self, tile: Tile, corner: tuple[int, int]) -> Box:
        left, top, right, bottom = self._lens.edges(tile)
        return left - corner[0], top - corner[1], right - corner[0], bottom - corner[1]

    def _tile(self, past: PastLayer | None, key: tuple[Tile, Composition | str]) -> Image.Image | None:
        """Returns a tile on the ground, in the size in which it is shown, or None if there is nothing to
        show."""
        kept = self._kept.get(key)
        if kept is not None or past is None:
            return kept
        tile, part = key
        image, is_whole = self._composer.image(past, part)
        if not is_whole:
            self.damaged.add(tile)
        left, top, right, bottom = self._lens.edges(tile)
        size = right - left, bottom - top
        if image is None or 0 in size:
            return None
        if size != image.size:
            # Enlarged blocks keep their edges. The pixels of smaller tiles are averages.
            way = Image.Resampling.BOX if size[0] < image.width else Image.Resampling.NEAREST
            image = image.resize(size, way)
        flat = Image.new("RGB", size, self._ground)
        flat.paste(image, mask=image)
        return flat

    def _keep(self, key: tuple[Tile, Composition | str], image: Image.Image | None) -> None:
        if image is None or key in self._kept:
            return
        self._kept[key] = image
        self._room -= 3 * image.width * image.height
        while self._room < 0:
            _, oldest = self._kept.popitem(last=False)
            self._room += 3 * oldest.width * oldest.height


def regions(boxes: Iterable[Box], size: Size, margin: int = EDGE) -> tuple[Box, ...]:
    """Returns boxes around all of these boxes with a margin. None of them overlaps another, or leaves a
    picture of this size."""
    width, height = size
    grown = [
        (
            max(0, (left - margin) // EDGE * EDGE),
            max(0, (top - margin) // EDGE * EDGE),
            min(width, -((-right - margin) // EDGE) * EDGE),
            min(height, -((-bottom - margin) // EDGE) * EDGE),
        )
        for left, top, right, bottom in boxes
    ]
    if len(grown) > _MOST_REGIONS:
        grown = [_around(*grown)]
    found: list[Box] = []
    for box in grown:
        while touching := [one for one in found if _overlap(one, box)]:
            box = _around(box, *touching)  # noqa: PLW2901 - it grows until it overlaps none
            found = [one for one in found if one not in touching]
        found.append(box)
    return tuple(found)


def _around(*boxes: Box) -> Box:
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def outline_between(before: Scene, after: Scene) -> Outline | None:
    """Returns a soft line around the parts of two scenes that differ noticeably, or None if nothing does.

    Parts that lie close together share a line."""
    width, height = after.image.size
    mask = Image.new("L", (-(-width // CELL), -(-height // CELL)))
    boxes = []
    for box in after.changed:
        differing = differing_cells(before.image.crop(box), after.image.crop(box))
        if differing.getbbox() is not None:
            near = differing.filter(ImageFilter.BoxBlur(_NEAR)).point(ANY)
            line = near.filter(ImageFilter.GaussianBlur(_SOFT)).point(_HALF)
            mask.paste(line, (box[0] // CELL, box[1] // CELL))
            boxes.append(box)
    return Outline(mask, tuple(boxes)) if boxes else None


def lit(image: Image.Image, box: Box, outline: Outline) -> Image.Image:
    """Draws the outline on an image, which shows this box of a picture, and returns the image."""
    left, top, right, bottom = box
    part = outline.mask.crop((left // CELL, top // CELL, -(-right // CELL), -(-bottom // CELL)))
    if part.getbbox() is None:
        return image
    weaker = part.point([round(value * outline.strength) for value in range(256)])
    large = weaker.resize((part.width * CELL, part.height * CELL), Image.Resampling.BILINEAR)
    image.paste(_GLOW, (0, 0), large.crop((0, 0, *image.size)))
    return image


_HALF: Final = [round(230 * (1 - abs(value - 127.5) / 127.5)) for value in range(256)]
"""A table for Pillow's `point`. The line is strongest where the blurred edge has half of its light."""
