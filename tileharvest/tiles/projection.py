"""Projections: where the world's blocks lie on the grid of a layer. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, isfinite
from typing import Final, Self, TypeAlias

Row: TypeAlias = tuple[float, float, float, float]
"""How much a grid coordinate grows for each block eastwards, upwards and southwards, and its value at the
world's origin."""


@dataclass(frozen=True, slots=True)
class Projection:
    """An affine map from the world to the grid, as all renderers of blocks draw with parallel rays.

    A block covers the coordinates from its whole number to the next, so the middle of block 0 lies at 0.5.
    Raises ValueError if a point of the grid would not tell a place of the world.
    """

    x: Row
    y: Row
    height: float = 64
    """The height, in blocks, at which every point of the picture is assumed to lie. 64 is the level of the
    sea."""

    def __post_init__(self) -> None:
        if not all(map(isfinite, (*self.x, *self.y, self.height))) or not self._area:
            raise ValueError("the projection shows the world as a line")

    @classmethod
    def from_above(cls, blocks: float) -> Self:
        """Returns the projection of a picture that looks straight down, with north above and block 0 at the
        grid's origin.

        `blocks` is how many blocks a tile of zoom 0 shows along its edge.
        """
        return cls((2 / blocks, 0, 0, 0), (0, 0, -2 / blocks, 0))

    @property
    def _area(self) -> float:
        """The size of a block in square grid units; negative if the picture is mirrored."""
        return self.x[0] * self.y[2] - self.x[2] * self.y[0]

    def place_at(self, x: float, y: float) -> tuple[float, float]:
        """Returns east and south, in blocks, of a point of the grid, taken to lie at `height`."""
        # In the order of the page's `placeAt` (`projection.js`), so that both round alike.
        right = x - self.x[1] * self.height - self.x[3]
        up = y - self.y[1] * self.height - self.y[3]
        area = self._area
        return (right * self.y[2] - up * self.x[2]) / area, (up * self.x[0] - right * self.y[0]) / area

    def block_at(self, x: float, y: float) -> tuple[int, int]:
        """Returns x and z of the block at a point of the grid."""
        east, south = self.place_at(x, y)
        return floor(east), floor(south)

    def point_of(self, east: float, south: float, height: float | None = None) -> tuple[float, float]:
        """Returns the point of the grid at which a place of the world is drawn."""
        high = self.height if height is None else height
        x, y = (row[0] * east + row[1] * high + row[2] * south + row[3] for row in (self.x, self.y))
        return x, y


ON_GRID: Final = Projection((1, 0, 0, 0), (0, 0, -1, 0))
"""The projection of a layer of whose world nothing is known. A grid unit counts as a block, so that points
can be told as places."""
