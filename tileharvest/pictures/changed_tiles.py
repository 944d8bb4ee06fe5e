"""Pictures of tiles with their changes between two days: changed places in their colours, all else faded."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from PIL import Image as Pillow
from PIL import ImageDraw, ImageEnhance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileharvest.tiles.grid import Tile

_FADED: Final = 0.25
"""The share of its colours that an unchanged place keeps. It keeps twice that share of its contrast."""
_PAPER: Final = 128
"""The grey to which unchanged places fade."""
_SMALLEST_OUTLINED: Final = 3
"""The least pixels along the edge of a tile that gets an outline. A smaller tile would be nothing but
outline."""


class Change(Enum):
    """A tile's change between two days."""

    CHANGED = "changed"
    NEW = "new"
    GONE = "gone"

    @classmethod
    def between(cls, before: str | None, now: str | None) -> Change:
        """Returns the change of a tile with these images. At least one of them is not None."""
        if before is None:
            return cls.NEW
        return cls.GONE if now is None else cls.CHANGED


_COLOURS: Final = {Change.NEW: (0, 200, 60, 255), Change.GONE: (230, 30, 30, 255)}
"""The colours of the outlines. Changed tiles have no outline: they are the only ones with their own
colours."""


def difference_of(
    tile: Tile,
    before: Pillow.Image | None,
    now: Pillow.Image | None,
    changes: Mapping[Tile, Change],
    factor: int,
    size: tuple[int, int],
) -> Pillow.Image:
    """Returns the picture of a tile, in RGBA.

    `before` and `now` are the tile's images on both days. `changes` has the tiles within it that have
    changed, of a deeper zoom or of its own. A place that is gone shows what was there before.
    """
    whole = Pillow.new("RGBA", size) if now is None else faded(now)
    draw = ImageDraw.Draw(whole)
    for cell, change in changes.items():
        left, top, right, bottom = edges = _edges(tile, cell, factor, size)
        source = before if change is Change.GONE else now
        if source is not None:
            whole.paste(source.crop(edges), edges[:2])
        side = min(right - left, bottom - top)
        if change in _COLOURS and side >= _SMALLEST_OUTLINED:
            box = left, top, right - 1, bottom - 1
            draw.rectangle(box, outline=_COLOURS[change], width=max(1, side // 48))
    return whole


def faded(image: Pillow.Image) -> Pillow.Image:
    """Returns an image of RGBA with faded colours. Its opacity stays."""
    red, green, blue, opacity = ImageEnhance.Color(image).enhance(_FADED).split()
    pale = [channel.point(_PALER) for channel in (red, green, blue)]
    return Pillow.merge("RGBA", (*pale, opacity))


_PALER: Final = [round(_PAPER + (value - _PAPER) * 2 * _FADED) for value in range(256)]


def _edges(tile: Tile, cell: Tile, factor: int, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Returns left, top, right and bottom of a deeper tile, in pixels of the tile in which it lies."""
    across = factor ** (cell.zoom - tile.zoom)
    column, row = cell.column - tile.column * across, cell.row - tile.row * across
    (width, height), left, top = size, column * size[0] // across, row * size[1] // across
    right, bottom = (column + 1) * width // across, (row + 1) * height // across
    return left, top, max(right, left + 1), max(bottom, top + 1)
