"""The walk: which tiles of a layer a harvest asks for. Pure; the only place that decides it.

A harvest goes down the pyramid from its top: a renderer draws a parent for every tile it has, so where
the parent is missing nothing lies below, and holes, which make up most of a real map's square, are
never visited.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tileharvest.tiles.grid import TileRange, first_level
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from tileharvest.tiles.grid import Tile
    from tileharvest.tiles.zones import Zone

LEVELS_ABOVE: Final = 3
"""Where zones keep deep zooms only: how far above the coarsest kept one the walk starts. One question
there decides about 4^3 = 64 tiles, while starting at the top would spend questions on levels where the
answer is known to be yes."""

_THERE: Final = frozenset(
    {Outcome.IGNORED, Outcome.NOT_MODIFIED, Outcome.UPDATED, Outcome.ADDED, Outcome.REPLACED}
)


@dataclass(frozen=True, slots=True)
class Walk:
    """The walk over one layer. Raises ValueError where it could never ask for a tile that is kept."""

    depth: int
    zooms: tuple[int, int] | None = None
    """Coarsest and deepest zoom to keep, both included; None: all that the layer has."""
    zones: tuple[Zone, ...] = ()
    """None: the whole layer."""
    max_depth: int | None = None
    """How many levels below its top the walk may go; None: as far as the layer goes."""
    _ranges: dict[int, tuple[TileRange, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"a layer of depth {self.depth} has no tiles")
        if self.coarsest > self._deepest_kept:
            raise ValueError(
                f"a layer of depth {self.depth} has the zooms {1 - self.depth} to 0,"
                f" none of those that are kept"
            )
        if self.coarsest > self.deepest:
            raise ValueError(
                f"with max_depth = {self.max_depth} the walk goes from zoom {self.top} to {self.deepest},"
                f" where nothing is kept"
            )
        ranges = {zoom: self._ranges_at(zoom) for zoom in range(self.top, self.deepest + 1)}
        object.__setattr__(self, "_ranges", ranges)
        if not ranges[self.top]:
            raise ValueError(f"no zone lies within the square of a layer of depth {self.depth}")

    @property
    def coarsest(self) -> int:
        return 1 - self.depth if self.zooms is None else max(1 - self.depth, self.zooms[0])

    @property
    def deepest(self) -> int:
        """The last zoom that is asked for."""
        if self.max_depth is None:
            return self._deepest_kept
        return min(self._deepest_kept, self.top + self.max_depth)

    @property
    def _deepest_kept(self) -> int:
        return 0 if self.zooms is None else self.zooms[1]

    @property
    def top(self) -> int:
        """The zoom at which the walk starts.

        Without zones it is the first level even if only deep zooms are kept: three levels above them a
        map of depth 17 would have more squares to ask about than the whole map has tiles.
        """
        return max(1 - self.depth, self.coarsest - LEVELS_ABOVE) if self.zones else 1 - self.depth

    def start(self) -> tuple[Tile, ...]:
        """The tiles to ask for first, each once, although zones may overlap."""
        if not self.zones:
            return first_level(self.depth)
        ranges = self._ranges[self.top]
        return tuple(dict.fromkeys(tile for part in ranges for tile in part))

    def keeps(self, zoom: int) -> bool:
        """Whether tiles of this zoom are kept; of others on the way it is only asked whether they exist."""
        return self.coarsest <= zoom <= self.deepest

    def below(self, tile: Tile, outcome: Outcome, *, known: bool) -> tuple[Tile, ...]:
        """The tiles to ask for next, given what was found for this one.

        A tile that failed counts as unchanged: where the history knows it, or something below it
        (`known`), the walk goes on; where it does not, going on could ask for a whole map that is not
        there. Nothing is next below a tile above the walk's start, such as one that a person has pushed.
        """
        is_followed = outcome in _THERE or (outcome is Outcome.FAILED and known)
        if not is_followed or not self.top <= tile.zoom < self.deepest:
            return ()
        children = tile.children()
        if not self.zones:
            return children
        ranges = self._ranges[tile.zoom + 1]
        return tuple(child for child in children if any(child in r for r in ranges))

    def kept(self) -> tuple[TileRange, ...]:
        """All that is kept, as ranges of tiles; those of several zones may overlap."""
        return tuple(r for zoom in range(self.coarsest, self.deepest + 1) for r in self._ranges[zoom])

    def kept_below(self, tile: Tile) -> tuple[TileRange, ...]:
        """All that is kept within the tile's square, the tile itself included."""
        square = TileRange.of(tile)
        parts = (r.intersection(square.at_zoom(r.zoom)) for r in self.kept() if r.zoom >= tile.zoom)
        return tuple(part for part in parts if part is not None)

    def _ranges_at(self, zoom: int) -> tuple[TileRange, ...]:
        whole = TileRange.whole(self.depth, zoom)
        if not self.zones:
            return (whole,)
        parts = (zone.tiles_at(zoom).intersection(whole) for zone in self.zones)
        return tuple(part for part in parts if part is not None)
