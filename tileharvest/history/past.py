"""The past harvests of many maps at once, from which it follows which maps are due. Read only."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, func, or_, select

from tileharvest.history.connection import in_parts
from tileharvest.history.schema import (
    FINISHED,
    IMPORTS,
    NOT_WALKED,
    harvest_counts,
    harvests,
    is_finished,
    maps,
)
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from tileharvest.history.database import History

VISITS: Final = 20
"""The number of a map's last harvests by which its interval is adapted. If they find nothing new, it takes 18
of them from one day to a year."""

_NEW: Final = tuple(outcome.value for outcome in Outcome if outcome.makes_version)

_ALWAYS: Final = date.min
"""A day before every harvest."""

_AT_ONCE: Final = 500
"""The most names in one query. SQLite takes 32,766 parameters, and older releases take 999."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A finished harvest."""

    started: datetime
    """In UTC."""
    has_changed: bool
    """Whether it found any tile that is new, different or gone."""


@dataclass(frozen=True, slots=True)
class Past:
    """The past harvests of one map."""

    was_ever_finished: bool = False
    """Whether any harvest of the map was ever finished, of whatever segment. Imported days do not count."""
    is_complete: bool = False
    """Whether the harvest of the given segment is finished."""
    is_begun: bool = False
    """Whether the harvest of the given segment was begun and has not ended."""
    visits: tuple[Visit, ...] = ()
    """The last finished harvests, oldest first. Empty for maps that are not in `adaptive`."""


def pasts(
    history: History, segments: Mapping[str, tuple[str, date]], adaptive: Collection[str]
) -> dict[str, Past]:
    """Returns the past of each of these maps, in one state of the history.

    `segments` has, by the map's name, a segment's name and a day before which no harvest of the segment
    began. Visits are read only for the maps in `adaptive`. Takes a query for each different segment, of which
    there are few, and one place of an index for each map. The length of a map's history does not matter.
    """
    asked: dict[tuple[str, date], set[str]] = {}
    for name, segment in segments.items():
        asked.setdefault(segment, set()).add(name)
    complete: dict[str, bool] = {}
    with history.reading() as connection:
        finished = _ever_finished(connection)
        for (title, since), names in asked.items():
            known = _complete(connection, title, since)
            complete |= {name: is_complete for name, is_complete in known if name in names}
        visits = _visits(connection, sorted(adaptive))
    return {
        name: Past(
            was_ever_finished=name in finished,
            is_complete=complete.get(name, False),
            is_begun=not complete.get(name, True),
            visits=tuple(visits.get(name, ())[-VISITS:]),
        )
        for name in segments
    }


def _ever_finished(connection: Connection) -> set[str]:
    # An imported day does not make a map's first harvest less urgent.
    of_map = harvests.c.map == maps.c.id
    finished = select(harvests.c.id).where(of_map, is_finished(harvests, but=IMPORTS))
    # For `exists` PostgreSQL would go through all harvests of all maps.
    one = finished.limit(1).scalar_subquery()
    return set(connection.execute(select(maps.c.name).where(one.is_not(None))).scalars())


def _complete(connection: Connection, segment: str, since: date) -> Iterator[tuple[str, bool]]:
    """Yields the maps that have a harvest of this segment, each with whether the last one is finished.
    Harvests that have ended for another reason do not count."""
    of_segment = harvests.alias("of_segment")
    last = (
        select(func.max(of_segment.c.id))
        .where(of_segment.c.map == maps.c.id, of_segment.c.day >= since, of_segment.c.segment == segment)
        .where(or_(of_segment.c.reason == FINISHED, of_segment.c.ended.is_(None)))
        .scalar_subquery()
    )
    query = select(maps.c.name, harvests.c.ended).join_from(maps, harvests, harvests.c.id == last)
    for name, ended in connection.execute(query):
        yield name, ended is not None


def _visits(connection: Connection, names: Sequence[str]) -> Mapping[str, Sequence[Visit]]:
    """Returns the last finished harvests of each map, oldest first."""
    earlier = harvests.alias("earlier")
    first_day = (
        select(earlier.c.day)
        .where(earlier.c.map == maps.c.id, is_finished(earlier, but=NOT_WALKED))
        .order_by(earlier.c.day.desc())
        .offset(VISITS - 1)
        .limit(1)
        .scalar_subquery()
    )
    # Materialized, because SQLite would look up the first day again for each harvest.
    asked = (
        select(maps.c.id, maps.c.name, func.coalesce(first_day, _ALWAYS).label("since"))
        .where(maps.c.name.in_(bindparam("names", expanding=True)))
        .cte("asked")
        .prefix_with("MATERIALIZED")
    )
    news = select(harvest_counts.c.harvest).where(
        harvest_counts.c.harvest == harvests.c.id,
        harvest_counts.c.outcome.in_(_NEW),
        harvest_counts.c.tiles > 0,
    )
    query = (
        select(asked.c.name, harvests.c.started, news.exists())
        .join_from(asked, harvests, (harvests.c.map == asked.c.id) & (harvests.c.day >= asked.c.since))
        .where(is_finished(harvests, but=NOT_WALKED))
        .order_by(harvests.c.day, harvests.c.id)
    )
    found: defaultdict[str, list[Visit]] = defaultdict(list)
    for part in in_parts(names, _AT_ONCE):
        for name, started, has_changed in connection.execute(query, {"names": part}):
            found[name].append(Visit(started, bool(has_changed)))
    return found
