"""Events: changed tiles that lie together in space and time. Pure.

docs/decisions/024-events.md tells where the bounds come from.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
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


@dataclass(slots=True)
class Event:
    """Tiles of one zoom that changed together. It grows while `events_of` adds days to it."""

    first: date
    """The first day with a change."""
    last: date
    """The last day with a change."""
    seed: Tile
    """The tile by which the event is known: of the tiles of its first day the one with the lowest x, and then
    the lowest y. Later days do not change it, and no other event of that day has it."""
    area: TileRange
    """The smallest rectangle with all tiles of the event."""
    changed: int = 0
    """The number of tiles that were there before the event and are there after it. Each tile of an event
    counts once."""
    new: int = 0
    """The number of tiles that were not there before."""
    gone: int = 0
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
_AROUND: Final = tuple(product(range(-REACH, REACH + 1), repeat=2))


def events_of(zoom: int, days: Iterable[tuple[date, Iterable[Changed]]]) -> list[Event]:
    """Returns the events of the tiles of one zoom that changed on these days, oldest first.

    Tiles that lie together on a day are one event. The event goes on with tiles that change within `REACH` of
    it, within `REST`, and that make it no wider than `WIDEST`. Tiles that could belong to several events
    belong to the oldest of them. So a later day lets an event grow or begins a new one. It never joins, parts
    or removes events of earlier days.

    The days must be in order. Memory grows with the number of changed tiles.
    """
    every: list[tuple[Event, dict[_Spot, tuple[bool, bool]]]] = []
    by_spot: defaultdict[_Spot, list[int]] = defaultdict(list)
    """The numbers of the events of each spot."""
    bits = 1 - zoom
    for day, changed in days:
        spots = {(x >> bits, y >> bits): (was, is_) for x, y, was, is_ in changed}
        for group in _groups(spots):
            area = TileRange.covering(_tile(zoom, spot) for spot in group)
            near = {number for spot in group for by in _near(spot) for number in by_spot.get(by, ())}
            going_on = [number for number in near if _goes_on(every[number][0], day, area)]
            if going_on:
                number = min(going_on, key=lambda one: (every[one][0].first, every[one][0].seed))
            else:
                number = len(every)
                every.append((Event(day, day, _tile(zoom, min(group)), area), {}))
            event, its = every[number]
            event.last, event.area = day, TileRange.covering((*event.area.corners, *area.corners))
            for spot in group:
                was, is_ = spots[spot]
                if spot not in its:
                    by_spot[spot].append(number)
                its[spot] = its.get(spot, (was,))[0], is_
    for event, its in every:
        event.gone = sum(not is_ for _, is_ in its.values())
        event.new = sum(is_ and not was for was, is_ in its.values())
        event.changed = len(its) - event.new - event.gone
    return [event for event, _ in every]


def _goes_on(event: Event, day: date, area: TileRange) -> bool:
    """Returns whether an event goes on with tiles near it that changed on this day."""
    if event.last < day - REST:
        return False
    both = TileRange.covering((*event.area.corners, *area.corners))
    return both == event.area or max(len(both.columns), len(both.rows)) <= WIDEST


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


def _tile(zoom: int, spot: _Spot) -> Tile:
    return Tile.at(zoom, spot[0], ~spot[1])
