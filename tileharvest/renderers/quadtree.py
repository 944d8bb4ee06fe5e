"""Addresses of quadtrees: a tile's path is a folder for each level, named by a digit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tileharvest.tiles.grid import path_of, tile_at

if TYPE_CHECKING:
    from tileharvest.tiles.grid import Tile


@dataclass(frozen=True, slots=True)
class QuadtreeAddresses:
    """Where Overviewer and Mapcrafter put the tiles of a layer."""

    folder: str
    """What a tile's path is appended to, without a slash at its end."""
    depth: int
    extension: str
    query: str = ""
    """Is appended to every address, such as `?c=1620832981`. It is no part of a tile's identity."""
    first_digit: int = 0
    """Of the four: Overviewer counts from 0, Mapcrafter from 1."""

    def url_of(self, tile: Tile) -> str:
        """Raises ValueError for a tile outside a square of this depth."""
        path = path_of(tile, self.depth, self.first_digit)
        return f"{self.folder}{path}.{self.extension}{self.query}"

    def tile_of(self, url: str) -> Tile | None:
        path, ending = url.partition("?")[0], f".{self.extension}"
        if not (path.startswith(f"{self.folder}/") and path.endswith(ending)):
            return None
        try:
            return tile_at(path[len(self.folder) : -len(ending)], self.depth, self.first_digit)
        except ValueError:
            return None
