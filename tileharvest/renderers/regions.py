"""Maps whose deepest tiles are region files of the world: what squaremap and Pl3xMap have in common.

squaremap began as a copy of Pl3xMap. Both draw 512 x 512 blocks into a tile of as many pixels, name the tile
by column and row, keep their settings beside the tiles, and bring the same small server. Neither says how far
its map reaches.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeAlias
from urllib.parse import quote

import msgspec

from tileharvest.renderers.bounds import MOST_LAYERS, Whole, converted, read_json
from tileharvest.renderers.columns import ColumnAddresses
from tileharvest.renderers.markers import read_markers, spots
from tileharvest.renderers.port import Renderer
from tileharvest.renderers.site import (
    ReadLayers,
    as_written,
    fetch_config,
    not_found,
    require_layers,
    site_of,
)
from tileharvest.tiles.ground import tiles_around
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.projection import Projection
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.verdict import Answer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tileharvest.maps.description import MapDescription
    from tileharvest.renderers.markers import Spot
    from tileharvest.renderers.site import Fetch, Fetched, Site
    from tileharvest.tiles.grid import Tile

SETTINGS_FILE: Final = "tiles/settings.json"
REGION: Final = 512
"""Pixels along a tile's edge, and blocks along the edge of a deepest tile: there a block is a pixel."""
MOST_LEVELS: Final = 16
"""The most levels. A tile of the sixteenth is 17 million blocks wide, and a world ends 30 million blocks from
its origin."""
STRIDE: Final = 2
"""How far from an existing coarsest tile others are looked for. A real map had the tile (-3, -2), and all its
other tiles lay around (0, 0), with one empty place between."""
BLOCKS: Final = Projection.from_above(REGION)
Worlds: TypeAlias = Annotated[list[Any], msgspec.Meta(max_length=MOST_LAYERS)]
"""The worlds of a settings file, each to be read by itself."""

_EDGE: Final = 30_000_000
"""Blocks from a world's origin to its end."""
_MOST_MARKER_LAYERS: Final = 20
_ATTEMPTS: Final = 3
"""How often to read a file that its renderer may just be writing."""


class Place(msgspec.Struct, frozen=True):
    """A column of blocks, as the settings of a world write it."""

    x: Annotated[int, msgspec.Meta(ge=-_EDGE, le=_EDGE)] = 0
    z: Annotated[int, msgspec.Meta(ge=-_EDGE, le=_EDGE)] = 0


@dataclass(frozen=True, slots=True)
class RegionWorld:
    """A world that a map's settings name."""

    name: str
    """The world's name, which is also that of its folder."""
    forms: Mapping[str, str]
    """By layer the form of its tiles' addresses, below the world's folder."""
    order: int = 0
    """The world's place in the menu."""
    extension: str = "png"


class _Zoom(msgspec.Struct, rename="camel"):
    """The zooms of a world. squaremap counts from the coarsest level and names the deepest; Pl3xMap counts
    from the deepest level and names the coarsest."""

    max: Whole | None = None
    max_out: Whole | None = None


class _WorldSettings(msgspec.Struct):
    zoom: _Zoom
    spawn: Place = Place()
    center: Place = Place()

    @property
    def depth(self) -> int:
        last = self.zoom.max_out if self.zoom.max is None else self.zoom.max
        if last is None:
            raise ValueError("it names no last zoom")
        return last + 1


class RegionRenderer(Renderer):
    """A renderer of such maps.

    When the renderer saves a region, it writes the tiles of all levels, the deepest first. So no parent is
    older than a tile below it.
    """

    files = (SETTINGS_FILE,)
    doubt = None
    settings: ClassVar[type[Any]]
    """The form of the settings file. Its field `worlds` is the list of worlds as the file has them, or None
    if another program has written the file."""
    step: ClassVar[int]
    """What the site's number of a level gains from one level to the next deeper one: 1 or -1. The least
    number is 0."""

    def world(self, said: Any, settings: Any) -> RegionWorld:
        """Returns one of the worlds that the settings list. Raises ValueError for one that is not as it
        should be."""
        raise NotImplementedError

    async def probe(self, description: MapDescription, fetch: Fetch) -> Site:
        """Returns the layers of all worlds that the map keeps.

        It asks only for the settings of worlds of which the map keeps a layer. A world without settings of
        its own is left out.
        """
        url = description.page + SETTINGS_FILE
        layers, found = ReadLayers(url, self.title), await fetch_settings(fetch, url)
        settings = None
        if found is not None:
            with as_written(url, self.title):
                settings = converted(read_json(found.body), self.settings)
        if found is None or settings is None or settings.worlds is None:
            raise not_found(f"there is no {url} that names the worlds of {self.title}")
        worlds: list[RegionWorld] = []
        for said in settings.worlds:
            with layers.reading(said.get("name") if isinstance(said, dict) else said):
                worlds.append(self.world(said, settings))
        worlds.sort(key=lambda world: (world.order, world.name))
        require_layers(description, [name for world in worlds for name in world.forms], layers.refused)
        for world in worlds:
            if not description.layers or not world.forms.keys().isdisjoint(description.layers):
                folder = f"{found.folder}{quote(world.name)}"
                its_url = f"{folder}/settings.json"
                own = await fetch_settings(fetch, its_url)
                if own is None:
                    continue
                for name in world.forms:
                    with layers.reading(name, its_url):
                        its = converted(read_json(own.body), _WorldSettings)
                        layers.append(self._layer(name, world, its, folder))
        return site_of(self.name, description, layers, url)

    async def spots(self, layer: Layer, fetch: Fetch) -> Iterable[Spot]:
        """squaremap writes all markers into one file. Pl3xMap lists its layers of markers there, and writes a
        file for each."""
        folder = layer.addresses.folder
        listed = await read_markers(fetch, f"{folder}/markers.json")
        found = list(spots(listed))
        for one in listed[:_MOST_MARKER_LAYERS] if self.step < 0 and isinstance(listed, list) else ():
            if isinstance(one, dict) and isinstance(key := one.get("key"), str):
                found += spots(await read_markers(fetch, f"{folder}/markers/{quote(key)}.json"))
        return found

    def understood(self, answer: Answer, tile: Tile) -> Answer:
        """Returns 404 for a tile that the renderer's own server lacks, and any other answer as it is.

        For a missing image that server answers 200 with an empty body and without an ETag
        (`IntegratedServer.java` of squaremap, `HttpdServer.java` of Pl3xMap). An image that is there has an
        ETag, even an empty image.
        """
        is_missing = answer.status == 200 and answer.length == 0 and answer.validator.etag is None
        return Answer(404) if is_missing else answer

    def _layer(self, name: str, world: RegionWorld, settings: _WorldSettings, folder: str) -> Layer:
        depth, spawn = settings.depth, settings.spawn
        form = f"{world.forms[name]}.{world.extension}"
        return Layer(
            name=name,
            pyramid=endless_pyramid(depth, [spawn, settings.center]),
            image_extension="jpg" if world.extension == "jpeg" else world.extension,
            addresses=ColumnAddresses(folder, form, depth, depth - 1 if self.step > 0 else 0, self.step),
            tile_size=(REGION, REGION),
            world=world.name,
            projection=BLOCKS,
            spawn=(spawn.x, round(BLOCKS.height), spawn.z),
        )


def endless_pyramid(levels: int, places: Iterable[Place]) -> Pyramid:
    """Returns the form of a map that is searched outward from these places, and from the world's origin.

    Nobody says where the map's first land lies. So the coarsest tiles that show one of the places, the four
    that meet at the origin, and all around these are asked in any case. Raises ValueError for too many
    levels.
    """
    if not 1 <= levels <= MOST_LEVELS:
        raise ValueError(f"a map of {levels} zoom levels, where 1 to {MOST_LEVELS} can be")
    points = [(x, y) for x in (-1.0, 1.0) for y in (-1.0, 1.0)]
    points += [BLOCKS.point_of(place.x, place.z) for place in places]
    return Pyramid.endless(levels, tiles_around(1 - levels, points), stride=STRIDE)


async def fetch_settings(fetch: Fetch, url: str) -> Fetched | None:
    """Returns the answer with a settings file, or None if there is no such file.

    Pl3xMap writes its files anew each second, and in place (`FileUtil.java`). So a file that is cut off is
    asked for again. After the last attempt it is returned as it is.
    """
    answer = None
    for _ in range(_ATTEMPTS):
        answer = await fetch_config(fetch, url)
        if answer is None:
            break
        with suppress(msgspec.DecodeError, ValueError, RecursionError):
            read_json(answer.body)
            break
    return answer
