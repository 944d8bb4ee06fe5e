"""Addresses with a tile's zoom, column and row as numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from tileharvest.tiles.grid import Tile

_NUMBER = r"-?\d{1,9}"


@dataclass(frozen=True, slots=True)
class ColumnAddresses:
    """The addresses of a layer whose columns and rows are counted from the world's origin."""

    folder: str
    """The beginning of all addresses, without a slash at its end."""
    form: str
    """The rest of each address, such as `/{zoom}/{x}_{y}.png`, with the site's number of the zoom, the column
    and the row."""
    depth: int
    deepest: int = 0
    """The site's number of the deepest zoom."""
    step: int = -1
    """How much the site's number of a zoom grows from one zoom to the next deeper one: 1, or -1 if its
    deepest zoom is 0."""

    def url_of(self, tile: Tile) -> str:
        """Returns the tile's address. Raises ValueError for a tile of a coarser zoom than the map has."""
        if tile.zoom <= -self.depth:
            raise ValueError(f"tile {tile} is coarser than a map of {self.depth} levels has any")
        number = self.deepest + self.step * tile.zoom
        return self.folder + self.form.format(zoom=number, x=tile.column, y=tile.row)

    def tile_of(self, url: str) -> Tile | None:
        path = url.partition("?")[0]
        if not path.startswith(self.folder):
            return None
        found = _pattern(self.form).fullmatch(path, len(self.folder))
        zoom = self.step * (int(found["zoom"]) - self.deepest) if found else 1
        if found is None or not -self.depth < zoom <= 0:
            # Images of coarser levels are left over from settings that the owner has since changed.
            return None
        tile = Tile.at(zoom, int(found["x"]), int(found["y"]))
        # A number has one writing: no zeros before it, and no -0.
        return tile if self.url_of(tile) == path else None


@cache
def _pattern(form: str) -> re.Pattern[str]:
    literal = re.split(r"\{(\w+)\}", form)
    parts = [f"(?P<{part}>{_NUMBER})" if odd % 2 else re.escape(part) for odd, part in enumerate(literal)]
    return re.compile("".join(parts), re.ASCII)
