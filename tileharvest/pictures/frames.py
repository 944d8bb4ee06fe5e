"""Frames of a film: views of a layer, drawn tile by tile, with outlines around changes, title and day."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from math import floor
from typing import TYPE_CHECKING, Final

from PIL import Image, ImageDraw, ImageFilter, ImageFont

from tileharvest.errors import ConfigurationError
from tileharvest.pictures.pixels import shrunk
from tileharvest.pictures.scenes import differing_cells
from tileharvest.tiles.grid import Tile, TileRange

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Executor

    from tileharvest.pictures.composer import Composer, Composition, PastLayer
    from tileharvest.tiles.layers import Size

_AT_ONCE: Final = 64
"""Tiles that are unpacked together before they are drawn. A view from far away may have thousands."""
_NEAR: Final = 4
"""The distance in cells from a change to its outline, as the radius of a box blur."""
_SOFT: Final = 2
"""The deviation in cells of the Gaussian blur that makes an outline soft."""
_PLATE: Final = (0, 0, 0, 150)
_INK: Final = (255, 255, 255, 255)
_LINES: Final = 32
"""The number of lines of text that fit into the picture's shorter edge."""
_SMALLEST: Final = 10
"""The least height in pixels of a line that can be read."""
_FONTS: Final = (
    "NotoSansCJK-Regular.ttc",
    "NotoSansSC-Regular.otf",
    "wqy-microhei.ttc",
    "msyh.ttc",
    "PingFang.ttc",
    "DejaVuSans.ttf",
)
"""Fonts of operating systems with signs that Pillow's own font lacks, in the order in which they are
tried."""
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
        self._shown: Mapping[Tile, Composition | str] = {}
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

    def _draw(self, past: PastLayer | None, tile: Tile, part: Composition | str | None) -> Image.Image | None:
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


class Legend:
    """Writes title and day on pictures of one size."""

    def __init__(self, size: Size, title: str = "") -> None:
        """Raises ConfigurationError if no font has all signs of the title."""
        line = max(_SMALLEST, min(size) // _LINES)
        self._font = _font(title, line)
        self._margin = line // 2
        self._widest = size[0] - 2 * self._margin
        self._title = self._plate(title) if title else None

    def write(self, image: Image.Image, stamp: str) -> None:
        """Writes on a picture of RGB: the title at the top, the stamp at the bottom."""
        plate, margin = self._plate(stamp), self._margin
        image.paste(plate, (margin, image.height - margin - plate.height), plate)
        if self._title is not None:
            image.paste(self._title, (margin, margin), self._title)

    def _plate(self, text: str) -> Image.Image:
        pad = self._margin // 2
        left, _, right, _ = self._font.getbbox(text)
        # The font's own height makes all plates equally high, whatever their letters are.
        ascent, descent = self._font.getmetrics()
        width = min(self._widest, round(right - left) + 2 * pad)
        plate = Image.new("RGBA", (max(1, width), ascent + descent + 2 * pad), _PLATE)
        ImageDraw.Draw(plate).text((pad - left, pad), text, _INK, self._font)
        return plate


def _font(text: str, line: int) -> ImageFont.FreeTypeFont:
    own = ImageFont.load_default(line)
    assert isinstance(own, ImageFont.FreeTypeFont)
    if _has_all(own, text):
        return own
    for name in _FONTS:
        try:
            font = ImageFont.truetype(name, line)
        except OSError:
            continue
        if _has_all(font, text):
            return font
    raise ConfigurationError(
        "no font of this computer has all signs of the title: install one that has, such as fonts-noto-cjk"
    )


def _has_all(font: ImageFont.FreeTypeFont, text: str) -> bool:
    """Returns whether a font has every sign of a text. A sign that it lacks looks like a sign that no font
    has."""

    def drawn(sign: str) -> bytes:
        image = Image.new("L", (2 * _SMALLEST, 2 * _SMALLEST))
        ImageDraw.Draw(image).text((0, 0), sign, 255, font)
        return image.tobytes()

    lacking = drawn("\U0010fffd")
    return not any(drawn(sign) == lacking for sign in set(text) if not sign.isspace())
