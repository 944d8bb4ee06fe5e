"""Areas of tiles: the rows that lie in them, and the tiles that are known there."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import and_, bindparam, func, or_, select

from tileharvest.history.schema import tiles, versions
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import ColumnElement, Connection, Row, Select, Table

    from tileharvest.tiles.grid import Cell, TileRange

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


def count_present(
    connection: Connection,
    layer: int,
    areas: Sequence[TileRange],
    condition: ColumnElement[bool] | None = None,
) -> int:
    """Counts the tiles whose latest version is not gone, and that fulfil the condition.

    Each counts once, even where areas overlap.
    """
    queries = (_of_present(select(func.count()), part, condition) for part in _present(layer, areas))
    return sum(connection.execute(query).scalar_one() for query in queries)


def present_cells(
    connection: Connection,
    layer: int,
    areas: Sequence[TileRange],
    condition: ColumnElement[bool] | None = None,
    limit: int | None = None,
) -> Iterator[Cell]:
    """Yields the present tiles that fulfil the condition, each once; coarse zooms first.

    With a limit it yields at most so many of each zoom.
    """
    cells = select(tiles.c.zoom, tiles.c.x, tiles.c.y)
    for part in _present(layer, areas):
        rows = connection.execute(_of_present(cells, part, condition).limit(limit)).all()
        yield from ((zoom, x, y) for zoom, x, y in rows)


def is_unasked(harvest: int) -> ColumnElement[bool]:
    """Says of a tile whether this harvest has no result for it."""
    return tiles.c.harvest.is_distinct_from(harvest)


def is_provisionally_gone(harvest: int) -> ColumnElement[bool]:
    """Says of a tile whether this harvest found it gone."""
    return (tiles.c.harvest == harvest) & (tiles.c.outcome == Outcome.GONE.value)


def _of_present(
    query: Select[Any], present: ColumnElement[bool], condition: ColumnElement[bool] | None
) -> Select[Any]:
    query = query.select_from(tiles.join(versions, versions.c.id == tiles.c.version)).where(present)
    return query if condition is None else query.where(condition)


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
