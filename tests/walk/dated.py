"""Tiles with their times, in the form and order in which `prove` takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileharvest.tiles.grid import Tile
    from tileharvest.walk.proof import DatedCell


def dated(times: Mapping[Tile, str | None]) -> list[DatedCell]:
    return [(tile.zoom, tile.x, tile.y, times[tile]) for tile in sorted(times)]
