"""Ground: the world on the grid of a layer, rectangles of both, and the tiles that show them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, isfinite
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from tileharvest.tiles.grid import Tile, TileRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tileharvest.tiles.layers import Size

Row: TypeAlias = tuple[float, float, float, float]
"""How much a grid coordinate grows for each block eastwards, upwards and southwards, and its value at the
world's origin."""
Places: TypeAlias = tuple[float, float, float, float]
"""West, north, east and south of a rectangle of the world, in blocks. In a layer without a projection these
are points of the grid, with south downwards."""


@dataclass(frozen=True, slots=True)
class Projection:
    """An affine map from the world to the grid, as all renderers of blocks draw with parallel rays.

    A block covers the coordinates from its whole number to the next, so the middle of block 0 lies at 0.5.
    Raises ValueError if a point of the grid would not tell a place of the world.
    """

    x: Row
    y: Row
    height: float = 64
    """The height, in blocks, at which every point of the picture is assumed to lie. 64 is the level of the
    sea."""

    def __post_init__(self) -> None:
        if not all(map(isfinite, (*self.x, *self.y, self.height))) or not self._area:
            raise ValueError("the projection shows the world as a line")

    @classmethod
    def from_above(cls, blocks: float) -> Self:
        """Returns the projection of a picture that looks straight down, with north above and block 0 at the
        grid's origin. A tile of zoom 0 shows `blocks` blocks along its edge."""
        return cls((2 / blocks, 0, 0, 0), (0, 0, -2 / blocks, 0))

    @property
    def _area(self) -> float:
        """The size of a block in square grid units; negative if the picture is mirrored."""
        return self.x[0] * self.y[2] - self.x[2] * self.y[0]

    def place_at(self, x: float, y: float) -> tuple[float, float]:
        """Returns east and south, in blocks, of a point of the grid, taken to lie at `height`."""
        # In the order of the page's `placeAt` (`projection.js`), so that both round alike.
        right = x - self.x[1] * self.height - self.x[3]
        up = y - self.y[1] * self.height - self.y[3]
        area = self._area
        return (right * self.y[2] - up * self.x[2]) / area, (up * self.x[0] - right * self.y[0]) / area

    def point_of(self, east: float, south: float, height: float | None = None) -> tuple[float, float]:
        """Returns the point of the grid at which a place of the world is drawn."""
        high = self.height if height is None else height
        x, y = (row[0] * east + row[1] * high + row[2] * south + row[3] for row in (self.x, self.y))
        return x, y


ON_GRID: Final = Projection((1, 0, 0, 0), (0, 0, -1, 0))
"""The projection of a layer of whose world nothing is known. A grid unit counts as a block, so that points
can be told as places."""


@dataclass(frozen=True, slots=True)
class Ground:
    """A rectangle of the grid, which need not end where tiles do. In grid units, y upwards. Raises ValueError
    if it is empty."""

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
        """Returns the ground that the tiles cover. `factor` is that of the layer's pyramid."""
        first, last = area.corners
        width = _width(area.zoom, factor)
        west, north = first.column * width, -first.row * width
        return cls(west, -(last.row + 1) * width, (last.column + 1) * width, north)

    @property
    def middle(self) -> tuple[float, float]:
        return (self.west + self.east) / 2, (self.south + self.north) / 2

    def tiles(self, zoom: int, factor: int = 2) -> TileRange:
        """Returns the tiles of a zoom that have part of the ground. A tile that only touches its edge has
        none."""
        width = _width(zoom, factor)
        first = Tile.at(zoom, floor(self.west / width), floor(-self.north / width))
        last = Tile.at(zoom, ceil(self.east / width) - 1, ceil(-self.south / width) - 1)
        return TileRange.between(first, last)

    def pixels(self, zoom: int, tile_size: Size, factor: int = 2) -> tuple[int, int, int, int]:
        """Returns left, top, right and bottom of the pixels that have part of the ground, counted from the
        upper left corner of `tiles(zoom)`. Parts of a millionth of a pixel do not count."""
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
        """Returns whether the two have ground in common."""
        return (
            self.west < other.east
            and other.west < self.east
            and self.south < other.north
            and other.south < self.north
        )

    def places(self, projection: Projection) -> Places:
        """Returns the smallest rectangle of the world around the ground. In a layer that is drawn from the
        side, the ground itself lies aslant in the world."""
        corners = [(x, y) for x in (self.west, self.east) for y in (self.south, self.north)]
        spots = [projection.place_at(*corner) for corner in corners]
        east, south = [spot[0] for spot in spots], [spot[1] for spot in spots]
        return min(east), min(south), max(east), max(south)

    def blocks(self, projection: Projection) -> list[int]:
        """Returns the outermost whole blocks in the west, north, east and south of the same rectangle. A
        rectangle that ends where a block begins does not include that block. Parts of a millionth of a block
        do not count."""
        west, north, east, south = self.places(projection)
        return [
            floor(west + _ROUNDING),
            floor(north + _ROUNDING),
            ceil(east - _ROUNDING) - 1,
            ceil(south - _ROUNDING) - 1,
        ]

    @classmethod
    def of_places(cls, places: Places, projection: Projection | None) -> Self:
        """Returns the smallest rectangle of the grid around a rectangle of the world. Without a projection
        the places are points of the grid."""
        west, north, east, south = places
        corners = [(one, other) for one in (west, east) for other in (north, south)]
        columns, rows = zip(*((projection or ON_GRID).point_of(*corner) for corner in corners), strict=True)
        return cls(min(columns), min(rows), max(columns), max(rows))


def shows(tile: Tile, places: Places, projection: Projection | None, factor: int = 2) -> bool:
    """Returns whether a tile shows part of a rectangle of the world. If a layer is drawn at a slant, many
    tiles of its `Ground.of_places` do not. Without a projection the places are points of the grid.

    Two parallelograms do not meet if there is a gap between them along the edges of either one. Along the
    edges of the tile there is no gap, as the tile lies on the ground. So only the edges of the rectangle are
    compared.
    """
    west, north, east, south = places
    its = Ground.of(TileRange.of(tile), factor).places(projection or ON_GRID)
    return its[0] < east and west < its[2] and its[1] < south and north < its[3]


def tiles_around(zoom: int, points: Iterable[tuple[float, float]], factor: int = 2) -> tuple[Tile, ...]:
    """Returns the tiles of a zoom that show some points of the grid, and the eight around each, each tile
    once."""
    middles = tiles_at(zoom, points, factor)
    return tuple(dict.fromkeys(tile for middle in middles for tile in TileRange.of(middle).wider(1)))


def tiles_at(zoom: int, points: Iterable[tuple[float, float]], factor: int = 2) -> Iterator[Tile]:
    """Yields the tile of a zoom that shows each of some points of the grid."""
    width = _width(zoom, factor)
    return (Tile.at(zoom, floor(x / width), floor(-y / width)) for x, y in points)


_ROUNDING: Final = 1e-6


def _width(zoom: int, factor: int) -> int:
    return 2 * int(factor**-zoom)
