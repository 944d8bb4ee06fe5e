"""Changes: on which days, where and how much a map has changed. Read only.

For a small area the versions themselves are read. For a large one the table `changes` says how many of the
8 x 8 tiles of a block changed on a day. A block is named by the tile three levels coarser that covers it.
Layers are named by their ids, which are in `outlines.map_outline`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import BigInteger, Date, Integer, bindparam, func, null, select, text

from tileharvest.history.areas import rows_in
from tileharvest.history.schema import BLOCK_LEVELS, changes, is_same_tile, tiles, versions
from tileharvest.tiles.grid import Tile, TileRange

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from sqlalchemy import ColumnElement, Connection, Select, Table

    from tileharvest.history.database import History
    from tileharvest.history.outlines import LayerOutline


_IN_ZOOM: Final = (changes.c.layer == bindparam("in_layer"), changes.c.zoom == bindparam("in_zoom"))
_CHANGED_DAYS: Final = select(versions.c.day, func.count()).group_by(versions.c.day).order_by(versions.c.day)
# An expression and no column: grouped by the column, SQLite would go through all blocks of the zoom by days.
_DAY: Final = func.coalesce(changes.c.day, null())
_CHANGED_DAYS_IN_BLOCKS: Final = select(_DAY, func.sum(changes.c.tiles)).group_by(_DAY).order_by(_DAY)
_PLACES: Final = 1 << 31
"""A number of columns, or of rows, that no layer reaches. Added to a column it makes a number above 0, which
all databases divide alike."""


def _places(table: Table) -> list[Any]:
    """Returns column and row of a coarser tile, along whose edge lie `share` of the table. `width` leads from
    a centre of the table to its column, and `_PLACES` of the coarser tiles are added."""
    width, share = bindparam("width", type_=Integer), bindparam("share", type_=BigInteger)
    # SQLite and PostgreSQL shift to the right as Python does.
    return [
        (axis.bitwise_rshift(width) + bindparam("places", type_=BigInteger)) // share
        for axis in (table.c.x, table.c.y)
    ]


def _numbers(zoom: int, share: int) -> dict[str, int]:
    """Returns the parameters of `_places` for a table with tiles of this zoom."""
    return {"width": 1 - zoom, "share": share, "places": _PLACES * share}


def _tile_at(zoom: int, column: int, row: int) -> Tile:
    """Returns the tile of `_places`, which count rows upwards."""
    return Tile.at(zoom, column - _PLACES, ~(row - _PLACES))


def _below(table: Table, count: ColumnElement[int]) -> Select[Any]:
    """Selects the places of coarser tiles, with the days on which something of them changed, and the sum of a
    count."""
    # The numbers of the first columns: PostgreSQL would not take an expression with parameters for the same.
    return select(*_places(table), table.c.day, count).group_by(text("1"), text("2"), text("3"))


def _last_below(table: Table) -> Select[Any]:
    """Selects the places of coarser tiles, with the last day until which something of them changed."""
    day = func.coalesce(table.c.day, null())
    last = select(*_places(table), func.max(day)).where(day <= bindparam("until", type_=Date))
    return last.group_by(text("1"), text("2"))


_CHANGED_BELOW: Final = _below(versions, func.count())
_CHANGED_BLOCKS_BELOW: Final = _below(changes, func.sum(changes.c.tiles))
_HEAT: Final = select(
    tiles.c.x,
    tiles.c.y,
    # A subquery, so that of each tile only the versions between the days are read.
    select(func.count())
    .select_from(versions)
    .where(
        is_same_tile(versions, tiles),
        versions.c.day > bindparam("after"),
        versions.c.day <= bindparam("until"),
    )
    .scalar_subquery(),
).where(tiles.c.version.is_not(None))
_SUM: Final = func.sum(changes.c.tiles)
_CHANGED_BLOCKS: Final = (
    # Sums and no columns: with columns, SQLite would go through all blocks of the zoom in their order.
    select(changes.c.x + 0, changes.c.y + 0, _SUM)
    .where(*_IN_ZOOM, changes.c.day > bindparam("after"), changes.c.day <= bindparam("until"))
    .group_by(text("1"), text("2"))
    .order_by(_SUM.desc(), text("1"), text("2"))
    .limit(bindparam("most"))
)
_BLOCK_PLACES: Final = (
    select(changes.c.x, changes.c.y).where(*_IN_ZOOM).distinct().order_by(changes.c.x, changes.c.y)
)


_LAST_BELOW: Final = {versions: _last_below(versions), changes: _last_below(changes)}


def deepest_changes(history: History, layer: LayerOutline, area: TileRange) -> dict[date, int]:
    """Returns the days in order on which something of the area changed, each with the number of changed
    tiles.

    The deepest tiles below the area are counted, so that a day has the same count from near and from afar. If
    the layer got deeper zooms over time, the deepest tiles of that day are counted. If only tiles of the
    area's own zoom changed on a day, these are counted. `gone` versions count, too.

    If the deepest tiles are at least three levels below the area, this reads a row for each block and day.
    Otherwise, and if tiles nest by another factor than 2, it reads an index of all versions of the area.
    """
    found: dict[date, int] = {}
    with history.reading() as connection:
        for zoom in counted_zooms(layer.zooms, area.zoom):
            in_blocks, below = _source(layer, area, zoom)
            table, query = (changes, _CHANGED_DAYS_IN_BLOCKS) if in_blocks else (versions, _CHANGED_DAYS)
            rows = rows_in(connection, table, query, layer.id, below, zoom)
            found |= {row[0]: row[1] for row in rows}
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
        in_blocks, below = _source(layer, area, zoom)
        numbers = _numbers(below.zoom, layer.factor ** (below.zoom - area.zoom))
        table, query = (changes, _CHANGED_BLOCKS_BELOW) if in_blocks else (versions, _CHANGED_BELOW)
        with history.reading() as connection:
            rows = rows_in(connection, table, query, layer.id, below, zoom, **numbers)
        counted: defaultdict[tuple[int, int], dict[date, int]] = defaultdict(dict)
        for column, row, day, count in rows:
            counted[column, row][day] = count
        for (column, row), days in counted.items():
            tile = _tile_at(area.zoom, column, row)
            found[tile] = found.get(tile, {}) | days
    return found


def _source(layer: LayerOutline, area: TileRange, zoom: int) -> tuple[bool, TileRange]:
    """Returns whether the changes of a zoom below the area are read block by block, and the blocks or tiles
    that are read."""
    if layer.factor == 2 and zoom - BLOCK_LEVELS >= area.zoom:
        return True, area.at_zoom(zoom - BLOCK_LEVELS)
    return False, area.at_zoom(zoom, layer.factor)


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


def _heat(connection: Connection, layer: int, area: TileRange, after: date, until: date) -> dict[Tile, int]:
    rows = rows_in(connection, tiles, _HEAT, layer, area, after=after, until=until)
    return {Tile(area.zoom, x, y): count for x, y, count in rows if count}


def changed_blocks(
    history: History, layer: int, zoom: int, after: date, until: date, limit: int
) -> list[tuple[Tile, int, int]]:
    """Returns up to `limit` blocks of this zoom with the most changes in after < day <= until, most first.

    Of each block it returns the tile that changed on the most days, the first by x and y; the number of these
    days; and the number of all changes of the block, in which a tile counts on each day on which it changed.
    Reads a row for each block and day on which it changed then, and the heat of `limit` blocks.
    """
    query = {"in_layer": layer, "in_zoom": zoom, "after": after, "until": until, "most": limit}
    found = []
    with history.reading() as connection:
        for x, y, count in connection.execute(_CHANGED_BLOCKS, query).all():
            block = TileRange.of(Tile(zoom - BLOCK_LEVELS, x, y)).at_zoom(zoom)
            days = _heat(connection, layer, block, after, until)
            hottest = min(days, key=lambda tile: (-days[tile], tile))
            found.append((hottest, days[hottest], int(count)))
    return found


def block_places(history: History, layer: int, zoom: int) -> list[tuple[int, int]]:
    """Returns x and y of the blocks of this zoom in which there ever was a tile, column by column from the
    left. Reads all changes of the zoom."""
    with history.reading() as connection:
        rows = connection.execute(_BLOCK_PLACES, {"in_layer": layer, "in_zoom": zoom})
        return [(x, y) for x, y in rows]


def last_changes(history: History, layer: int, zoom: int, area: TileRange, day: date) -> dict[Tile, date]:
    """Returns by tile of the area the last day, up to `day`, on which a tile of `zoom` below it changed.

    Tiles with nothing below them by then are left out. Raises ValueError if the area is not coarser than
    `zoom`. Reads all changes below the area up to that day: block by block, or tile by tile if the area is
    less than three levels above `zoom`.
    """
    if area.zoom >= zoom:
        raise ValueError(f"tiles of zoom {area.zoom} have none of zoom {zoom} below them")
    table, at = (changes, zoom - BLOCK_LEVELS) if area.zoom <= zoom - BLOCK_LEVELS else (versions, zoom)
    numbers = _numbers(at, 2 ** (at - area.zoom))
    with history.reading() as connection:
        query = _LAST_BELOW[table]
        rows = rows_in(connection, table, query, layer, area.at_zoom(at), zoom, until=day, **numbers)
    return {_tile_at(area.zoom, column, row): last for column, row, last in rows}
