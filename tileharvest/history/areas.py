"""Areas of tiles: queries for the rows in an area, and for the present tiles of several areas."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Integer, and_, bindparam, func, or_, select, union_all

from tileharvest.history.schema import tiles, versions
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlalchemy import ColumnElement, CompoundSelect, Connection, Row, Select, Table

    from tileharvest.tiles.grid import Cell, TileRange

MOST_COLUMNS: Final = 256
"""The most columns of an area that a query names one by one. The database then goes to each column's rows
directly. For a range of columns it would also read the rows above and below the area. A wider area is read as
a range, because databases limit the number of parameters."""

LARGEST: Final = (1 << 31) - 1
"""The largest x and y. PostgreSQL's integers end here."""

IS_UNASKED: Final = tiles.c.harvest.is_distinct_from(bindparam("in_harvest"))
"""Whether the harvest `in_harvest` has no result for a tile."""

IS_PROVISIONALLY_GONE: Final = and_(
    tiles.c.harvest == bindparam("in_harvest"), tiles.c.outcome == Outcome.GONE.value
)
"""Whether the harvest `in_harvest` has found a tile gone."""

IN_SLICES: Final = {"yield_per": 10_000}
"""The options of a query that may return as many rows as a map has tiles. At most 10,000 rows are in memory
at a time, which take some 3 MB."""

_PREPARED: Final = 64
"""The number of queries that are kept. To make one takes longer than the database takes to answer it."""


@dataclass(frozen=True, slots=True)
class AreaQuery:
    """A query for the rows of one layer that lie in an area. It is made once."""

    in_columns: Select[Any] | CompoundSelect[Any]
    in_range: Select[Any] | CompoundSelect[Any]

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

    def with_rows_of(self, other: AreaQuery) -> AreaQuery:
        """Returns a query for the rows of this one and those of the other one. Both have as many columns."""
        return AreaQuery(
            union_all(self.in_columns, other.in_columns), union_all(self.in_range, other.in_range)
        )

    def rows(
        self, connection: Connection, layer: int, area: TileRange, **parameters: object
    ) -> Sequence[Row[*tuple[Any, ...]]]:
        """Returns the rows in the area. The cost depends on the rows that the query reads there, and not on
        the size of the table.

        `in_zoom`, if given, replaces the area's own zoom. The area may be wider than any layer.
        """
        x_from, x_to, y_from, y_to = (
            max(-LARGEST, min(edge, LARGEST)) for edge in (area.x_from, area.x_to, area.y_from, area.y_to)
        )
        place = {"in_layer": layer, "in_zoom": area.zoom, "y_from": y_from, "y_to": y_to}
        # `len` fails for a range as wide as an area may be.
        if (area.x_to - area.x_from) // area.columns.step < MOST_COLUMNS:
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
    """Returns the number of tiles of these areas whose latest version is not gone, and that fulfil the
    condition.

    Each tile counts once, even if areas overlap. The condition must be a constant of the program, because the
    queries are kept. `parameters` are those of the condition.
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
    """Yields the tiles that `count_present` counts, each once, coarse zooms first.

    With a limit it yields at most that many of each zoom.
    """
    if limit is not None:
        parameters["most"] = limit
    for rectangles, place in _places(layer, areas):
        query = _naming(rectangles, condition, is_limited=limit is not None)
        # A caller that has enough tiles stops here. The other rows are then released.
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
    """Restricts the query to present tiles of a zoom that lie in at least one of the rectangles."""
    query = query.select_from(tiles.join(versions, versions.c.id == tiles.c.version)).where(
        tiles.c.layer == bindparam("in_layer"),
        tiles.c.zoom == bindparam("in_zoom"),
        # The range around all rectangles lets the database use its index.
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
    """Yields for each zoom, the coarsest first, the number of rectangles, and the parameters with their
    edges."""
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
