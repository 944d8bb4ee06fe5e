"""New versions of tiles, in place of those of the same day, and what follows from them: each tile's latest
version, and the counts of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import Date, Integer, bindparam, exists, literal_column, select

from tileharvest.history.schema import (
    BLOCK_LEVELS,
    TILE,
    changes,
    insert_into,
    is_tile,
    replace_into,
    tiles,
    versions,
)
from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection
    from sqlalchemy.dialects.postgresql import Insert

    from tileharvest.history.schema import Row


def record_versions(connection: Connection, rows: Sequence[Row]) -> None:
    """Writes rows of `version_row`, each of another tile. A row replaces that of the same tile and day.

    The written versions become the latest ones of their tiles.
    """
    if not rows:
        return
    places = [{f"its_{name}": row[name] for name in (*TILE, "day")} for row in rows]
    changed = []
    for its in places:
        block = Tile(its["its_zoom"], its["its_x"], its["its_y"]).ancestor(BLOCK_LEVELS)
        changed.append({**its, "block_x": block.x, "block_y": block.y})
    # This comes before the versions are written: a tile with a version of this day is counted already.
    connection.execute(_COUNT_CHANGES, changed)
    connection.execute(replace_into(versions, *TILE, "day"), rows)
    connection.execute(_POINT_AT_VERSIONS, places)


def _count_changes() -> Insert:
    """Returns the statement that counts a changed tile in its block, unless the tile has a version of the day
    already."""
    place = [bindparam(name, type_=Integer) for name in ("its_layer", "its_zoom", "block_x", "block_y")]
    day = bindparam("its_day", type_=Date)
    known = exists().where(is_tile(versions), versions.c.day == day)
    first = select(*place, day, literal_column("1")).where(~known)
    counting = insert_into(changes).from_select(list(changes.c.keys()), first)
    return counting.on_conflict_do_update(
        index_elements=list(changes.primary_key.columns),
        set_={"tiles": changes.c.tiles + counting.excluded.tiles},
    )


def _point_at_versions() -> Insert:
    new = select(*(versions.c[name] for name in (*TILE, "id"))).where(
        is_tile(versions), versions.c.day == bindparam("its_day", type_=Date)
    )
    pointing = insert_into(tiles).from_select([*TILE, "version"], new)
    return pointing.on_conflict_do_update(
        index_elements=[tiles.c[name] for name in TILE], set_={"version": pointing.excluded.version}
    )


_COUNT_CHANGES: Final = _count_changes()
_POINT_AT_VERSIONS: Final = _point_at_versions()
