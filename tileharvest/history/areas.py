"""Areas of tiles: the rows that lie in them, and the tiles that are known there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Integer, and_, bindparam, func, or_, select

from tileharvest.history.schema import tiles, versions
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection, Row, Select, Table

    from tileharvest.tiles.grid import Cell, TileRange

MOST_COLUMNS: Final = 256
"""Up to this many columns are named one by one, so that the database goes to each column's rows directly. In
a range of columns it would also read what lies above and below the area. A wider area is read as a range: a
database allows only so many parameters."""

LARGEST: Final = (1 << 31) - 1
"""No x or y is further from 0: PostgreSQL's integers end there."""

IS_UNASKED: Final = tiles.c.harvest.is_distinct_from(bindparam("in_harvest"))
"""Says of a tile whether the harvest that is handed in as `in_harvest` has no result for it."""

IS_PROVISIONALLY_GONE: Final = and_(
    tiles.c.harvest == bindparam("in_harvest"), tiles.c.outcome == Outcome.GONE.value
)
"""Says of a tile whether that harvest found it gone."""

IN_SLICES: Final = {"yield_per": 10_000}
"""Options of a query that may give as many rows as a map has tiles: so many of them are in memory at a time,
some 3 MB."""

_PREPARED: Final = 64
"""Queries that are kept. To make one takes longer than the database takes for it."""


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

        `in_zoom`, if given, takes the place of the area's own zoom. The area may be wider than any layer.
        """
        x_from, x_to, y_from, y_to = (
            max(-LARGEST, min(edge, LARGEST)) for edge in (area.x_from, area.x_to, area.y_from, area.y_to)
        )
        place = {"in_layer": layer, "in_zoom": area.zoom, "y_from": y_from, "y_to": y_to}
        if area.x_to - area.x_from < MOST_COLUMNS * (2 << -area.zoom):
            columns = [x for x in area.columns if abs(x) <= LARGEST]
            return connection.execute(self.in_columns, {**place, "columns": columns, **parameters}).all()
        between = {"x_from": x_from, "x_to": x_to}
        return connection.execute(self.in_range, {**place, **between, **parameters}).all()


def count_present(
    connection: Connection,
    layer: int,
    areas: Sequence[TileRange],
    condition: ColumnElement[bool] | None = None,
    **parameters: object,
) -> int:
    """Counts the tiles whose latest version is not gone, and that fulfil the condition.

    Each counts once, even where areas overlap. The condition is made once in the program; its parameters are
    given.
    """
    return sum(
        connection.execute(_counting(rectangles, condition), {**place, **parameters}).scalar_one()
        for rectangles, place in _places(layer, areas)
    )


def present_cells(
    connection: Connection,
    layer: int,
    areas: Sequence[TileRange],
    condition: ColumnElement[bool] | None = None,
    limit: int | None = None,
    **parameters: object,
) -> Iterator[Cell]:
    """Yields the present tiles that fulfil the condition, each once; coarse zooms first.

    With a limit it yields at most so many of each zoom.
    """
    if limit is not None:
        parameters["most"] = limit
    for rectangles, place in _places(layer, areas):
        query = _naming(rectangles, condition, is_limited=limit is not None)
        # Whoever has enough reads no further, and the rest is let go of.
        with connection.execute(query, {**place, **parameters}, execution_options=IN_SLICES) as rows:
            yield from ((zoom, x, y) for zoom, x, y in rows)


@lru_cache(_PREPARED)
def _counting(rectangles: int, condition: ColumnElement[bool] | None) -> Select[Any]:
    return _of_present(select(func.count()), rectangles, condition)


@lru_cache(_PREPARED)
def _naming(rectangles: int, condition: ColumnElement[bool] | None, *, is_limited: bool) -> Select[Any]:
    cells = _of_present(select(tiles.c.zoom, tiles.c.x, tiles.c.y), rectangles, condition)
    return cells.limit(bindparam("most")) if is_limited else cells


def _of_present(query: Select[Any], rectangles: int, condition: ColumnElement[bool] | None) -> Select[Any]:
    """Returns the query for the tiles of a zoom that are present, and in at least one of the rectangles."""
    query = query.select_from(tiles.join(versions, versions.c.id == tiles.c.version)).where(
        tiles.c.layer == bindparam("in_layer"),
        tiles.c.zoom == bindparam("in_zoom"),
        # What all rectangles have in common lets the database begin and end where they do.
        tiles.c.x.between(bindparam("x_first"), bindparam("x_last")),
        or_(*map(_is_within, range(rectangles))),
        versions.c.sha1.is_not(None),
    )
    return query if condition is None else query.where(condition)


def _is_within(rectangle: int) -> ColumnElement[bool]:
    x_from, x_to, y_from, y_to = (bindparam(f"{side}_{rectangle}", type_=Integer) for side in _SIDES)
    return and_(tiles.c.x.between(x_from, x_to), tiles.c.y.between(y_from, y_to))


_SIDES: Final = ("x_from", "x_to", "y_from", "y_to")


def _places(layer: int, areas: Sequence[TileRange]) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Yields for each zoom, the coarsest first, how many rectangles lie there, and the parameters that say
    where."""
    for zoom, ranges in groupby(sorted(set(areas), key=_zoom), key=_zoom):
        rectangles = list(ranges)
        yield (
            len(rectangles),
            {
                "in_layer": layer,
                "in_zoom": zoom,
                "x_first": min(one.x_from for one in rectangles),
                "x_last": max(one.x_to for one in rectangles),
                **{
                    f"{side}_{number}": value
                    for number, one in enumerate(rectangles)
                    for side, value in zip(_SIDES, (one.x_from, one.x_to, one.y_from, one.y_to), strict=True)
                },
            },
        )


def _zoom(area: TileRange) -> int:
    return area.zoom
