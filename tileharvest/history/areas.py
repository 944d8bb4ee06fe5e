"""Areas of tiles: what is known of them, and what a harvest has yet to ask there."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import filterfalse, groupby, islice
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import and_, bindparam, func, or_, select, tuple_

from tileharvest.history.schema import tiles, validators, versions
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.outcomes import Outcome
from tileharvest.walk.trust import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import ColumnElement, Connection, Row, Select, Table

    from tileharvest.tiles.grid import Cell, Squares

MOST_COLUMNS: Final = 256
"""Up to this many columns are named one by one, so that the database goes to each column's rows directly. In
a range of columns it would also read what lies above and below the area. A wider area is read as a range: a
database allows only so many parameters."""


@dataclass(frozen=True, slots=True)
class AreaQuery:
    """A query, prepared once, for the rows of one layer that lie in an area."""

    in_columns: Select[Any]
    in_range: Select[Any]

    @classmethod
    def over(cls, table: Table, query: Select[Any]) -> AreaQuery:
        """Returns the query, restricted to an area of the table.

        The table has an index that begins with the columns layer, zoom, x and y.
        """
        limited = query.where(
            table.c.layer == bindparam("in_layer"),
            table.c.zoom == bindparam("in_zoom"),
            table.c.y.between(bindparam("y_from"), bindparam("y_to")),
        )
        return cls(
            limited.where(table.c.x.in_(bindparam("columns", expanding=True))),
            limited.where(table.c.x.between(bindparam("x_from"), bindparam("x_to"))),
        )

    def rows(
        self, connection: Connection, layer: int, area: TileRange, **parameters: object
    ) -> Sequence[Row[*tuple[Any, ...]]]:
        """Reads the rows. The cost depends on the area and on what the query reads there, not on the table.

        `in_zoom`, if given, takes the place of the area's own zoom.
        """
        place = {"in_layer": layer, "in_zoom": area.zoom, "y_from": area.y_from, "y_to": area.y_to}
        if len(area.columns) <= MOST_COLUMNS:
            return connection.execute(
                self.in_columns, {**place, "columns": list(area.columns), **parameters}
            ).all()
        between = {"x_from": area.x_from, "x_to": area.x_to}
        return connection.execute(self.in_range, {**place, **between, **parameters}).all()


_TILES_AT_ONCE: Final = 500
"""How many tiles one query names, each by three parameters: a database allows only so many."""

_ASKED: Final = select(tiles.c.zoom, tiles.c.x, tiles.c.y, tiles.c.outcome).where(
    tiles.c.layer == bindparam("in_layer"),
    tiles.c.harvest == bindparam("in_harvest"),
    tuple_(tiles.c.zoom, tiles.c.x, tiles.c.y).in_(bindparam("places", expanding=True)),
)

_MARKS: Final = AreaQuery.over(
    validators,
    select(validators.c.x, validators.c.y, validators.c.etag, validators.c.last_modified, validators.c.whole),
)


def marks_of(connection: Connection, layer: int, area: TileRange) -> dict[Tile, Mark]:
    """Returns what is remembered for the walk of each tile of the area. One query."""
    return {Tile(area.zoom, x, y): Mark(*mark) for x, y, *mark in _MARKS.rows(connection, layer, area)}


def count_present(connection: Connection, layer: int, areas: Sequence[TileRange]) -> int:
    """Counts the tiles whose latest version is not gone. Each counts once, even where areas overlap."""
    return sum(_count(connection, present) for present in _present(layer, areas))


def count_known_before(connection: Connection, harvest: int, layer: int, areas: Sequence[TileRange]) -> int:
    """Counts the present tiles that were there before this harvest. The count stays while it goes on."""
    before = or_(is_unasked(harvest), tiles.c.outcome != Outcome.ADDED.value)
    return sum(_count(connection, present & before) for present in _present(layer, areas))


def count_vanished(
    connection: Connection, harvest: int, layer: int, areas: Sequence[TileRange], skipped: Squares
) -> int:
    """Counts the present tiles that this harvest found gone, or neither asked nor skipped."""
    gone = is_provisionally_gone(harvest)
    if not skipped:
        lost = or_(gone, is_unasked(harvest))
        return sum(_count(connection, present & lost) for present in _present(layer, areas))
    found = sum(_count(connection, present & gone) for present in _present(layer, areas))
    unasked = present_rows(connection, layer, areas, is_unasked(harvest))
    return found + sum(not skipped.cover(place) for place in unasked)


def unasked_tiles(
    connection: Connection,
    harvest: int,
    layer: int,
    areas: Sequence[TileRange],
    limit: int,
    skipped: Squares,
) -> list[Tile]:
    """Returns the present tiles that this harvest has neither asked nor skipped; coarse zooms first.

    Where it has skipped any, it reads all tiles that it did not ask, until the limit is reached.
    """
    rows = present_rows(connection, layer, areas, is_unasked(harvest), None if skipped else limit)
    return [Tile(*place) for place in islice(filterfalse(skipped.cover, rows), limit)]


def present_rows(
    connection: Connection,
    layer: int,
    areas: Sequence[TileRange],
    condition: ColumnElement[bool] | None = None,
    limit: int | None = None,
) -> Iterator[Cell]:
    """Yields the present tiles that fulfil the condition, each once; coarse zooms first, `limit` of each."""
    for present in _present(layer, areas):
        query = (
            select(tiles.c.zoom, tiles.c.x, tiles.c.y)
            .join_from(tiles, versions, versions.c.id == tiles.c.version)
            .where(present if condition is None else present & condition)
            .limit(limit)
        )
        yield from ((zoom, x, y) for zoom, x, y in connection.execute(query).all())


def asked_tiles(
    connection: Connection, harvest: int, layer: int, asked: Sequence[Tile]
) -> dict[Tile, Outcome]:
    """Returns the outcomes of those of these tiles that have a result in this harvest, in several queries."""
    found: dict[Tile, Outcome] = {}
    for start in range(0, len(asked), _TILES_AT_ONCE):
        places = [(tile.zoom, tile.x, tile.y) for tile in asked[start : start + _TILES_AT_ONCE]]
        rows = connection.execute(_ASKED, {"in_harvest": harvest, "in_layer": layer, "places": places})
        found.update((Tile(zoom, x, y), Outcome(outcome)) for zoom, x, y, outcome in rows)
    return found


def is_unasked(harvest: int) -> ColumnElement[bool]:
    """Says of a tile whether this harvest has no result for it."""
    return tiles.c.harvest.is_distinct_from(harvest)


def is_provisionally_gone(harvest: int) -> ColumnElement[bool]:
    """Says of a tile whether this harvest found it gone."""
    return (tiles.c.harvest == harvest) & (tiles.c.outcome == Outcome.GONE.value)


def _count(connection: Connection, condition: ColumnElement[bool]) -> int:
    query = (
        select(func.count())
        .select_from(tiles.join(versions, versions.c.id == tiles.c.version))
        .where(condition)
    )
    return connection.execute(query).scalar_one()


def _present(layer: int, areas: Sequence[TileRange]) -> Iterator[ColumnElement[bool]]:
    """Yields a condition per zoom, the coarsest first: present, and in at least one of the areas."""
    for zoom, ranges in groupby(sorted(set(areas), key=_zoom), key=_zoom):
        rectangles = list(ranges)
        yield and_(
            tiles.c.layer == layer,
            tiles.c.zoom == zoom,
            # What all rectangles have in common lets the database begin and end where they do.
            tiles.c.x >= min(rectangle.x_from for rectangle in rectangles),
            tiles.c.x <= max(rectangle.x_to for rectangle in rectangles),
            or_(*map(_within, rectangles)),
            versions.c.sha1.is_not(None),
        )


def _zoom(area: TileRange) -> int:
    return area.zoom


def _within(area: TileRange) -> ColumnElement[bool]:
    return and_(tiles.c.x.between(area.x_from, area.x_to), tiles.c.y.between(area.y_from, area.y_to))
