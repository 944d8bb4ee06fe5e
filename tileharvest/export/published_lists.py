"""Lists of a published map: the stories of its tiles, in files that a page can read.

A list is JSON, compressed by gzip, in a script that hands it over: a page that was opened by a double click
may load scripts and nothing else. A list is named by its content. So a list that is there already is never
written again, and a page finds its own lists until its index is replaced. `docs/export.md` describes the
lists, and `published/api.js` reads them.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from bisect import bisect_left, bisect_right
from collections import defaultdict
from hashlib import sha1
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from tileharvest.history.changes import block_places, changes_below
from tileharvest.history.events import certainty, events
from tileharvest.history.recorded_versions import version_rows
from tileharvest.history.schema import BLOCK_LEVELS
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.ground import Ground

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import date

    from tileharvest.export.excerpt import Excerpt
    from tileharvest.export.target import Watch
    from tileharvest.tiles.events import Event

NAMED: Final = 16
"""The digits of a list's name, and of an image's in a published folder: 64 bits of their sha1. With a million
images, two have the same name in one map of 37 million."""
_BLOCKS: Final = 3
"""The levels from a square to its blocks: 2^3 = 8 blocks lie along a square's edge."""
_SIDE: Final = 1 << BLOCK_LEVELS + _BLOCKS
"""Tiles along a square's edge."""
_LARGEST: Final = 40_000
"""The most bytes of a square's list. A view has parts of four squares at most, unless its tiles are small. A
square that needs more is divided into its blocks."""
_MOST_EVENTS: Final = 200
"""The most events of a month. The largest are kept."""
_LETTERS: Final = {"png": "p", "jpg": "j", "webp": "w"}
_GONE: Final = f"-{'0' * NAMED}"

ListWriter: TypeAlias = "Callable[[object], str]"
"""A function that writes a list, and returns its name."""
Stories: TypeAlias = "dict[str, dict[str, list[Any]]]"
"""The stories of some tiles, by their numbers in the square, row by row from the upper left.

`tiles` has for each tile the days on which it changed, and its images from then on, one behind the other: a
letter for their kind, and their names. `below` has for each tile the days on which deeper tiles below it
changed, and how many. Days are numbers of harvests: the first one, and then the steps to the next."""


def list_named(value: object) -> tuple[str, bytes]:
    """Returns the name of a list with this value, and the script that hands it over."""
    body = msgspec.json.encode(value)
    name = sha1(body, usedforsecurity=False).hexdigest()[:NAMED]
    return name, b'published("%s","%s")\n' % (name.encode(), b64encode(gzip.compress(body, 6, mtime=0)))


def published_zooms(excerpt: Excerpt) -> list[int]:
    """Returns the zooms that a published page can show, coarsest first: those from the deepest zoom with
    images up to the first zoom without, because no server composes pictures."""
    kept = excerpt.layer.kept_zooms(excerpt.last)
    zooms = [kept[-1]]
    while zooms[0] - 1 in kept:
        zooms.insert(0, zooms[0] - 1)
    return zooms


def block_count(excerpt: Excerpt, zooms: Iterable[int]) -> int:
    """Returns the number of blocks that are read for the lists of a layer. Raises HistoryError."""
    return sum(len(block_places(excerpt.history, excerpt.layer.id, zoom)) for zoom in zooms)


class PublishedLists:
    """Writes the lists of a map's layers."""

    def __init__(
        self, days: Sequence[date], write: ListWriter, names_image: Callable[[str, str], None]
    ) -> None:
        """`days` are all days with a harvest up to the last published day, in order. `write` writes a list.
        `names_image` is called with the sha1 and the extension of each version's image."""
        self._numbers = {day: number for number, day in enumerate(days)}
        self._days = days
        self._write = write
        self._names_image = names_image

    def layer(self, excerpt: Excerpt, zooms: Sequence[int], watch: Watch) -> dict[str, Any]:
        """Writes the lists of a layer's zooms, coarsest first. Returns the layer's part of the index.

        `zooms` has the names of the lists of each zoom's squares, by column and row, `reach` the deepest
        zoom, and the first and last column and row of its tiles on the last day, and `months` the names of
        the lists of events. Raises HistoryError.
        """
        made: dict[str, dict[str, str]] = {}
        reach: list[int] = []
        for zoom in zooms:
            squares, columns, rows = self._zoom(excerpt, zoom, watch)
            if squares:
                made[str(zoom)] = squares
            if columns:
                reach = [zoom, min(columns), max(columns), min(rows), max(rows)]
        first_asked = certainty(excerpt.history, excerpt.layer.id).first_asked
        asked = sorted(str(day) for day in first_asked if excerpt.first <= day <= excerpt.last)
        months = self._months(excerpt, first_asked) if made else {}
        return {"zooms": made, "reach": reach, "months": months, "firstAsked": asked}

    # -------------------------------------------------------------------------------------- tiles

    def _zoom(self, excerpt: Excerpt, zoom: int, watch: Watch) -> tuple[dict[str, str], set[int], set[int]]:
        """Writes the lists of a zoom. Returns their names, and the columns and the rows of the tiles that are
        there on the last day."""
        within = None if excerpt.ground is None else excerpt.ground.tiles(zoom, excerpt.layer.factor)
        of_squares = defaultdict(list)
        for x, y in block_places(excerpt.history, excerpt.layer.id, zoom):
            block = Tile(zoom - BLOCK_LEVELS, x, y)
            of_squares[block.ancestor(_BLOCKS)].append(block)
        found: dict[str, str] = {}
        columns, rows = set[int](), set[int]()
        for square, blocks in sorted(of_squares.items()):
            stories: dict[Tile, Stories] = {}
            for block in blocks:
                watch.passed()
                area: TileRange | None = TileRange.of(block).at_zoom(zoom)
                if within is not None and area is not None:
                    area = area.intersection(within)
                if area is None:
                    continue
                its, there = self._stories(excerpt, area)
                columns.update(tile.column for tile in there)
                rows.update(tile.row for tile in there)
                if its["tiles"]:
                    stories[block] = its
            if stories:
                found[f"{square.column}_{square.row}"] = self._square(stories)
        return found, columns, rows

    def _square(self, stories: dict[Tile, Stories]) -> str:
        """Writes the list of a square, or those of its blocks and the list that names them."""
        whole: Stories = {"tiles": {}, "below": {}}
        for of_block in stories.values():
            for kind, of_tiles in of_block.items():
                whole[kind] |= of_tiles
        versions = sum(len(days) for days, _ in whole["tiles"].values())
        # A version takes a byte at least.
        if len(stories) == 1 or (versions < _LARGEST and len(list_named(whole)[1]) <= _LARGEST):
            return self._write(whole)
        return self._write(
            {"blocks": {f"{block.column}_{block.row}": self._write(its) for block, its in stories.items()}}
        )

    def _stories(self, excerpt: Excerpt, area: TileRange) -> tuple[Stories, list[Tile]]:
        """Returns the stories of an area, and the tiles that are there on the last day."""
        of_tiles = defaultdict(list)
        for x, y, day, name, extension in version_rows(excerpt.history, excerpt.layer.id, area, excerpt.last):
            of_tiles[x, y].append((self._numbers[day], name, extension))
        found: Stories = {"tiles": {}, "below": {}}
        there = []
        first = self._numbers[excerpt.first]
        for (x, y), versions in sorted(of_tiles.items()):
            versions.sort()
            # The story begins with the version that was there on the first day, whatever day it is of.
            begin = max(0, bisect_right(versions, first, key=itemgetter(0)) - 1)
            codes = [self._code(name, extension) for _, name, extension in versions[begin:]]
            if any(code != _GONE for code in codes):
                tile = Tile(area.zoom, x, y)
                days = _steps([day for day, _, _ in versions[begin:]])
                found["tiles"][_number(tile)] = [days, "".join(codes)]
                if codes[-1] != _GONE:
                    there.append(tile)
        if found["tiles"]:
            found["below"] = self._below(excerpt, area)
        return found, there

    def _below(self, excerpt: Excerpt, area: TileRange) -> dict[str, list[Any]]:
        """Returns how many deeper tiles changed below each tile of an area, on the published days on which
        the zoom had tiles."""
        first, counts = max(excerpt.first, excerpt.layer.zooms[area.zoom]), {}
        for tile, of_days in sorted(changes_below(excerpt.history, excerpt.layer, area).items()):
            shown = {day: of_days[day] for day in sorted(of_days) if first <= day <= excerpt.last}
            if shown:
                counts[_number(tile)] = [_steps([self._numbers[day] for day in shown]), [*shown.values()]]
        return counts

    def _code(self, name: str | None, extension: str | None) -> str:
        if name is None or extension is None:
            return _GONE
        self._names_image(name, extension)
        return _LETTERS[extension] + name[:NAMED]

    # ------------------------------------------------------------------------------------- events

    def _months(self, excerpt: Excerpt, first_asked: AbstractSet[date]) -> dict[str, str]:
        """Writes the events, and returns the names of the lists by month. Each month is clustered by itself,
        so an event is the same in whatever period it is shown."""
        shown = [day for day in self._days if excerpt.first < day <= excerpt.last]
        if excerpt.first == self._days[0]:
            shown.insert(0, excerpt.first)
        made = {}
        for month, days in groupby(shown, key=lambda day: day.isoformat()[:7]):
            of_month = list(days)
            # A month never has too many changes to be clustered.
            found = events(excerpt.history, excerpt.layer, of_month[0], of_month[-1], first_asked)
            kept = [one for event in found if (one := self._event(event, excerpt)) is not None]
            if kept:
                kept.sort(key=lambda one: (-one["tiles"], one["first"]))
                made[month] = self._write({"count": len(kept), "events": kept[:_MOST_EVENTS]})
        return made

    def _event(self, event: Event, excerpt: Excerpt) -> dict[str, Any] | None:
        """Returns an event as a value of plain types, or None if it lies outside of the excerpt."""
        ground = Ground.of(event.area, excerpt.layer.factor)
        if excerpt.ground is not None and not ground.touches(excerpt.ground):
            return None
        place = bisect_left(self._days, event.first)
        return {
            "first": event.first.isoformat(),
            "last": event.last.isoformat(),
            "before": self._days[max(0, place - 1)].isoformat(),
            "kind": event.kind,
            "tiles": event.tiles,
            "area": {"zoom": event.area.zoom},
            "ground": [ground.west, ground.south, ground.east, ground.north],
        }


def _number(tile: Tile) -> str:
    """Returns the number of a tile in its square."""
    return str(tile.row % _SIDE * _SIDE + tile.column % _SIDE)


def _steps(numbers: Sequence[int]) -> list[int]:
    """Returns the first of the numbers, and the steps to each of the others, which compress better."""
    return [numbers[0], *(after - before for before, after in pairwise(numbers))]
