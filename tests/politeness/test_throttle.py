"""The pure rules: which starts are reserved, how places are divided, and what a run has spent. And locks."""

from itertools import pairwise
from pathlib import Path
from typing import Final

from hypothesis import given
from hypothesis import strategies as st
from pytest import approx  # noqa: PT013 - a short name for many

from tileharvest.politeness.lock import Lock
from tileharvest.politeness.throttle import HORIZON, SET_BACK, TURN, HostState, Share, Spent

NOW: Final = 1_000.0
EXACT: Final = 1e-6
"""Seconds within which sums of times are the same."""


@given(
    st.lists(st.tuples(st.floats(0, 0.5), st.floats(0.25, 0.75), st.booleans()), min_size=1, max_size=200),
    st.floats(0.001, 3),
)
def test_no_starts_are_closer_than_a_limit(calls: list[tuple[float, float, bool]], of_host: float) -> None:
    """Each call comes some time after the last one, from a map with a random gap or without one."""
    host = HostState()
    now, starts, of_map = NOW, list[float](), list[float]()
    for pause, drawn, has_gap in calls:
        now += pause
        limits = {"host": of_host} | ({"map": drawn} if has_gap else {})
        wait, is_granted = host.reserve(now, limits)
        assert is_granted is (0 <= wait <= HORIZON)
        made = [now + wait] if is_granted else []
        starts += made
        of_map += made if has_gap else []
    assert all(later - earlier >= of_host - EXACT for earlier, later in pairwise(starts))
    assert all(later - earlier >= 0.25 - EXACT for earlier, later in pairwise(of_map))


def test_starts_are_one_row_of_the_host_as_far_as_the_horizon_and_a_map_keeps_its_own_limit() -> None:
    host, both = HostState(), {"host": 0.05, "map a": 0.1}
    assert host.reserve(NOW, both) == (0, True)
    assert host.reserve(NOW, {"host": 0.05, "map b": 0.1}) == (approx(0.05), True)
    assert host.reserve(NOW, both) == (approx(0.1), True)
    # The spacing counts that holds when the next start is reserved.
    assert host.reserve(NOW, {"host": 0.05, "map a": 60.0}) == (approx(60.1), False)
    assert host.reserve(NOW, both) == (approx(0.2), True)
    assert host.reserve(NOW, both) == (approx(0.3), False)


def test_a_clock_that_was_set_back_costs_a_minute() -> None:
    host, limits = HostState(), {"host": 2.0}
    host.reserve(NOW + 3_600, limits)
    for later, found in ((0, (SET_BACK + 2, False)), (SET_BACK, (2, False)), (SET_BACK + 2, (0, True))):
        assert host.reserve(NOW + later, limits) == found


def test_in_a_rest_nothing_starts_and_of_several_the_last_one_to_end_counts() -> None:
    host = HostState()
    host.rest(NOW, 60)
    host.rest(NOW, 5)
    assert host.reserve(NOW, {}) == (60, False)
    assert host.share(NOW + 20, own(1), 4, 4, 60)[1] == 40
    assert host.reserve(NOW + 60, {}) == (0, True)


def own(worker: int, places: int = 0, name: str = "m", *, is_busy: bool = True) -> Share:
    return Share(str(worker), name, places, is_busy)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.floats(0, 10)), max_size=60),
    st.integers(1, 5),
    st.integers(1, 8),
)
def test_shares_never_exceed_places(calls: list[tuple[int, bool, float]], of_map: int, of_host: int) -> None:
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


def shares(
    host: HostState, *workers: Share, of_map: int, of_host: int, now: float = NOW, lasts: float = 60
) -> list[int]:
    return [host.share(now, one, of_map, of_host, lasts)[0] for one in workers]


def test_places_are_divided_as_those_that_had_them_give_them_back() -> None:
    host, places = HostState(), {"of_map": 4, "of_host": 5}
    assert shares(host, own(1), own(2), **places) == [4, 0]
    assert shares(host, own(1, 3), own(2), own(1, 2), own(2), **places) == [2, 1, 2, 2]
    # Another map has what is left of the host's.
    assert shares(host, own(3, name="another"), **places) == [1]


def test_each_of_more_workers_than_places_has_its_turn() -> None:
    host, workers, turns = HostState(), [own(number) for number in range(5)], []
    for turn in range(5):
        for _ in range(2):
            found = shares(host, *workers, of_map=2, of_host=9, now=turn * TURN)
        turns.append(found)
    assert all(sum(turn) == 2 for turn in turns)
    assert [sum(had) for had in zip(*turns, strict=True)] == [2] * 5


def test_a_share_ends_when_its_worker_is_idle_or_leaves_or_is_silent() -> None:
    host, places = HostState(), {"of_map": 4, "of_host": 4}
    assert shares(host, own(1), own(1, 1, is_busy=False), own(2), **places) == [4, 0, 3]
    shares(host, own(1), lasts=0, **places)
    assert shares(host, own(2), own(3), **places) == [4, 0]
    assert shares(host, own(3), now=NOW + 60, **places) == [4]


def test_workers_of_a_map_spend_one_budget_until_the_last_has_ended() -> None:
    host = HostState()

    def spend(worker: str, *spent: float, name: str = "m", lasts: float = 60) -> Spent:
        return host.share(NOW, Share(worker, name, 0, spent=Spent(*spent)), 4, 4, lasts)[2]  # type: ignore[arg-type]

    assert spend("1", 10, 500, 1.5) == Spent()
    assert spend("2", 2, 100, 0.5) == (10, 500, 1.5)
    assert spend("3", name="another") == Spent()
    assert spend("1", 12, 500, 1.5, lasts=0) == (2, 100, 0.5)
    # What a worker has spent counts when it has ended.
    assert spend("4") == (14, 600, 2.0)
    for worker in ("2", "4"):
        spend(worker, lasts=0)
    # Another map of the host makes no difference.
    assert spend("1") == spend("5") == Spent()


def test_a_lock_is_held_once_until_it_is_dropped(tmp_path: Path) -> None:
    one, same, other = Lock(tmp_path, "a"), Lock(tmp_path, "a"), Lock(tmp_path, "b")
    assert not one.is_taken()
    # To look makes no file.
    assert list(tmp_path.iterdir()) == []
    assert one.take()
    assert not same.take()
    assert same.is_taken()
    assert other.take()
    one.drop()
    one.drop()
    assert not same.is_taken()
    assert same.take()
    same.drop()
    other.drop()
