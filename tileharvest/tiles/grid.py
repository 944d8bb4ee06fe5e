"""The grid: names for tiles that survive the growth of a map, and all arithmetic with them. Pure.

Overviewer and Mapcrafter name a tile by its quadtree digits, the path. All paths change when the map grows by
a level, but the quadtree stays centred on the same point of the world. So the grid counts from that point. At
zoom 0, the deepest level, a tile covers 2 x 2 grid units and its centre has odd x and y. At zoom -n a tile
covers 2^(n+1) units and its centre lies at odd multiples of 2^n. x grows to the right, y grows up, and the
four first-level tiles meet at (0, 0). The whole-map image above the first level has no name.

Other renderers count columns to the right and rows down from an origin. The tile of column c and row r at
zoom -n has the name x = (2c + 1) 2^n, y = -(2r + 1) 2^n, which puts the origin at (0, 0). The column and the
row of its parent are its own, divided by a factor and rounded down. With the factor 2, the usual one, names
are centres as above. With another factor, such as BlueMap's 5, a name is only another way to write column and
row: the same place of the world has other coordinates at each zoom.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_DIGITS: Final = "01234"
"""Overviewer's digits are 0 upper left, 1 upper right, 2 lower left, 3 lower right; Mapcrafter's one more."""

Cell: TypeAlias = tuple[int, int, int]
"""Zoom, x and y of a tile, as a row of the history has them. Code that reads many thousands of rows works
with cells, because making a `Tile` of each row would take longer than the work itself."""

_NAME: Final = re.compile(r"(0|-[1-9]\d*)_(-?[1-9]\d*)_(-?[1-9]\d*)", re.ASCII)


class Tile(msgspec.Struct, frozen=True, order=True, gc=False):
    """A cell of a layer, named by its centre in grid units. Raises ValueError if no tile has this centre."""

    zoom: int
    x: int
    y: int

    def __post_init__(self) -> None:
        if self.zoom > 0:
            raise ValueError(f"zoom {self.zoom} is deeper than 0, the deepest level")
        unit = 1 << -self.zoom
        # An odd multiple of a power of two has exactly that power as its lowest set bit.
        if self.x & -self.x != unit or self.y & -self.y != unit:
            raise ValueError(
                f"({self.x}, {self.y}) is not a tile's centre at zoom {self.zoom}:"
                f" both must be odd multiples of {unit}"
            )

    def __str__(self) -> str:
        return f"{self.zoom}_{self.x}_{self.y}"

    @classmethod
    def parse(cls, name: str) -> Tile:
        """Returns the tile of a name such as `-3_-440_216`. Raises ValueError, which says what a name looks
        like."""
        match = _NAME.fullmatch(name)
        if match is None:
            raise ValueError(
                f"'{name}' is not a tile's name: write zoom_x_y, such as 0_1_1 or -3_-440_216; x and y are"
                " odd at zoom 0, odd multiples of 2 at zoom -1, and never 0"
            )
        return cls(*map(int, match.groups()))

    @classmethod
    def at(cls, zoom: int, column: int, row: int) -> Tile:
        """Returns the tile of a column, counted to the right, and a row, counted down from the origin."""
        return cls(zoom, (2 * column + 1) << -zoom, -(2 * row + 1) << -zoom)

    @property
    def column(self) -> int:
        """The tile's column, counted to the right. Column 0 is the first one to the right of the origin."""
        return self.x >> 1 - self.zoom

    @property
    def row(self) -> int:
        """The tile's row, counted down. Row 0 is the first one below the origin."""
        return ~(self.y >> 1 - self.zoom)

    def children(self, factor: int = 2) -> tuple[Tile, ...]:
        """Returns the tiles one level deeper, row by row from the upper left, which is the order of
        Overviewer's digits. `factor` of them lie along an edge. Raises ValueError at zoom 0."""
        if self.zoom == 0:
            raise ValueError(f"tile {self} is at the deepest level and has no children")
        zoom, left, top = self.zoom + 1, self.column * factor, self.row * factor
        xs = [2 * column + 1 << -zoom for column in range(left, left + factor)]
        ys = [-(2 * row + 1 << -zoom) for row in range(top, top + factor)]
        return tuple([Tile(zoom, x, y) for y in ys for x in xs])

    def parent(self, factor: int = 2) -> Tile:
        """Returns the tile one level up that covers this one, whether or not a map has so coarse a tile."""
        return self.ancestor(1, factor)

    def ancestor(self, levels: int, factor: int = 2) -> Tile:
        """Returns the tile that covers this one `levels` levels up, which is at least 0."""
        share = factor**levels
        return Tile.at(self.zoom - levels, self.column // share, self.row // share)


def first_level(depth: int) -> tuple[Tile, ...]:
    """Returns the four tiles whose paths have one digit, in the order of the digits."""
    return tuple(Tile.at(1 - depth, column, row) for row in (-1, 0) for column in (-1, 0))


def least_depth(tile: Tile) -> int:
    """Returns the least depth of a map whose square has this tile."""
    return max(abs(tile.x).bit_length(), abs(tile.y).bit_length(), 1 - tile.zoom)


def path_of(tile: Tile, depth: int, first_digit: int = 0) -> str:
    """Returns the tile's path on a site of this depth, such as `/0/3/1`. `first_digit` is 0 for Overviewer
    and 1 for Mapcrafter. Raises ValueError for a tile outside of the site's levels or its square."""
    level = depth + tile.zoom
    side = 1 << depth
    if level < 1 or abs(tile.x) >= side or abs(tile.y) >= side:
        raise ValueError(f"tile {tile} lies outside a map of depth {depth}")
    # Column and row are counted here from the left and the top edge of the square. Their digits in base 2 are
    # the steps to the right and down. Read as decimal numbers they are added without a carry.
    column = (tile.x + side) >> (1 - tile.zoom)
    row = (side - tile.y) >> (1 - tile.zoom)
    digits = int(f"{column:b}") + 2 * int(f"{row:b}") + first_digit * int("1" * level)
    return "/" + "/".join(f"{digits:0{level}}")


def tile_at(path: str, depth: int, first_digit: int = 0) -> Tile:
    """Returns the tile of a path such as `/0/3/1` on a site of this depth. Raises ValueError for any other
    text, and for a path that is deeper than the site."""
    digits = path.split("/")
    quarters = [_DIGITS.find(digit) - first_digit if len(digit) == 1 else -1 for digit in digits[1:]]
    if digits[0] or not quarters or not all(0 <= quarter < 4 for quarter in quarters):
        raise ValueError(
            f"'{path}' is not a tile path: write digits {first_digit} to {first_digit + 3} after slashes,"
            f" such as /{first_digit}/{first_digit + 3}/{first_digit + 1}"
        )
    if len(quarters) > depth:
        raise ValueError(f"path '{path}' is deeper than a map of depth {depth}")
    x = y = 0
    for step, quarter in enumerate(quarters, start=1):
        unit = 1 << (depth - step)
        x += unit if quarter % 2 else -unit
        y += unit if quarter < 2 else -unit
    return Tile(len(quarters) - depth, x, y)


@dataclass(frozen=True, slots=True)
class TileRange:
    """The tiles of one zoom whose centres lie in a rectangle. Its edges are themselves centres of tiles.
    Raises ValueError if it is empty."""

    zoom: int
    x_from: int
    x_to: int
    y_from: int
    y_to: int

    def __post_init__(self) -> None:
        Tile(self.zoom, self.x_from, self.y_from)
        Tile(self.zoom, self.x_to, self.y_to)
        if self.x_from > self.x_to or self.y_from > self.y_to:
            raise ValueError(
                f"no tile lies between {self.x_from} and {self.x_to}, {self.y_from} and {self.y_to}"
            )

    @classmethod
    def of(cls, tile: Tile) -> Self:
        """Returns the range with this tile alone."""
        return cls(tile.zoom, tile.x, tile.x, tile.y, tile.y)

    @classmethod
    def whole(cls, depth: int, zoom: int) -> Self:
        """Returns all tiles of the zoom that a map of this depth can have."""
        edge = (1 << depth) - (1 << -zoom)
        return cls(zoom, -edge, edge, -edge, edge)

    @classmethod
    def between(cls, first: Tile, last: Tile) -> Self:
        """Returns the range from its upper left tile to its lower right one."""
        return cls(first.zoom, first.x, last.x, last.y, first.y)

    @classmethod
    def covering(cls, tiles: Iterable[Tile]) -> Self:
        """Returns the smallest range with these tiles. They are of one zoom, and there is at least one."""
        several = tuple(tiles)
        columns, rows = [tile.x for tile in several], [tile.y for tile in several]
        return cls(several[0].zoom, min(columns), max(columns), min(rows), max(rows))

    @property
    def columns(self) -> range:
        """The x of each column of centres, from left to right."""
        return range(self.x_from, self.x_to + 1, 2 << -self.zoom)

    @property
    def rows(self) -> range:
        """The y of each row of centres, upwards."""
        return range(self.y_from, self.y_to + 1, 2 << -self.zoom)

    @property
    def corners(self) -> tuple[Tile, Tile]:
        """The upper left and the lower right tile, of which `between` makes the range."""
        return Tile(self.zoom, self.x_from, self.y_to), Tile(self.zoom, self.x_to, self.y_from)

    def __len__(self) -> int:
        return len(self.columns) * len(self.rows)

    def __contains__(self, tile: Tile) -> bool:
        return (
            tile.zoom == self.zoom
            and self.x_from <= tile.x <= self.x_to
            and self.y_from <= tile.y <= self.y_to
        )

    def __iter__(self) -> Iterator[Tile]:
        """Yields the tiles row by row upwards, and from left to right in each row."""
        return (Tile(self.zoom, x, y) for y in self.rows for x in self.columns)

    def at_zoom(self, zoom: int, factor: int = 2) -> TileRange:
        """Returns the tiles of another zoom on the same ground: at a coarser zoom all that have part of it,
        at a deeper zoom all that lie within it. `factor` is that of the layer's pyramid."""
        bits = 1 - self.zoom
        # Rows are counted upwards here. Divided and rounded down they lead to the same parents as rows
        # downwards.
        left, right, low, high = (edge >> bits for edge in (self.x_from, self.x_to, self.y_from, self.y_to))
        if zoom <= self.zoom:
            share = factor ** (self.zoom - zoom)
            edges = left // share, right // share, low // share, high // share
        else:
            share = factor ** (zoom - self.zoom)
            edges = left * share, (right + 1) * share - 1, low * share, (high + 1) * share - 1
        return TileRange(zoom, *(2 * edge + 1 << -zoom for edge in edges))

    def intersection(self, other: TileRange) -> TileRange | None:
        """Returns the tiles that this range shares with another one of the same zoom, or None if there are
        none."""
        x_from, x_to = max(self.x_from, other.x_from), min(self.x_to, other.x_to)
        y_from, y_to = max(self.y_from, other.y_from), min(self.y_to, other.y_to)
        if x_from > x_to or y_from > y_to:
            return None
        return TileRange(self.zoom, x_from, x_to, y_from, y_to)

    def slices(self, columns: int) -> Iterator[TileRange]:
        """Yields the range in parts of at most `columns` columns, from left to right."""
        for first in range(0, len(self.columns), columns):
            part = self.columns[first : first + columns]
            yield TileRange(self.zoom, part[0], part[-1], self.y_from, self.y_to)

    def wider(self, tiles: int) -> TileRange:
        """Returns the range with `tiles` more tiles on each side."""
        more = tiles * (2 << -self.zoom)
        return TileRange(
            self.zoom, self.x_from - more, self.x_to + more, self.y_from - more, self.y_to + more
        )


class Zone(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A rectangle of `width` x `height` tiles of one zoom around a point of the grid.

    The point need not be a tile's centre. A tile whose centre lies on the zone's left or upper edge belongs
    to the zone; one whose centre lies on the right or lower edge does not. KedamaDiff counts its zones in the
    same way. Raises ValueError for a zone without tiles.
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
        (x, y), reach = self.center, 1 << -self.zoom
        # The first column and row whose centres are not left of the zone, and not above it.
        column, row = (
            -(((tiles + 1) * reach - middle) // (2 * reach))
            for middle, tiles in ((x, self.width), (-y, self.height))
        )
        first, last = (column, row), (column + self.width - 1, row + self.height - 1)
        return TileRange.between(Tile.at(self.zoom, *first), Tile.at(self.zoom, *last))


def covered_by(tops: Iterable[Cell], factor: int = 2) -> Callable[[Cell], bool]:
    """Returns a function that says whether a tile lies below one of the tops. A top does not lie below
    itself. The function takes a step for each zoom between the tile and the coarsest top."""
    known = frozenset(tops)
    coarsest = min((zoom for zoom, _, _ in known), default=0)
    return lambda cell: any(one in known for one in _above(cell, coarsest, factor))


def ancestors(tiles: Iterable[Cell], coarsest: int, factor: int = 2) -> set[Cell]:
    """Returns all cells that cover one of the tiles, up to the zoom `coarsest`. A tile itself is among them
    only if it covers another one."""
    found: set[Cell] = set()
    for cell in tiles:
        for one in _above(cell, coarsest, factor):
            if one in found:
                break
            found.add(one)
    return found


def _above(cell: Cell, coarsest: int, factor: int) -> Iterator[Cell]:
    """Yields the cells that cover a tile, the deepest first."""
    zoom, x, y = cell
    # Rows are counted upwards. Divided and rounded down they lead to the same parents as rows downwards.
    column, row = x >> 1 - zoom, y >> 1 - zoom
    for above in range(zoom - 1, coarsest - 1, -1):
        column, row = column // factor, row // factor
        yield above, 2 * column + 1 << -above, 2 * row + 1 << -above
