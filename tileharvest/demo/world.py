"""The demo's world: what stands where on each of its days. Pure.

Day 1 is the first day. On day 2 a castle and a church are built, and the outpost's chunks are deleted. A part
of the land is drawn anew although it has not changed, as Overviewer does when a chunk was saved again. On
day 3 an isle is discovered so far out that the map grows by a level, and a windmill is built.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from tileharvest.demo.noise import chance, rolling
from tileharvest.demo.painter import Landscape
from tileharvest.demo.structures import boat, castle, church, house, lighthouse, tower, tree, windmill
from tileharvest.demo.terrain import CASTLE_HILL, HAMLET, ISLE_TOP, PLOTS, TOWN, explored, terrain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileharvest.demo.structures import Built
    from tileharvest.demo.terrain import Column, Place

DAYS: Final = (1, 2, 3)
SPAWN: Final = (TOWN.x, 64 + TOWN.height, TOWN.z)
"""The place where players start, in the form of the site's configuration: x, height, z."""

_DEPTHS: Final = {1: 3, 2: 3, 3: 4}
_ROADS: Final = (
    ((TOWN.x, TOWN.z), (-26, TOWN.z), (-26, HAMLET.z), (HAMLET.x - 4, HAMLET.z)),
    ((TOWN.x, TOWN.z + 15), (TOWN.x, -16), (CASTLE_HILL.x, -16), (CASTLE_HILL.x, CASTLE_HILL.z + 9)),
    ((TOWN.x - 15, TOWN.z), (TOWN.x + 15, TOWN.z)),
)
_HOUSES: Final = (
    (TOWN.x - 14, TOWN.z - 7, 6, 5, "plaster", "roof_red", 3),
    (TOWN.x - 14, TOWN.z + 4, 5, 7, "planks", "roof_brown", 3),
    (TOWN.x - 7, TOWN.z - 14, 5, 6, "brick", "roof_slate", 6),
    (TOWN.x + 4, TOWN.z - 14, 6, 5, "plaster", "roof_teal", 3),
    (TOWN.x + 9, TOWN.z - 7, 5, 5, "plaster", "roof_red", 6),
    (TOWN.x - 6, TOWN.z + 8, 5, 6, "plaster", "roof_teal", 3),
    (HAMLET.x - 8, HAMLET.z - 8, 6, 5, "planks", "roof_brown", 3),
    (HAMLET.x + 3, HAMLET.z + 4, 5, 6, "plaster", "roof_brown", 3),
)
"""The houses of the first day: place, width, length, wall, roof, height of the walls."""
_BLOSSOMS: Final = ((-5, -5), (6, -5), (-5, 6), (12, 3), (-14, 13), (13, -13))
"""The places of trees in the town, from its middle."""


@dataclass(frozen=True, slots=True)
class World:
    """The world on its days. All objects are the same world."""

    def depth(self, day: int) -> int:
        """Returns how many levels the map has below the whole-map image on this day.

        Raises ValueError for a day that the world does not have.
        """
        if day not in _DEPTHS:
            raise ValueError(f"the demo's world has the days 1 to {DAYS[-1]}, not {day}")
        return _DEPTHS[day]

    def landscape(self, day: int) -> Landscape:
        """Returns all that is there on a day. This costs about 0.2 s; the first day costs more."""
        places, land, blocks = explored(day), _land(), _woods() | _built(day)
        standing = {where: name for where, name in blocks.items() if (where[0], where[2]) in places}
        return Landscape({place: land[place] for place in places}, standing)

    def saved_again(self, day: int) -> frozenset[Place]:
        """Returns the places that are drawn anew on a day although nothing there has changed."""
        return (
            frozenset((x, z) for x in range(-52, -42) for z in range(-34, -24)) if day == 2 else frozenset()
        )


@cache
def _road_places() -> frozenset[Place]:
    return frozenset(
        (a, b)
        for bends in _ROADS
        for (x, z), (to_x, to_z) in itertools.pairwise(bends)
        for a in range(min(x, to_x), max(x, to_x) + 2)
        for b in range(min(z, to_z), max(z, to_z) + 2)
    )


@cache
def _land() -> Mapping[Place, Column]:
    """Returns the terrain with roads, a field and paving on it."""
    land = dict(terrain())
    surfaces = dict.fromkeys(_road_places(), "road")
    middle, field = range(-4, 6), (range(HAMLET.x - 9, HAMLET.x - 2), range(HAMLET.z + 3, HAMLET.z + 10))
    surfaces |= {(TOWN.x + a, TOWN.z + b): "paving" for a in middle for b in middle}
    surfaces |= {(x, z): "water_1" if x % 3 == 0 else "wheat" for x in field[0] for z in field[1]}
    for place, surface in surfaces.items():
        if land[place].height > 0:
            land[place] = land[place]._replace(surface=surface)
    return land


@cache
def _woods() -> Built:
    """Returns the blocks of the trees that grow by themselves."""
    built: Built = {}
    for (x, z), column in _land().items():
        # Each square of 4 x 4 has one place for a tree, so that the crowns touch but hardly overlap.
        root = tuple(int(chance(seed, x // 4, z // 4) * 4) for seed in (7, 8))
        is_free = column.surface.startswith("turf") and (x % 4, z % 4) == root
        if is_free and chance(12, x, z) < (rolling(18, x, z) - 0.45) * 7 and not _is_near_people(x, z):
            is_fir = column.height >= 6 or rolling(20, x, z) > 0.62
            built |= tree(
                x, z, column.height, "fir" if is_fir else "elm" if chance(16, x, z) < 0.45 else "oak"
            )
    return built


def _is_near_people(x: int, z: int) -> bool:
    """Returns whether a tree here would stand in somebody's way, or hide a road from the viewer."""
    return any(plot.away(x, z) <= 6 for plot in PLOTS) or any(
        (x + step, z - step + more) in _road_places() for step in range(-2, 6) for more in (0, 1)
    )


def _built(day: int) -> Built:
    built: Built = {}
    pier = {(TOWN.x + a, TOWN.z + b) for a in (-1, 0, 1) for b in range(15, 30)}
    for x, z in pier | _road_places():
        if terrain()[x, z].height == 0:
            built[x, 1, z] = "deck"
    for x, z, width, length, wall, roof, top in _HOUSES:
        built |= house(x, z, width, length, TOWN.height, wall, roof, top)
    for x, z in _BLOSSOMS:
        built |= tree(TOWN.x + x, TOWN.z + z, TOWN.height, "blossom")
    built |= boat(TOWN.x + 5, TOWN.z + 24, "cloth_white") | boat(TOWN.x - 7, TOWN.z + 30, "cloth_red")
    built |= tower(-143, 45, 3, 7, 2, "planks", "roof_red")
    if day >= 2:
        built |= castle(CASTLE_HILL.x, CASTLE_HILL.z, CASTLE_HILL.height)
        built |= church(TOWN.x + 8, TOWN.z + 1, TOWN.height)
    if day >= 3:
        built |= windmill(HAMLET.x + 5, HAMLET.z - 6, HAMLET.height)
        built |= lighthouse(ISLE_TOP.x + 2, ISLE_TOP.z - 2, ISLE_TOP.height)
        built |= house(ISLE_TOP.x - 4, ISLE_TOP.z + 1, 4, 5, ISLE_TOP.height, "plaster", "roof_red")
    return built
