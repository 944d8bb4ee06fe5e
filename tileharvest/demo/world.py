"""The demo's world: what stands where on each of its days. Pure.

Day 1 is the first day. On day 2 a castle and a church are built, and the outpost's chunks are deleted. A part
of the land is drawn anew although it has not changed, as Overviewer does when a chunk was saved again. On
day 3 an isle is discovered so far out that the map grows by a level, and a windmill is built.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tileharvest.demo import structures
from tileharvest.demo.noise import chance, rolling
from tileharvest.demo.painter import Landscape
from tileharvest.demo.structures import Built, House
from tileharvest.demo.terrain import (
    CASTLE_HILL,
    HAMLET,
    ISLE_TOP,
    PLOTS,
    TOWN,
    Column,
    Place,
    explored,
    terrain,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DAYS: Final = (1, 2, 3)
SPAWN: Final = (TOWN.x, 64 + TOWN.height, TOWN.z)
"""The place where players start, in the form of the site's configuration: x, height, z."""

_DEPTHS: Final = {1: 3, 2: 3, 3: 4}
_ROADS: Final = (
    ((TOWN.x, TOWN.z), (-26, TOWN.z), (-26, HAMLET.z), (HAMLET.x - 4, HAMLET.z)),
    ((TOWN.x, TOWN.z + 15), (TOWN.x, -16), (CASTLE_HILL.x, -16), (CASTLE_HILL.x, CASTLE_HILL.z + 9)),
    ((TOWN.x - 15, TOWN.z), (TOWN.x + 15, TOWN.z)),
)
_PIER: Final = (range(TOWN.x - 1, TOWN.x + 2), range(TOWN.z + 15, TOWN.z + 30))
_HOUSES: Final = (
    House(TOWN.x - 14, TOWN.z - 7, 6, 5, "plaster", "roof_red"),
    House(TOWN.x - 14, TOWN.z + 4, 5, 7, "planks", "roof_brown"),
    House(TOWN.x - 7, TOWN.z - 14, 5, 6, "brick", "roof_slate", storeys=2),
    House(TOWN.x + 4, TOWN.z - 14, 6, 5, "plaster", "roof_teal"),
    House(TOWN.x + 9, TOWN.z - 7, 5, 5, "plaster", "roof_red", storeys=2),
    House(TOWN.x - 6, TOWN.z + 8, 5, 6, "plaster", "roof_teal"),
    House(HAMLET.x - 8, HAMLET.z - 8, 6, 5, "planks", "roof_straw"),
    House(HAMLET.x + 3, HAMLET.z + 4, 5, 6, "plaster", "roof_straw"),
)
_OUTPOST: Final = (-143, 45)
_MILL: Final = (HAMLET.x + 5, HAMLET.z - 6)
_CLEARING: Final = 6
"""Blocks around levelled ground within which no tree grows."""


@dataclass(frozen=True, slots=True)
class World:
    """A world that follows from its seed alone."""

    seed: int = 7

    def depth(self, day: int) -> int:
        """Returns how many levels the map has below the whole-map image on this day.

        Raises ValueError for a day that the world does not have.
        """
        if day not in _DEPTHS:
            raise ValueError(f"the demo's world has the days 1 to {DAYS[-1]}, not {day}")
        return _DEPTHS[day]

    def landscape(self, day: int) -> Landscape:
        """Returns all that is there on a day. This costs about 0.2 s; the first day of a seed costs more."""
        places = explored(self.seed, day)
        land = _land(self.seed)
        blocks = _nature(self.seed) | _built(self.seed, day)
        standing = {where: name for where, name in blocks.items() if (where[0], where[2]) in places}
        return Landscape({place: land[place] for place in places}, standing)

    def saved_again(self, day: int) -> frozenset[Place]:
        """Returns the places that are drawn anew on a day although nothing there has changed."""
        if day != 2:
            return frozenset()
        return frozenset((x, z) for x in range(-52, -42) for z in range(-34, -24))


@lru_cache(maxsize=4)
def _land(seed: int) -> Mapping[Place, Column]:
    """Returns the terrain with roads, fields and paving on it."""
    land = dict(terrain(seed))
    for place in _road_places():
        if place in land and not land[place].wet:
            land[place] = replace(land[place], surface="road")
    for x in range(TOWN.x - 4, TOWN.x + 6):
        for z in range(TOWN.z - 4, TOWN.z + 6):
            land[x, z] = replace(land[x, z], surface="paving")
    for place, surface in _fields():
        land[place] = replace(land[place], surface=surface)
    return land


def _road_places() -> Iterator[Place]:
    for bends in _ROADS:
        for (x, z), (to_x, to_z) in itertools.pairwise(bends):
            for a in range(min(x, to_x), max(x, to_x) + 2):
                for b in range(min(z, to_z), max(z, to_z) + 2):
                    yield a, b


def _fields() -> Iterator[tuple[Place, str]]:
    """Yields the places of three strips of field with ditches between them, each with its surface."""
    strips = ("wheat", "wheat", "wheat", "water_1", "greens", "greens", "greens", "water_1", "soil", "wheat")
    for row, surface in enumerate(strips):
        for z in range(HAMLET.z + 3, HAMLET.z + 10):
            yield (HAMLET.x - 9 + row, z), surface


@lru_cache(maxsize=4)
def _nature(seed: int) -> Built:
    """Returns the blocks of the trees in the woods and of the flowers in the meadows."""
    land, taken = _land(seed), frozenset(_road_places())
    built: Built = {}
    for (x, z), column in land.items():
        if not column.surface.startswith("turf") or _near_people(x, z, taken):
            continue
        woods = rolling(seed + 11, x, z)
        dice = chance(seed + 5, x, z)
        if _may_root(seed, x, z) and dice < (woods - 0.45) * 7:
            built |= structures.tree(x, z, column.height, _kind(seed, x, z, column.height), seed)
        elif dice > 0.965:
            flowers = ("flower_red", "flower_yellow", "flower_white", "tall_grass", "tall_grass")
            built.setdefault((x, column.height + 1, z), flowers[int(chance(seed, z, x) * len(flowers))])
    return built


def _may_root(seed: int, x: int, z: int) -> bool:
    """Tells whether this is the place of its square of 4 x 4 where a tree may stand.

    Each square has one such place, so that the crowns touch but hardly overlap.
    """
    column, row = x // 4, z // 4
    return (x % 4, z % 4) == (int(chance(seed, column, row) * 4), int(chance(seed + 1, column, row) * 4))


def _near_people(x: int, z: int, roads: frozenset[Place]) -> bool:
    """Tells whether a tree here would stand in somebody's way, or hide a road from the viewer."""
    return any(plot.away(x, z) <= _CLEARING for plot in PLOTS) or any(
        (x + step, z - step) in roads or (x + step, z - step + 1) in roads for step in range(-2, 6)
    )


def _kind(seed: int, x: int, z: int, height: int) -> str:
    dice = chance(seed + 9, x, z)
    if height >= 6 or rolling(seed + 13, x, z) > 0.62:
        return "fir"
    if dice < 0.12:
        return "birch"
    return "elm" if dice < 0.45 else "oak"


def _built(seed: int, day: int) -> Built:
    built = _bridges(seed) | _first_day()
    if day == 1:
        built |= _outpost(seed)
    if day >= 2:
        built |= structures.castle(CASTLE_HILL.x, CASTLE_HILL.z, CASTLE_HILL.height)
        built |= structures.church(TOWN.x + 3, TOWN.z + 8, TOWN.height)
        for step, cloth in enumerate(("cloth_red", "cloth_blue")):
            built |= structures.stall(TOWN.x + 7, TOWN.z - 1 + 4 * step, TOWN.height, cloth)
    if day >= 3:
        built |= structures.windmill(*_MILL, HAMLET.height)
        built |= structures.lighthouse(ISLE_TOP.x + 2, ISLE_TOP.z - 2, ISLE_TOP.height)
        built |= House(ISLE_TOP.x - 4, ISLE_TOP.z + 1, 5, 4, "plaster", "roof_red").build(ISLE_TOP.height)
    return built


def _bridges(seed: int) -> Built:
    land = terrain(seed)
    pier = {(x, z) for x in _PIER[0] for z in _PIER[1]}
    return {(x, 1, z): "deck" for x, z in {*pier, *_road_places()} if (x, z) in land and land[x, z].wet}


def _first_day() -> Built:
    built = structures.well(TOWN.x - 1, TOWN.z - 1, TOWN.height)
    for house in _HOUSES:
        built |= house.build(TOWN.height)
    for x, z in ((-5, -5), (6, -5), (-5, 6), (12, 3), (-14, 13), (13, -13)):
        built |= structures.tree(TOWN.x + x, TOWN.z + z, TOWN.height, "blossom", 3)
    built |= structures.boat(TOWN.x + 5, TOWN.z + 24, "cloth_white")
    return built | structures.boat(TOWN.x - 7, TOWN.z + 30, "cloth_red")


def _outpost(seed: int) -> Built:
    x, z = _OUTPOST
    floor = max(1, terrain(seed)[x, z].height)
    return structures.Tower(x, z, 3, 7, "roof_red", "planks").build(floor)
