"""Mapcrafter's sites: `config.js` of version 2, and what version 1 wrote into its page and beside its tiles.

Names and formulas follow Mapcrafter's own page (`src/data/template/static/js/mapcrafterui.js` of its source).
"""

from __future__ import annotations

from configparser import ConfigParser
from configparser import Error as IniError
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tileharvest.errors import SiteError
from tileharvest.renderers.port import Renderer
from tileharvest.renderers.quadtree import QuadtreeAddresses
from tileharvest.renderers.site import Site, as_written, fetch_config, kept_layers, not_found, parse_script
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.projection import Projection
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.walk.change_index import ChangeIndex

if TYPE_CHECKING:
    from tileharvest.maps.description import MapDescription
    from tileharvest.renderers.site import Fetch

CONFIG_FILE: Final = "config.js"
SETTINGS_FILE: Final = "map.settings"
_VARIABLE: Final = "var CONFIG"
_ROTATIONS: Final = ("tl", "tr", "br", "bl")
"""Folders of the four rotations, by quarter turns. They are named by the corner in which north is."""
_REGION: Final = 512
"""Blocks along the edge of the square that is turned."""
_HEIGHT: Final = 256
"""Blocks, from which an isometric map counts downwards. A side view begins two below."""


class _Map(msgspec.Struct, rename="camel"):
    image_format: str
    max_zoom: int
    rotations: list[int]
    tile_size: int | tuple[int, int]
    texture_size: int
    render_view: str = "isometric"
    """Version 1 knew no other view."""
    tile_set_group: str | None = None
    tile_offsets: list[tuple[int, int]] = []
    last_rendered: list[int] = []
    world: str | None = None


class _Group(msgspec.Struct, rename="camel"):
    tile_offsets: list[tuple[int, int]] = []
    tile_width: int = 1


class _Config(msgspec.Struct, rename="camel"):
    maps: dict[str, _Map]
    tile_set_groups: dict[str, _Group] = {}
    maps_order: list[str] = []


class Mapcrafter(Renderer):
    """Mapcrafter. Its sites are static files, and it draws every parent of a changed tile after its children
    (`tilerenderworker.cpp`)."""

    name = "mapcrafter"
    title = "Mapcrafter"
    files = (CONFIG_FILE, SETTINGS_FILE, "index.html")
    sign = f"{CONFIG_FILE} or index.html with '{_VARIABLE}'"
    doubt = None

    def recognises(self, page: str) -> bool:
        return "mapcrafter" in page.lower()

    async def probe(self, description: MapDescription, fetch: Fetch) -> Site:
        """Returns the rotations of all maps, each a layer such as `map_world/tl`.

        Where neither `config.js` nor the page names them, `map.settings` is looked for beside the tiles. That
        takes names of layers.
        """
        page = description.page
        for url in (page + CONFIG_FILE, page):
            answer = await fetch_config(fetch, url)
            if answer is not None and _VARIABLE in answer.text:
                layers = parse_config(answer.text, answer.folder, url)
                return Site(self.name, kept_layers(description, layers, url))
        found: list[Layer] = []
        for name in dict.fromkeys(name.partition("/")[0] for name in description.layers):
            url = f"{page}{name}/{SETTINGS_FILE}"
            answer = await fetch_config(fetch, url)
            if answer is not None:
                found += parse_settings(answer.text, page, name)
        if not found:
            raise not_found(f"neither {page}{CONFIG_FILE} nor {page} names the maps of Mapcrafter")
        return Site(self.name, kept_layers(description, found, page))

    async def change_index(self, layer: Layer, fetch: Fetch) -> ChangeIndex | None:
        """Returns when the rotation was rendered last. Version 1 says it in `map.settings` alone."""
        if layer.stamp is not None:
            return ChangeIndex(layer.stamp)
        folder = layer.addresses.folder.rpartition("/")[0]
        page, _, name = folder.rpartition("/")
        answer = await fetch_config(fetch, f"{folder}/{SETTINGS_FILE}")
        if answer is None:
            return None
        layers = parse_settings(answer.text, f"{page}/", name)
        stamps = (one.stamp for one in layers if one.addresses.folder == layer.addresses.folder)
        stamp = next(stamps, None)
        return None if stamp is None else ChangeIndex(stamp)


def parse_config(text: str, page: str, url: str) -> tuple[Layer, ...]:
    """Returns all layers that a `config.js`, or the page of version 1, names. `url` is its address.

    What has no zoom below its whole-map image is left out: it was never rendered. Raises SiteError that says
    what is wrong.
    """
    with as_written(url, "Mapcrafter"):
        read = parse_script(text, _VARIABLE)
        # Version 1 has the maps alone, by name.
        config = msgspec.convert(read if "maps" in read else {"maps": read}, _Config)
        order = [*dict.fromkeys([*config.maps_order, *config.maps])]
        found = [_layers(name, config.maps[name], config, page) for name in order if name in config.maps]
        return tuple(layer for layers in found for layer in layers)


def parse_settings(text: str, page: str, name: str) -> tuple[Layer, ...]:
    """Returns the layers of a map of version 1 from its `map.settings`. Raises SiteError."""
    settings = ConfigParser(interpolation=None)
    url = f"{page}{name}/{SETTINGS_FILE}"
    try:
        settings.read_string(f"[map]\n{text}")
        own: dict[str, Any] = dict(settings["map"])
        texture = int(own["texture_size"])
        offsets = [(0, 0)] * len(_ROTATIONS)
        rendered, rotations = [0] * len(_ROTATIONS), []
        for turns, folder in enumerate(_ROTATIONS):
            if (section := f"rotation:{folder}") in settings:
                its = settings[section]
                rotations.append(turns)
                offsets[turns] = (int(its["tile_offset_x"]), int(its["tile_offset_y"]))
                rendered[turns] = int(its["last_render"])
        described = _Map(
            image_format={"jpeg": "jpg"}.get(own["image_format"], own["image_format"]),
            max_zoom=int(own["max_zoom"]),
            rotations=rotations,
            # A tile of version 1 has the 32 columns of four chunks.
            tile_size=(32 * texture, 32 * texture),
            texture_size=texture,
            tile_offsets=offsets,
            last_rendered=rendered,
        )
        return _layers(name, described, _Config({name: described}), page)
    except (IniError, KeyError, ValueError) as error:
        raise SiteError(f"{url} is not as Mapcrafter writes it: {error}") from None


def _layers(name: str, described: _Map, config: _Config, page: str) -> tuple[Layer, ...]:
    depth, extension = described.max_zoom, described.image_format
    if depth < 1:
        return ()
    group = config.tile_set_groups.get(described.tile_set_group or "", _Group(described.tile_offsets))
    size = described.tile_size
    sizes = size if isinstance(size, tuple) else (size, size)
    layers = []
    for turns in described.rotations:
        if turns not in range(len(_ROTATIONS)):
            raise ValueError(f"map '{name}' has a rotation {turns}, which is none of 0 to 3")
        offset = group.tile_offsets[turns] if turns < len(group.tile_offsets) else (0, 0)
        last = described.last_rendered[turns] if turns < len(described.last_rendered) else 0
        folder = f"{name}/{_ROTATIONS[turns]}"
        layers.append(
            Layer(
                name=folder,
                pyramid=Pyramid(depth),
                image_extension="jpg" if extension == "jpeg" else extension,
                addresses=QuadtreeAddresses(f"{page}{folder}", depth, extension, first_digit=1),
                tile_size=sizes,
                world=described.world,
                north_direction=turns,
                projection=_projection(described, group.tile_width, sizes, turns, offset),
                rendered=last or None,
                stamp=f"lastRendered {last}" if last else None,
            )
        )
    return tuple(layers)


def _projection(
    described: _Map, tile_width: int, sizes: tuple[int, int], turns: int, offset: tuple[int, int]
) -> Projection | None:
    """Returns where blocks are drawn, from `mcToLatLng` of Mapcrafter's page, or None for an unknown view.

    The world is turned, a quarter each time, so that (x, z) comes to lie at (512 - z, x). A side view shows
    the tops and the southern sides of blocks, both equally high.
    """
    turned_x, turned_z = (1, 0, 0), (0, 1, 0)
    for _ in range(turns):
        (xe, xs, x0), turned_z = turned_z, turned_x
        turned_x = (-xe, -xs, _REGION - x0)
    (xe, xs, x0), (ze, zs, z0) = turned_x, turned_z
    left, top = 2 * offset[0], 2 * offset[1]
    if described.render_view == "topdown":
        block = 2 / (16 * tile_width)
        return Projection(
            (block * xe, 0, block * xs, block * x0 - left), (-block * ze, 0, -block * zs, top - block * z0)
        )
    if described.render_view == "side":
        block = 2 / (16 * tile_width)
        return Projection(
            (block * xe, 0, block * xs, block * x0 - left),
            (-block * ze, block, -block * zs, top - block * (z0 + _HEIGHT - 2)),
        )
    if described.render_view != "isometric":
        return None
    across, down = (2 * described.texture_size / sizes[0], described.texture_size / sizes[1])
    return Projection(
        (across * (xe + ze), 0, across * (xs + zs), across * (x0 + z0 - 16) - left),
        (down * (xe - ze), 2 * down, down * (xs - zs), down * (x0 - z0 - 2 * _HEIGHT) + top),
    )
