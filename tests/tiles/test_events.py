"""Events: what lies together in space and time, and stays what it is when days are added."""

from datetime import date, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.tiles.events import REACH, REST, WIDEST, Changed, events_of
from tileharvest.tiles.grid import Tile, TileRange

DAY = date(2021, 3, 3)
Days = list[tuple[date, list[Changed]]]


def changed(*cells: tuple[int, int], was: bool = True, now: bool = True, zoom: int = 0) -> list[Changed]:
    """Tiles by column and row."""
    return [(tile.x, tile.y, was, now) for tile in (Tile.at(zoom, *cell) for cell in cells)]


def later(days: int) -> date:
    return DAY + timedelta(days=days)


@pytest.mark.parametrize(
    ("days", "sizes"),
    [
        # Tiles that touch at a corner, or have one between them, are one event.
        ([(0, (0, 0), (1, 1))], [2]),
        ([(0, (-1, 0), (1, 0))], [2]),
        ([(0, (0, 0), (REACH + 1, 0))], [1, 1]),
        # A place that changes again within a week is the same event.
        ([(0, (0, 0)), (7, (0, 0))], [1]),
        ([(0, (0, 0)), (8, (0, 0))], [1, 1]),
        ([(0, (0, 0)), (1, (0, 0), (1, 0))], [2]),
        # A change between two events belongs to the older one and leaves the other as it is.
        ([(0, (0, 0)), (1, (4, 0)), (2, (2, 0))], [2, 1]),
        # An event does not get wider than a picture can show, but by what lies together on one day.
        ([(number, (number, 0)) for number in range(WIDEST + 1)], [WIDEST, 1]),
        ([(0, *((column, 0) for column in range(3 * WIDEST)))], [3 * WIDEST]),
        ([(0,)], []),
    ],
)
def test_which_changes_are_one_event(days: Any, sizes: list[int]) -> None:
    assert timedelta(days=7) == REST
    found = events_of(0, [(later(day), changed(*cells)) for day, *cells in days])
    assert [event.tiles for event in found] == sizes
    assert [event.first for event in found] == sorted(event.first for event in found)


@pytest.mark.parametrize("zoom", [0, -3])
def test_an_event_has_the_smallest_rectangle_with_its_tiles(zoom: int) -> None:
    (event,) = events_of(zoom, [(DAY, changed((-2, 3), (-1, 1), (0, 2), zoom=zoom))])
    assert event.area == TileRange.between(Tile.at(zoom, -2, 1), Tile.at(zoom, 0, 3))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((False, True), (True, True), "new"),
        ((True, True), (True, False), "gone"),
        ((True, False), (False, True), "changed"),
        ((False, True), (True, False), "gone"),
    ],
)
def test_a_tile_is_what_it_has_become_since_before_the_event(
    first: tuple[bool, bool], second: tuple[bool, bool], expected: str
) -> None:
    days: Days = [
        (DAY, changed((0, 0), was=first[0], now=first[1])),
        (later(1), changed((0, 0), was=second[0], now=second[1])),
    ]
    (event,) = events_of(0, days)
    counts = {"changed": event.changed, "new": event.new, "gone": event.gone}
    assert counts == {"changed": 0, "new": 0, "gone": 0} | {expected: 1}


def test_an_event_is_told_as_what_most_of_its_tiles_are() -> None:
    tiles = [*changed((0, 0)), *changed((1, 0), (2, 0), was=False)]
    assert [event.kind for event in events_of(0, [(DAY, tiles)])] == ["new"]


def random_days(seed: int) -> Days:
    chance = Random(seed)
    days: Days = []
    for number in range(0, 60, chance.choice([1, 3])):
        cells = {(chance.randint(-12, 12), chance.randint(-12, 12)) for _ in range(chance.choice([0, 2, 9]))}
        days.append((later(number), changed(*cells, was=chance.random() < 0.7)))
    return days


@given(st.integers(0, 10**6), st.integers(0, 60))
def test_a_later_day_lets_events_grow_and_begins_new_ones_but_ends_none(seed: int, count: int) -> None:
    """So an identity made of the first day and the seed is never given up, and never given twice."""
    days = random_days(seed)
    before, after = events_of(0, days[:count]), events_of(0, days)
    names = [(event.first, event.seed) for event in after]
    assert len(set(names)) == len(names)
    grown = dict(zip(names, after, strict=True))
    for event in before:
        now = grown[event.first, event.seed]
        assert now.tiles >= event.tiles
        assert now.last >= event.last
        assert {event.area.x_from, event.area.x_to} <= set(now.area.columns)
