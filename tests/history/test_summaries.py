"""Summaries: what is said of maps and harvests, past and under way, and what they have cost."""

from datetime import UTC, date, datetime, timedelta

import pytest

from tests.history.making import DAY, END, LATER, LAYER, THIRD, A, B, C, began, ended, found, record
from tileharvest.errors import HistoryError
from tileharvest.history.costs import NO_COST, Cost, CostMeter, spent
from tileharvest.history.database import History
from tileharvest.history.recorded_versions import tile_versions
from tileharvest.history.summaries import (
    HarvestSummary,
    Past,
    harvest_summaries,
    map_summaries,
    past_of,
    precedent,
    progress_of,
)
from tileharvest.tiles.outcomes import Outcome


@pytest.fixture
def harvested(history: History) -> History:
    """Two tiles with the same image, of which one changed and the other went; a third without a version."""
    first = began(history)
    record(first, [found("add", A, b"sea"), found("add", B, b"sea"), found("404", C)], Cost(5, 700, 3))
    ended(first)
    second = began(history, LATER)
    record(second, [found("upd", A, b"island"), found("gone", B)], Cost(3, 600))
    ended(second)
    return history


def test_a_map_is_summed_up(harvested: History) -> None:
    (summary,) = map_summaries(harvested)
    assert (summary.name, summary.tiles, summary.versions) == ("world", 1, 4)
    # An image of several tiles counts once.
    assert summary.image_bytes == len(b"sea") + len(b"island")


def test_harvests_come_oldest_first_with_what_they_found(harvested: History) -> None:
    first, second = harvest_summaries(harvested, "world")
    assert first == HarvestSummary(
        id=1,
        segment="2021-02-13",
        day=DAY,
        started=datetime(2021, 2, 13, 6, tzinfo=UTC),
        ended=END,
        reason="finished",
        cost=Cost(requests=5, received_bytes=700, stored_bytes=3),
        depth={LAYER: 10},
        renderer="overviewer",
        counts={Outcome.ADDED: 2, Outcome.NOTHING: 1},
    )
    assert second.counts == {Outcome.UPDATED: 1, Outcome.GONE: 1}


def test_an_unknown_map_or_layer_is_refused_with_the_names_of_the_others(harvested: History) -> None:
    began(harvested, name="nether")
    with pytest.raises(HistoryError, match="no map 'wrold'; it has 'nether', 'world'"):
        harvest_summaries(harvested, "wrold")
    with pytest.raises(HistoryError, match="map 'world' has no layer 'night'; it has 'day'"):
        tile_versions(harvested, "world", "night")


SEGMENT = (DAY.isoformat(), DAY)


def past(history: History) -> Past:
    return past_of(history, "world", *SEGMENT)


def test_a_harvest_is_begun_and_then_complete(history: History) -> None:
    harvest = began(history)
    assert past(history) == Past(is_begun=True)
    ended(harvest)
    assert past(history) == Past(was_ever_finished=True, is_complete=True)


def test_visits_tell_whether_they_found_anything_new(history: History) -> None:
    days = [DAY + timedelta(days=number) for number in range(4)]
    for day, outcomes in zip(
        days, (["add", "add"], ["ign", "nMod"], ["ign", "gone"], ["ign", "fail"]), strict=True
    ):
        harvest = began(history, day)
        record(harvest, [found(outcome, tile) for outcome, tile in zip(outcomes, (A, B), strict=True)])
        ended(harvest)
    found_past = past_of(history, "world", *SEGMENT, with_visits=True)
    assert found_past.visits == (True, False, True, False)
    assert found_past.last_visit is not None
    assert found_past.last_visit.date() == days[-1]


def walked(history: History, day: date, walk: str | None, outcome: str = "ign") -> None:
    harvest = began(history, day)
    if walk is not None:
        harvest.note_walk(walk, "for a test")
    record(harvest, [found(outcome, A), found(outcome, B)])
    ended(harvest)


def test_the_last_of_each_walk_is_told(history: History) -> None:
    walked(history, DAY, "full", "add")
    walked(history, LATER, "pruned")
    walked(history, THIRD, "pruned")
    last = precedent(history, "world")
    assert last is not None
    assert last.pruned == last.summary
    assert [one and one.day for one in (last.summary, last.full)] == [THIRD, DAY]
    assert last.present_bytes == 2 * len(b"first")


def test_a_harvest_that_repaired_itself_is_of_neither_walk(history: History) -> None:
    walked(history, DAY, "full", "add")
    repaired = began(history, LATER)
    repaired.note_walk("pruned", "for a test")
    repaired.distrust(LAYER, "a change")
    repaired.note_walk("full", "continued")
    record(repaired, [found("ign", A), found("upd", B)])
    ended(repaired)
    last = precedent(history, "world")
    assert last is not None
    assert last.summary.walk == "repaired"
    assert (last.full and last.full.day, last.pruned) == (DAY, None)


def test_a_harvest_says_why_it_was_stopped_until_it_goes_on(history: History) -> None:
    def stopped() -> str | None:
        progress = progress_of(history, "world")
        assert progress is not None
        return progress.stopped

    harvest, other = began(history), began(history)
    # One of two processes is told that it has noted it. That one tells people.
    reason = "budget: 1,000 requests"
    assert [one.stop(reason) for one in (harvest, other)] == [True, False]
    assert stopped() == "budget: 1,000 requests"
    harvest = began(history)
    assert stopped() is None
    harvest.stop("budget: 2 GB")
    ended(harvest)
    harvest.stop("budget: too late")
    with history.reading() as connection:
        assert connection.exec_driver_sql("SELECT stopped FROM harvests").scalar_one() is None


def test_what_is_expected_is_what_the_first_process_says_that_knows_any_tile(history: History) -> None:
    assert began(history).expect(0) == 0
    assert [began(history).expect(tiles) for tiles in (30, 20, 0)] == [30, 30, 30]
    assert began(history, LATER).expect(5) == 5


def test_what_a_map_has_spent_on_a_day_is_the_sum_over_its_harvests(history: History) -> None:
    first, elsewhere = began(history, segment="morning"), Cost(100, 9, 9, 9, 9)
    record(first, [found("add")], Cost(3, 500, 40, 6_000, 1.5))
    ended(first)
    began(history, segment="evening").add_cost(Cost(2, 3_000_000_000, 1, 0, 0.25))
    began(history, name="nether").add_cost(elsewhere)
    began(history, LATER).add_cost(elsewhere)
    assert spent(history, "world", DAY) == Cost(5, 3_000_000_500, 41, 6_000, 1.75)


def test_each_part_of_a_cost_is_handed_on_once_and_no_pause_is_counted() -> None:
    now = [100.0]
    meter = CostMeter(clock=lambda: now[0])
    # What is paused before the start begins with the end of the pause.
    for step, seconds in (
        (meter.pause, 0),
        (meter.start, 5),
        (meter.resume, 2),
        (meter.pause, 10),
        (meter.pause, 10),
        (meter.resume, 1),
        (meter.resume, 1),
    ):
        step()
        now[0] += seconds
    assert meter.worked == 2 + 1 + 1
    meter.requests, meter.received_bytes, meter.stored_bytes, meter.spared_bytes = 1, 20, 300, 4000
    assert meter.take() == Cost(1, 20, 300, 4000, 4.0)
    assert meter.take() == NO_COST
    meter.requests += 2
    meter.seconds += 0.5
    now[0] += 1
    assert meter.take() == Cost(2, 0, 0, 0, 1.5)
    assert meter.total == Cost(3, 20, 300, 4000, 5.5)
