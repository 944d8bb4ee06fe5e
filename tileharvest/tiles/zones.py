"""Zones: the rectangles of a map that are kept. Pure."""

from __future__ import annotations

import msgspec

from tileharvest.tiles.grid import TileRange


class Zone(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A rectangle of `width` x `height` tiles of one zoom around a point of the grid.

    Counted as KedamaDiff, the first harvester of such maps, counts its zones, so that its users can
    bring theirs along: a tile belongs to the zone when its centre is not left of the left edge and left
    of the right one, and above the lower edge and not above the upper one. That is always exactly
    width x height tiles; the centre need not be a tile's. Raises ValueError for a zone without tiles.
    """

    center: tuple[int, int]
    """x and y in grid units; y grows up."""
    width: int
    height: int
    zoom: int

    def __post_init__(self) -> None:
        if self.width < 1 or self.height < 1:
            raise ValueError(
                f"a zone of {self.width} x {self.height} tiles is empty: width and height are at least 1"
            )
        if self.zoom > 0:
            raise ValueError(f"zoom {self.zoom} does not exist: 0 is the deepest level, -1 the next coarser")

    def tiles(self) -> TileRange:
        """The tiles that are counted, at the zone's own zoom."""
        unit = 1 << -self.zoom
        x, y = self.center
        x_from = _odd_multiple_from(x - self.width * unit, unit)
        y_to = -_odd_multiple_from(-y - self.height * unit, unit)
        return TileRange(
            self.zoom,
            x_from,
            x_from + 2 * unit * (self.width - 1),
            y_to - 2 * unit * (self.height - 1),
            y_to,
        )

    def tiles_at(self, zoom: int) -> TileRange:
        """The tiles of another zoom that share ground with the zone, whole or in part."""
        counted = self.tiles()
        edge = 1 << -counted.zoom
        x_from, x_to = _centres_over(counted.x_from - edge, counted.x_to + edge, 1 << -zoom)
        y_from, y_to = _centres_over(counted.y_from - edge, counted.y_to + edge, 1 << -zoom)
        return TileRange(zoom, x_from, x_to, y_from, y_to)


def _odd_multiple_from(start: int, unit: int) -> int:
    """The first odd multiple of `unit` that is not below `start`."""
    steps = -(-start // unit)
    return (steps if steps % 2 else steps + 1) * unit


def _centres_over(low: int, high: int, unit: int) -> tuple[int, int]:
    """First and last centre of the tiles of half-width `unit` that reach into the open interval."""
    first = low // (2 * unit)
    last = -(-high // (2 * unit)) - 1
    return (2 * first + 1) * unit, (2 * last + 1) * unit
