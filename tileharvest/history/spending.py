"""What harvests have cost, and which tiles fail again and again. Read only."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from sqlalchemy import func, select

from tileharvest.history.costs import Cost
from tileharvest.history.schema import harvests, layers, maps, tiles
from tileharvest.maps.grid import Tile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from tileharvest.history.database import History


def spent(history: History, map_name: str, day: date) -> Cost:
    """What all harvests of the map and of that day have cost together; nothing for an unknown map.

    A harvest is of the day on which it began, also what it costs after midnight. Served by an index.
    """
    names = [field.name for field in fields(Cost)]
    query = (
        select(*(func.coalesce(func.sum(harvests.c[name]), 0) for name in names))
        .join_from(harvests, maps, maps.c.id == harvests.c.map)
        .where(maps.c.name == map_name, harvests.c.day == day)
    )
    with history.reading() as connection:
        row = connection.execute(query).one()
    # A sum of whole numbers is a Decimal on PostgreSQL.
    requests, received, stored, spared, seconds = row
    return Cost(int(requests), int(received), int(stored), int(spared), float(seconds))


def failing(history: History, map_name: str) -> Mapping[tuple[str, Tile], int]:
    """By layer and tile: in how many harvests in a row it has failed, where the last one that asked did.

    Empty for an unknown map. Reads all tiles of the map.
    """
    query = (
        select(layers.c.name, tiles.c.zoom, tiles.c.x, tiles.c.y, tiles.c.failures)
        .join_from(layers, maps, maps.c.id == layers.c.map)
        .join(tiles, tiles.c.layer == layers.c.id)
        .where(maps.c.name == map_name, tiles.c.failures > 0)
    )
    with history.reading() as connection:
        return {(layer, Tile(zoom, x, y)): n for layer, zoom, x, y, n in connection.execute(query)}
