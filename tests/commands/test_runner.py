"""Which maps begin while others are under way, and what a process does with those that fail."""

from __future__ import annotations

import pytest

from tileharvest.commands.runner import Places


def begun(at_once: int, *names: str, most: int = 1000) -> Places:
    places = Places(at_once, most)
    for name in names:
        places.take(name, now=0.0)
    return places


def test_so_many_maps_are_at_work_at_once() -> None:
    places = begun(2, "one")
    assert places.is_any_free
    places.take("two", now=0.0)
    assert not places.is_any_free
    places.leave("one")
    assert places.is_any_free


def test_a_map_that_is_held_back_leaves_its_place_to_another_one() -> None:
    places = begun(2, "one", "two")
    places.look("one", 5, is_held=True, now=1.0)
    assert places.is_any_free


def test_a_map_that_goes_on_is_at_work_again() -> None:
    places = begun(2, "one", "two")
    places.look("one", 5, is_held=True, now=1.0)
    places.look("one", 5, is_held=False, now=2.0)
    assert not places.is_any_free


def test_a_map_whose_site_is_slow_leaves_its_place_after_ten_seconds() -> None:
    places = begun(2, "slow", "two")
    for now in (1.0, 11.0):
        places.look("slow", 4, is_held=False, now=now)
        places.look("two", int(now), is_held=False, now=now)
    assert places.is_any_free
    places.look("slow", 5, is_held=False, now=12.0)
    assert not places.is_any_free


def test_no_more_than_ten_maps_for_each_place_are_under_way_however_they_wait() -> None:
    names = [str(number) for number in range(20)]
    places = begun(2, *names)
    for name in names:
        places.look(name, 0, is_held=True, now=1.0)
    assert not places.is_any_free
    places.leave("7")
    assert places.is_any_free


def test_with_one_place_each_map_waits_for_the_one_before_it() -> None:
    places = begun(1, "paused")
    places.look("paused", 0, is_held=True, now=100.0)
    assert not places.is_any_free


def test_no_places_are_refused() -> None:
    with pytest.raises(ValueError, match="0 maps at once"):
        Places(0, 10)


def test_no_more_maps_are_under_way_than_the_process_can_hold() -> None:
    places = begun(8, "one", "two", most=2)
    assert not places.is_any_free
