"""What the next harvest of a map can be judged by. Read only."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import func, select

from tileharvest.history.reading import HarvestSummary, harvest_summaries
from tileharvest.history.schema import FINISHED, layers, maps, tiles, versions

if TYPE_CHECKING:
    from tileharvest.history.database import History


class Precedent(NamedTuple):
    """The last finished harvests, and what fetching every tile would bring."""

    summary: HarvestSummary
    """The last one, however it walked."""
    present_bytes: int
    """The sizes of the latest versions of all tiles that are not gone."""
    pruned: HarvestSummary | None = None
    """The last one whose walk was pruned, and that had nothing to repair."""
    full: HarvestSummary | None = None
    """The last one whose walk was full, as a map's first is; None where only a restored history lacks it."""


def precedent(history: History, map_name: str) -> Precedent | None:
    """None for a map of which no harvest was ever finished. Reads all tiles of the map."""
    of_map = select(layers.c.id).join(maps, maps.c.id == layers.c.map).where(maps.c.name == map_name)
    weight = (
        select(func.coalesce(func.sum(versions.c.size), 0))
        .select_from(tiles.join(versions, versions.c.id == tiles.c.version))
        .where(tiles.c.layer.in_(of_map))
    )
    with history.reading() as connection:
        if connection.execute(of_map.limit(1)).first() is None:
            return None
        # A sum of whole numbers is a Decimal on PostgreSQL.
        present = int(connection.execute(weight).scalar_one())
    finished = [one for one in harvest_summaries(history, map_name) if one.reason == FINISHED]
    if not finished:
        return None
    pruned = [one for one in finished if one.walk == "pruned"]
    full = [one for one in finished if one.walk in (None, "full")]
    return Precedent(finished[-1], present, pruned[-1] if pruned else None, full[-1] if full else None)
