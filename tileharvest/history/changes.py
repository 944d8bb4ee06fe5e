"""Changes: on which days, where and how much a map has changed, and the events of a layer. Read only.

For a small area the versions themselves are read. For a large one the table `changes` says how many of the
8 x 8 tiles of a block changed on a day. A block is named by the tile three levels coarser that covers it.
Layers are named by their ids, which are in `outlines.map_outline`. `tiles.events` puts events together.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Date, Integer, and_, bindparam, func, literal, null, select, text, true

from tileharvest.errors import ConfigurationError
from tileharvest.history.areas import IN_SLICES, rows_in
from tileharvest.history.schema import (
    BLOCK_LEVELS,
    FINISHED,
    changes,
    harvest_layers,
    harvests,
    is_same_tile,
    layers,
    tiles,
    versions,
)
from tileharvest.tiles.events import Event, events_of
from tileharvest.tiles.grid import Tile, TileRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import date, datetime

    from sqlalchemy import Row, Select

    from tileharvest.history.database import History
    from tileharvest.history.outlines import LayerOutline
    from tileharvest.tiles.events import Changed

_CHANGED_DAYS: Final = select(versions.c.day, func.count()).group_by(versions.c.day).order_by(versions.c.day)
# An expression and no column: grouped by the column, SQLite would go through all blocks of the zoom by days.
_DAY: Final = func.coalesce(changes.c.day, null())
_CHANGED_DAYS_IN_BLOCKS: Final = select(_DAY, func.sum(changes.c.tiles)).group_by(_DAY).order_by(_DAY)
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
        table, count = (changes, changes.c.tiles) if in_blocks else (versions, literal(1))
        query = select(table.c.x, table.c.y, table.c.day, count)
        with history.reading() as connection:
            rows = rows_in(connection, table, query, layer.id, below, zoom)
        above: dict[tuple[int, int], Tile] = {}
        counted: defaultdict[Tile, Counter[date]] = defaultdict(Counter)
        for x, y, day, number in rows:
            if (x, y) not in above:
                above[x, y] = Tile(below.zoom, x, y).ancestor(below.zoom - area.zoom, layer.factor)
            counted[above[x, y]][day] += number
        for tile, days in counted.items():
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
    number = func.sum(changes.c.tiles)
    query = (
        # Sums and no columns: with columns, SQLite would go through all blocks of the zoom in their order.
        select(changes.c.x + 0, changes.c.y + 0, number)
        .where(changes.c.layer == layer, changes.c.zoom == zoom)
        .where(changes.c.day > after, changes.c.day <= until)
        .group_by(text("1"), text("2"))
        .order_by(number.desc(), text("1"), text("2"))
        .limit(limit)
    )
    found = []
    with history.reading() as connection:
        for x, y, count in connection.execute(query).all():
            block = TileRange.of(Tile(zoom - BLOCK_LEVELS, x, y)).at_zoom(zoom)
            days = heat(history, layer, block, after, until)
            hottest = min(days, key=lambda tile: (-days[tile], tile))
            found.append((hottest, days[hottest], int(count)))
    return found


def block_places(history: History, layer: int, zoom: int) -> list[tuple[int, int]]:
    """Returns x and y of the blocks of this zoom in which there ever was a tile, column by column from the
    left. Reads all changes of the zoom."""
    place = changes.c.x, changes.c.y
    query = select(*place).where(changes.c.layer == layer, changes.c.zoom == zoom).distinct()
    with history.reading() as connection:
        return [(x, y) for x, y in connection.execute(query.order_by(*place))]


def last_changes(history: History, layer: int, zoom: int, area: TileRange, day: date) -> dict[Tile, date]:
    """Returns by tile of the area the last day, up to `day`, on which a tile of `zoom` below it changed.

    Tiles with nothing below them by then are left out. Raises ValueError if the area is not coarser than
    `zoom`. Reads all changes below the area up to that day: block by block, or tile by tile if the area is
    less than three levels above `zoom`.
    """
    if area.zoom >= zoom:
        raise ValueError(f"tiles of zoom {area.zoom} have none of zoom {zoom} below them")
    table, at = (changes, zoom - BLOCK_LEVELS) if area.zoom <= zoom - BLOCK_LEVELS else (versions, zoom)
    # An expression and no column: see `_DAY`.
    day_of = func.coalesce(table.c.day, null())
    last = select(table.c.x, table.c.y, func.max(day_of)).where(day_of <= bindparam("until", type_=Date))
    query = last.group_by(table.c.x, table.c.y)
    with history.reading() as connection:
        rows = rows_in(connection, table, query, layer, area.at_zoom(at), zoom, until=day)
    found: dict[Tile, date] = {}
    for x, y, changed in rows:
        above = Tile(at, x, y).ancestor(at - area.zoom)
        found[above] = max(changed, found.get(above, changed))
    return found


MOST_OF_A_DAY: Final = 10_000
"""The most tiles that may change on a day that is shown as places: 100 x 100. If more change, the map was
drawn anew or explored by a program, and the day is one event."""
MOST_CHANGED: Final = 31 * MOST_OF_A_DAY
"""The most changed tiles that one question may read: a month of such days. The events of more would fill the
memory."""


@dataclass(frozen=True, slots=True)
class Certainty:
    """How far the days of a layer's events are certain, by its harvests."""

    first_asked: frozenset[date]
    """Days on which a tile without an earlier version may be old, because it may have been asked for the
    first time. These are the days until the layer's first complete harvest, and those on which the map began
    to keep other zones or zooms."""
    settled: date | None
    """The last day to which no harvest adds anything any more, or None."""
    ended: dict[date, datetime]
    """The moment, in UTC, at which the last harvest of each day ended. If it is unfinished, the moment at
    which it began."""


_IN_DAYS: Final = and_(
    changes.c.layer == bindparam("in_layer"),
    changes.c.zoom == bindparam("in_zoom"),
    changes.c.day.between(bindparam("first"), bindparam("last")),
)
_COUNTS: Final = (
    select(changes.c.day, func.sum(changes.c.tiles))
    .where(_IN_DAYS)
    .group_by(changes.c.day)
    .order_by(changes.c.day)
)


def _changed_tiles() -> Select[Any]:
    """Selects the day, x and y of each changed tile, whether it was there before, and whether it is there
    now.

    For each block that changed in these days it reads the 64 places of the index at which its tiles can have
    versions of these days. To read the block's versions of all days would take longer with every harvest.
    """
    # One table of 64 numbers: with two tables of 8, SQLite would read whole columns of the block.
    places = select(literal(0).label("place")).cte("places", recursive=True)
    places = places.union_all(select(places.c.place + 1).where(places.c.place < 63))
    across, up = (
        2 * number - 7 for number in (places.c.place.bitwise_and(7), places.c.place.bitwise_rshift(3))
    )
    earlier = versions.alias("earlier")
    before = (
        select(earlier.c.sha1)
        .where(is_same_tile(earlier, versions), earlier.c.day < versions.c.day)
        .order_by(earlier.c.day.desc())
        .limit(1)
        .scalar_subquery()
    )
    # Sums and no columns: with columns, SQLite would go through the blocks of all days in an index's order.
    corner = (changes.c.x + 0).label("x"), (changes.c.y + 0).label("y")
    blocks = select(*corner).where(_IN_DAYS).distinct().cte("blocks")
    unit = bindparam("unit", type_=Integer)
    is_in_block = and_(
        versions.c.layer == bindparam("in_layer"),
        versions.c.zoom == bindparam("in_zoom"),
        versions.c.x == blocks.c.x + across * unit,
        versions.c.y == blocks.c.y + up * unit,
        versions.c.day.between(bindparam("first"), bindparam("last")),
    )
    return (
        select(
            versions.c.day,
            versions.c.x,
            versions.c.y,
            before.is_not(None),
            versions.c.sha1.is_not(None),
        )
        .select_from(blocks.join(places, true()).join(versions, is_in_block))
        .order_by(versions.c.day)
    )


_CHANGED: Final = _changed_tiles()


def certainty(history: History, layer: int) -> Certainty:
    """Returns how far the layer's days are certain. Reads a row for each of its harvests."""
    columns = ("day", "segment", "started", "ended", "reason", "kept")
    query = (
        select(*(harvests.c[name] for name in columns))
        .join_from(layers, harvests, harvests.c.map == layers.c.map)
        .join(harvest_layers, harvest_layers.c.harvest == harvests.c.id)
        .where(layers.c.id == layer, harvest_layers.c.layer == layer)
        .order_by(harvests.c.day, harvests.c.id)
    )
    with history.reading() as connection:
        rows = connection.execute(query).all()
    first_asked: set[date] = set()
    unsettled: set[date] = set()
    ended: dict[date, datetime] = {}
    is_complete, kept = False, None
    for day, segment, started, end, reason, keeps in rows:
        # An imported day, or a harvest through git, notes no zones and zooms. That counts as no difference.
        if not is_complete or (None not in (kept, keeps) and kept != keeps):
            first_asked.add(day)
        is_complete, kept = is_complete or reason == FINISHED, keeps or kept
        ended[day] = max(end or started, ended.get(day, started))
        # A segment whose name has a time of day is shorter than a day, so another one of the day may follow.
        if end is None or (day == rows[-1].day and "T" in segment):
            unsettled.add(day)
    settled = max((day for day in ended if not unsettled or day < min(unsettled)), default=None)
    return Certainty(frozenset(first_asked), settled, ended)


def events(
    history: History, layer: LayerOutline, first: date, last: date, first_asked: Iterable[date] = ()
) -> list[Event]:
    """Returns the events of a layer from one day to another, both included, oldest first.

    They are of the deepest zoom that the layer had on the first day, or on its own first day if that is
    later. On days of `first_asked`, tiles that were not known before are left out. A day with more than
    `MOST_OF_A_DAY` changes is an event of its own, whose seed is the lowest corner of its area. The cost
    depends only on how much changed in these days. Raises HistoryError, and ConfigurationError if more than
    `MOST_CHANGED` tiles changed.
    """
    if not layer.zooms:
        return []
    zooms = layer.kept_zooms(max(first, min(layer.zooms.values())))
    zoom = zooms[-1]
    asked = {"in_layer": layer.id, "in_zoom": zoom, "unit": 1 << -zoom, "first": first, "last": last}
    old, found = frozenset(first_asked), list[Event]()

    def by_day(rows: Iterable[Row[*tuple[Any, ...]]]) -> Iterator[tuple[date, list[Changed]]]:
        for day, of_day in groupby(rows, key=itemgetter(0)):
            changed = ((x, y, bool(was), bool(is_)) for _, x, y, was, is_ in of_day if was or day not in old)
            if day in large:
                found.extend(_whole_day(zoom, day, changed))
            else:
                yield day, list(changed)

    with history.reading() as connection:
        counts = {day: int(number) for day, number in connection.execute(_COUNTS, asked)}
        large = {day for day, number in counts.items() if number > MOST_OF_A_DAY}
        if (others := sum(number for day, number in counts.items() if day not in large)) > MOST_CHANGED:
            raise ConfigurationError(
                f"{others:,} tiles changed in that period, and at most {MOST_CHANGED:,} can be read at once"
            )
        rows = connection.execute(_CHANGED, asked, execution_options=IN_SLICES)
        found.extend(events_of(zoom, by_day(rows)))
    return sorted(found, key=lambda event: (event.first, event.seed))


def _whole_day(zoom: int, day: date, changed: Iterable[Changed]) -> Iterator[Event]:
    """Yields the event of a day on which more changed than can be in memory, if anything did."""
    kinds: Counter[tuple[bool, bool]] = Counter()
    edges: tuple[int, int, int, int] | None = None
    for x, y, was_there, is_there in changed:
        kinds[was_there, is_there] += 1
        left, right, bottom, top = edges or (x, x, y, y)
        edges = min(left, x), max(right, x), min(bottom, y), max(top, y)
    if edges is not None:
        new = kinds[False, True] + kinds[False, False]
        area = TileRange(zoom, *edges)
        yield Event(
            day, day, Tile(zoom, edges[0], edges[2]), area, kinds[True, True], new, kinds[True, False]
        )
