"""Addresses of tiles: by a template, and of renderers with a form of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileharvest.maps.template import Template


@dataclass(frozen=True, slots=True)
class TemplateAddresses:
    """The addresses of a layer by their template."""

    template: Template
    depth: int
    deepest: int = 0
    """The site's number of the deepest zoom."""
    step: int = 1
    """How much the site's number of a zoom grows from one zoom to the next deeper one: 1, or -1 if its
    deepest zoom is 0."""

    @property
    def folder(self) -> str:
        return self.template.page[:-1]

    def url_of(self, tile: Tile) -> str:
        """Returns the tile's address. Raises ValueError for a tile of a coarser zoom than the layer has."""
        if tile.zoom <= -self.depth:
            raise ValueError(f"tile {tile} is coarser than a layer of {self.depth} levels has any")
        return self.template.url(self.deepest + self.step * tile.zoom, tile.column, tile.row)

    def tile_of(self, url: str) -> Tile | None:
        place = self.template.place(url)
        if place is None:
            return None
        zoom, column, row = place
        zoom = 0 if self.template.is_flat else self.step * (zoom - self.deepest)
        # Images of coarser zooms are left over from settings that the owner has since changed.
        return Tile.at(zoom, column, row) if -self.depth < zoom <= 0 else None


@dataclass(frozen=True, slots=True)
class PathAddresses:
    """The addresses of a renderer that writes a tile's path in a form of its own."""

    folder: str
    """The address to which a tile's path is appended, without a slash at its end."""
    depth: int
    extension: str
    """The ending of the images as the site writes it, such as `jpeg`."""
    write: Callable[[Tile, int], str]
    """Returns a tile's path in a layer of this depth, without the ending. Raises ValueError for a tile that
    has none."""
    read: Callable[[str, int], Tile | None]
    """Returns the tile of a path. Returns None, or raises ValueError, for any other text."""
    query: str = ""
    """The end of every address, such as `?c=1620832981`. It changes, and is not part of a tile's identity."""

    @property
    def whole_map(self) -> str:
        """The address of the image above a quadtree's first level. It is not a tile: it has no place that
        stays."""
        return f"{self.folder}/base.{self.extension}{self.query}"

    def url_of(self, tile: Tile) -> str:
        """Returns the tile's address. Raises ValueError for a tile of a coarser zoom than the layer has."""
        if tile.zoom <= -self.depth:
            raise ValueError(f"tile {tile} is coarser than a layer of {self.depth} levels has any")
        return f"{self.folder}{self.write(tile, self.depth)}.{self.extension}{self.query}"

    def tile_of(self, url: str) -> Tile | None:
        # The query of a script names the tile. Whatever follows it only keeps caches away.
        address, ending = url.partition("&" if "?" in self.folder else "?")[0], f".{self.extension}"
        if not (address.startswith(self.folder) and address.endswith(ending)):
            return None
        path = address[len(self.folder) : -len(ending)]
        try:
            tile = self.read(path, self.depth)
        except ValueError:
            return None
        # A number can be written in several ways, and a renderer writes one of them.
        is_its = tile is not None and tile.zoom > -self.depth and self.write(tile, self.depth) == path
        return tile if is_its else None
