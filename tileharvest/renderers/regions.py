"""squaremap and Pl3xMap: maps whose deepest tiles are region files of the world.

squaremap began as a copy of Pl3xMap. Both draw 512 x 512 blocks into a tile of as many pixels, name the tile
by column and row, keep their settings beside the tiles, and bring the same small server. Neither says how far
its map reaches. Names follow their sources (`UpdateWorldData.java` and `LayerControl.js` of squaremap,
`UpdateSettingsData.java` and `ReversedZoomTileLayer.ts` of Pl3xMap).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeAlias
from urllib.parse import quote

import msgspec

from tileharvest.maps.template import Template
from tileharvest.renderers.addresses import TemplateAddresses
from tileharvest.renderers.bounds import MOST_LAYERS, Name, Suffix, Whole, converted, flattened, read_json
from tileharvest.renderers.port import Renderer
from tileharvest.renderers.site import ReadLayers, fetch_config, not_found
from tileharvest.tiles.ground import Projection, tiles_around
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.verdict import Answer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileharvest.maps.description import MapDescription
    from tileharvest.renderers.site import Fetch, Fetched, Site

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

_Coordinate: TypeAlias = Annotated[int, msgspec.Meta(ge=-30_000_000, le=30_000_000)]
"""In blocks. A world ends there."""
_ATTEMPTS: Final = 3
"""How often to read a file that its renderer may just be writing."""


class _World(msgspec.Struct):
    name: Name
    """The world's name, which is also that of its folder."""
    order: Whole = 0
    """The world's place in the menu."""
    renderers: Annotated[list[dict[str, Any]], msgspec.Meta(max_length=MOST_LAYERS)] = []
    """The styles of a world of Pl3xMap, which calls them renderers. A style's label is the name of its
    folder. squaremap has one style, without a name."""


_Worlds: TypeAlias = Annotated[list[Any], msgspec.Meta(max_length=MOST_LAYERS)]


class _Settings(msgspec.Struct, rename="camel"):
    """The settings of either renderer. The list that the other one writes is None."""

    worlds: _Worlds | None = None
    world_settings: _Worlds | None = None
    format: Suffix = "png"


class _WorldSettings(msgspec.Struct):
    """The settings of a world. squaremap counts zooms from the coarsest level and names the deepest; Pl3xMap
    counts from the deepest level and names the coarsest."""

    max_zoom: Whole | None = msgspec.field(name="zoom.max", default=None)
    max_out: Whole | None = msgspec.field(name="zoom.maxOut", default=None)
    spawn_x: _Coordinate = msgspec.field(name="spawn.x", default=0)
    spawn_z: _Coordinate = msgspec.field(name="spawn.z", default=0)
    center_x: _Coordinate = msgspec.field(name="center.x", default=0)
    center_z: _Coordinate = msgspec.field(name="center.z", default=0)


class Squaremap(Renderer):
    """squaremap. Each world is a layer, such as `minecraft_overworld`.

    When it saves a region, it writes the tiles of all levels, the deepest first (`Image.java`). So no parent
    is older than a tile below it.
    """

    name = "squaremap"
    title = "squaremap"
    files = (SETTINGS_FILE,)
    sign = f"{SETTINGS_FILE} with 'worlds'"
    doubt = None
    step: ClassVar[int] = 1
    """What the site's number of a level gains from one level to the next deeper one: 1 or -1. The least
    number is 0."""

    async def probe(self, description: MapDescription, fetch: Fetch) -> Site:
        """Pl3xMap writes its files anew each second, and in place (`FileUtil.java`). So a file that is cut
        off is asked for again. After the last attempt it is taken as it is."""

        async def fetch_whole(method: str, url: str) -> Fetched:
            answer = await fetch(method, url)
            for _ in range(_ATTEMPTS - 1):
                with suppress(msgspec.DecodeError, ValueError, RecursionError):
                    if answer.status != 200 or read_json(answer.body) is not None:
                        break
                answer = await fetch(method, url)
            return answer

        return await super().probe(description, fetch_whole)

    async def layers(self, found: Fetched, description: MapDescription, fetch: Fetch) -> ReadLayers:
        """Returns the layers of all worlds, or at least those that the map keeps, for the settings of which
        alone it asks. A world without settings of its own is left out."""
        settings = converted(read_json(found.body), _Settings)
        said = settings.worlds if self.step > 0 else settings.world_settings
        if said is None:
            raise not_found(f"there is no {found.url} that names the worlds of {self.title}")
        layers, worlds = ReadLayers(found.url, self.title), list[_World]()
        for one in said:
            with layers.reading(one.get("name") if isinstance(one, dict) else one):
                worlds.append(converted(one, _World))
        worlds.sort(key=lambda world: (world.order, world.name))
        forms = {world.name: self._forms(world) for world in worlds}
        known = {name for its in forms.values() for name in its}
        wanted = set(description.layers) if known.issuperset(description.layers) else set()
        for world in worlds:
            if not wanted or not wanted.isdisjoint(forms[world.name]):
                folder = f"{found.folder}{quote(world.name)}"
                its_url = f"{folder}/settings.json"
                own = await fetch_config(fetch, its_url)
                if own is None:
                    continue
                for name, form in forms[world.name].items():
                    with layers.reading(name, its_url):
                        its = converted(
                            flattened(read_json(own.body), "zoom", "spawn", "center"), _WorldSettings
                        )
                        template = Template(f"{folder}{form}.{settings.format}")
                        layers.append(self._layer(name, world, its, template))
        return layers

    def markers(self, layer: Layer) -> str | None:
        return f"{layer.addresses.folder}/markers.json"

    def understood(self, answer: Answer) -> Answer:
        """Returns 404 for a tile that the renderer's own server lacks. It answers 200 with an empty body and
        without an ETag (`IntegratedServer.java` of squaremap, `HttpdServer.java` of Pl3xMap). An image that
        is there has an ETag, even an empty one."""
        is_missing = answer.status == 200 and answer.length == 0 and answer.validator.etag is None
        return Answer(404) if is_missing else answer

    def _forms(self, world: _World) -> dict[str, str]:
        """Returns by layer the form of its tiles' addresses, below the world's folder."""
        if self.step > 0:
            return {world.name: "/{z}/{x}_{y}"}
        labels = [converted(style.get("label"), Name) for style in world.renderers]
        return {f"{world.name}/{label}": f"/{{z}}/{quote(label)}/{{x}}_{{y}}" for label in labels}

    def _layer(self, name: str, world: _World, its: _WorldSettings, template: Template) -> Layer:
        last = its.max_out if its.max_zoom is None else its.max_zoom
        if last is None:
            raise ValueError("it names no last zoom")
        depth, extension = last + 1, template.ending
        return Layer(
            name=name,
            pyramid=endless_pyramid(depth, [(its.spawn_x, its.spawn_z), (its.center_x, its.center_z)]),
            image_extension="jpg" if extension == "jpeg" else extension,
            addresses=TemplateAddresses(template, depth, last if self.step > 0 else 0, self.step),
            tile_size=(REGION, REGION),
            world=world.name,
            projection=BLOCKS,
            spawn=(its.spawn_x, round(BLOCKS.height), its.spawn_z),
        )


class Pl3xMap(Squaremap):
    """Pl3xMap. Each renderer of a world is a layer, such as `minecraft-overworld/basic`. Its `TileImage.java`
    writes the tiles, in the same order.

    Pl3xMap writes both settings files anew each second, and the first one names who is online. So the
    validators of these files mean nothing, and the files are read in full each time.
    """

    name = "pl3xmap"
    title = "Pl3xMap"
    sign = f"{SETTINGS_FILE} with 'worldSettings'"
    step = -1


def endless_pyramid(levels: int, places: Iterable[tuple[int, int]]) -> Pyramid:
    """Returns the form of a map that is searched outward from these places, given by x and z, and from the
    world's origin.

    Nobody says where the map's first land lies. So the coarsest tiles that show one of the places, the four
    that meet at the origin, and all around these are asked in any case. Raises ValueError for too many
    levels.
    """
    if not 1 <= levels <= MOST_LEVELS:
        raise ValueError(f"a map of {levels} zoom levels, where 1 to {MOST_LEVELS} can be")
    points = [(x, y) for x in (-1.0, 1.0) for y in (-1.0, 1.0)]
    points += [BLOCKS.point_of(*place) for place in places]
    return Pyramid.endless(levels, tiles_around(1 - levels, points), stride=STRIDE)
