"""Lists of a published map: the images of its tiles and their days, in files that a page can read.

Tiles have the names of our grid. Each list is a script that hands a value over, because a page that was
opened by a double click may load scripts and nothing else. A list is named by its content. So a list that is
there already is never written again, and a page finds its own lists until its index is replaced.

A block has 64 x 64 tiles, and 8 x 8 leaves of 8 x 8 tiles. `docs/export.md` tells the form, and
`published/api.js` reads it.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from binascii import b2a_base64
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from hashlib import sha1
from itertools import groupby
from operator import add, itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from tileharvest.history.changes import block_places, changes_below
from tileharvest.history.events import certainty, events
from tileharvest.history.recorded_versions import version_rows
from tileharvest.history.schema import BLOCK_LEVELS
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.ground import Ground

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import date

    from tileharvest.export.excerpt import Excerpt
    from tileharvest.export.target import Watch
    from tileharvest.tiles.events import Event

FORM: Final = 6
"""The number of the lists' form, which changes with the form."""

_LEAVES: Final = 3
"""The levels from a block to its leaves: 2^3 = 8 leaves lie along a block's edge."""
_SIDE: Final = 1 << BLOCK_LEVELS
"""Tiles along a leaf's edge."""
_QUARTER: Final = _SIDE // 2
"""Tiles along the edge of a quarter. The images of a heavy leaf are divided into quarters, so that a view of
a part loads little else."""
_ERA: Final = 48
"""The most versions of an era of 4 x 4 tiles, unless a single day has more. An era of 8 x 8 tiles has twice
as many. With longer eras a view loads more images that it does not show, and with shorter ones there are more
lists."""
_GROUP: Final = 8
"""Eras whose names lie in a list of their own, so that a leaf does not grow by a name with each of them."""
_SHORT: Final = 200
"""The most characters of the last era that a leaf of several eras holds itself. A view of an earlier day
loads them in vain. A leaf always holds its only era, because every view needs it."""
_INLINE: Final = 1_500
"""The most bytes of leaves that a block holds itself, and of days that a leaf holds itself. A view of 2560 x
1440 pixels has parts of four blocks, 12 leaves and 24 quarters at most, if tiles have 128 x 128."""
NAMED: Final = 16
"""The digits of a list's name, and of an image's in a published folder: 64 bits of their sha1. With a million
images, two have the same name in one map of 37 million."""
_MARKED: Final = 11
"""The characters of such a name in base 64."""
_MOST_EVENTS: Final = 200
"""The most events of a month. The largest are kept. They take 25 kB."""
_DIGITS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_LETTERS: Final = {"png": "p", "jpg": "j", "webp": "w"}
_GONE: Final = "-"

ListWriter: TypeAlias = "Callable[[object], str]"
"""A function that writes a list, and returns its name."""
Story: TypeAlias = "Sequence[tuple[int, str]]"
"""A tile's versions in order: the number of the day on which it changed, and its image from then on."""
Stories: TypeAlias = "Mapping[int, Story]"
Counts: TypeAlias = "Mapping[int, Mapping[int, int]]"
"""For tiles of a leaf, by their numbers, the numbers of days on which deeper tiles below them changed, each
with how many. No count is 0."""


@dataclass(slots=True)
class PublishedLayer:
    """The lists of a layer, as the index names them."""

    excerpt: Excerpt
    zooms: dict[int, dict[str, str]] = field(default_factory=dict)
    """For each zoom the names of the lists of its blocks, by column and row."""
    reach: list[int] = field(default_factory=list)
    """The reach of the tiles of the last day: zoom, first and last column, and first and last row."""
    months: dict[str, str] = field(default_factory=dict)
    """The names of the lists of events, by month."""
    first_asked: list[str] = field(default_factory=list)

    def as_plain(self) -> dict[str, Any]:
        """Returns the layer's part of the index, as a value of plain types."""
        zooms = {str(zoom): blocks for zoom, blocks in self.zooms.items()}
        return {"zooms": zooms, "reach": self.reach, "months": self.months, "firstAsked": self.first_asked}


def list_named(value: object) -> tuple[str, bytes]:
    """Returns the name of a list with this value, and the script that hands it over."""
    body = msgspec.json.encode(value)
    name = sha1(body, usedforsecurity=False).hexdigest()[:NAMED]
    return name, b'published("%s",%s)\n' % (name.encode(), body)


def published_zooms(excerpt: Excerpt) -> list[int]:
    """Returns the zooms that a published page can show, coarsest first: those from the deepest zoom with
    images up to the first zoom without, because no server composes pictures."""
    kept = excerpt.layer.kept_zooms(excerpt.last)
    zooms = [kept[-1]]
    while zooms[0] - 1 in kept:
        zooms.insert(0, zooms[0] - 1)
    return zooms


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

    def layer(self, excerpt: Excerpt, zooms: Sequence[int], watch: Watch) -> PublishedLayer:
        """Writes the lists of a layer's zooms. Raises HistoryError."""
        made = PublishedLayer(excerpt)
        for zoom in zooms:
            blocks = self._zoom(excerpt, zoom, made, watch)
            if blocks:
                made.zooms[zoom] = blocks
        self._events(made, zooms)
        return made

    # -------------------------------------------------------------------------------------- tiles

    def _zoom(self, excerpt: Excerpt, zoom: int, made: PublishedLayer, watch: Watch) -> dict[str, str]:
        within = None
        if excerpt.ground is not None:
            within = excerpt.ground.tiles(zoom, excerpt.layer.factor)
        places = block_places(excerpt.history, excerpt.layer.id, zoom)
        reach = _Reach(zoom)
        found: dict[str, str] = {}
        of_blocks = defaultdict(list)
        for x, y in places:
            leaf = Tile(zoom - BLOCK_LEVELS, x, y)
            of_blocks[leaf.ancestor(_LEAVES)].append(leaf)
        for block, leaves in sorted(of_blocks.items()):
            texts: list[Any] = [0] * (1 << 2 * _LEAVES)
            for leaf in leaves:
                value = self._leaf(excerpt, leaf, zoom, within, reach)
                watch.passed()
                if value is not None:
                    column, row = leaf.column & (1 << _LEAVES) - 1, leaf.row & (1 << _LEAVES) - 1
                    texts[row << _LEAVES | column] = value
            if any(texts):
                found[f"{block.column}_{block.row}"] = self._write(self._block(texts))
        made.reach = reach.bounds or made.reach
        return found

    def _block(self, leaves: list[Any]) -> list[Any]:
        if sum(len(msgspec.json.encode(leaf)) for leaf in leaves) <= _INLINE:
            return leaves
        return [_marked(self._write(leaf)) if leaf else 0 for leaf in leaves]

    def _leaf(
        self, excerpt: Excerpt, leaf: Tile, zoom: int, within: TileRange | None, reach: _Reach
    ) -> dict[str, Any] | None:
        area: TileRange | None = TileRange.of(leaf).at_zoom(zoom)
        if within is not None:
            assert area is not None
            area = area.intersection(within)
        if area is None:
            return None
        of_tiles = defaultdict(list)
        for x, y, day, name, extension in version_rows(excerpt.history, excerpt.layer.id, area, excerpt.last):
            of_tiles[x, y].append((self._numbers[day], name, extension))
        stories: dict[int, list[tuple[int, str]]] = {}
        first = self._numbers[excerpt.first]
        for (x, y), versions in of_tiles.items():
            versions.sort()
            # The story begins with the version that was there on the first day, whatever day it is of.
            begin = max(0, bisect_right(versions, first, key=itemgetter(0)) - 1)
            story = [(day, self._code(name, extension)) for day, name, extension in versions[begin:]]
            if all(code == _GONE for _, code in story):
                continue
            tile = Tile(zoom, x, y)
            stories[_number_in_leaf(tile)] = story
            if story[-1][1] != _GONE:
                reach.add(tile)
        return leaf_of(stories, self._below(excerpt, area), self._write) if stories else None

    def _below(self, excerpt: Excerpt, area: TileRange) -> dict[int, dict[int, int]]:
        """Returns how many deeper tiles changed below each tile of a leaf, on the published days on which the
        zoom had tiles."""
        first = max(excerpt.first, excerpt.layer.zooms[area.zoom])
        found = changes_below(excerpt.history, excerpt.layer, area)
        counts = {
            _number_in_leaf(tile): {
                self._numbers[day]: count for day, count in days.items() if first <= day <= excerpt.last
            }
            for tile, days in found.items()
        }
        return {tile: of_tile for tile, of_tile in counts.items() if of_tile}

    def _code(self, name: str | None, extension: str | None) -> str:
        if name is None:
            return _GONE
        self._names_image(name, extension or "")
        return _LETTERS[extension or ""] + _marked(name[:NAMED])

    # ------------------------------------------------------------------------------------- events

    def _events(self, made: PublishedLayer, zooms: Sequence[int]) -> None:
        """Writes the events. Each month is clustered by itself, so an event is the same in whatever period it
        is shown."""
        excerpt = made.excerpt
        sure = certainty(excerpt.history, excerpt.layer.id)
        made.first_asked = sorted(
            day.isoformat() for day in sure.first_asked if excerpt.first <= day <= excerpt.last
        )
        deepest = max(made.zooms, default=None)
        if deepest is None:
            return
        shown = [day for day in self._days if excerpt.first < day <= excerpt.last]
        if excerpt.first == self._days[0]:
            shown.insert(0, excerpt.first)
        for month, days in groupby(shown, key=lambda day: day.isoformat()[:7]):
            of_month = list(days)
            # A month never has too many changes to be clustered.
            found = events(excerpt.history, excerpt.layer, of_month[0], of_month[-1], sure.first_asked)
            told = [self._event(event, excerpt) for event in found if self._is_within(event, excerpt)]
            if told:
                told.sort(key=lambda one: (-one["tiles"], one["first"]))
                kept = {"count": len(told), "events": told[:_MOST_EVENTS]}
                made.months[month] = self._write(kept)

    def _is_within(self, event: Event, excerpt: Excerpt) -> bool:
        ground = Ground.of(event.area, excerpt.layer.factor)
        return excerpt.ground is None or ground.touches(excerpt.ground)

    def _event(self, event: Event, excerpt: Excerpt) -> dict[str, Any]:
        ground = Ground.of(event.area, excerpt.layer.factor)
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


def leaf_of(stories: Stories, counts: Counts, write: ListWriter) -> dict[str, Any]:
    """Returns a leaf of 8 x 8 tiles, with the days and images of each tile. A heavy leaf has the images of
    its quarters, each 0 or the name of a list, and sums of what changed.

    `stories` and `counts` have the story of each tile, and what changed below it, by its number in the leaf,
    row by row from the upper left. There is at least one story.
    """
    days = _days_of(stories, counts)
    images = sum(map(len, stories.values()))
    if len(msgspec.json.encode(days)) + images // _ERA * _MARKED <= _INLINE:
        return {**days, "e": _eras(stories, 2 * _ERA, write)}
    alone = {
        tile: {day: 1 for day, _ in story if day not in counts.get(tile, ())}
        for tile, story in stories.items()
    }
    return {
        "q": [_marked(write(_eras(part, _ERA, write))) if part else 0 for part in _quarters(stories)],
        "n": _sums(counts, write),
        "o": _sums(alone, write),
    }


def _quarters(stories: Stories) -> list[dict[int, Story]]:
    """Returns the stories of a leaf's tiles by quarter, from the upper left, and by number in the quarter."""
    quarters: list[dict[int, Story]] = [{}, {}, {}, {}]
    for tile, story in stories.items():
        row, column = divmod(tile, _SIDE)
        place = row % _QUARTER * _QUARTER + column % _QUARTER
        quarters[row // _QUARTER * 2 + column // _QUARTER][place] = story
    return quarters


def _days_of(stories: Stories, counts: Counts) -> dict[str, Any]:
    """Returns the days on which the leaf or anything below it changed, and for each tile its own days among
    these, and the counts of what changed below it. A leaf changes on few days of a year."""
    own = {tile: [day for day, _ in story] for tile, story in stories.items()}
    days = sorted({day for each in (*own.values(), *counts.values()) for day in each})
    numbers = {day: number for number, day in enumerate(days)}
    every = range(_SIDE * _SIDE)
    told: dict[str, Any] = {
        "d": _bits(days),
        "t": [_bits([numbers[day] for day in own[tile]]) if tile in own else "" for tile in every],
    }
    if counts:
        told["n"] = [
            _counts(counts[tile], own.get(tile, ()), numbers) if tile in counts else "" for tile in every
        ]
    return told


def _counts(counts: Mapping[int, int], own: Sequence[int], numbers: Mapping[int, int]) -> str:
    """Returns the counts of a tile in the order of their days. Their days follow only if they are not the
    tile's `own`, which is rare, because a tile changes with what it is drawn of."""
    days = sorted(counts)
    text = _numbers([counts[day] for day in days])
    return text if days == list(own) else f"{text}.{_bits([numbers[day] for day in days])}"


def _sums(counts: Counts, write: ListWriter) -> list[str] | int:
    """Returns sums that tell on each day the count of any rectangle of a leaf's tiles, or 0 if there are no
    counts.

    For each tile there are the sums of its rectangle: of all tiles that lie neither to the right of it nor
    below it. Any other rectangle is the sum of four of these, two of them taken away. So a view of a part of
    the leaf loads three lists, however many tiles it shows. The sums of the whole leaf are always loaded and
    stand in the leaf itself.
    """
    days = sorted({day for of_tile in counts.values() for day in of_tile})
    if not days:
        return 0
    places = {day: place for place, day in enumerate(days)}
    rows, above = [], [[0] * len(days)] * _SIDE
    for row in range(0, _SIDE * _SIDE, _SIDE):
        left, sums = [0] * len(days), []
        for column in range(_SIDE):
            own = [0] * len(days)
            for day, count in counts.get(row + column, {}).items():
                own[places[day]] = count
            left = list(map(add, left, own))
            sums.append(list(map(add, left, above[column])))
        rows.append([_numbers(of_days) for of_days in sums])
        above = sums
    whole = rows[-1].pop()
    names = [_marked(write("".join(_marked(write(text)) for text in row))) for row in rows]
    return [_bits(days), whole, "".join(names)]


def _numbers(numbers: Sequence[int]) -> str:
    """Returns the least of the numbers, a colon, and all numbers less that one: each in as many bits as the
    largest needs, the lowest bits first. This number of bits stands before them as a digit."""
    least = min(numbers)
    width = (max(numbers) - least).bit_length()
    bits = 0
    for place, number in enumerate(numbers):
        bits |= number - least << width * place
    return f"{least}:{_DIGITS[width]}{_in_digits(bits)}"


def _number_in_leaf(tile: Tile) -> int:
    """Returns the number of a tile in its leaf, row by row from the upper left."""
    return tile.row % _SIDE * _SIDE + tile.column % _SIDE


def _eras(stories: Stories, most: int, write: ListWriter) -> list[str]:
    """Returns the days on which eras begin, the names of their lists, and the images of the last era. An era
    has at most so many versions, unless a single day has more.

    An era has the images that were there before it, and then for each day of it a full stop, the number of
    days since it began, a colon, and the day's new images. Before each image stands the number of its tile as
    a digit. Each era but the last is a list of its own, which no later harvest changes. The names of each
    full group of these lists are a list, too, whose name stands in their place. A long last era is also a
    list of its own, and then its images are empty here.
    """
    of_days: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
    for tile, story in sorted(stories.items()):
        for day, code in story:
            of_days[day].append((tile, _DIGITS[tile] + code))
    now: dict[int, str] = {}
    begun, names, text, entries = [min(of_days)], list[str](), "", 0
    for day, came in sorted(of_days.items()):
        if entries and entries + len(came) > most:
            begun.append(day)
            names.append(_marked(write(text)))
            text, entries = "".join(entry for _, entry in sorted(now.items())), 0
        text += f".{day - begun[-1]}:{''.join([entry for _, entry in came])}"
        now.update(came)
        entries += len(came)
    full = len(names) // _GROUP * _GROUP
    groups = [_marked(write("".join(names[at : at + _GROUP]))) for at in range(0, full, _GROUP)]
    rest = names[full:]
    if names and len(text) > _SHORT:
        rest.append(_marked(write(text)))
        text = ""
    return [_bits(begun), "".join(groups + rest), text]


def _marked(name: str) -> str:
    """Returns a name of `NAMED` digits in base 64."""
    # `urlsafe_b64encode` takes three times as long, and each version has a name.
    return b2a_base64(bytes.fromhex(name))[:_MARKED].translate(_URL_SAFE).decode()


class _Reach:
    """The reach of the tiles of a zoom, in columns and rows."""

    def __init__(self, zoom: int) -> None:
        self._zoom = zoom
        self.bounds: list[int] = []
        """Zoom, first and last column, first and last row. Empty if nothing is there."""

    def add(self, tile: Tile) -> None:
        column, row = tile.column, tile.row
        _, left, right, top, bottom = self.bounds or (0, column, column, row, row)
        self.bounds = [self._zoom, min(left, column), max(right, column), min(top, row), max(bottom, row)]


def _bits(days: Sequence[int]) -> str:
    """Returns the days as a short text: the first day, and a bit for each day from it on."""
    return f"{days[0]}.{_in_digits(sum(1 << day - days[0] for day in days))}"


def _in_digits(bits: int) -> str:
    """Returns a number in digits of base 64, the lowest first, without zeros at the end."""
    # Three bytes are four digits. Those of base 64 come with the highest first.
    highest_first = urlsafe_b64encode(bits.to_bytes(-(-bits.bit_length() // 24) * 3, "big")).decode()
    return highest_first[::-1].rstrip(_DIGITS[0])


def leaf_count(excerpt: Excerpt, zooms: Sequence[int]) -> int:
    """Returns the most leaves that the lists of a layer can have. Raises HistoryError."""
    return sum(len(block_places(excerpt.history, excerpt.layer.id, zoom)) for zoom in zooms)


def days_in_plain(days: Sequence[date]) -> str:
    """Returns the days in the form of the index: the first day, and a bit for each day from it on."""
    return f"{days[0].isoformat()} {_bits([(day - days[0]).days for day in days]).partition('.')[2]}"
