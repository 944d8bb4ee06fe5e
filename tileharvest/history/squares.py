"""Many tiles of one layer, asked what lies below them. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

Place: TypeAlias = tuple[int, int, int]
"""Zoom, x and y of a tile, as a row has them: to make a `Tile` of each takes longer than all the rest."""


class Squares:
    """What some tiles cover."""

    def __init__(self, tops: Iterable[Place]) -> None:
        by_zoom: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)
        for zoom, x, y in tops:
            by_zoom[zoom].add((x >> 1 - zoom, y >> 1 - zoom))
        self._by_zoom = [(zoom, 1 - zoom, cells) for zoom, cells in sorted(by_zoom.items())]

    def __bool__(self) -> bool:
        return bool(self._by_zoom)

    def cover(self, place: Place) -> bool:
        """Whether the tile lies below one of them; none lies below itself. A step for each of their zooms."""
        zoom, x, y = place
        for top, bits, cells in self._by_zoom:
            if top >= zoom:
                return False
            # As wide as a tile of the coarser zoom; shifting rounds downwards on both sides of 0.
            if (x >> bits, y >> bits) in cells:
                return True
        return False


def above(tiles: Iterable[Place], coarsest: int) -> set[Place]:
    """Everything that covers one of the tiles, up to a zoom; a tile itself only where it covers another."""
    found: set[Place] = set()
    for zoom, x, y in tiles:
        while zoom > coarsest:
            bits, reach = 2 - zoom, 2 << -zoom
            zoom, x, y = zoom - 1, (x >> bits << bits) + reach, (y >> bits << bits) + reach  # noqa: PLW2901
            if (zoom, x, y) in found:
                break
            found.add((zoom, x, y))
    return found
