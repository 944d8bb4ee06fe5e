"""The terrain of the demo's world: its ground, with height and material of each place. Pure.

Places are counted in blocks from the middle of the map. On the picture x grows to the right and up, and z to
the right and down, as on a real Overviewer map. Shapes are given as they appear on the picture, in pixels
from its middle, because the island is composed as a picture. The seed only roughens them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache
from math import hypot
from math import pow as math_pow
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tileharvest.demo.materials import TURF_SHADES, WATER_DEPTHS
from tileharvest.demo.noise import chance, rolling

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Place = tuple[int, int]
"""The x and the z of a column of blocks."""

CHUNK: Final = 8
"""Blocks along an edge of the squares in which the world is explored. Minecraft's have 16; an island this
small looks better with a finer edge."""
_SHORE: Final = 1.22
"""The distance from a land's middle up to which the sea is explored, in lengths of its half axes."""


@dataclass(frozen=True, slots=True)
class Oval:
    """An ellipse on the picture, by its middle and its half axes in pixels.

    Raises ValueError for an ellipse without an area.
    """

    u: float
    v: float
    wide: float
    high: float

    def __post_init__(self) -> None:
        if min(self.wide, self.high) <= 0:
            raise ValueError(f"{self} has no area")

    def distance(self, x: float, z: float) -> float:
        """Returns the distance of a place from the middle: 0 in the middle, 1 on the edge."""
        u, v = ((x + z) * 12 - self.u) / self.wide, ((z - x) * 6 - self.v) / self.high
        return hypot(u, v)


@dataclass(frozen=True, slots=True)
class Land:
    """An island with the sea around it. It is explored on some of the days."""

    shape: Oval
    days: frozenset[int]
    rough: float = 1.0
    """The extent to which the seed changes the coast."""


@dataclass(frozen=True, slots=True)
class Hill:
    """Ground that rises towards the middle of an oval."""

    shape: Oval
    height: float
    """Blocks by which the ground rises in the middle."""


@dataclass(frozen=True, slots=True)
class Plot:
    """Levelled ground on which people build. The seed does not change it."""

    x: int
    z: int
    reach: int
    """Blocks from the middle to each edge, along x and along z."""
    height: int

    def away(self, x: int, z: int) -> int:
        """Returns how many blocks a place lies outside of the plot; 0 within it."""
        return max(0, max(abs(x - self.x), abs(z - self.z)) - self.reach)


@dataclass(frozen=True, slots=True)
class Column:
    """The ground at one place."""

    height: int
    """The height of the surface, in blocks above the sea."""
    surface: str
    """The name of the uppermost material."""

    @property
    def wet(self) -> bool:
        return self.surface.startswith("water")


MAINLAND: Final = Land(Oval(40, -70, 990, 760), frozenset({1, 2, 3}))
OUTPOST: Final = Land(Oval(-1180, 1130, 200, 150), frozenset({1}), rough=0.4)
"""This land lies alone in the lower left corner, so that whole branches of the pyramid end when it goes."""
NEW_ISLE: Final = Land(Oval(1770, -560, 250, 190), frozenset({3}), rough=0.4)
"""This land lies to the right of the square of the first two days, so that the map must grow."""
LANDS: Final = (MAINLAND, OUTPOST, NEW_ISLE)

TOWN: Final = Plot(4, 30, 15, 2)
HAMLET: Final = Plot(-42, 0, 10, 2)
CASTLE_HILL: Final = Plot(38, -34, 9, 7)
ISLE_TOP: Final = Plot(120, 27, 4, 3)
PLOTS: Final = (TOWN, HAMLET, CASTLE_HILL, ISLE_TOP)
_BAY: Final = Oval(730, 480, 330, 250)
_HILLS: Final = (
    Hill(Oval(-400, -340, 430, 300), 25),
    Hill(Oval(-560, -180, 260, 200), 7),
    Hill(Oval(800, 40, 200, 170), 4),
)
_SLOPE: Final = 0.8
"""Blocks by which the ground may rise or fall per block of distance from a plot."""
_BANK: Final = 7
"""Blocks around a plot within which ground that lies too low is raised."""
_HOLLOW: Final = 1.3
"""An exponent above 1 makes hills steeper towards their tops."""
_RIVER: Final = ((9, -30), (-14, -14), (-18, 4), (-17, 22), (-15, 40), (-24, 62))
"""The bends of the river, as places, from the spring to the sea."""
_RIVER_WIDTH: Final = 1.6


def explored(seed: int, day: int) -> frozenset[Place]:
    """Returns all places that the world has on a day: whole chunks on and around the lands of that day."""
    return frozenset(
        (x, z)
        for land in LANDS
        if day in land.days
        for corner in _chunks(seed, land)
        for x in range(corner[0], corner[0] + CHUNK)
        for z in range(corner[1], corner[1] + CHUNK)
    )


@lru_cache(maxsize=4)
def terrain(seed: int) -> Mapping[Place, Column]:
    """Returns the ground of every place that is ever explored. This costs about 0.5 s, once per seed."""
    days = sorted({day for land in LANDS for day in land.days})
    places = frozenset[Place]().union(*(explored(seed, day) for day in days))
    return MappingProxyType({place: _column(seed, *place) for place in places})


@lru_cache(maxsize=16)
def _chunks(seed: int, land: Land) -> tuple[Place, ...]:
    """Returns the corners of least x and z of the explored chunks around a land."""
    return tuple(
        (x, z)
        for x, z in _corners_near(land.shape)
        if land.shape.distance(x + CHUNK / 2, z + CHUNK / 2) < _SHORE + _ragged(seed, x, z) * land.rough
    )


def _ragged(seed: int, x: int, z: int) -> float:
    return 0.12 * (chance(seed, x, z) - 0.5)


def _corners_near(shape: Oval) -> Iterator[Place]:
    middle_x, middle_z = int(shape.u / 24 - shape.v / 12), int(shape.u / 24 + shape.v / 12)
    reach = int(1.5 * (shape.wide / 24 + shape.high / 12))
    for x in range(_down_to_chunk(middle_x - reach), middle_x + reach, CHUNK):
        for z in range(_down_to_chunk(middle_z - reach), middle_z + reach, CHUNK):
            yield x, z


def _down_to_chunk(number: int) -> int:
    return number // CHUNK * CHUNK


def _column(seed: int, x: int, z: int) -> Column:
    height = _height(seed, x, z)
    if height <= 0:
        depth = min(WATER_DEPTHS - 1, int(-height * 0.9))
        return Column(0, f"water_{depth}")
    return Column(int(height) + 1, _surface(seed, x, z, height))


def _height(seed: int, x: int, z: int) -> float:
    """Returns the height in blocks above the sea. Below 0 it tells the depth of the water."""
    land = min(LANDS, key=lambda each: each.shape.distance(x, z))
    noise = rolling(seed, x, z) - 0.5
    coast = 1 - land.shape.distance(x, z) + 0.5 * noise * land.rough
    height = min(coast * 13, 1.6 + coast * 2.5 + 5 * noise * land.rough) if coast > 0 else coast * 22
    height = min(height, max(-3.5, 0.3 + 12 * (_BAY.distance(x, z) + noise * 0.6 - 1)))
    for hill in _HILLS:
        height += _rise(hill, x, z, noise) if height > 0 else 0
    height = _cut_by_river(x, z, height)
    for plot in PLOTS:
        away = plot.away(x, z)
        height = min(height, plot.height - 0.6 + away * _SLOPE)
        if away < _BANK:
            height = max(height, plot.height - 1 - away * _SLOPE)
    return height


def _rise(hill: Hill, x: int, z: int, noise: float) -> float:
    inside = max(0.0, 1 - hill.shape.distance(x, z))
    return hill.height * math_pow(inside, _HOLLOW) * (1 + 1.2 * noise)


def _cut_by_river(x: int, z: int, height: float) -> float:
    away = min(_from_line(x, z, *ends) for ends in itertools.pairwise(_RIVER)) - _RIVER_WIDTH
    return min(height, -0.5 if away < 0 else 0.1 + away * 0.9)


def _from_line(x: int, z: int, start: Place, end: Place) -> float:
    """Returns the blocks from a place to the nearest point of the straight line between two others."""
    along_x, along_z = end[0] - start[0], end[1] - start[1]
    part = ((x - start[0]) * along_x + (z - start[1]) * along_z) / (along_x**2 + along_z**2)
    part = max(0.0, min(1.0, part))
    return hypot(x - start[0] - part * along_x, z - start[1] - part * along_z)


def _surface(seed: int, x: int, z: int, height: float) -> str:
    rough = rolling(seed + 7, x, z)
    if height > 12 + 4 * rough:
        return "snow"
    if height > 5.5 + 6 * rough:
        return "scree" if chance(seed, x, z) < 0.12 else "stone"
    if height < 0.55 + 0.7 * rough and not any(plot.away(x, z) == 0 for plot in PLOTS):
        return "sand"
    lush = rolling(seed + 3, x, z) * 1.5 - 0.25 + 0.12 * (chance(seed, x, z) - 0.5)
    return f"turf_{max(0, min(TURF_SHADES - 1, int(lush * TURF_SHADES)))}"
