"""Addresses of quadtrees: a tile's path has a folder for each level, named by a digit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tileharvest.tiles.grid import path_of, tile_at

if TYPE_CHECKING:
    from tileharvest.tiles.grid import Tile


@dataclass(frozen=True, slots=True)
class QuadtreeAddresses:
    """The addresses of a layer of Overviewer or Mapcrafter."""

    folder: str
    """The address to which a tile's path is appended, without a slash at its end."""
    depth: int
    extension: str
    query: str = ""
    """The end of every address, such as `?c=1620832981`. It changes, and is no part of a tile's identity."""
    first_digit: int = 0
    """The first of the four digits: 0 for Overviewer, 1 for Mapcrafter."""

    @property
    def whole_map(self) -> str:
        """The address of the image of the whole map, which is no tile: it has no place that stays."""
        return f"{self.folder}/base.{self.extension}{self.query}"

    def url_of(self, tile: Tile) -> str:
        """Returns the tile's address. Raises ValueError for a tile outside of a square of this depth."""
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
