"""The terrain of the demo's world: its ground, with height and material of each place. Pure.

Places are counted in blocks from the middle of the map. On the picture x grows to the right and up, and z to
the right and down, as on a real Overviewer map. Shapes are given as they appear on the picture, in pixels
from its middle, because the island is composed as a picture. Noise only roughens them.
"""

from __future__ import annotations

from functools import cache
from math import hypot
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from tileharvest.demo.noise import chance, rolling

if TYPE_CHECKING:
    from collections.abc import Mapping

Place: TypeAlias = tuple[int, int]
"""The x and the z of a column of blocks."""

_SEED: Final = 7
_CHUNK: Final = 8
"""Blocks along an edge of the squares in which the world is explored. Minecraft's have 16; an island this
small looks better with a finer edge."""
_SHORE: Final = 1.22
"""The distance from a land's middle up to which the sea is explored, in lengths of its half axes."""


class Oval(NamedTuple):
    """An ellipse on the picture, by its middle and its half axes in pixels."""

    u: float
    v: float
    wide: float
    high: float

    def distance(self, x: float, z: float) -> float:
        """Returns the distance of a place from the middle: 0 in the middle, 1 on the edge."""
        return hypot(((x + z) * 12 - self.u) / self.wide, ((z - x) * 6 - self.v) / self.high)


class Plot(NamedTuple):
    """Levelled ground on which people build."""

    x: int
    z: int
    reach: int
    """Blocks from the middle to each edge, along x and along z."""
    height: int

    def away(self, x: int, z: int) -> int:
        """Returns how many blocks a place lies outside of the plot; 0 within it."""
        return max(0, max(abs(x - self.x), abs(z - self.z)) - self.reach)


class Column(NamedTuple):
    """The ground at one place."""

    height: int
    """The height of the surface, in blocks above the sea."""
    surface: str
    """The name of the uppermost material."""


LANDS: Final[Mapping[Oval, tuple[int, ...]]] = {
    Oval(40, -70, 990, 760): (1, 2, 3),
    # Alone in the lower left corner, so that whole branches of the pyramid end when it goes.
    Oval(-1180, 1130, 200, 150): (1,),
    # To the right of the square of the first two days, so that the map must grow.
    Oval(1770, -560, 250, 190): (3,),
}
"""The islands, each with the days on which it is explored, the sea around it included."""
TOWN: Final = Plot(4, 30, 15, 2)
HAMLET: Final = Plot(-42, 0, 10, 2)
CASTLE_HILL: Final = Plot(38, -34, 9, 7)
ISLE_TOP: Final = Plot(120, 27, 4, 3)
PLOTS: Final = (TOWN, HAMLET, CASTLE_HILL, ISLE_TOP)
_MAINLAND: Final = next(iter(LANDS))
_BAY: Final = Oval(730, 480, 330, 250)
_HILLS: Final = (
    (Oval(-400, -340, 430, 300), 25),
    (Oval(-560, -180, 260, 200), 7),
    (Oval(800, 40, 200, 170), 4),
)
"""Ground that rises towards the middle of an oval, and by how many blocks."""


@cache
def explored(day: int) -> frozenset[Place]:
    """Returns all places that the world has on a day: whole chunks on and around the lands of that day."""
    found = set()
    for land, days in LANDS.items():
        if day in days:
            x, z = int(land.u / 24 - land.v / 12), int(land.u / 24 + land.v / 12)
            reach = int(1.5 * (land.wide / 24 + land.high / 12))
            for left in range((x - reach) // _CHUNK * _CHUNK, x + reach, _CHUNK):
                for upper in range((z - reach) // _CHUNK * _CHUNK, z + reach, _CHUNK):
                    ragged = 0.12 * (chance(_SEED, left, upper) - 0.5) * _roughness(land)
                    if land.distance(left + _CHUNK / 2, upper + _CHUNK / 2) < _SHORE + ragged:
                        found |= {(left + a, upper + b) for a in range(_CHUNK) for b in range(_CHUNK)}
    return frozenset(found)


@cache
def terrain() -> Mapping[Place, Column]:
    """Returns the ground of every place that is ever explored. This costs about 0.5 s, once."""
    places = frozenset[Place]().union(*(explored(day) for days in LANDS.values() for day in days))
    return {place: _column(*place) for place in places}


def _roughness(land: Oval) -> float:
    return 1.0 if land == _MAINLAND else 0.4


def _column(x: int, z: int) -> Column:
    height, rough = _height(x, z), rolling(_SEED + 7, x, z)
    if height <= 0:
        return Column(0, f"water_{min(6, int(-height * 0.9))}")
    surface = f"turf_{max(0, min(4, int(rolling(_SEED + 3, x, z) * 7.5 - 1.25)))}"
    if height > 17 + 4 * rough:
        surface = "snow"
    elif height > 5.5 + 6 * rough:
        surface = "stone"
    elif height < 0.55 + 0.7 * rough and all(plot.away(x, z) > 0 for plot in PLOTS):
        surface = "sand"
    return Column(int(height) + 1, surface)


def _height(x: int, z: int) -> float:
    """Returns the height in blocks above the sea. Below 0 it is the depth of the water."""
    land = min(LANDS, key=lambda each: each.distance(x, z))
    noise = rolling(_SEED, x, z) - 0.5
    rough = noise * _roughness(land)
    coast = 1 - land.distance(x, z) + 0.5 * rough
    height = min(coast * 13, 1.6 + coast * 2.5 + 5 * rough) if coast > 0 else coast * 22
    height = min(height, max(-3.5, 0.3 + 12 * (_BAY.distance(x, z) + noise * 0.6 - 1)))
    for hill, rise in _HILLS:
        # The exponent makes hills steeper towards their tops.
        height += rise * max(0.0, 1 - hill.distance(x, z)) ** 1.3 * (1 + 1.2 * noise) if height > 0 else 0
    for plot in PLOTS:
        slope = plot.away(x, z) * 0.8
        height = min(height, plot.height - 0.6 + slope)
        if slope < 5.6:
            height = max(height, plot.height - 1 - slope)
    return height
