"""A layer of a map: what its site says about it, from the probe to the history. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from tileharvest.tiles.grid import Tile, path_of, tile_at
from tileharvest.tiles.versions import EXTENSIONS

TILE_SIZE: Final = 384
"""Pixels along a tile's edge, where the site does not say: Overviewer has never written another."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer as its site describes it on one day. Raises ValueError for values that no layer can have.

    The history keeps everything but `folder_url`, `query`, `overlay` and `min_zoom`. A layer that was read
    from the history has the defaults there, so it has no addresses.
    """

    name: str
    """Overviewer's `path` of the tileset."""
    depth: int
    """At least 1. Overviewer's `zoomLevels`; its `maxZoom`, which can be smaller, is only the viewer's."""
    image_extension: str
    folder_url: str = ""
    """What a tile's path is appended to, without a slash at its end."""
    query: str = ""
    """Is appended to every tile's address, such as `?c=1620832981`. It is no part of a tile's identity."""
    overlay: bool = False
    tile_size: int = TILE_SIZE
    """Width and height of an image in pixels."""
    world: str | None = None
    north_direction: int = 0
    """Quarter turns, as Overviewer counts them: 0 is north at the upper left, 1 at the upper right, 2 at the
    lower right, 3 at the lower left."""
    spawn: tuple[int, int, int] | None = None
    """Minecraft's x, y (height) and z in blocks."""
    background: str | None = None
    """A CSS colour, as the site writes it."""
    min_zoom: int = 0
    """The coarsest level that the site's own viewer shows, counted from the whole-map image."""
    rendered: int | None = None
    """When the last render began, in seconds since 1970."""

    host: str = field(init=False, repr=False, compare=False)
    """The host that the tiles are asked of: what a rate is limited for."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "host", urlsplit(self.folder_url).hostname or "")
        if not self.name:
            raise ValueError("a layer has no name")
        if self.depth < 1:
            raise ValueError(f"layer '{self.name}' has {self.depth} zoom levels, so no tiles")
        if self.image_extension not in EXTENSIONS:
            raise ValueError(f"layer '{self.name}' has images of the unknown kind '{self.image_extension}'")
        if self.tile_size < 1:
            raise ValueError(f"layer '{self.name}' has tiles of {self.tile_size} pixels")
        if self.north_direction not in range(4):
            raise ValueError(f"layer '{self.name}' has north direction {self.north_direction}, not 0 to 3")

    def tile_at(self, url: str) -> tuple[str, Tile] | None:
        """Returns the layer's name and the tile that an address of this layer asks for.

        Returns None for any other address.
        """
        path = url.partition("?")[0].removesuffix(f".{self.image_extension}")
        if not path.startswith(f"{self.folder_url}/"):
            return None
        try:
            return self.name, tile_at(path.removeprefix(self.folder_url), self.depth)
        except ValueError:
            return None

    def tile_url(self, tile: Tile) -> str:
        """Returns the tile's address, as the site's page asks for it. Raises ValueError outside the layer."""
        return f"{self.folder_url}{path_of(tile, self.depth)}.{self.image_extension}{self.query}"
