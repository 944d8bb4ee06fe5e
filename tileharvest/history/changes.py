"""Changes: on which days, where and how much a map has changed. Read only.

For a small area the versions themselves are read. For a large one the table `changes` says how many of the
8 x 8 tiles of a block changed on a day. A block is named by the tile three levels coarser that covers it.
Layers are named by their ids, which `outlines.map_outline` tells. All functions raise HistoryError.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import BigInteger, Integer, bindparam, func, null, select, text

from tileharvest.history.areas import LARGEST, AreaQuery
from tileharvest.history.schema import BLOCK_LEVELS, changes, is_same_tile, tiles, versions
from tileharvest.tiles.grid import Tile, TileRange

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from sqlalchemy import CTE, ColumnElement, Connection, Row, ScalarSelect, Select, Table

    from tileharvest.history.database import History
    from tileharvest.history.outlines import LayerOutline


@dataclass(frozen=True, slots=True)
class ChangedBlock:
    """A block of 8 x 8 tiles with its number of changes."""

    tile: Tile
    """The tile of the block that changed on the most days. If there are several, it is the first by x and
    y."""
    days: int
    """The number of days on which that tile changed."""
    tiles: int
    """The number of changes of the block. A tile counts on each day on which it changed."""


_OF_TILE: Final = is_same_tile(versions, tiles)
_IN_LAYER: Final = (changes.c.layer == bindparam("in_layer"), changes.c.zoom == bindparam("in_zoom"))
_EVERYWHERE: Final = {"x_from": -LARGEST, "x_to": LARGEST, "y_from": -LARGEST, "y_to": LARGEST}

_CHANGED_DAYS: Final = AreaQuery.over(
    versions, select(versions.c.day, func.count()).group_by(versions.c.day).order_by(versions.c.day)
)
# An expression and no column: grouped by the column, SQLite would go through all blocks of the zoom by days.
_DAY: Final = func.coalesce(changes.c.day, null())
_CHANGED_DAYS_IN_BLOCKS: Final = AreaQuery.over(
    changes, select(_DAY, func.sum(changes.c.tiles)).group_by(_DAY).order_by(_DAY)
)
_PLACES: Final = 1 << 31
"""A number of columns, or of rows, that no layer reaches. Added to a column it makes a number above 0, which
all databases divide alike."""


def _below(table: Table, count: ColumnElement[int]) -> Select[Any]:
    """Selects columns and rows of coarser tiles, `share` of which lie along their edges, with the days on
    which something of them changed, and the sum of a count. `width` leads from a centre of the table to its
    column, and `_PLACES` of the coarser tiles are added."""
    width, share = bindparam("width", type_=Integer), bindparam("share", type_=BigInteger)
    # SQLite and PostgreSQL shift to the right as Python does.
    place = (
        (axis.bitwise_rshift(width) + bindparam("places", type_=BigInteger)) // share
        for axis in (table.c.x, table.c.y)
    )
    # The numbers of the first columns: PostgreSQL would not take an expression with parameters for the same.
    return select(*place, table.c.day, count).group_by(text("1"), text("2"), text("3"))


_CHANGED_BELOW: Final = AreaQuery.over(versions, _below(versions, func.count()))
_CHANGED_BLOCKS_BELOW: Final = AreaQuery.over(changes, _below(changes, func.sum(changes.c.tiles)))
_HEAT: Final = AreaQuery.over(
    tiles,
    select(
        tiles.c.x,
        tiles.c.y,
        # A subquery, so that of each tile only the versions between the days are read.
        select(func.count())
        .select_from(versions)
        .where(_OF_TILE, versions.c.day > bindparam("after"), versions.c.day <= bindparam("until"))
        .scalar_subquery(),
    ).where(tiles.c.version.is_not(None)),
)


def changed_days(history: History, layer: int, area: TileRange) -> dict[date, int]:
    """Returns the days in order, each with the number of tiles of the area that have a version of that day.

    Reads all versions of the area, from an index alone.
    """
    with history.reading() as connection:
        return _by_day(_CHANGED_DAYS.rows(connection, layer, area))


def changed_days_in_blocks(history: History, layer: int, zoom: int, blocks: TileRange) -> dict[date, int]:
    """Returns the same as `changed_days`, for all tiles of this zoom in the blocks.

    A block is a tile three levels coarser. Reads one row for each block and each day on which it changed, so
    it costs as much as `changed_days` does for an area with a 64th of the tiles. Raises ValueError for blocks
    of another zoom.
    """
    if blocks.zoom != zoom - BLOCK_LEVELS:
        raise ValueError(f"blocks of tiles of zoom {zoom} have zoom {zoom - BLOCK_LEVELS}, not {blocks.zoom}")
    with history.reading() as connection:
        return _by_day(_CHANGED_DAYS_IN_BLOCKS.rows(connection, layer, blocks, in_zoom=zoom))


def deepest_changes(history: History, layer: LayerOutline, area: TileRange) -> dict[date, int]:
    """Returns the days in order on which something of the area changed, each with the number of changed
    tiles.

    The deepest tiles below the area are counted, so that a day has the same count from near and from afar. If
    the layer got deeper zooms over time, the deepest tiles of that day are counted. If only tiles of the
    area's own zoom changed on a day, these are counted. `gone` versions count, too.

    If the deepest tiles are at least three levels below the area, this reads blocks as
    `changed_days_in_blocks` does. Otherwise, and if tiles nest by another factor than 2, it reads versions as
    `changed_days` does.
    """
    found: dict[date, int] = {}
    for zoom in counted_zooms(layer.zooms, area.zoom):
        # A block has 8 x 8 tiles.
        if layer.factor == 2 and zoom - BLOCK_LEVELS >= area.zoom:
            found |= changed_days_in_blocks(history, layer.id, zoom, area.at_zoom(zoom - BLOCK_LEVELS))
        else:
            found |= changed_days(history, layer.id, area.at_zoom(zoom, layer.factor))
    return dict(sorted(found.items()))


def changes_below(history: History, layer: LayerOutline, area: TileRange) -> dict[Tile, dict[date, int]]:
    """Returns by tile of the area the days on which deeper tiles below it changed, each with their number.

    They are the tiles that `deepest_changes` counts. Tiles below which nothing is are left out. Reads what
    `deepest_changes` reads.
    """
    found: dict[Tile, dict[date, int]] = {}
    for zoom in counted_zooms(layer.zooms, area.zoom):
        if zoom <= area.zoom:
            continue
        is_near = layer.factor != 2 or zoom - BLOCK_LEVELS < area.zoom
        read = zoom if is_near else zoom - BLOCK_LEVELS
        share = layer.factor ** (read - area.zoom)
        numbers = {"width": 1 - read, "share": share, "places": _PLACES * share}
        query = _CHANGED_BELOW if is_near else _CHANGED_BLOCKS_BELOW
        below = area.at_zoom(read, layer.factor)
        with history.reading() as connection:
            rows = query.rows(connection, layer.id, below, in_zoom=zoom, **numbers)
        counted: defaultdict[tuple[int, int], dict[date, int]] = defaultdict(dict)
        for column, row, day, count in rows:
            counted[column, row][day] = count
        for (column, row), days in counted.items():
            # Rows are counted upwards here.
            tile = Tile.at(area.zoom, column - _PLACES, ~(row - _PLACES))
            found[tile] = found.get(tile, {}) | days
    return found


def counted_zooms(first_days: Mapping[int, date], zoom: int) -> list[int]:
    """Returns the zooms whose changes are counted when `zoom` is shown, coarsest first.

    These are the zoom whose images are shown, and those that were the deepest for a time. `first_days` has
    the first day of each zoom that has versions. A zoom below the deepest shows images of the deepest,
    enlarged.
    """
    if not first_days:
        return []
    there = sorted((kept for kept in first_days if kept >= zoom), reverse=True) or [max(first_days)]
    deepest = there[:1]
    for kept in there[1:]:
        if first_days[kept] < first_days[deepest[-1]]:
            deepest.append(kept)
    return sorted({*deepest, there[-1]})


def heat(history: History, layer: int, area: TileRange, after: date, until: date) -> dict[Tile, int]:
    """Returns by tile of the area the number of its versions with after < day <= until, if it has any.

    Reads one place of an index for each tile that exists, and from there only the counted versions.
    """
    with history.reading() as connection:
        return _heat(connection, layer, area, after, until)


def changed_blocks(
    history: History, layer: int, zoom: int, after: date, until: date, limit: int
) -> list[ChangedBlock]:
    """Returns up to `limit` blocks of this zoom with the most changes in after < day <= until, most first.

    Reads three places of an index for each block of the zoom, from there only the counted rows, and the heat
    of `limit` blocks.
    """
    between = {"after": after, "until": until}
    query = {"in_layer": layer, "in_zoom": zoom, **_EVERYWHERE, **between, "most": limit}
    with history.reading() as connection:
        found = []
        for x, y, count in connection.execute(_CHANGED_BLOCKS, query).all():
            if count:
                block = TileRange.of(Tile(zoom - BLOCK_LEVELS, x, y)).at_zoom(zoom)
                days = _heat(connection, layer, block, after, until)
                hottest = min(days, key=lambda tile: (-days[tile], tile))
                found.append(ChangedBlock(hottest, days[hottest], count))
        return found


def block_places(history: History, layer: int, zoom: int) -> list[tuple[int, int]]:
    """Returns x and y of the blocks of this zoom in which there ever was a tile, column by column from the
    left.

    Reads two places of an index for each block, however long the history is.
    """
    query = {"in_layer": layer, "in_zoom": zoom, **_EVERYWHERE}
    with history.reading() as connection:
        return [(x, y) for x, y in connection.execute(_BLOCK_PLACES, query) if y is not None]


def last_changes(history: History, layer: int, zoom: int, area: TileRange, day: date) -> dict[Tile, date]:
    """Returns by tile of the area the last day, up to `day`, on which a tile of `zoom` below it changed.

    Tiles with nothing below them by then are left out. Raises ValueError if the area is not coarser than
    `zoom`. For an area at least three levels above `zoom` it reads three places of an index for each block.
    For a nearer one it reads one place for each tile of `zoom`. The length of the history does not matter.
    """
    if area.zoom >= zoom:
        raise ValueError(f"tiles of zoom {area.zoom} have none of zoom {zoom} below them")
    square = {"width": 1 - area.zoom, "reach": 1 << -area.zoom, "until": day}
    with history.reading() as connection:
        if area.zoom > zoom - BLOCK_LEVELS:
            rows = _LAST_IN_TILES.rows(connection, layer, area.at_zoom(zoom), **square)
        else:
            below = area.at_zoom(zoom - BLOCK_LEVELS)
            edges = {"x_from": below.x_from, "x_to": below.x_to, "y_from": below.y_from, "y_to": below.y_to}
            query = {"in_layer": layer, "in_zoom": zoom, **edges, **square}
            rows = connection.execute(_LAST_IN_BLOCKS, query).all()
        return {Tile(area.zoom, x, y): last for x, y, last in rows if last is not None}


def _by_day(rows: Sequence[Row[*tuple[Any, ...]]]) -> dict[date, int]:
    return {row[0]: row[1] for row in rows}


def _heat(connection: Connection, layer: int, area: TileRange, after: date, until: date) -> dict[Tile, int]:
    rows = _HEAT.rows(connection, layer, area, after=after, until=until)
    return {Tile(area.zoom, x, y): count for x, y, count in rows if count}


def _blocks() -> CTE:
    """Selects x and y of the blocks between `x_from`, `x_to`, `y_from` and `y_to`, and some rows with a null
    y.

    Goes from column to column, and in each column from block to block, and skips the days of each block. To
    read all rows and group them would take longer with every day of the history.
    """
    x, y = changes.c.x, changes.c.y

    def lowest(column: ColumnElement[int], *conditions: ColumnElement[bool]) -> ScalarSelect[int]:
        return select(func.min(column)).where(*_IN_LAYER, *conditions).scalar_subquery()

    x_to, y_to = x <= bindparam("x_to"), y <= bindparam("y_to")
    column = select(lowest(x, x >= bindparam("x_from"), x_to).label("x")).cte("block_columns", recursive=True)
    column = column.union_all(select(lowest(x, x > column.c.x, x_to)).where(column.c.x.is_not(None)))
    first = lowest(y, x == column.c.x, y >= bindparam("y_from"), y_to)
    block = select(column.c.x, first.label("y")).where(column.c.x.is_not(None)).cte("blocks", recursive=True)
    following = lowest(y, x == block.c.x, y > block.c.y, y_to)
    return block.union_all(select(block.c.x, following).where(block.c.y.is_not(None)))


def _changed_blocks() -> Select[Any]:
    """Selects the blocks with the most changes. If there are too few, some without changes are among them."""
    block = _blocks()
    between = (changes.c.day > bindparam("after"), changes.c.day <= bindparam("until"))
    counted = (
        select(func.coalesce(func.sum(changes.c.tiles), 0))
        .where(*_IN_LAYER, changes.c.x == block.c.x, changes.c.y == block.c.y, *between)
        .scalar_subquery()
        .label("tiles")
    )
    return (
        select(block.c.x, block.c.y, counted)
        .order_by(counted.desc(), block.c.x, block.c.y)
        .limit(bindparam("most"))
    )


def _last_in_blocks() -> Select[Any]:
    block = _blocks()
    last = (
        select(func.max(changes.c.day))
        .where(*_IN_LAYER, changes.c.x == block.c.x, changes.c.y == block.c.y)
        .where(changes.c.day <= bindparam("until"))
    )
    return _last_in_squares(block.c.x, block.c.y, last)


def _last_in_tiles() -> AreaQuery:
    last = select(func.max(versions.c.day)).where(_OF_TILE, versions.c.day <= bindparam("until"))
    query = _last_in_squares(tiles.c.x, tiles.c.y, last)
    return AreaQuery.over(tiles, query.where(tiles.c.version.is_not(None)))


def _last_in_squares(x: ColumnElement[int], y: ColumnElement[int], last: Select[Any]) -> Select[Any]:
    """Selects the centres of coarser squares, each with the last of the days that `last` gives in the square.

    A square is 1 << `width` units wide, which is twice its `reach`. The day is null if there is none.
    """
    width, reach = bindparam("width", type_=Integer), bindparam("reach", type_=Integer)
    # The same as `Tile.ancestor` computes. SQLite and PostgreSQL shift to the right as Python does.
    centre = (axis.bitwise_rshift(width).bitwise_lshift(width) + reach for axis in (x, y))
    # "1" and "2" are the first two columns. PostgreSQL would not take an expression with parameters for the
    # same.
    return select(*centre, func.max(last.scalar_subquery())).group_by(text("1"), text("2"))


def _block_places() -> Select[Any]:
    block = _blocks()
    return select(block.c.x, block.c.y).order_by(block.c.x, block.c.y)


_BLOCK_PLACES: Final = _block_places()
_CHANGED_BLOCKS: Final = _changed_blocks()
_LAST_IN_BLOCKS: Final = _last_in_blocks()
_LAST_IN_TILES: Final = _last_in_tiles()
