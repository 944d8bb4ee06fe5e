"""Areas of tiles: queries for the rows in an area."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row, Select, Table

    from tileharvest.tiles.grid import TileRange

MOST_COLUMNS: Final = 256
"""The most columns of an area that a query names one by one. The database then goes to each column's rows
directly. For a range of columns it would also read the rows above and below the area. A wider area is read as
a range, because databases limit the number of parameters."""

LARGEST: Final = (1 << 31) - 1
"""The largest x and y, and the largest column. PostgreSQL's integers end here."""

IN_SLICES: Final = {"yield_per": 10_000}
"""The options of a query that may return as many rows as a map has tiles. At most 10,000 rows are in memory
at a time, which take some 3 MB."""


@dataclass(frozen=True, slots=True)
class AreaQuery:
    """A query for the rows of one layer that lie in an area. It is made once."""

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
