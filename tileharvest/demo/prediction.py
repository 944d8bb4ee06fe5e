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

from tileharvest.demo.forms import FORMS, Form
from tileharvest.demo.pyramid import Cut, DrawnTile, Tiles, tiles_on
from tileharvest.renderers.registry import doubt_of
from tileharvest.tiles.grid import Tile, first_level
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tileharvest.demo.world import World

_UNSEEN: Final = frozenset({Outcome.NOTHING, Outcome.SKIPPED})


def predicted_outcomes(world: World, day_number: int, form: Form = FORMS["overviewer"]) -> dict[Outcome, int]:
    """Returns how often the harvest of this day has each outcome, after one harvest of each earlier day.

    Zeros are left out. Of a map that is no square it does not tell how often nothing is found: how far such a
    map is searched is its renderer's affair. It holds for a map of which all zooms are kept and nothing is
    audited, and for a site that makes its ETags of time and size. Raises ValueError for a day that the world
    does not have.
    """
    world.depth(day_number)
    counts: Counter[Outcome] = Counter()
    known: dict[Tile, DrawnTile | None] = {}
    for day in range(1, day_number + 1):
        there = tiles_on(world, day, form.cut)
        # Times prove something when not all tiles were drawn on one day.
        days = {tile.drawn for tile in known.values() if tile is not None}
        skips = len(days) > 1 and doubt_of(form.renderer) is None
        found = _found(form.cut, form.cut.depth(world, day), there, known, skips=skips)
        counts = Counter(found.values())
        known |= {tile: there.get(tile) for tile, outcome in found.items() if outcome not in _UNSEEN}
    return dict(counts)


def _found(
    cut: Cut, depth: int, there: Tiles, known: Mapping[Tile, DrawnTile | None], *, skips: bool
) -> dict[Tile, Outcome]:
    """Returns the outcomes of one harvest by tile.

    The visitor asks for the first level, for the children of all tiles that are there, and for all tiles
    that were there when last seen. If it `skips`, then nothing below an unchanged tile.
    """
    found: dict[Tile, Outcome] = {}
    pending = list(_first(cut, depth, there))
    while pending:
        tile = pending.pop()
        found[tile] = _outcome(there.get(tile), known.get(tile))
        is_skipping = skips and found[tile] is Outcome.IGNORED
        if tile in there and tile.zoom < 0 and not is_skipping:
            below = tile.children(cut.factor)
            pending += [child for child in below if cut.is_square or child in there]
    unchanged = {tile for tile, outcome in found.items() if outcome is Outcome.IGNORED} if skips else set()
    for tile, last in known.items():
        if last is not None and tile not in found:
            is_below = any(above in unchanged for above in _above(tile, depth, cut.factor))
            found[tile] = Outcome.SKIPPED if is_below else _outcome(there.get(tile), last)
    return found


def _first(cut: Cut, depth: int, there: Tiles) -> Iterable[Tile]:
    return first_level(depth) if cut.is_square else [tile for tile in there if tile.zoom == 1 - depth]


def _above(tile: Tile, depth: int, factor: int) -> Iterator[Tile]:
    while tile.zoom > 1 - depth:
        tile = tile.parent(factor)
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
