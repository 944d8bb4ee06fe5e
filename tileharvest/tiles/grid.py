"""The grid: names for tiles that survive the growth of a map, and all arithmetic with them. Pure.

A renderer names a tile by its quadtree digits (the path), which change whenever the map grows by a
level. Its quadtree is always centred on the same point of the world, so the grid counts from there.
At zoom 0, the deepest level, a tile covers 2 x 2 grid units and its centre has odd x and y; at zoom -n
it covers 2^(n+1) units and its centre lies at odd multiples of 2^n. x grows to the right, y grows up;
the four first-level tiles meet at (0, 0). Names are given to tiles of level 1 and below: the whole-map
image has none.

Renderers without a centred tree count columns to the right and rows down from an origin. The tile of column
c and row r at zoom -n has the name x = (2c + 1) 2^n, y = -(2r + 1) 2^n, so that the origin is (0, 0). Its
parent has the column and the row divided by a factor, rounded down. Where the factor is 2, as it mostly is,
names are centres as above. With another factor a name is only a column and a row in this writing: equal
places have other coordinates at each zoom.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_DIGITS: Final = "01234"
"""Overviewer's digits are 0 upper left, 1 upper right, 2 lower left, 3 lower right; Mapcrafter's one more."""

Cell: TypeAlias = tuple[int, int, int]
"""Zoom, x and y of a tile, as a row of the history has them. For many thousands of rows: to make a `Tile` of
each takes longer than all that is done with it."""

_NAME: Final = re.compile(r"(0|-[1-9]\d*)_(-?[1-9]\d*)_(-?[1-9]\d*)", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Tile:
    """A cell of a layer, named by its centre in grid units. Raises ValueError where no tile has it."""

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
                f"({self.x}, {self.y}) is no tile's centre at zoom {self.zoom}:"
                f" both must be odd multiples of {unit}"
            )

    def __str__(self) -> str:
        return f"{self.zoom}_{self.x}_{self.y}"

    @classmethod
    def parse(cls, name: str) -> Tile:
        """Returns the tile of a name such as `-3_-440_216`.

        Raises ValueError, saying what a name looks like.
        """
        match = _NAME.fullmatch(name)
        if match is None:
            raise ValueError(
                f"'{name}' is no tile name: write zoom_x_y, such as 0_1_1 or -3_-440_216; x and y are never 0"
            )
        return cls(*map(int, match.groups()))

    @classmethod
    def at(cls, zoom: int, column: int, row: int) -> Tile:
        """Returns the tile of a column and a row, counted to the right and down from the origin."""
        return cls(zoom, (2 * column + 1) << -zoom, -(2 * row + 1) << -zoom)

    @property
    def column(self) -> int:
        """Counted to the right; column 0 is the first one right of the origin."""
        return self.x >> 1 - self.zoom

    @property
    def row(self) -> int:
        """Counted down; row 0 is the first one below the origin."""
        return ~(self.y >> 1 - self.zoom)

    @property
    def reach(self) -> int:
        """Grid units from the centre to each edge: half the tile's width."""
        return 1 << -self.zoom

    def children(self, factor: int = 2) -> tuple[Tile, ...]:
        """Returns the tiles one level deeper, row by row from the upper left; `factor` lie along an edge.

        With the factor 2 that is the order of Overviewer's digits 0, 1, 2, 3. Raises ValueError at zoom 0,
        which has none.
        """
        if self.zoom == 0:
            raise ValueError(f"tile {self} is at the deepest level and has no children")
        if factor == 2:
            return _four_around(self.x, self.y, self.zoom + 1)
        left, top = self.column * factor, self.row * factor
        columns, rows = range(left, left + factor), range(top, top + factor)
        return tuple(Tile.at(self.zoom + 1, column, row) for row in rows for column in columns)

    def parent(self, factor: int = 2) -> Tile:
        """Returns the tile one level up that covers this one.

        On the endless grid every tile has one. On a map of a given depth those of the first level have none:
        compare `first_level`.
        """
        return self.ancestor(1, factor)

    def ancestor(self, levels: int, factor: int = 2) -> Tile:
        """Returns the tile that covers this one so many levels up.

        At 0 that is the tile itself. Raises ValueError below 0.
        """
        if factor != 2:
            share = factor**levels
            return Tile.at(self.zoom - levels, self.column // share, self.row // share)
        bits = 1 - self.zoom + levels
        reach = self.reach << levels
        # Shifting to the right rounds downwards on both sides of 0: to the ancestor's left and lower edge.
        x, y = (self.x >> bits << bits) + reach, (self.y >> bits << bits) + reach
        return Tile(self.zoom - levels, x, y)

    def block(self, levels: int) -> tuple[int, int]:
        """Returns column and row, from the centre of the map to the right and upwards, of the ancestor so
        many levels up. All tiles of one zoom that lie below that ancestor have the same."""
        bits = 1 - self.zoom + levels
        return self.x >> bits, self.y >> bits


def first_level(depth: int) -> tuple[Tile, Tile, Tile, Tile]:
    """Returns the four tiles whose paths have one digit, in the order of the digits.

    `depth` is at least 1.
    """
    if depth < 1:
        raise ValueError(f"a map of depth {depth} has no tiles below its whole-map image")
    return _four_around(0, 0, 1 - depth)


def _four_around(x: int, y: int, zoom: int) -> tuple[Tile, Tile, Tile, Tile]:
    """Returns the four tiles of a zoom that meet at a point, in the order of Overviewer's digits."""
    reach = 1 << -zoom
    return (
        Tile(zoom, x - reach, y + reach),
        Tile(zoom, x + reach, y + reach),
        Tile(zoom, x - reach, y - reach),
        Tile(zoom, x + reach, y - reach),
    )


def path_of(tile: Tile, depth: int, first_digit: int = 0) -> str:
    """Returns the tile's path on a site of this depth, such as `/0/3/1`.

    Mapcrafter's digits begin with 1. Raises ValueError for a tile that such a site cannot have: coarser than
    its first level, or outside its square.
    """
    level = depth + tile.zoom
    side = 1 << depth
    if level < 1 or abs(tile.x) >= side or abs(tile.y) >= side:
        raise ValueError(f"tile {tile} lies outside a map of depth {depth}")
    # In units of the tile's own width, counted from the left edge and from the top edge, the digits of
    # column and row in base 2 are the steps to the right and down.
    column = (tile.x + side) >> (1 - tile.zoom)
    row = (side - tile.y) >> (1 - tile.zoom)
    return "".join(
        f"/{first_digit + ((row >> k & 1) << 1 | (column >> k & 1))}" for k in range(level - 1, -1, -1)
    )


def tile_at(path: str, depth: int, first_digit: int = 0) -> Tile:
    """Returns the tile of a path such as `/0/3/1` on a site of this depth.

    Raises ValueError for a path that is empty, has other digits, or more of them than the depth.
    """
    digits = path.split("/")
    quarters = [_DIGITS.find(digit) - first_digit if len(digit) == 1 else -1 for digit in digits[1:]]
    if digits[0] or not quarters or not all(0 <= quarter < 4 for quarter in quarters):
        raise ValueError(
            f"'{path}' is no tile path: write digits {first_digit} to {first_digit + 3} after slashes,"
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
    """The tiles of one zoom whose centres lie in a rectangle, edges included. Raises ValueError if empty.

    The edges are centres of tiles themselves, so the number of tiles follows from them alone.
    """

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
        """Returns the range that has this tile alone."""
        return cls(tile.zoom, tile.x, tile.x, tile.y, tile.y)

    @classmethod
    def whole(cls, depth: int, zoom: int) -> Self:
        """Returns all tiles of the zoom that a map of this depth can have."""
        edge = (1 << depth) - (1 << -zoom)
        return cls(zoom, -edge, edge, -edge, edge)

    @classmethod
    def around(cls, zoom: int, middle: tuple[int, int], width: int, height: int) -> Self:
        """Returns `width` x `height` tiles around a point of the grid, which need not be a tile's centre.

        Centres on the rectangle's left and upper edge belong to it, those on the right and lower edge do not.
        """
        (x, y), reach = middle, 1 << -zoom
        x_from = _first_centre(x - width * reach, zoom)
        y_to = -_first_centre(-y - height * reach, zoom)
        return cls(zoom, x_from, x_from + 2 * reach * (width - 1), y_to - 2 * reach * (height - 1), y_to)

    @classmethod
    def covering(cls, tiles: Iterable[Tile]) -> Self:
        """Returns the smallest range that has these tiles, of which there is one at least, of one zoom."""
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
    def middle(self) -> tuple[float, float]:
        """x and y in grid units."""
        return (self.x_from + self.x_to) / 2, (self.y_from + self.y_to) / 2

    def __len__(self) -> int:
        return len(self.columns) * len(self.rows)

    def __contains__(self, tile: Tile) -> bool:
        return (
            tile.zoom == self.zoom
            and self.x_from <= tile.x <= self.x_to
            and self.y_from <= tile.y <= self.y_to
        )

    def __iter__(self) -> Iterator[Tile]:
        """Goes row by row upwards, and from left to right in each."""
        return (Tile(self.zoom, x, y) for y in self.rows for x in self.columns)

    @classmethod
    def between(cls, first: Tile, last: Tile) -> Self:
        """Returns the range from its upper left tile to its lower right one."""
        return cls(first.zoom, first.x, last.x, last.y, first.y)

    def at_zoom(self, zoom: int, factor: int = 2) -> TileRange:
        """Returns the tiles of another zoom on the same ground; of a coarser one all that have part of it.

        The range itself at its own zoom; of a single tile at a coarser zoom the ancestor, at a deeper one all
        that lies below it. `factor` is that of the layer's pyramid.
        """
        if factor != 2:
            return self._at_zoom_by(factor, zoom)
        edge, bits, reach = 1 << -self.zoom, 1 - zoom, 1 << -zoom
        return TileRange(
            zoom,
            (self.x_from - edge >> bits << bits) + reach,
            (self.x_to + edge - 1 >> bits << bits) + reach,
            (self.y_from - edge >> bits << bits) + reach,
            (self.y_to + edge - 1 >> bits << bits) + reach,
        )

    def _at_zoom_by(self, factor: int, zoom: int) -> TileRange:
        first, last = Tile(self.zoom, self.x_from, self.y_to), Tile(self.zoom, self.x_to, self.y_from)
        if zoom <= self.zoom:
            levels = self.zoom - zoom
            return TileRange.between(first.ancestor(levels, factor), last.ancestor(levels, factor))
        share = factor ** (zoom - self.zoom)
        return TileRange.between(
            Tile.at(zoom, first.column * share, first.row * share),
            Tile.at(zoom, (last.column + 1) * share - 1, (last.row + 1) * share - 1),
        )

    def intersection(self, other: TileRange) -> TileRange | None:
        """Returns what it shares with another range of its zoom, or None when that is nothing."""
        x_from, x_to = max(self.x_from, other.x_from), min(self.x_to, other.x_to)
        y_from, y_to = max(self.y_from, other.y_from), min(self.y_to, other.y_to)
        if x_from > x_to or y_from > y_to:
            return None
        return TileRange(self.zoom, x_from, x_to, y_from, y_to)

    def slices(self, columns: int) -> Iterator[TileRange]:
        """Returns the range in parts of at most so many columns, from left to right."""
        for first in range(0, len(self.columns), columns):
            part = self.columns[first : first + columns]
            yield TileRange(self.zoom, part[0], part[-1], self.y_from, self.y_to)

    def squares(self, side: int) -> Iterator[TileRange]:
        """Returns all squares of `side` x `side` tiles that lie in the range."""
        reach = (side - 1) * (2 << -self.zoom)
        for x in self.columns[: 1 - side or None]:
            for y in self.rows[: 1 - side or None]:
                yield TileRange(self.zoom, x, x + reach, y, y + reach)

    def wider(self, tiles: int) -> TileRange:
        """Returns the range with so many tiles more on each side."""
        more = tiles * (2 << -self.zoom)
        return TileRange(
            self.zoom, self.x_from - more, self.x_to + more, self.y_from - more, self.y_to + more
        )


class Squares:
    """The ground that some tiles of a layer cover."""

    def __init__(self, tops: Iterable[Cell], factor: int = 2) -> None:
        """`factor` is that of the layer's pyramid."""
        by_zoom: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)
        for zoom, x, y in tops:
            by_zoom[zoom].add((x >> 1 - zoom, y >> 1 - zoom))
        self._by_zoom = [(zoom, 1 - zoom, places) for zoom, places in sorted(by_zoom.items())]
        self._factor = factor

    def cover(self, cell: Cell) -> bool:
        """Returns whether the tile lies below one of them; none lies below itself.

        Takes a step for each of their zooms.
        """
        zoom, x, y = cell
        if self._factor != 2:
            return self._cover_by(self._factor, zoom, x >> 1 - zoom, y >> 1 - zoom)
        for top, bits, places in self._by_zoom:
            if top >= zoom:
                return False
            # As wide as a tile of the coarser zoom; shifting rounds downwards on both sides of 0.
            if (x >> bits, y >> bits) in places:
                return True
        return False

    def _cover_by(self, factor: int, zoom: int, column: int, row: int) -> bool:
        """`row` is counted upwards: divided and rounded down it leads to the same parents."""
        for top, _, places in self._by_zoom:
            share = factor ** max(0, zoom - top)
            if top < zoom and (column // share, row // share) in places:
                return True
        return False


def packed(cells: Iterable[Cell]) -> array[int]:
    """Returns the cells in 12 bytes each, where a list of tiles takes 200."""
    numbers = array("i")
    for cell in cells:
        numbers.extend(cell)
    return numbers


def unpacked(numbers: array[int]) -> Iterator[Tile]:
    """Yields the tiles of `packed`, in its order."""
    each = iter(numbers)
    return (Tile(zoom, x, y) for zoom, x, y in zip(each, each, each, strict=True))


def ancestors(tiles: Iterable[Cell], coarsest: int, factor: int = 2) -> set[Cell]:
    """Returns everything that covers one of the tiles, up to a zoom.

    A tile itself is there only where it covers another. `factor` is that of the layer's pyramid.
    """
    found: set[Cell] = set()
    for zoom, x, y in tiles:
        while zoom > coarsest:
            cell = zoom, x, y = parent_cell(zoom, x, y, factor)  # noqa: PLW2901
            if cell in found:
                break
            found.add(cell)
    return found


def parent_cell(zoom: int, x: int, y: int, factor: int = 2) -> Cell:
    """Returns what `Tile.parent` does, for many thousands of rows."""
    bits, reach = 2 - zoom, 2 << -zoom
    if factor != 2:
        column, row = (x >> 1 - zoom) // factor, (y >> 1 - zoom) // factor
        return zoom - 1, (2 * column + 1) * reach, (2 * row + 1) * reach
    return zoom - 1, (x >> bits << bits) + reach, (y >> bits << bits) + reach


def _first_centre(position: int, zoom: int) -> int:
    """Returns the first x of a column of centres that is not left of a grid position.

    It is also the first y of a row that is not below it.
    """
    reach = 1 << -zoom
    steps = -(-position // reach)
    return (steps if steps % 2 else steps + 1) * reach
