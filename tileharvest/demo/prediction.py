"""What a harvest of the demo's map must find on each day, from the world itself. Pure.

Written from the rules, not from the harvest's code: it knows which tiles the world has on each day,
their bytes and their times, and counts what somebody would find who walks down the map, asks for what
he knows of besides, and remembers everything.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tileharvest.demo.pyramid import DrawnTile, Tiles, tiles_on
from tileharvest.maps.grid import Tile, first_level
from tileharvest.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileharvest.demo.world import World


def predicted_outcomes(world: World, day_number: int) -> dict[Outcome, int]:
    """How often each outcome comes up when every day from 1 on is harvested once; zeros are left out.

    All zooms are kept, and the site's ETags are made of time and size. Raises ValueError for a day that
    the world does not have.
    """
    world.depth(day_number)
    counts: Counter[Outcome] = Counter()
    known: dict[Tile, DrawnTile | None] = {}
    for day in range(1, day_number + 1):
        there = tiles_on(world, day)
        asked = _asked(world, day, there, known)
        found = {tile: _outcome(there.get(tile), known.get(tile)) for tile in asked}
        counts = Counter(found.values())
        known |= {tile: there.get(tile) for tile, outcome in found.items() if outcome is not Outcome.NOTHING}
    return dict(counts)


def _asked(world: World, day: int, there: Tiles, known: dict[Tile, DrawnTile | None]) -> set[Tile]:
    """The first level, the children of all tiles that are there, and all that were there when last seen."""
    asked = {tile for tile, last in known.items() if last is not None}
    return asked.union(first_level(world.depth(day)), _children(there))


def _children(tiles: Tiles) -> Iterator[Tile]:
    for tile in tiles:
        if tile.zoom < 0:
            yield from tile.children()


def _outcome(now: DrawnTile | None, last: DrawnTile | None) -> Outcome:
    """`last` is None for a tile that was never there, and for one that was gone when it was last asked."""
    if now is None:
        return Outcome.NOTHING if last is None else Outcome.GONE
    if last is None:
        return Outcome.ADDED
    if (now.drawn, len(now.png)) == (last.drawn, len(last.png)):
        return Outcome.IGNORED
    return Outcome.NOT_MODIFIED if now.png == last.png else Outcome.UPDATED
