"""Addresses with a tile's zoom, column and row as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
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
