"""A rectangle of the world, and the tiles of a layer that show it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from tileharvest.tiles.grid import TileRange
from tileharvest.tiles.ground import Ground
from tileharvest.tiles.projection import ON_GRID

if TYPE_CHECKING:
    from tileharvest.tiles.grid import Tile
    from tileharvest.tiles.projection import Projection


@dataclass(frozen=True, slots=True)
class Rectangle:
    """What lies between two places east and south, counted as `Projection.place_at` counts them.

    Where a layer has no projection a place is a point of its grid, with south downwards. Raises ValueError
    for a rectangle without ground.
    """

    east_from: float
    east_to: float
    south_from: float
    south_to: float

    def __post_init__(self) -> None:
        edges = (self.east_from, self.east_to, self.south_from, self.south_to)
        is_empty = self.east_from >= self.east_to or self.south_from >= self.south_to
        if not all(map(isfinite, edges)) or is_empty:
            raise ValueError("its corners are no rectangle")

    @property
    def middle(self) -> tuple[float, float]:
        """East and south."""
        return (self.east_from + self.east_to) / 2, (self.south_from + self.south_to) / 2

    def ground(self, projection: Projection | None) -> Ground:
        """Returns the smallest upright rectangle of the picture around it."""
        corners = (self.east_from, self.south_from), (self.east_to, self.south_to)
        return Ground.of_places(*corners, projection or ON_GRID)

    def is_on(self, tile: Tile, projection: Projection | None, factor: int = 2) -> bool:
        """Says whether a tile of that ground shows part of it. Many do not where a layer is drawn at a slant.

        Two parallelograms do not meet where the edges of one of them have a gap between both. Those of the
        tile lie along the axes of the grid, on which it meets the ground, and ours along those of the world.
        """
        west, north, east, south = Ground.of(TileRange.of(tile), factor).places(projection or ON_GRID)
        return (
            west < self.east_to
            and self.east_from < east
            and north < self.south_to
            and self.south_from < south
        )
