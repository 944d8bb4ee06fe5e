"""What the tests of the page look at: real maps, harvested over some days."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import Final

from tests.end_to_end.project import LayerTile, Project
from tests.end_to_end.real_maps import ANTWORLD, Harvested, harvested_antworld, made_once
from tests.end_to_end.rendering import LAYER
from tests.servers.nginx import nginx
from tests.servers.published import published
from tests.viewer.building import (
    BLUE,
    DAY_LAYER,
    FIRST,
    GREEN,
    IN_BLOCKS,
    MAP,
    SECOND,
    World,
    picture,
    square,
)
from tileharvest.maps.named_areas import NamedArea, add_area

DAYS: Final = ("2021-02-13", "2021-02-16", "2021-04-12", "2021-05-12")
"""On which antworld was published and harvested."""
LIVE: Final = "https://antworld.example.net/map/"
"""Where antworld's own page is said to be; nobody asks it."""
NOTE: Final = "a world of ants"

GROWING: Final = "growing"
"""The other real map, harvested before and after it grew by a level."""
BEFORE_GROWTH, AFTER_GROWTH = "2016-10-06", "2016-10-07"
DEEP: Final = "deep"
"""The last version of antworld, of which only the two deepest levels are kept."""
NEVER: Final = "never"
"""A map that is configured and was never harvested."""


@dataclass(frozen=True, slots=True)
class PublishedDays:
    """What was published of antworld on each day: the truth, which no part of the program has touched."""

    harvested: list[Harvested] = field(repr=False)

    def image(self, tile: LayerTile, day: str) -> bytes:
        """The file as it was on one of `DAYS`; KeyError if there was none."""
        return self.harvested[DAYS.index(day)].images[tile]

    def name(self, tile: LayerTile, day: str) -> str | None:
        """How the viewer must name that image: by its SHA1. None: there was none."""
        images = self.harvested[DAYS.index(day)].images
        return f"{sha1(images[tile]).hexdigest()}.png" if tile in images else None

    def days_of(self, tile: LayerTile) -> list[str]:
        """The days on which there was another file than on the day before."""
        names = [None, *(self.name(tile, day) for day in DAYS)]
        return [day for day, before, now in zip(DAYS, names, names[1:], strict=False) if before != now]

    def changes(self, tiles: Iterable[LayerTile]) -> dict[str, int]:
        """How many of the tiles changed on each day, where any did."""
        changed = [day for tile in tiles for day in self.days_of(tile)]
        return {day: changed.count(day) for day in DAYS if day in changed}


def tile(zoom: int, x: int, y: int) -> LayerTile:
    """A tile of the shared maps' only layer."""
    return LayerTile(LAYER, zoom, x, y)


def around(middle: LayerTile) -> list[LayerTile]:
    """All tiles that a page of 1280 x 800 shows with a tile of zoom 0 in the middle, existing or not."""
    return [tile(0, middle.x + right, middle.y + up) for right in (-4, -2, 0, 2, 4) for up in (-2, 0, 2)]


COAST: Final = tile(0, 83, -21)
"""Transparent at first; land came on the second day, and sea on the last. On the third nothing changed."""
SHORE: Final = tile(0, 81, -21)
"""To the left of it, and changed on the same days."""


@cache
def viewed_project(shared_maps: Path, below: Path) -> Project:
    """All these maps in one history, in a folder below `below`; once, however many ask. Read only."""

    def harvested(folder: Path) -> Project:
        project, site = Project(folder), folder / "site-growing"
        project.adopt(harvested_antworld(shared_maps, below)[-1].data)
        project.add_map(ANTWORLD, LIVE, note=NOTE)
        with nginx(published(shared_maps, "alexjj", 1, site)) as server:
            project.add_map(GROWING, server.url)
            project.crawl(GROWING, BEFORE_GROWTH)
            published(shared_maps, "alexjj", 2, site)
            project.crawl(GROWING, AFTER_GROWTH)
        with nginx(published(shared_maps, ANTWORLD, len(DAYS), folder / "site-deep")) as server:
            project.add_map(DEEP, server.url, zooms=[-1, 0])
            project.crawl(DEEP, DAYS[-1])
        project.add_map(NEVER, "https://never.example.net/")
        return project

    return made_once(below / "viewed", harvested)


def world_with_an_area(folder: Path) -> World:
    """A map with an area whose upper left quarter turns blue, and one without areas."""
    world = World(folder)
    tiles = square(0, 8, bottom=-8)
    world.harvest(FIRST, dict.fromkeys(tiles, picture(GREEN, 64)), described=IN_BLOCKS)
    world.harvest(SECOND, {tiles[7]: picture(BLUE, 64)}, described=IN_BLOCKS)
    world.harvest(FIRST, dict.fromkeys(tiles, picture(GREEN, 64)), name="plain", described=IN_BLOCKS)
    base = NamedArea(name="my base & 农场", layer=DAY_LAYER, corners=((0, 0), (31, 31)))
    add_area(world.data / "areas.toml", MAP, base)
    return world
