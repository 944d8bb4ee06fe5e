"""How much is left of a harvest, and how fast it gets on."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tileharvest.history.costs import Cost
from tileharvest.history.summaries import HarvestSummary
from tileharvest.monitoring.figures import RUNNING, WINDOW, Activity, Figures, Rate, Recent, State
from tileharvest.politeness.reasons import Reason
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

NOTHING_THERE = 1_000


def figures(done: int = 20, expected: int = 100, **keys: Any) -> Figures:
    counts = {Outcome.IGNORED: done, Outcome.NOTHING: NOTHING_THERE}
    return Figures(expected, counts, **({"cost": Cost(), "rate": Rate(9, 2)} | keys))


def summary(**keys: Any) -> HarvestSummary:
    """An unfinished harvest that expects 100 tiles."""
    given = {
        "id": 1,
        "segment": "s",
        "day": date(2021, 2, 16),
        "started": datetime(2021, 2, 16, tzinfo=UTC),
        "ended": None,
        "reason": None,
        "depth": {},
        "renderer": "overviewer",
        "counts": {},
        "expected": 100,
        "cost": Cost(),
    }
    return HarvestSummary(**(given | keys))


def seen(samples: Iterable[tuple[float, int, int]]) -> Recent:
    recent = Recent()
    for sample in samples:
        recent.add(*sample)
    return recent


def test_places_where_nothing_is_are_no_tiles_that_were_done() -> None:
    assert figures(done=20).done == 20


@pytest.mark.parametrize(
    ("given", "left"),
    [
        (figures(), 40),
        (figures(done=100), 0),
        (figures(done=101), None),
        (figures(expected=0), None),
        (figures(rate=None), None),
        (figures(rate=Rate(9, 0)), None),
        (figures(is_pruned=True), None),
        (figures(state=State(Activity.WAITING)), 40),
        (figures(state=State(Activity.PAUSED)), None),
        (figures(state=State(Activity.INTERRUPTED)), None),
    ],
    ids=[
        "80 tiles at 2 a second",
        "all",
        "more than expected",
        "a first harvest",
        "without a rate",
        "without any tile lately",
        "a pruned harvest",
        "waiting",
        "paused",
        "nobody",
    ],
)
def test_the_time_left_is_that_of_the_tiles_left_at_the_present_rate(
    given: Figures, left: float | None
) -> None:
    assert given.seconds_left == left


@pytest.mark.parametrize(
    ("cost", "workers", "rate"),
    [
        (Cost(requests=50, seconds=10), 1, Rate(5, 2)),
        (Cost(requests=50, seconds=10), 4, Rate(20, 8)),
        (Cost(requests=50, seconds=10), 0, Rate(5, 2)),
        (Cost(requests=50), 1, None),
    ],
)
def test_the_history_alone_tells_the_rate_over_the_time_worked_by_each_process(
    cost: Cost, workers: int, rate: Rate | None
) -> None:
    counts = {Outcome.ADDED: 20, Outcome.NOTHING: NOTHING_THERE}
    progress = summary(counts=counts, cost=cost)
    assert Figures.of(progress, RUNNING, workers).rate == rate


@pytest.mark.parametrize(("walk", "is_pruned"), [("pruned", True), ("full", False), (None, False)])
def test_the_history_tells_whether_the_walk_is_pruned(walk: str | None, is_pruned: bool) -> None:
    progress = summary(walk=walk)
    assert Figures.of(progress, RUNNING).is_pruned is is_pruned


def test_skipped_tiles_are_done_once_they_are_known() -> None:
    counts = {Outcome.IGNORED: 4, Outcome.SKIPPED: 96, Outcome.NOTHING: NOTHING_THERE}
    assert Figures(100, counts, Cost(), is_pruned=True).done == 100


def test_the_rate_is_that_of_the_last_minute() -> None:
    """Of 10 requests and 5 tiles a second for an hour, then of 2 requests and 1 tile."""
    fast = [(second, 10 * second, 5 * second) for second in range(3_600)]
    slow = [(3_600 + second, 36_000 + 2 * second, 18_000 + second) for second in range(int(WINDOW) + 1)]
    assert seen(fast).rate() == Rate(10, 5)
    assert seen([*fast, *slow[:31]]).rate() == Rate(6, 3)
    assert seen([*fast, *slow]).rate() == Rate(2, 1)


def test_a_rate_is_the_same_however_often_is_looked() -> None:
    often = seen((step / 10, step, 2 * step) for step in range(1_201))
    seldom = seen((step * 60, step * 600, step * 1_200) for step in range(3))
    assert often.rate() == pytest.approx(Rate(10, 20))
    assert seldom.rate() == Rate(10, 20)


def test_a_rate_is_never_less_than_nothing_though_results_are_counted_less_than_before() -> None:
    assert seen([(0.0, 9, 9), (30.0, 5, 5)]).rate() == Rate(0, 0)


def test_what_was_seen_for_a_moment_only_or_before_a_pause_is_no_rate() -> None:
    recent = seen([(0, 0, 0), (4.9, 50, 20)])
    assert recent.rate() is None
    recent.add(5, 51, 20)
    assert recent.rate() == Rate(51 / 5, 4)
    recent.clear()
    recent.add(500, 51, 20)
    assert recent.rate() is None


def test_a_harvest_is_idle_when_nothing_has_come_for_ten_seconds() -> None:
    recent = seen([(0, 1, 1), (5, 2, 1), (9, 2, 1)])
    assert [recent.is_idle(moment) for moment in (14.9, 15)] == [False, True]
    recent.add(16, 3, 1)
    assert not recent.is_idle(16)


@pytest.mark.parametrize(
    ("reasons", "activity"),
    [
        ({Reason.DOWN, Reason.QUIET, Reason.PAUSED}, Activity.PAUSED),
        ({Reason.DOWN, Reason.QUIET}, Activity.QUIET),
        ({Reason.DOWN}, Activity.DOWN),
        ({Reason.SPENT}, Activity.ENDING),
        (set(), Activity.BEGINNING),
    ],
)
def test_what_holds_a_harvest_up_goes_before_what_it_does(reasons: set[Reason], activity: Activity) -> None:
    assert State.of(reasons, has_begun=False).activity is activity


def test_nothing_that_is_told_is_less_than_nothing_or_cannot_be_json() -> None:
    counts = {Outcome.FAILED: 3, Outcome.UPDATED: 18}
    told = Figures(20, counts, Cost(30, 4_000, seconds=1.23456), rate=Rate(1 / 3, 2 / 3)).as_plain()
    assert told == {
        "state": "running",
        "paused_since": None,
        "quiet_until": None,
        "waits_for": None,
        "waits_until": None,
        "stopped": None,
        "walk": "full",
        "tiles_done": 21,
        "tiles_expected": 20,
        "failures": 3,
        "counts": {"upd": 18, "fail": 3},
        "requests": 30,
        "received_bytes": 4_000,
        "seconds_worked": 1.235,
        "requests_per_second": 0.33,
        "tiles_per_second": 0.67,
        "seconds_left": None,
    }
