"""Areas of tiles: queries for the rows in an area."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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


def rows_in(
    connection: Connection,
    table: Table,
    query: Select[Any],
    layer: int,
    area: TileRange,
    zoom: int | None = None,
    **parameters: object,
) -> Sequence[Row[*tuple[Any, ...]]]:
    """Returns the rows of a query that lie in an area of the table, at the area's zoom or another one.

    The table has an index that begins with the columns layer, zoom, x and y. The cost depends on the rows
    that the query reads there, and not on the size of the table. The area may be wider than any layer.
    """
    x_from, x_to, y_from, y_to = (
        max(-LARGEST, min(edge, LARGEST)) for edge in (area.x_from, area.x_to, area.y_from, area.y_to)
    )
    # `len` fails for a range as wide as an area may be.
    if (area.x_to - area.x_from) // area.columns.step < MOST_COLUMNS:
        in_columns = table.c.x.in_([x for x in area.columns if abs(x) <= LARGEST])
    else:
        in_columns = table.c.x.between(x_from, x_to)
    limited = query.where(
        table.c.layer == layer,
        table.c.zoom == (area.zoom if zoom is None else zoom),
        table.c.y.between(y_from, y_to),
        in_columns,
    )
    return connection.execute(limited, parameters).all()
