"""Tiles with their times, in the form and order in which `prove` takes them."""

from collections.abc import Mapping

from tileharvest.tiles.grid import Tile
from tileharvest.walk.proof import DatedTile


def dated(times: Mapping[Tile, str | None]) -> list[DatedTile]:
    return [(tile.zoom, tile.column, tile.row, times[tile]) for tile in sorted(times)]
