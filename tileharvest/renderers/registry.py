"""The registry: all renderers by name, and how to find out which of them has drawn a site."""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote

import msgspec

from tileharvest.errors import ConfigurationError, SiteError, nearest
from tileharvest.renderers.bluemap import BlueMap
from tileharvest.renderers.bounds import read_json
from tileharvest.renderers.dynmap import Dynmap
from tileharvest.renderers.mapcrafter import Mapcrafter
from tileharvest.renderers.overviewer import Overviewer
from tileharvest.renderers.port import Renderer
from tileharvest.renderers.regions import Pl3xMap, Squaremap
from tileharvest.renderers.site import ForbiddenError, UnrecognisedError, fetch_config
from tileharvest.renderers.unmined import Unmined
from tileharvest.renderers.xyz import Xyz, is_plain
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.ground import tiles_at

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator
    from importlib.metadata import EntryPoint

    from tileharvest.maps.description import MapDescription
    from tileharvest.renderers.site import Fetch, Fetched, Site
    from tileharvest.tiles.layers import Layer
    from tileharvest.walk.change_index import ChangeIndex

_KNOWN: Final[tuple[Renderer, ...]] = (
    Overviewer(),
    Mapcrafter(),
    Unmined(),
    Xyz(),
    Dynmap(),
    Squaremap(),
    Pl3xMap(),
    BlueMap(),
)

USUAL: Final = _KNOWN[0]
"""The renderer that is tried first if maps.toml names none."""
ENTRY_POINTS: Final = "tileharvest.renderers"
"""The group of entry points in which other packages name their renderers. `docs/renderers.md` says how."""

_Spot: TypeAlias = tuple[float, float]
"""East and south, in blocks."""
_FARTHEST_MARKER: Final = 29_000_000
"""Blocks from a world's origin within which markers count. squaremap marks the world's border as well, by
default 29,999,984 blocks away."""
_MOST_MARKER_LAYERS: Final = 20

_LOGGER: Final = logging.getLogger(__name__)


def installed(taken: Container[str]) -> Iterator[Renderer]:
    """Yields the renderers of other packages, except for those whose names are `taken`.

    A renderer that cannot be used is left out with a warning in the log. It must not stop the harvests of
    other maps.
    """
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            yield _loaded(entry, taken)
        except Exception as error:  # noqa: BLE001 - whatever a module of others raises
            package = entry.dist.name if entry.dist else "another package"
            _LOGGER.warning("renderer '%s' of %s cannot be used: %s", entry.name, package, error)


def _loaded(entry: EntryPoint, taken: Container[str]) -> Renderer:
    made = entry.load()
    if not (isinstance(made, type) and Renderer in made.__mro__):
        raise TypeError(f"{entry.value} is not a class that inherits tileharvest.renderers.port.Renderer")
    renderer: Renderer = made()
    if renderer.name != entry.name or not re.fullmatch("[a-z0-9]+", entry.name):
        raise ValueError(f"its name is '{renderer.name}'; write that of the entry point, a-z and 0-9 alone")
    if entry.name in taken:
        raise ValueError("there is one of this name")
    return renderer


RENDERERS: Final[dict[str, Renderer]] = {renderer.name: renderer for renderer in _KNOWN}
"""All renderers by name, in the order in which messages name them."""

for _renderer in installed(RENDERERS):
    RENDERERS[_renderer.name] = _renderer


def renderer_named(name: str) -> Renderer:
    """Returns the renderer of this name. Raises ConfigurationError if there is none."""
    try:
        return RENDERERS[name]
    except KeyError:
        hint = nearest(name, RENDERERS, f"there are {', '.join(RENDERERS)}")
        raise ConfigurationError(f"there is no renderer '{name}'; {hint}") from None


def doubt_of(name: str) -> str | None:
    """Returns the renderer's `doubt`. Returns None for a name that only an older history knows."""
    renderer = RENDERERS.get(name)
    return None if renderer is None else renderer.doubt


async def probe(description: MapDescription, fetch: Fetch, usual: Renderer = USUAL) -> Site:
    """Returns what a map's site says, read by the renderer that maps.toml names.

    If maps.toml names none, the entry may show that the map is of plain tiles. If it does not, the usual
    renderer is tried first and then all others in turn, by their configurations. Each costs up to three
    requests.

    Raises SiteError and ConfigurationError as `Renderer.probe` does.
    """
    name = description.renderer or (Xyz.name if is_plain(description) else "")
    if name:
        return await _probed(renderer_named(name), description, fetch)
    fetch_once, failed = _once(fetch), list[SiteError]()
    for renderer in sorted(RENDERERS.values(), key=lambda one: one.name != usual.name):
        try:
            return await _probed(renderer, description, fetch_once)
        except UnrecognisedError:
            continue
        except SiteError as error:
            if renderer.name == usual.name:
                raise
            # It may be another program's file of the same name.
            failed.append(error)
    forbidden = next((one for one in failed if isinstance(one, ForbiddenError)), None)
    if forbidden is not None:
        # Nobody knows whether the map is there, but its owner may allow to look.
        raise forbidden
    signs = ", ".join(f"{renderer.sign} ({renderer.title})" for renderer in RENDERERS.values())
    unread = f"; could not be read: {failed[0]}" if failed else ""
    raise UnrecognisedError(
        f"no map was found at {description.page}: is the address right? If the map has moved, put the"
        f" right url into maps.toml. Looked for: {signs}{unread}"
    )


async def with_indexes(site: Site, fetch: Fetch) -> Site:
    """Returns the site with the change indexes of its layers. An endless layer is also searched from the
    tiles that its index names.

    An index that cannot be read becomes a note, and the harvest does without it.
    """
    renderer, notes, fetch_once = renderer_named(site.renderer), list(site.notes), _once(fetch)
    indexes: dict[str, ChangeIndex] = {}
    layers = {layer.name: layer for layer in site.layers}
    for name, layer in layers.items():
        try:
            index = await renderer.change_index(layer, fetch_once)
        except SiteError as error:
            notes.append(f"layer {name}: its change index cannot be read: {error}")
            continue
        if index is not None:
            indexes[name] = index
            layers[name] = _seeded(layer, (Tile(0, x, y) for x, y, _ in index.tiles))
    return replace(site, layers=tuple(layers.values()), indexes=indexes, notes=tuple(notes))


def _seeded(layer: Layer, tiles: Iterable[Tile]) -> Layer:
    """Returns the layer, which is searched from these tiles, too, if it is endless."""
    pyramid = layer.pyramid
    return replace(layer, pyramid=pyramid.seeded(tiles)) if pyramid.is_endless else layer


async def _probed(renderer: Renderer, description: MapDescription, fetch: Fetch) -> Site:
    """Returns the site as the renderer reads it. An endless layer is also searched from the site's markers,
    because land may lie far from the rest.

    Raises ConfigurationError for keys of maps.toml that are for other renderers: here they would have no
    effect.
    """
    if renderer.name != Xyz.name and (description.bounds or description.site_zooms or description.canvas):
        raise ConfigurationError(
            f"map '{description.name}' has bounds, site_zooms or canvas, which are for {Xyz.title}; of a map"
            f" of {renderer.title} keep a part by zones and zooms"
        )
    site, fetch_once, layers = await renderer.probe(description, fetch), _once(fetch), []
    for layer in site.layers:
        points, pyramid, url = list[_Spot](), layer.pyramid, renderer.markers(layer)
        if pyramid.is_endless and layer.projection is not None and url is not None:
            points = [layer.projection.point_of(*spot) for spot in await marked_places(fetch_once, url)]
        layers.append(_seeded(layer, tiles_at(pyramid.first, points, pyramid.factor)))
    return replace(site, layers=tuple(layers))


def _once(fetch: Fetch) -> Fetch:
    """Returns a function that asks for each address once, because layers may share files."""
    answers: dict[tuple[str, str], Fetched] = {}

    async def fetch_once(method: str, url: str) -> Fetched:
        if (method, url) not in answers:
            answers[method, url] = await fetch(method, url)
        return answers[method, url]

    return fetch_once


async def marked_places(fetch: Fetch, url: str) -> list[_Spot]:
    """Returns the places that a file of markers names, and none if there is no such file.

    Pl3xMap's file lists its layers of markers by their keys, each of which has a file of its own.
    """
    content = await _read_markers(fetch, url)
    places = list(spots(content))
    for one in content[:_MOST_MARKER_LAYERS] if isinstance(content, list) else ():
        if isinstance(one, dict) and isinstance(key := one.get("key"), str):
            places += spots(await _read_markers(fetch, f"{url.removesuffix('.json')}/{quote(key)}.json"))
    return places


async def _read_markers(fetch: Fetch, url: str) -> Any:
    """Returns the content of a file, or None if it cannot be read."""
    with suppress(SiteError, msgspec.DecodeError, ValueError, RecursionError):
        answer = await fetch_config(fetch, url)
        return None if answer is None else read_json(answer.body)
    return None


def spots(value: Any) -> Iterator[_Spot]:
    """Yields all places within the content of a file of markers.

    Renderers write markers in different forms. But all of them write a place as an object with `x` and `z`,
    and Dynmap writes the corners of an area as one list of each.
    """
    if isinstance(value, dict):
        x, z = value.get("x"), value.get("z")
        pairs: Iterable[tuple[Any, Any]] = [(x, z)]
        if isinstance(x, list) and isinstance(z, list):
            pairs = zip(x, z, strict=False)
        for pair in pairs:
            if all(isinstance(one, (int, float)) and abs(one) <= _FARTHEST_MARKER for one in pair):
                yield pair
        value = list(value.values())
    for one in value if isinstance(value, list) else ():
        yield from spots(one)
