"""Zones: the rectangles of a map that are kept. Pure."""

from __future__ import annotations

import msgspec

from tileharvest.tiles.grid import TileRange


class Zone(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A rectangle of `width` x `height` tiles of one zoom around a point of the grid.

    The centre need not be a tile's. A tile whose centre lies on the zone's left or upper edge belongs to the
    zone; one whose centre lies on the right or lower edge does not. So a zone has exactly width x height
    tiles. KedamaDiff, the first harvester of such maps, counts its zones in the same way, and its users can
    bring them along. Raises ValueError for a zone without tiles.
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
        """Returns the zone's tiles, at its own zoom."""
        return TileRange.around(self.zoom, self.center, self.width, self.height)

    def tiles_at(self, zoom: int, factor: int = 2) -> TileRange:
        """Returns the tiles of another zoom that share ground with the zone, whole or in part.

        `factor` is that of the layer's pyramid.
        """
        return self.tiles().at_zoom(zoom, factor)
