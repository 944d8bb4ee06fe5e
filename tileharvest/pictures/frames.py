"""Frames: what a film shows of a layer, drawn tile by tile, with what has changed in a soft outline."""

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
    """What each tile shows that was there."""
    Box = tuple[int, int, int, int]
    """Left, top, right and bottom, in pixels of a picture."""

MOST_KEPT: Final = 32 << 20
"""Bytes of tiles that are kept as they are drawn: 75 of 384 x 384 pixels. A camera that moves needs those
that it has shown a moment ago, and one that stays none of them."""

ANY: Final = [0] + [255] * 255
"""What `point` makes of a band of which whatever is not 0 counts."""
EDGE: Final = 6
"""Pixels along the edges of a region in which nothing differs. Its own edges are multiples of this, too, so
that they lie between the cells of an outline, and between the colours of a video, of which two by two pixels
have one."""
_NEAR: Final = 4
"""Cells of an outline's distance from what differs, which is the radius of a box blur."""
_SOFT: Final = 2
"""Cells of the deviation of the Gaussian blur that makes an outline soft."""
REACH: Final = CELL * (_NEAR + 3 * _SOFT + 2)
"""Pixels to which an outline reaches beyond what differs. Pillow's Gaussian blur is three box blurs, each of
which reaches no further than the deviation. A cell more may differ in part only, and one is mixed with its
neighbours when the outline is enlarged."""
_MOST_REGIONS: Final = 64
"""Parts that are looked at one by one. More of them become one: to unite them takes its time, too."""
_AT_ONCE: Final = 64
"""Tiles that are unpacked before they are drawn."""
_GLOW: Final = (255, 225, 70)
"""Of the outline: on grass, water, sand and snow it is seen."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What is to be seen of a layer on a day, without any lettering."""

    corner: tuple[int, int]
    """Left and top, in pixels of the film, counted from the grid's origin."""
    shown: Shown = field(repr=False)
    image: Image.Image
    """RGB, in the film's size. Do not draw on it."""
    changed: tuple[Box, ...]
    """The regions in which it may differ from the scene before, or have an outline."""


class Patch(NamedTuple):
    """A part of a picture, which takes the place of what is there."""

    left: int
    top: int
    image: Image.Image


class Outline(NamedTuple):
    """A soft line around what has changed."""

    mask: Image.Image
    """A third as wide and high as the picture."""
    boxes: tuple[Box, ...]
    """The regions in which it lies."""
    strength: float = 1
    """From 0 to 1."""


@dataclass(frozen=True)
class Lens:
    """How large a film shows the tiles of a zoom, and how much of them."""

    zoom: int
    tile_size: Size
    scale: float
    """Pixels of the film for one of the tiles."""
    size: Size
    """Of the film."""

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
        """Returns the tiles of which something is to be seen from this corner on."""
        (across, down), (left, top), (width, height) = self._step, corner, self.size
        first = floor((left + 0.5) / across), floor((top + 0.5) / down)
        last = floor((left + width - 0.5) / across), floor((top + height - 0.5) / down)
        return TileRange.between(Tile.at(self.zoom, *first), Tile.at(self.zoom, *last))


class Frames:
    """Draws what a film shows. Tiles are unpacked by a pool; else use it in one thread."""

    def __init__(
        self,
        composer: Composer,
        lens: Lens,
        ground: tuple[int, int, int],
        pool: Executor,
        most_kept: int = MOST_KEPT,
    ) -> None:
        """`ground` is the colour where nothing is."""
        self._composer = composer
        self._lens = lens
        self._ground = ground
        self._pool = pool
        self._kept: OrderedDict[tuple[Tile, Composition | str], Image.Image] = OrderedDict()
        self._room = most_kept
        self.damaged: set[Tile] = set()
        """Tiles that were drawn without an image which cannot be read."""

    def shown(self, past: PastLayer | None, corner: tuple[int, int]) -> Shown:
        """Returns what is to be seen from a corner on. None: of a day on which there was nothing yet.

        Costs what `Composer.parts` does. Raises HistoryError.
        """
        return {} if past is None else self._composer.parts(past, self._lens.tiles(corner))

    def scene(
        self, past: PastLayer | None, shown: Shown, corner: tuple[int, int], before: Scene | None = None
    ) -> Scene:
        """Draws a scene. Of one before, seen from the same corner, only the tiles that differ are drawn."""
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
        # In groups that fit into the memory: from afar there may be thousands.
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
        """Returns a tile on the ground, in the size in which it is shown; None where there is none."""
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
            # Enlarged blocks keep their edges; what is made smaller is averaged.
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
    """Returns boxes around all of these with a margin, none of which overlaps another, in a picture of this
    size."""
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
    """Returns a soft line around what differs noticeably in the second of two scenes; None where nothing
    does.

    A line goes around what lies close together.
    """
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
    """Returns an image, which is of this box of a picture, with an outline on it."""
    left, top, right, bottom = box
    part = outline.mask.crop((left // CELL, top // CELL, -(-right // CELL), -(-bottom // CELL)))
    if part.getbbox() is None:
        return image
    weaker = part.point([round(value * outline.strength) for value in range(256)])
    large = weaker.resize((part.width * CELL, part.height * CELL), Image.Resampling.BILINEAR)
    image.paste(_GLOW, (0, 0), large.crop((0, 0, *image.size)))
    return image


_HALF: Final = [round(230 * (1 - abs(value - 127.5) / 127.5)) for value in range(256)]
"""Strongest where the blurred edge has half of its light."""
