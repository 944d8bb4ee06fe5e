"""The pure rules: which starts are reserved, and how places are divided."""

from itertools import pairwise
from typing import Final

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tileharvest.politeness.throttle import HORIZON, TURN, HostState, Share

NOW: Final = 1_000.0
EXACT: Final = 1e-6
"""Seconds within which sums of times are the same."""


@given(
    st.lists(st.tuples(st.floats(0, 0.5), st.floats(0.25, 0.75), st.booleans()), min_size=1, max_size=200),
    st.floats(0.001, 3),
)
def test_no_two_starts_are_closer_than_any_limit_allows(
    calls: list[tuple[float, float, bool]], of_host: float
) -> None:
    """Each call comes some time after the last one, from a map with a random gap or without one."""
    host = HostState()
    now, starts, of_map = NOW, list[float](), list[float]()
    for pause, drawn, has_gap in calls:
        now += pause
        limits = {"host": of_host} | ({"map": drawn} if has_gap else {})
        wait, is_granted = host.reserve(now, limits, HORIZON)
        assert is_granted is (0 <= wait <= HORIZON)
        made = [now + wait] if is_granted else []
        starts += made
        of_map += made if has_gap else []
    assert all(later - earlier >= of_host - EXACT for earlier, later in pairwise(starts))
    assert all(later - earlier >= 0.25 - EXACT for earlier, later in pairwise(of_map))


def own(worker: int, places: int = 0, name: str = "m", *, is_busy: bool = True) -> Share:
    return Share(str(worker), name, places, is_busy)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.floats(0, 10)), max_size=60),
    st.integers(1, 5),
    st.integers(1, 8),
)
def test_all_shares_together_never_exceed_the_places(
    calls: list[tuple[int, bool, float]], of_map: int, of_host: int
) -> None:
    """Workers of two maps ask in any order, and have on the way what they were told last."""
    host = HostState()
    now = NOW
    for worker, is_busy, pause in calls:
        now += pause
        host.share(now, own(worker, 0, f"map {worker % 2}", is_busy=is_busy), of_map, of_host, 1_000.0)
        known = host.shares.values()
        assert sum(one.places for one in known) <= of_host
        for name in ("map 0", "map 1"):
            assert sum(one.places for one in known if one.map == name) <= of_map


def shares(workers: list[Share], of_map: int, of_host: int, now: float = NOW) -> list[int]:
    """What each of these workers gets when all have given back what they had."""
    host = HostState(shares={one.worker: replace(one, ends=now + 60) for one in workers})
    found = []
    for one in workers:
        found.append(host.share(now, one, of_map, of_host, 60)[0])
        host.shares[one.worker] = replace(one, ends=now + 60)
    return found


def test_each_of_more_workers_than_places_has_its_turn() -> None:
    workers = [own(number) for number in range(5)]
    turns = [shares(workers, 2, 9, number * TURN) for number in range(5)]
    assert all(sum(turn) == 2 for turn in turns)
    assert [sum(had) for had in zip(*turns, strict=True)] == [2] * 5
