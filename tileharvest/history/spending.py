"""What harvests have cost, and which tiles fail again and again. Read only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from tileharvest.history.charging import COSTS
from tileharvest.history.costs import NO_COST, Cost
from tileharvest.history.schema import layers, maps, spending, tiles
from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from tileharvest.history.database import History


def spent(history: History, map_name: str, day: date) -> Cost:
    """What all harvests of the map have cost on that day, of whatever day they are; nothing for an unknown
    map. Reads one row."""
    query = (
        select(*(spending.c[name] for name in COSTS))
        .join_from(spending, maps, maps.c.id == spending.c.map)
        .where(maps.c.name == map_name, spending.c.day == day)
    )
    with history.reading() as connection:
        row = connection.execute(query).first()
    return NO_COST if row is None else Cost(*row)


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
