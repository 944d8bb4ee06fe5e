"""The renderers that are read here, and which of them has drawn a site."""

from __future__ import annotations

import logging
import re
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from tileharvest.errors import ConfigurationError, SiteError, nearest
from tileharvest.renderers.bluemap import BlueMap
from tileharvest.renderers.dynmap import Dynmap
from tileharvest.renderers.mapcrafter import Mapcrafter
from tileharvest.renderers.overviewer import Overviewer
from tileharvest.renderers.pl3xmap import Pl3xMap
from tileharvest.renderers.port import Renderer
from tileharvest.renderers.site import UnrecognisedError
from tileharvest.renderers.squaremap import Squaremap
from tileharvest.renderers.unmined import Unmined
from tileharvest.renderers.xyz import Xyz, is_plain

if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from importlib.metadata import EntryPoint

    from tileharvest.maps.description import MapDescription
    from tileharvest.renderers.site import Fetch, Site

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

ENTRY_POINTS: Final = "tileharvest.renderers"
"""The group in which other packages name their renderers. `docs/renderers.md` tells how."""

_LOGGER: Final = logging.getLogger(__name__)


def installed(taken: Container[str]) -> Iterator[Renderer]:
    """Yields the renderers of other packages, but for those whose names are taken.

    One that cannot be used is told in the log, and left out: it must not stop the harvests of other maps.
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
        raise TypeError(f"{entry.value} is no class that inherits tileharvest.renderers.port.Renderer")
    renderer: Renderer = made()
    if renderer.name != entry.name or not re.fullmatch("[a-z0-9]+", entry.name):
        raise ValueError(f"its name is '{renderer.name}'; write that of the entry point, a-z and 0-9 alone")
    if entry.name in taken:
        raise ValueError("there is one of this name")
    return renderer


RENDERERS: Final[dict[str, Renderer]] = {renderer.name: renderer for renderer in _KNOWN}
"""By name, in the order in which people are told of them."""

for _renderer in installed(RENDERERS):
    RENDERERS[_renderer.name] = _renderer


def renderer_named(name: str) -> Renderer:
    """Raises ConfigurationError for a name that no renderer has."""
    try:
        return RENDERERS[name]
    except KeyError:
        hint = nearest(name, RENDERERS, f"there are {', '.join(RENDERERS)}")
        raise ConfigurationError(f"there is no renderer '{name}'; {hint}") from None


def doubt_of(name: str) -> str | None:
    """Returns `Renderer.doubt`, or None for a renderer that only an older history knows."""
    renderer = RENDERERS.get(name)
    return None if renderer is None else renderer.doubt


async def probe(description: MapDescription, fetch: Fetch, usual: Renderer = _KNOWN[0]) -> Site:
    """Returns what a map's site says, read as the renderer wants it that maps.toml names.

    Where it names none, its entry may show that it is of plain tiles. Else the usual one is tried first,
    and then the one that the map's page shows. That costs a request more. Raises SiteError and
    ConfigurationError as `Renderer.probe` does.
    """
    name = description.renderer or (Xyz.name if is_plain(description) else "")
    if name:
        return await _probed(renderer_named(name), description, fetch)
    try:
        return await _probed(usual, description, fetch)
    except UnrecognisedError as error:
        other = await _recognised(description, fetch, str(error))
        return await _probed(other, description, fetch)


async def _probed(renderer: Renderer, description: MapDescription, fetch: Fetch) -> Site:
    """Returns what the renderer reads. Raises ConfigurationError for keys that only plain tiles have: of
    another map they would limit nothing."""
    if renderer.name != Xyz.name and (description.bounds or description.site_zooms):
        raise ConfigurationError(
            f"map '{description.name}' has bounds or site_zooms, which are for {Xyz.title}; of a map of"
            f" {renderer.title} keep a part by zones and zooms"
        )
    return await renderer.probe(description, fetch)


async def _recognised(description: MapDescription, fetch: Fetch, found: str) -> Renderer:
    """Returns the renderer whose page is at the map's address. Raises SiteError where it is none of those
    that are read here; `found` says what the usual one has found."""
    named = description.url.partition("#")[0].partition("?")[0]
    # It need not be what its folder shows: that of uNmINeD is `unmined.index.html`.
    answer = await fetch("GET", named if named.endswith((".html", ".htm")) else description.page)
    page = answer.text if answer.status == 200 else ""
    for renderer in RENDERERS.values():
        if renderer.recognises(page):
            return renderer
    signs = ", ".join(f"{renderer.sign} ({renderer.title})" for renderer in RENDERERS.values())
    raise SiteError(f"{found}; looked for: {signs}")
