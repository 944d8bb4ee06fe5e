"""Ground: rectangles of the grid that need not end where tiles do. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, isfinite
from typing import TYPE_CHECKING, Final, Self

from tileharvest.tiles.grid import Tile, TileRange

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileharvest.tiles.layers import Size
    from tileharvest.tiles.projection import Projection


@dataclass(frozen=True, slots=True)
class Ground:
    """A rectangle in grid units, y upwards. Raises ValueError where it is empty."""

    west: float
    south: float
    east: float
    north: float

    def __post_init__(self) -> None:
        if not all(map(isfinite, (self.west, self.south, self.east, self.north))):
            raise ValueError("a rectangle has no end")
        if self.west >= self.east or self.south >= self.north:
            raise ValueError("a rectangle is empty: its first corner is the lower left one")

    @classmethod
    def of(cls, area: TileRange, factor: int = 2) -> Self:
        """Returns what the tiles cover. `factor` is that of the layer's pyramid."""
        first, last = Tile(area.zoom, area.x_from, area.y_to), Tile(area.zoom, area.x_to, area.y_from)
        width = _width(area.zoom, factor)
        west, north = first.column * width, -first.row * width
        return cls(west, -(last.row + 1) * width, (last.column + 1) * width, north)

    @classmethod
    def around(cls, points: Iterable[tuple[float, float]]) -> Self:
        """Returns the smallest rectangle with these points, of which there are two at least."""
        several = tuple(points)
        columns, rows = [x for x, _ in several], [y for _, y in several]
        return cls(min(columns), min(rows), max(columns), max(rows))

    @property
    def middle(self) -> tuple[float, float]:
        return (self.west + self.east) / 2, (self.south + self.north) / 2

    def tiles(self, zoom: int, factor: int = 2) -> TileRange:
        """Returns the tiles of a zoom that have part of it, edges that only touch it left out."""
        width = _width(zoom, factor)
        first = Tile.at(zoom, floor(self.west / width), floor(-self.north / width))
        last = Tile.at(zoom, ceil(self.east / width) - 1, ceil(-self.south / width) - 1)
        return TileRange.between(first, last)

    def pixels(self, zoom: int, tile_size: Size, factor: int = 2) -> tuple[int, int, int, int]:
        """Returns left, top, right and bottom of the pixels that have part of it, counted from the upper left
        corner of `tiles` of that zoom. Parts of a millionth of a pixel do not count."""
        area, width = self.tiles(zoom, factor), _width(zoom, factor)
        whole = Ground.of(area, factor)
        across, down = (edge / width for edge in tile_size)
        return (
            floor((self.west - whole.west) * across + _ROUNDING),
            floor((whole.north - self.north) * down + _ROUNDING),
            ceil((self.east - whole.west) * across - _ROUNDING),
            ceil((whole.north - self.south) * down - _ROUNDING),
        )

    def touches(self, other: Ground) -> bool:
        """Says whether the two have ground in common."""
        return (
            self.west < other.east
            and other.west < self.east
            and self.south < other.north
            and other.south < self.north
        )

    def places(self, projection: Projection) -> tuple[float, float, float, float]:
        """Returns west, north, east and south, in blocks, of the smallest rectangle of the world that has it.

        Seen from the side a rectangle of the picture lies aslant in the world.
        """
        corners = [(x, y) for x in (self.west, self.east) for y in (self.south, self.north)]
        spots = [projection.place_at(*corner) for corner in corners]
        east, south = [spot[0] for spot in spots], [spot[1] for spot in spots]
        return min(east), min(south), max(east), max(south)

    @classmethod
    def of_places(cls, first: tuple[float, float], last: tuple[float, float], projection: Projection) -> Self:
        """Returns the smallest rectangle of the picture with the world's rectangle between two corners, each
        given as east and south."""
        (east, south), (other_east, other_south) = first, last
        corners = [(one, other) for one in (east, other_east) for other in (south, other_south)]
        return cls.around(projection.point_of(*corner) for corner in corners)


_ROUNDING: Final = 1e-6


def _width(zoom: int, factor: int) -> int:
    return 2 * int(factor**-zoom)
