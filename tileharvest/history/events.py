"""Events of a layer, by the tiles that changed on each day. `tiles.events` puts them together. Read only."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Integer, and_, bindparam, func, literal, select, true

from tileharvest.errors import ConfigurationError
from tileharvest.history.areas import IN_SLICES
from tileharvest.history.schema import (
    FINISHED,
    changes,
    harvest_layers,
    harvests,
    is_same_tile,
    layers,
    versions,
)
from tileharvest.tiles.events import Event, events_of
from tileharvest.tiles.grid import Tile, TileRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import date, datetime

    from sqlalchemy import Connection, Row, Select

    from tileharvest.history.database import History
    from tileharvest.history.outlines import LayerOutline
    from tileharvest.tiles.events import Changed

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


_HARVESTS: Final = (
    select(
        harvests.c.day,
        harvests.c.segment,
        harvests.c.started,
        harvests.c.ended,
        harvests.c.reason,
        harvests.c.kept,
    )
    .join_from(harvest_layers, harvests, harvests.c.id == harvest_layers.c.harvest)
    .join(layers, layers.c.map == harvests.c.map)
    .where(layers.c.id == bindparam("in_layer"), harvest_layers.c.layer == layers.c.id)
    .order_by(harvests.c.day, harvests.c.id)
)
_IN_DAYS: Final = and_(
    changes.c.layer == bindparam("in_layer"),
    changes.c.zoom == bindparam("in_zoom"),
    changes.c.day.between(bindparam("first"), bindparam("last")),
    changes.c.day.not_in(bindparam("without", expanding=True)),
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
        versions.c.day.not_in(bindparam("without", expanding=True)),
    )
    return (
        select(
            versions.c.day,
            versions.c.x,
            versions.c.y,
            before.is_not(None).label("was_there"),
            versions.c.sha1.is_not(None).label("is_there"),
        )
        .select_from(blocks.join(places, true()).join(versions, is_in_block))
        .order_by(versions.c.day)
    )


_CHANGED: Final = _changed_tiles()

_ROWS: Final = _CHANGED.subquery("changed")
_IN_SUM: Final = select(
    func.min(_ROWS.c.x),
    func.max(_ROWS.c.x),
    func.min(_ROWS.c.y),
    func.max(_ROWS.c.y),
    func.count().filter(_ROWS.c.was_there, _ROWS.c.is_there),
    func.count().filter(_ROWS.c.was_there.is_(False)),
    func.count().filter(_ROWS.c.was_there, _ROWS.c.is_there.is_(False)),
)


def certainty(history: History, layer: int) -> Certainty:
    """Returns how far the layer's days are certain. Reads a row for each of its harvests."""
    with history.reading() as connection:
        rows = connection.execute(_HARVESTS, {"in_layer": layer}).all()
    first_asked: set[date] = set()
    unsettled: set[date] = set()
    ended: dict[date, datetime] = {}
    is_complete, kept = False, None
    for day, segment, started, end, reason, keeps in rows:
        # An older release noted no zones and zooms. Then a difference is not known, and counts as none.
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
    asked = {"in_layer": layer.id, "in_zoom": zoom, "unit": 1 << -zoom, "without": []}
    old = frozenset(first_asked)
    with history.reading() as connection:
        rows = connection.execute(_COUNTS, {**asked, "first": first, "last": last})
        counts = {day: int(n) for day, n in rows}
        large = [day for day, n in counts.items() if n > MOST_OF_A_DAY]
        if (others := sum(n for day, n in counts.items() if day not in large)) > MOST_CHANGED:
            raise ConfigurationError(
                f"{others:,} tiles changed in that period, and at most {MOST_CHANGED:,} can be read at once"
            )
        between = {**asked, "first": first, "last": last, "without": large}
        rows = connection.execute(_CHANGED, between, execution_options=IN_SLICES)
        found = events_of(zoom, _by_day(rows, old))
        of_days = (_of_day(connection, asked, zoom, day, is_old=day in old) for day in large)
        return sorted(
            [*found, *(event for event in of_days if event is not None)],
            key=lambda event: (event.first, event.seed),
        )


def _by_day(
    rows: Iterable[Row[*tuple[Any, ...]]], first_asked: frozenset[date]
) -> Iterator[tuple[date, list[Changed]]]:
    for day, of_day in groupby(rows, key=itemgetter(0)):
        changed = [(x, y, bool(was), bool(is_)) for _, x, y, was, is_ in of_day]
        yield day, [one for one in changed if one[2] or day not in first_asked]


def _of_day(
    connection: Connection, asked: Mapping[str, Any], zoom: int, day: date, *, is_old: bool
) -> Event | None:
    query = _IN_SUM.where(_ROWS.c.was_there) if is_old else _IN_SUM
    row = connection.execute(query, {**asked, "first": day, "last": day}).one()
    x_from, x_to, y_from, y_to, changed, new, gone = row
    if x_from is None:
        return None
    area = TileRange(zoom, x_from, x_to, y_from, y_to)
    return Event(day, day, Tile(zoom, x_from, y_from), area, changed, new, gone)
