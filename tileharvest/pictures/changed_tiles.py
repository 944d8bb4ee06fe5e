"""Pictures of a difference: what has changed between two days in its colours, all else faded."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from PIL import Image as Pillow
from PIL import ImageDraw, ImageEnhance

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tileharvest.tiles.grid import Tile

_FADED: Final = 0.25
"""How much of its colours and of its light an unchanged place keeps."""
_PAPER: Final = 128
"""The grey to which it fades."""
_SMALLEST_OUTLINED: Final = 3
"""Pixels along an edge. Smaller tiles would be nothing but their outlines."""


class Change(Enum):
    """What became of a tile."""

    CHANGED = "changed"
    NEW = "new"
    GONE = "gone"

    @classmethod
    def between(cls, before: str | None, now: str | None) -> Change:
        """Returns what became of a tile with these images, of which one at least is there."""
        if before is None:
            return cls.NEW
        return cls.GONE if now is None else cls.CHANGED


_COLOURS: Final = {Change.NEW: (0, 200, 60, 255), Change.GONE: (230, 30, 30, 255)}
"""Of the outlines. What has changed has none: it is what has colours."""


def difference_of(
    tile: Tile,
    before: Pillow.Image | None,
    now: Pillow.Image | None,
    cells: Iterable[Tile],
    changes: Mapping[Tile, Change],
    factor: int,
    size: tuple[int, int],
) -> Pillow.Image:
    """Returns the picture of a tile, in RGBA.

    `before` and `now` are what it showed on both days. `cells` are the tiles of a deeper zoom, or of its own,
    that lie in it and are others than before. `changes` has what became of them, and of those beside them. A
    place that is gone shows what was there before.
    """
    whole = Pillow.new("RGBA", size) if now is None else faded(now)
    draw = ImageDraw.Draw(whole)
    for cell in cells:
        change, edges = changes[cell], _edges(tile, cell, factor, size)
        source = before if change is Change.GONE else now
        if source is not None:
            whole.paste(source.crop(edges), edges[:2])
        left, top, right, bottom = edges
        colour = _COLOURS.get(change)
        if colour is None or min(right - left, bottom - top) < _SMALLEST_OUTLINED:
            continue
        width = max(1, min(right - left, bottom - top) // 48)
        for (columns, rows), box in {
            (-1, 0): (left, top, left + width - 1, bottom - 1),
            (1, 0): (right - width, top, right - 1, bottom - 1),
            (0, -1): (left, top, right - 1, top + width - 1),
            (0, 1): (left, bottom - width, right - 1, bottom - 1),
        }.items():
            # One outline around those that lie together.
            if changes.get(cell.at(cell.zoom, cell.column + columns, cell.row + rows)) is not change:
                draw.rectangle(box, colour)
    return whole


def faded(image: Pillow.Image) -> Pillow.Image:
    """Returns an image of RGBA with little of its colours, and as opaque as it was."""
    red, green, blue, opacity = ImageEnhance.Color(image).enhance(_FADED).split()
    pale = [channel.point(_PALER) for channel in (red, green, blue)]
    return Pillow.merge("RGBA", (*pale, opacity))


_PALER: Final = [round(_PAPER + (value - _PAPER) * 2 * _FADED) for value in range(256)]


def _edges(tile: Tile, cell: Tile, factor: int, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Returns left, top, right and bottom of the pixels of a deeper tile in this one."""
    across = factor ** (cell.zoom - tile.zoom)
    column, row = cell.column - tile.column * across, cell.row - tile.row * across
    (width, height), left, top = size, column * size[0] // across, row * size[1] // across
    right, bottom = (column + 1) * width // across, (row + 1) * height // across
    return left, top, max(right, left + 1), max(bottom, top + 1)
