"""What a harvest of the demo's map must find on each day. Pure.

The prediction is a second implementation, written from the rules and not from the harvest's code. It knows
which tiles the world has on each day, with their bytes and their times, and counts what a visitor finds who

- walks down the map, but not below an unchanged tile if the site's times can be relied on,
- then asks for every known tile that the walk has not met,
- and remembers everything.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tileharvest.demo.forms import FORMS
from tileharvest.demo.pyramid import tiles_on
from tileharvest.renderers.registry import doubt_of
from tileharvest.tiles.grid import Tile, first_level
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileharvest.demo.forms import Form
    from tileharvest.demo.pyramid import Cut, DrawnTile, Tiles
    from tileharvest.demo.world import World


def predicted_outcomes(world: World, day_number: int, form: Form = FORMS["overviewer"]) -> dict[Outcome, int]:
    """Returns how often the harvest of this day has each outcome, after one harvest of each earlier day.

    Zeros are left out, and so is `404` for a map that is not a square, because its renderer decides how far
    it is searched. The prediction is true for a map whose zooms are all kept, without an audit, on a site
    that makes its ETags of time and size. Raises ValueError for a day that the world does not have.
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
        unseen = (Outcome.NOTHING, Outcome.SKIPPED)
        known |= {tile: there.get(tile) for tile, outcome in found.items() if outcome not in unseen}
    return dict(counts)


def _found(
    cut: Cut, depth: int, there: Tiles, known: Mapping[Tile, DrawnTile | None], *, skips: bool
) -> dict[Tile, Outcome]:
    """Returns the outcomes of one harvest by tile.

    The visitor asks for the first level, for the children of all tiles that are there, and for all tiles
    that were there when last seen. If it `skips`, then nothing below an unchanged tile.
    """
    first = first_level(depth) if cut.is_square else [tile for tile in there if tile.zoom == 1 - depth]
    found: dict[Tile, Outcome] = {}
    pending = list(first)
    while pending:
        tile = pending.pop()
        found[tile] = _outcome(there.get(tile), known.get(tile))
        if tile in there and tile.zoom < 0 and not (skips and found[tile] is Outcome.IGNORED):
            pending += [child for child in tile.children(cut.factor) if cut.is_square or child in there]
    for tile, last in known.items():
        if last is not None and tile not in found:
            above = tile
            while above.zoom > 1 - depth and found.get(above) is not Outcome.IGNORED:
                above = above.parent(cut.factor)
            is_skipped = skips and found.get(above) is Outcome.IGNORED
            found[tile] = Outcome.SKIPPED if is_skipped else _outcome(there.get(tile), last)
    return found


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
