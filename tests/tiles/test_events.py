"""Events: what lies together in space and time, and stays what it is when days are added."""

from __future__ import annotations

from datetime import date, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.tiles.events import REACH, REST, WIDEST, Changed, Event, events_of
from tileharvest.tiles.grid import Tile, TileRange

DAY = date(2021, 3, 3)
Days = list[tuple[date, list[Changed]]]


def changed(*cells: tuple[int, int], was: bool = True, now: bool = True, zoom: int = 0) -> list[Changed]:
    """Tiles by column and row."""
    return [(tile.x, tile.y, was, now) for tile in (Tile.at(zoom, *cell) for cell in cells)]


def later(days: int) -> date:
    return DAY + timedelta(days=days)


def sizes(days: Days) -> list[int]:
    return sorted(event.tiles for event in events_of(0, days))


def test_tiles_that_touch_at_a_corner_are_one_event() -> None:
    assert sizes([(DAY, changed((0, 0), (1, 1)))]) == [2]


def test_tiles_on_both_sides_of_one_that_did_not_change_are_one_event() -> None:
    assert sizes([(DAY, changed((-1, 0), (1, 0)))]) == [2]


def test_tiles_with_two_between_them_are_two_events() -> None:
    assert sizes([(DAY, changed((0, 0), (REACH + 1, 0)))]) == [1, 1]


@pytest.mark.parametrize("zoom", [0, -3])
def test_an_event_has_the_smallest_rectangle_with_its_tiles(zoom: int) -> None:
    (event,) = events_of(zoom, [(DAY, changed((-2, 3), (-1, 1), (0, 2), zoom=zoom))])
    assert event.area == TileRange.between(Tile.at(zoom, -2, 1), Tile.at(zoom, 0, 3))


def test_a_place_that_changes_on_several_days_is_one_event_and_each_tile_counts_once() -> None:
    (event,) = events_of(0, [(DAY, changed((0, 0))), (later(1), changed((0, 0), (1, 0)))])
    assert (event.first, event.last, event.tiles) == (DAY, later(1), 2)


def test_a_place_that_changes_again_after_a_week_is_the_same_event() -> None:
    assert sizes([(DAY, changed((0, 0))), (DAY + REST, changed((0, 0)))]) == [1]


def test_a_place_that_has_rested_for_longer_is_another_event() -> None:
    after = DAY + REST + timedelta(days=1)
    first, second = events_of(0, [(DAY, changed((0, 0))), (after, changed((0, 0)))])
    assert (first.last, second.first) == (DAY, after)


def test_a_change_between_two_events_belongs_to_the_older_one_and_leaves_the_other_as_it_is() -> None:
    days: Days = [(DAY, changed((0, 0))), (later(1), changed((4, 0))), (later(2), changed((2, 0)))]
    older, newer = events_of(0, days)
    assert (older.first, older.tiles, newer.first, newer.tiles) == (DAY, 2, later(1), 1)


def test_an_event_does_not_get_wider_than_a_picture_can_show() -> None:
    days: Days = [(later(number), changed((number, 0))) for number in range(WIDEST + 1)]
    first, second = events_of(0, days)
    assert (len(first.area.columns), first.tiles, second.tiles) == (WIDEST, WIDEST, 1)


def test_what_lies_together_on_one_day_is_one_event_however_wide() -> None:
    assert sizes([(DAY, changed(*((column, 0) for column in range(3 * WIDEST))))]) == [3 * WIDEST]


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


def test_no_change_is_no_event() -> None:
    assert events_of(0, [(DAY, [])]) == []


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


@given(st.integers(0, 10**6))
def test_every_changed_tile_belongs_to_events_and_no_event_to_anything_else(seed: int) -> None:
    days = random_days(seed)
    found = events_of(0, days)
    assert [event for event in found if event.tiles < 1 or event.first > event.last] == []
    for day, tiles in days:
        for x, y, _, _ in tiles:
            assert any(_has(event, day, Tile(0, x, y)) for event in found)
    every = {(x, y) for _, tiles in days for x, y, _, _ in tiles}
    assert len(every) <= sum(event.tiles for event in found) <= sum(len(tiles) for _, tiles in days)


def _has(event: Event, day: date, tile: Tile) -> bool:
    return event.first <= day <= event.last and tile in event.area


@given(st.sets(st.tuples(st.integers(-7, 7), st.integers(-7, 7)), max_size=40))
def test_the_events_of_a_day_are_what_chains_of_near_tiles_connect(cells: set[tuple[int, int]]) -> None:
    """As their definition says it, by comparing each tile with each."""
    groups: list[set[tuple[int, int]]] = []
    for cell in cells:
        near = [group for group in groups if any(_is_near(cell, other) for other in group)]
        groups = [group for group in groups if group not in near] + [{cell}.union(*near)]
    areas = [TileRange.covering([Tile.at(0, *cell) for cell in group]) for group in groups]
    found = [event.area for event in events_of(0, [(DAY, changed(*cells))])]
    assert sorted(map(repr, found)) == sorted(map(repr, areas))


def _is_near(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return max(abs(one[0] - other[0]), abs(one[1] - other[1])) <= REACH


@given(st.integers(0, 10**6))
def test_the_order_in_which_tiles_of_a_day_are_read_does_not_matter(seed: int) -> None:
    days = random_days(seed)
    assert events_of(0, [(day, tiles[::-1]) for day, tiles in days]) == events_of(0, days)
