"""The renderers that are read here, and which of them has drawn a site."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileharvest.errors import ConfigurationError, SiteError, nearest
from tileharvest.renderers.mapcrafter import Mapcrafter
from tileharvest.renderers.overviewer import Overviewer
from tileharvest.renderers.site import UnrecognisedError
from tileharvest.renderers.unmined import Unmined

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileharvest.maps.description import MapDescription
    from tileharvest.renderers.port import Renderer
    from tileharvest.renderers.site import Fetch, Site

_KNOWN: Final[tuple[Renderer, ...]] = (
    Overviewer(),
    Mapcrafter(),
    Unmined(),
)

RENDERERS: Final[Mapping[str, Renderer]] = {renderer.name: renderer for renderer in _KNOWN}
"""By name, in the order in which people are told of them."""

_OTHERS: Final = (
    # Its page names Pl3xMap too, of which it is a descendant.
    ("squaremap", "squaremap"),
    ("pl3xmap", "Pl3xMap"),
    ("bluemap", "BlueMap"),
    ("dynmap", "Dynmap"),
)
"""A word that stands, in lower case, in the HTML page of every map of a renderer that is not read here, and
what people call that. The first sign that is found counts. The pages are those of the programs' own
repositories."""


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

    Where it names none, the usual one is tried first, and then the one that the map's page shows. That
    costs a request more. Raises SiteError and ConfigurationError as `Renderer.probe` does.
    """
    if description.renderer:
        return await renderer_named(description.renderer).probe(description, fetch)
    try:
        return await usual.probe(description, fetch)
    except UnrecognisedError as error:
        other = await _recognised(description, fetch, str(error))
        return await other.probe(description, fetch)


async def _recognised(description: MapDescription, fetch: Fetch, found: str) -> Renderer:
    """Returns the renderer whose page is at the map's address. Raises SiteError where it is none of those
    that are read here; `found` says what the usual one has found."""
    named = description.url.partition("#")[0].partition("?")[0]
    # It need not be what its folder shows: that of uNmINeD is `unmined.index.html`.
    answer = await fetch("GET", named if named.endswith((".html", ".htm")) else description.page)
    page = answer.text if answer.status == 200 else ""
    for renderer in _KNOWN:
        if renderer.recognises(page):
            return renderer
    titles = ", ".join(renderer.title for renderer in _KNOWN)
    lower = page.lower()
    other = next((title for sign, title in _OTHERS if sign in lower), None)
    if other is not None:
        raise SiteError(
            f"{description.page} is a map of {other}, and TileHarvest reads those of {titles};"
            " nothing was changed"
        )
    signs = ", ".join(f"{renderer.sign} ({renderer.title})" for renderer in _KNOWN)
    raise SiteError(f"{found}; looked for: {signs}")
