"""What a map's site says about itself. Pure values."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urljoin, urlsplit

from tileharvest.tiles.grid import Tile, path_of, tile_at
from tileharvest.tiles.versions import EXTENSIONS

TILE_SIZE = 384
"""Pixels along a tile's edge, where the site does not say: Overviewer has never written another."""

_UNRESERVED_IN_URLS = "%/:?#[]@!$&'()*+,;=~-._"


@dataclass(frozen=True, slots=True)
class SiteLayer:
    """One layer as the site describes it. Raises ValueError for values that no layer can have."""

    name: str
    """Overviewer's `path` of the tileset."""
    depth: int
    """Overviewer's `zoomLevels`; its `maxZoom`, which can be smaller, is only the viewer's."""
    image_extension: str
    folder_url: str
    """What a tile's path is appended to, without a slash at its end."""
    query: str = ""
    """Appended to every tile's address, such as `?c=1620832981`; no part of a tile's identity."""
    overlay: bool = False
    tile_size: int = TILE_SIZE
    """In pixels."""
    world: str | None = None
    north_direction: int = 0
    """0 upper left, 1 upper right, 2 lower right, 3 lower left."""
    spawn: tuple[int, int, int] | None = None
    """Minecraft's x, y (height) and z."""
    background: str | None = None
    """A CSS colour."""
    min_zoom: int = 0
    """The coarsest level that the site's own viewer shows, counted from the whole-map image."""
    rendered: int | None = None
    """When the last render began, in seconds since 1970."""

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"layer '{self.name}' has {self.depth} zoom levels, so no tiles")
        if self.image_extension not in EXTENSIONS:
            raise ValueError(f"layer '{self.name}' has images of the unknown kind '{self.image_extension}'")

    @property
    def host(self) -> str:
        """The host that the tiles are asked of: what a rate is limited for."""
        return urlsplit(self.folder_url).hostname or ""

    def tile_at(self, url: str) -> tuple[str, Tile] | None:
        """The layer's name and the tile that an address of this layer asks for; None for any other."""
        path = url.partition("?")[0].removesuffix(f".{self.image_extension}")
        if not path.startswith(f"{self.folder_url}/"):
            return None
        try:
            return self.name, tile_at(path.removeprefix(self.folder_url), self.depth)
        except ValueError:
            return None

    def tile_url(self, tile: Tile) -> str:
        """The tile's address, as the site's own page asks for it. Raises ValueError outside the layer."""
        return f"{self.folder_url}{path_of(tile, self.depth)}.{self.image_extension}{self.query}"


@dataclass(frozen=True, slots=True)
class Site:
    """A probed site."""

    renderer: str
    layers: tuple[SiteLayer, ...]
    probed: bool = False
    """Whether the depths were found by asking for tiles, because the site has no configuration."""


def folder_url(page: str, base: str, name: str) -> str:
    """Where a layer's tiles lie: base and name are joined letter by letter, as the site's page does,
    and taken relative to the page. Characters that no address may have are percent-encoded.
    """
    return quote(urljoin(page, base + name), safe=_UNRESERVED_IN_URLS)
