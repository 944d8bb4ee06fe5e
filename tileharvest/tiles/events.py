"""Events: changed tiles that lie together in space and time. Pure.

docs/decisions/024-events.md tells where the bounds come from.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import product
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from tileharvest.tiles.grid import Tile, TileRange

if TYPE_CHECKING:
    from collections.abc import Iterable

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


_Spot: TypeAlias = tuple[int, int]
"""Column and row of a tile, rows upwards."""
_Bounds: TypeAlias = tuple[int, int, int, int]
"""The lowest column and row, and the highest column and row."""
_AROUND: Final = tuple(product(range(-REACH, REACH + 1), repeat=2))


@dataclass(slots=True)
class _Growing:
    """An event while days are added to it."""

    first: date
    last: date
    seed: _Spot
    bounds: _Bounds
    was_there: dict[_Spot, bool] = field(default_factory=dict)
    is_there: dict[_Spot, bool] = field(default_factory=dict)

    def has_room_for(self, bounds: _Bounds) -> bool:
        left, low, right, high = union = _union(self.bounds, bounds)
        return union == self.bounds or max(right - left, high - low) < WIDEST

    def finished(self, zoom: int) -> Event:
        gone = sum(not there for there in self.is_there.values())
        new = sum(self.is_there[spot] for spot, was_there in self.was_there.items() if not was_there)
        left, low, right, high = self.bounds
        return Event(
            self.first,
            self.last,
            _tile(zoom, self.seed),
            TileRange.between(_tile(zoom, (left, high)), _tile(zoom, (right, low))),
            len(self.was_there) - new - gone,
            new,
            gone,
        )


def events_of(zoom: int, days: Iterable[tuple[date, Iterable[Changed]]]) -> list[Event]:
    """Returns the events of the tiles of one zoom that changed on these days, oldest first.

    Tiles that lie together on a day are one event. The event goes on with tiles that change within `REACH` of
    it, within `REST`, and that make it no wider than `WIDEST`. Tiles that could belong to several events
    belong to the oldest of them. So a later day lets an event grow or begins a new one. It never joins, parts
    or removes events of earlier days.

    The days must be in order. Memory grows with the number of changed tiles.
    """
    every: list[_Growing] = []
    by_spot: defaultdict[_Spot, list[_Growing]] = defaultdict(list)
    bits = 1 - zoom
    for day, changed in days:
        spots = {(x >> bits, y >> bits): (was, is_) for x, y, was, is_ in changed}
        for group in _groups(spots):
            columns, rows = [column for column, _ in group], [row for _, row in group]
            bounds = min(columns), min(rows), max(columns), max(rows)
            near = {id(one): one for spot in group for by in _near(spot) for one in by_spot.get(by, ())}
            going_on = [one for one in near.values() if one.last >= day - REST and one.has_room_for(bounds)]
            event = min(going_on, key=lambda one: (one.first, one.seed), default=None)
            if event is None:
                event = _Growing(day, day, min(group), bounds)
                every.append(event)
            event.last, event.bounds = day, _union(event.bounds, bounds)
            for spot in group:
                was_there, event.is_there[spot] = spots[spot]
                if spot not in event.was_there:
                    event.was_there[spot] = was_there
                    by_spot[spot].append(event)
    return [event.finished(zoom) for event in every]


def _groups(spots: Iterable[_Spot]) -> list[list[_Spot]]:
    """Returns the groups of spots that lie together, in the order of the lowest spot of each."""
    left = dict.fromkeys(sorted(spots))
    groups = []
    while left:
        group = [next(iter(left))]
        del left[group[0]]
        for spot in group:
            for by in _near(spot):
                if by in left:
                    del left[by]
                    group.append(by)
        groups.append(group)
    return groups


def _near(spot: _Spot) -> list[_Spot]:
    """Returns the spot and all within `REACH` of it."""
    column, row = spot
    return [(column + right, row + up) for right, up in _AROUND]


def _union(one: _Bounds, other: _Bounds) -> _Bounds:
    return min(one[0], other[0]), min(one[1], other[1]), max(one[2], other[2]), max(one[3], other[3])


def _tile(zoom: int, spot: _Spot) -> Tile:
    return Tile.at(zoom, spot[0], ~spot[1])
