"""Events: changed tiles that lie together in space and time. Pure.

docs/decisions/024-events.md tells where the bounds come from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from tileharvest.tiles.grid import Tile, TileRange

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

REACH: Final = 2
"""Tiles belong together if their columns and their rows differ by no more than this: they touch, or one tile
lies between them."""
REST: Final = timedelta(days=7)
"""An event goes on if tiles near it change again within this time. So a place at which somebody builds every
weekend is one event."""
WIDEST: Final = 16
"""The width and height, in tiles, beyond which an event does not grow on a later day. Otherwise a busy town
would become one event that says nothing."""

Changed: TypeAlias = tuple[int, int, bool, bool]
"""A changed tile: its x and y, whether it was there before the change, and whether it is there after it."""
Kind: TypeAlias = Literal["changed", "new", "gone"]


@dataclass(frozen=True, slots=True)
class Event:
    """Tiles of one zoom that changed together."""

    first: date
    """The first day with a change."""
    last: date
    """The last day with a change."""
    seed: Tile
    """The tile by which the event is known: of the tiles of its first day the one with the lowest x, and then
    the lowest y. Later days do not change it, and no other event of that day has it."""
    area: TileRange
    """The smallest rectangle with all tiles of the event."""
    changed: int
    """The number of tiles that were there before the event and are there after it. Each tile of an event
    counts once."""
    new: int
    """The number of tiles that were not there before."""
    gone: int
    """The number of tiles that are there no longer."""

    @property
    def tiles(self) -> int:
        return self.changed + self.new + self.gone

    @property
    def kind(self) -> Kind:
        """What most of its tiles are. If two numbers are equal, the first of changed, new and gone counts."""
        counts: dict[Kind, int] = {"changed": self.changed, "new": self.new, "gone": self.gone}
        return max(counts, key=lambda kind: counts[kind])


@dataclass(slots=True)
class _Growing:
    """An event while days are added to it. Cells are numbers that `_cell` makes."""

    first: date
    last: date
    seed: int
    bounds: tuple[int, int, int, int]
    """The lowest column and row, and the highest column and row."""
    was_there: dict[int, bool] = field(default_factory=dict)
    is_there: dict[int, bool] = field(default_factory=dict)
    patches: set[int] = field(default_factory=set)
    """The patches that have cells of the event."""

    def with_room_for(self, bounds: tuple[int, int, int, int]) -> bool:
        left, low, right, high = union = _union(self.bounds, bounds)
        return union == self.bounds or max(right - left, high - low) < WIDEST

    def is_near(self, cells: Iterable[int]) -> bool:
        return any(cell + by in self.was_there for cell in cells for by in _AROUND)


def events_of(zoom: int, days: Iterable[tuple[date, Iterable[Changed]]]) -> list[Event]:
    """Returns the events of the tiles of one zoom that changed on these days, oldest first.

    Tiles that lie together on a day are one event. The event goes on with tiles that change within `REACH` of
    it, within `REST`, and that make it no wider than `WIDEST`. Tiles that could belong to several events
    belong to the oldest of them. So a later day lets an event grow or begins a new one. It never joins, parts
    or removes events of earlier days.

    The days must be in order. Memory grows with the number of changed tiles.
    """
    every: list[_Growing] = []
    near: dict[int, list[_Growing]] = {}
    bits = 1 - zoom
    for day, changed in days:
        cells = {_cell(x >> bits, y >> bits): (was, is_) for x, y, was, is_ in changed}
        for group, patches in _groups(cells):
            bounds = _bounds(group)
            event = _continued(group, patches, bounds, near, day - REST)
            if event is None:
                event = _Growing(day, day, min(group), bounds)
                every.append(event)
            event.last, event.bounds = day, _union(event.bounds, bounds)
            for patch in patches - event.patches:
                near.setdefault(patch, []).append(event)
            event.patches |= patches
            for cell in group:
                was_there, is_there = cells[cell]
                event.was_there.setdefault(cell, was_there)
                event.is_there[cell] = is_there
    return [_finished(zoom, event) for event in every]


_ROWS: Final = 32
"""The bits of a cell's number that hold its row, counted from `_LOWEST`. No layer has more rows."""
_ROW: Final = (1 << _ROWS) - 1
_LOWEST: Final = -(1 << (_ROWS - 1))
_AROUND: Final = tuple(
    (column << _ROWS) + row for column in range(-REACH, REACH + 1) for row in range(-REACH, REACH + 1)
)
"""What to add to a cell's number to get the cell itself and each cell near it."""
_NEAR: Final = frozenset(_AROUND)
_PATCH: Final = REACH + 1
"""Cells along the edge of a patch. All cells of one patch belong together, and cells near them lie in the
same patch or in one that touches it. To look at the 25 cells around each cell instead would take most of the
time."""
_BESIDE: Final = tuple((column << _ROWS) + row for column in (-1, 0, 1) for row in (-1, 0, 1))
"""What to add to a patch's number to get the patch itself and each patch that touches it."""


def _cell(column: int, row: int) -> int:
    """Returns a cell as one number. Numbers are ordered by column, then by row. Many cells are looked up, and
    a number costs a fifth of a pair."""
    return (column << _ROWS) + row - _LOWEST


def _place(cell: int) -> tuple[int, int]:
    """Returns a cell's column and row."""
    return cell >> _ROWS, (cell & _ROW) + _LOWEST


def _patch(cell: int) -> int:
    return ((cell >> _ROWS) // _PATCH << _ROWS) + (cell & _ROW) // _PATCH


def _groups(cells: Iterable[int]) -> list[tuple[list[int], set[int]]]:
    """Returns the groups of cells that lie together, each with the patches it lies in, in the order of the
    lowest cell of each group."""
    left: dict[int, list[int]] = {}
    for cell in cells:
        left.setdefault(_patch(cell), []).append(cell)
    groups = []
    while left:
        group: list[int] = []
        patches = set()
        waiting = [left.popitem()]
        while waiting:
            patch, inside = waiting.pop()
            group += inside
            patches.add(patch)
            for by in _BESIDE:
                others = left.get(patch + by)
                if others and any(one - other in _NEAR for one in inside for other in others):
                    waiting.append((patch + by, left.pop(patch + by)))
        groups.append((group, patches))
    return sorted(groups, key=lambda each: min(each[0]))


def _continued(
    group: Iterable[int],
    patches: Iterable[int],
    bounds: tuple[int, int, int, int],
    near: dict[int, list[_Growing]],
    since: date,
) -> _Growing | None:
    """Returns the oldest event that a group of cells continues, or None if it begins a new one."""
    around = {patch + by for patch in patches for by in _BESIDE}
    # Of equal keys the last one stays: each event is looked at once.
    beside = {
        id(event): event for patch in near.keys() & around for event in near[patch] if event.last >= since
    }
    open_ones = [event for event in beside.values() if event.with_room_for(bounds)]
    oldest_first = sorted(open_ones, key=lambda event: (event.first, event.seed))
    return next((event for event in oldest_first if event.is_near(group)), None)


def _bounds(cells: Collection[int]) -> tuple[int, int, int, int]:
    rows = [cell & _ROW for cell in cells]
    return min(cells) >> _ROWS, min(rows) + _LOWEST, max(cells) >> _ROWS, max(rows) + _LOWEST


def _union(one: tuple[int, int, int, int], other: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    return min(one[0], other[0]), min(one[1], other[1]), max(one[2], other[2]), max(one[3], other[3])


def _finished(zoom: int, event: _Growing) -> Event:
    gone = sum(not there for there in event.is_there.values())
    new = sum(event.is_there[cell] for cell, was_there in event.was_there.items() if not was_there)
    left, low, right, high = event.bounds
    first, last = _tile(zoom, left, low), _tile(zoom, right, high)
    return Event(
        event.first,
        event.last,
        _tile(zoom, *_place(event.seed)),
        TileRange(zoom, first.x, last.x, first.y, last.y),
        len(event.was_there) - new - gone,
        new,
        gone,
    )


def _tile(zoom: int, column: int, row: int) -> Tile:
    """`row` is counted upwards."""
    return Tile.at(zoom, column, ~row)
