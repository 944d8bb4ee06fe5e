"""What a harvest of the demo's map must find on each day, and the comparison with what it found. Pure.

The prediction is a second implementation, written from the rules and not from the harvest's code. It knows
which tiles the world has on each day, with their bytes and their times, and counts what a visitor finds who

- walks down the map, but not below an unchanged tile if the site's times can be relied on,
- then asks for every known tile that the walk has not met,
- and remembers everything.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tileharvest.demo.forms import FORMS, Form
from tileharvest.demo.pyramid import Cut, DrawnTile, Tiles, tiles_on
from tileharvest.errors import HistoryError
from tileharvest.renderers.registry import doubt_of
from tileharvest.tiles.grid import Tile, first_level
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import date

    from tileharvest.demo.world import World

Counts = Mapping[Outcome, int]

_UNSEEN: Final = frozenset({Outcome.NOTHING, Outcome.SKIPPED})


def predicted_outcomes(world: World, day_number: int, form: Form = FORMS["overviewer"]) -> dict[Outcome, int]:
    """Returns how often the harvest of this day has each outcome, after one harvest of each earlier day.

    Zeros are left out, and so is `404` for a map that is no square, because its renderer decides how far it
    is searched. The prediction is true for a map whose zooms are all kept, without an audit, and for a site
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


def counts_of(listing: str, day: date) -> dict[Outcome, int] | None:
    """Returns the counts of a day's harvest, from what `scrapy harvests NAME --json` prints.

    Returns None when no harvest of that day is listed. Raises HistoryError when the text is no such list.
    """
    try:
        harvests = [entry["counts"] for entry in json.loads(listing) if entry["day"] == day.isoformat()]
        counts = [{Outcome(word): int(number) for word, number in each.items()} for each in harvests]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise HistoryError(f"the list of harvests is not as expected ({error!r}): {listing[:80]!r}") from None
    return counts[-1] if counts else None


def verdict(day: date, found: Counts | None, predicted: Counts) -> str:
    """Returns one line: `day 2026-11-18: as predicted`, or each outcome that differs, with both numbers."""
    if found is None:
        return f"day {day}: no harvest is recorded"
    differing = [word for word in Outcome if found.get(word, 0) != predicted.get(word, 0)]
    if not differing:
        return f"day {day}: as predicted"
    parts = (f"{word} {found.get(word, 0)} instead of {predicted.get(word, 0)}" for word in differing)
    return f"day {day}: NOT as predicted: {', '.join(parts)}"


def matches(found: Counts | None, predicted: Counts) -> bool:
    return found is not None and all(found.get(word, 0) == predicted.get(word, 0) for word in Outcome)
