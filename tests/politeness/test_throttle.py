"""The pure rules: which starts are reserved, and how places are divided."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.maps.budgets import Budget
from tileharvest.politeness.throttle import (
    HORIZON,
    TURN,
    Limit,
    Places,
    Share,
    Spent,
    fair_share,
    reserve,
    share,
    spent_part,
)

NOW: Final = 1_000.0
EXACT: Final = 1e-6
"""Seconds within which sums of times are the same."""


def limit(spacing: float, name: str = "host") -> Limit:
    return Limit(name, spacing)


@given(
    st.lists(
        st.tuples(st.floats(0, 2), st.integers(1, 50), st.floats(0.25, 0.75), st.booleans()), min_size=1
    ),
    st.floats(0.001, 3),
)
def test_no_two_starts_are_closer_than_any_limit_allows(
    calls: list[tuple[float, int, float, bool]], of_host: float
) -> None:
    """Each call comes some time after the last one, from a map with a random gap or without one."""
    times: dict[str, float] = {}
    now, starts, of_map = NOW, list[float](), list[float]()
    for pause, number, drawn, has_gap in calls:
        now += pause
        limits = [limit(of_host), *([Limit("map", drawn)] if has_gap else [])]
        found, changed = reserve(times, limits, number, now)
        times |= changed
        made = [found.start + place * found.spacing for place in range(found.number)]
        assert all(now <= start <= now + HORIZON + EXACT for start in made)
        starts += made
        of_map += made if has_gap else []
    assert all(later - earlier >= of_host - EXACT for earlier, later in pairwise(starts))
    assert all(later - earlier >= 0.25 - EXACT for earlier, later in pairwise(of_map))


def test_starts_are_reserved_up_to_the_horizon() -> None:
    found, changed = reserve({}, [limit(0.05)], 64, NOW)
    assert found.number == 1 + round(HORIZON / 0.05)
    assert changed == {"host": pytest.approx(NOW + HORIZON)}


def test_nothing_is_reserved_beyond_the_horizon_and_it_is_told_when_to_ask_again() -> None:
    assert reserve({"host": NOW - 2}, [limit(3)], 1, NOW) == ((NOW + 1, 3, 0), {})


def own(worker: str, places: int = 0, wanted: int = 9, name: str = "m") -> Share:
    return Share(worker, name, places, wanted, NOW + 60)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6), st.floats(0, 10)), max_size=60),
    st.integers(1, 5),
    st.integers(1, 8),
)
def test_all_shares_together_never_exceed_the_places(
    calls: list[tuple[int, int, float]], of_map: int, of_host: int
) -> None:
    """Workers of two maps ask in any order, and have on the way what they were told last."""
    known: dict[int, Share] = {}
    now, places = NOW, Places(of_map, of_host)
    for worker, wanted, pause in calls:
        now += pause
        before = known.get(worker, own(str(worker), 0, 0, f"map {worker % 2}"))
        mine = before._replace(wanted=wanted, places=0)
        others = [one for number, one in known.items() if number != worker]
        known[worker] = mine._replace(places=share(mine, others, places, now))
        assert sum(one.places for one in known.values()) <= of_host
        for name in ("map 0", "map 1"):
            assert sum(one.places for one in known.values() if one.map == name) <= of_map


@pytest.mark.parametrize(
    ("wanted", "places", "shares"),
    [
        ({"a": [9]}, Places(4), [4]),
        ({"a": [9, 9, 9]}, Places(4), [2, 1, 1]),
        ({"a": [9, 1, 9]}, Places(6), [3, 1, 2]),
        ({"a": [9, 0]}, Places(4), [4, 0]),
        ({"a": [9], "b": [4]}, Places(4, 4), [2, 2]),
        ({"a": [9, 9], "b": [4]}, Places(4, 3), [1, 1, 1]),
        ({"a": [9], "b": [1]}, Places(4, 4), [3, 1]),
    ],
)
def test_places_are_divided_equally_as_far_as_they_are_wanted(
    wanted: dict[str, list[int]], places: Places, shares: list[int]
) -> None:
    workers = [
        own(f"{name}{number}", wanted=most, name=name)
        for name, several in wanted.items()
        for number, most in enumerate(several)
    ]
    assert [
        fair_share(one, [other for other in workers if other != one], places, 0.0) for one in workers
    ] == shares


def test_each_of_more_workers_than_places_has_its_turn() -> None:
    workers = [own(str(number)) for number in range(5)]

    def having(now: float) -> list[str]:
        others = [(one, [other for other in workers if other != one]) for one in workers]
        return [one.worker for one, rest in others if fair_share(one, rest, Places(2), now)]

    turns = [having(number * TURN) for number in range(5)]
    assert all(len(turn) == 2 for turn in turns)
    assert sorted("".join(map("".join, turns))) == sorted("01234" * 2)


@pytest.mark.parametrize(
    ("spent", "part"),
    [
        (Spent(9, 99, 0.9), None),
        (Spent(10), "requests"),
        (Spent(9, 100, 1.0), "bytes"),
        (Spent(0, 0, 1.0), "seconds"),
    ],
)
def test_the_first_part_that_is_spent_is_told(spent: Spent, part: str | None) -> None:
    assert spent_part(Budget(10, 100, 1.0), spent) == part
