"""The prediction of what a harvest of the demo's map must find on each day. Pure.

It is a second implementation, written from the rules and not from the harvest's code. It knows which tiles
the world has on each day, with their bytes and their times, and counts what this visitor would find:

- they walk down the map, but not below an unchanged tile where the site's times can be relied on,
- then they ask for every known tile that the walk has not met,
- and they remember everything.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from tileharvest.demo.pyramid import DrawnTile, Tiles, tiles_on
from tileharvest.tiles.grid import Tile, first_level
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tileharvest.demo.world import World

_UNSEEN: Final = frozenset({Outcome.NOTHING, Outcome.SKIPPED})


def predicted_outcomes(world: World, day_number: int) -> dict[Outcome, int]:
    """Returns how often the harvest of this day has each outcome, after one harvest of each earlier day.

    Zeros are left out. It holds for a map of which all zooms are kept and nothing is audited, and for a site
    that makes its ETags of time and size. Raises ValueError for a day that the world does not have.
    """
    world.depth(day_number)
    counts: Counter[Outcome] = Counter()
    known: dict[Tile, DrawnTile | None] = {}
    for day in range(1, day_number + 1):
        there = tiles_on(world, day)
        found = _found(world.depth(day), there, known)
        counts = Counter(found.values())
        known |= {tile: there.get(tile) for tile, outcome in found.items() if outcome not in _UNSEEN}
    return dict(counts)


def _found(depth: int, there: Tiles, known: Mapping[Tile, DrawnTile | None]) -> dict[Tile, Outcome]:
    """Returns the outcomes of one harvest by tile.

    The visitor asks for the first level, for the children of all tiles that are there, and for all tiles
    that were there when last seen. What lies below an unchanged tile is skipped as soon as times can prove
    anything, which is when not all tiles were drawn on one day.
    """
    skips = len({tile.drawn for tile in known.values() if tile is not None}) > 1
    found: dict[Tile, Outcome] = {}
    pending = list(first_level(depth))
    while pending:
        tile = pending.pop()
        found[tile] = _outcome(there.get(tile), known.get(tile))
        is_skipping = skips and found[tile] is Outcome.IGNORED
        if tile in there and tile.zoom < 0 and not is_skipping:
            pending += tile.children()
    unchanged = {tile for tile, outcome in found.items() if outcome is Outcome.IGNORED} if skips else set()
    for tile, last in known.items():
        if last is not None and tile not in found:
            is_below = any(above in unchanged for above in _above(tile, depth))
            found[tile] = Outcome.SKIPPED if is_below else _outcome(there.get(tile), last)
    return found


def _above(tile: Tile, depth: int) -> Iterator[Tile]:
    while tile.zoom > 1 - depth:
        tile = tile.parent()
        yield tile


def _outcome(now: DrawnTile | None, last: DrawnTile | None) -> Outcome:
    """Returns the outcome of one tile.

    `last` is None for a tile that was never there, and for one that was gone when it was last asked.
    """
    if now is None:
        return Outcome.NOTHING if last is None else Outcome.GONE
    if last is None:
        return Outcome.ADDED
    if (now.drawn, len(now.png)) == (last.drawn, len(last.png)):
        return Outcome.IGNORED
    return Outcome.NOT_MODIFIED if now.png == last.png else Outcome.UPDATED
