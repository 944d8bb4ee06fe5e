"""A probed site, and the programs that draw maps: their names, and how a page shows whose it is. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tileharvest.tiles.layers import Layer

TITLES: Final = {"overviewer": "Minecraft-Overviewer"}
"""What people call the renderers that are read here, by our names."""

_SIGNS: Final = (
    # Its page names Pl3xMap too, of which it is a descendant.
    ("squaremap", "squaremap"),
    ("pl3xmap", "Pl3xMap"),
    ("bluemap", "BlueMap"),
    ("mapcrafter", "Mapcrafter"),
    ("unmined", "uNmINeD"),
    ("dynmap", "Dynmap"),
)
"""A word that stands in the HTML page of every map of a renderer, in lower case, and what people call the
renderer. The first sign that is found counts. The pages are those of the programs' own repositories."""


@dataclass(frozen=True, slots=True)
class Site:
    """The layers of a map's site that the map keeps."""

    renderer: str
    layers: tuple[Layer, ...]
    probed: bool = False
    """Whether the depths were found by asking for tiles, because the site has no configuration."""


def other_renderer(page: str) -> str | None:
    """Returns the name of the renderer whose maps have such an HTML page and are not read here.

    Returns None for a page that shows no sign of one.
    """
    text = page.lower()
    return next((title for sign, title in _SIGNS if sign in text), None)
