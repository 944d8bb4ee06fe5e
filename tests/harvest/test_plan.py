from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from tileharvest.harvest.plan import (
    Expense,
    plan_by_last,
    two_digits,
    why_not_pruned,
)
from tileharvest.history.costs import Cost
from tileharvest.history.summaries import HarvestSummary, Precedent
from tileharvest.maps.budgets import Budget
from tileharvest.maps.rates import Gap
from tileharvest.politeness.rules import Rules
from tileharvest.tiles.outcomes import Outcome

BEGAN = datetime(2026, 11, 20, 3, tzinfo=UTC)


def last_harvest(*, spared: int = 95_000, seconds: float = 300.0) -> Precedent:
    """100 tiles, 90 of them unchanged; 20 places with nothing, 5 tiles gone; no request of another kind."""
    counts = {
        Outcome.NOTHING: 20,
        Outcome.IGNORED: 90,
        Outcome.NOT_MODIFIED: 2,
        Outcome.UPDATED: 5,
        Outcome.ADDED: 3,
        Outcome.GONE: 5,
    }
    summary = HarvestSummary(
        id=1,
        segment="2026-11-20",
        day=date(2026, 11, 20),
        started=BEGAN,
        ended=BEGAN + timedelta(seconds=600),
        reason="finished",
        cost=Cost(135, 11_000, 8000, spared, seconds),
        depth={"day": 3},
        renderer="overviewer",
        counts=counts,
    )
    return Precedent(summary, present_bytes=105_000)


def rules(gap: Gap | None = None, host_gap: Gap | None = None, concurrency: int = 4) -> Rules:
    return Rules(
        "map.example.net",
        concurrency,
        gap=gap or Gap(0, 0),
        host_gap=host_gap or Gap(0, 0),
    )


def test_the_next_harvest_costs_what_the_last_did() -> None:
    plan = plan_by_last(last_harvest(), rules(), audit=0.0)
    assert plan.expected == Expense(100, 135, 11_000, 300.0)
    assert plan.least is None


def test_at_most_every_tile_is_fetched_and_each_request_takes_as_long() -> None:
    plan = plan_by_last(last_harvest(), rules(), audit=0.0)
    assert plan.most == Expense(100, 135 + 90, 11_000 + 95_000, pytest.approx(300.0 * 225 / 135))


def first_harvest() -> Precedent:
    """By GET alone: of 100 tiles, and of 20 places with nothing."""
    last = last_harvest(spared=0)
    counts = {Outcome.NOTHING: 20, Outcome.ADDED: 100}
    return last._replace(summary=replace(last.summary, cost=Cost(120, 105_000, 105_000), counts=counts))


def test_after_a_first_harvest_by_get_a_changed_tile_takes_a_request_more() -> None:
    plan = plan_by_last(first_harvest(), rules(), audit=0.0, at_once=True)
    assert (plan.expected.requests, plan.most.requests) == (120, 220)


def test_what_follows_that_is_planned_as_after_any_harvest() -> None:
    first = first_harvest()
    counts = {Outcome.NOTHING: 20, Outcome.IGNORED: 90, Outcome.UPDATED: 10}
    summary = replace(first.summary, cost=Cost(130, 11_000, 11_000, 95_000), counts=counts, expected=100)
    plan = plan_by_last(first._replace(summary=summary), rules(), audit=0.0, at_once=True)
    assert (plan.expected.requests, plan.most.requests) == (130, 220)


def test_what_an_older_release_has_not_noted_is_taken_from_the_tiles_and_the_clock() -> None:
    plan = plan_by_last(last_harvest(spared=0, seconds=0.0), rules(), audit=0.0)
    assert plan.expected.seconds == pytest.approx(600.0)
    assert plan.most.received_bytes == 105_000


def pruned_harvest() -> Precedent:
    """The harvest after `last_harvest`: of its 100 tiles 90 were not asked, nor the places with nothing."""
    full = last_harvest()
    counts = {Outcome.IGNORED: 6, Outcome.UPDATED: 4, Outcome.SKIPPED: 90}
    summary = replace(full.summary, id=2, cost=Cost(16, 4_000, seconds=9.0), counts=counts, walk="pruned")
    return Precedent(summary, full.present_bytes, summary, full.summary)


def test_a_pruned_walk_costs_what_the_last_one_did() -> None:
    assert plan_by_last(pruned_harvest(), rules(), audit=0.0).pruned == Expense(100, 16, 4_000, 9.0)


def test_a_pruned_walk_takes_no_less_than_the_pace_allows() -> None:
    plan = plan_by_last(pruned_harvest(), rules(Gap(2.0, 4.0)), audit=0.0)
    assert plan.pruned == Expense(100, 16, 4_000, 48.0)


def test_a_full_walk_after_a_pruned_one_asks_what_that_has_skipped_and_the_places_with_nothing() -> None:
    requests = 16 + 90 + 20
    plan = plan_by_last(pruned_harvest(), rules(), audit=0.0)
    assert plan.expected == Expense(100, requests, 4_000, pytest.approx(requests * 300 / 135))
    assert plan.most.requests == requests + 96


@pytest.mark.parametrize(
    ("audit", "layers", "requests"),
    [
        pytest.param(0.0, 1, 4, id="the first level alone"),
        pytest.param(0.02, 1, 24, id="and what is always audited"),
        pytest.param(0.5, 1, 54, id="and a larger share of the tiles"),
        pytest.param(1.0, 1, 104, id="and all of them"),
        pytest.param(0.02, 6, 124, id="of which there are no more"),
    ],
)
def test_without_a_pruned_harvest_the_least_is_told_that_one_takes(
    audit: float, layers: int, requests: int
) -> None:
    last = last_harvest()
    summary = replace(last.summary, depth={f"layer {place}": 3 for place in range(layers)})
    plan = plan_by_last(last._replace(summary=summary), rules(), audit=audit)
    assert plan.pruned == Expense(100, requests, 0, pytest.approx(requests * 300 / 135))


def test_a_layer_without_an_edge_takes_its_whole_first_level() -> None:
    pruned = plan_by_last(last_harvest()._replace(first_level=25), rules(), audit=0.0).pruned
    assert pruned is not None
    assert pruned.requests == 25


def test_a_pruned_walk_of_a_small_map_asks_no_more_than_one_in_full() -> None:
    last = last_harvest()
    summary = replace(last.summary, cost=replace(last.summary.cost, requests=3), counts={Outcome.IGNORED: 3})
    pruned = plan_by_last(last._replace(summary=summary), rules(), audit=0.02).pruned
    assert pruned is not None
    assert pruned.requests == 3


def test_a_pace_that_has_become_slower_since_counts() -> None:
    slower = plan_by_last(last_harvest(), rules(Gap(2.0, 4.0)), audit=0.0)
    assert slower.expected.seconds == pytest.approx(135 * 3.0)
    assert slower.most.seconds == pytest.approx(225 * 3.0)
    faster = plan_by_last(last_harvest(), rules(Gap(0.1, 0.3)), audit=0.0)
    assert faster.expected.seconds == pytest.approx(300.0)


@pytest.mark.parametrize(
    ("budget", "runs"),
    [
        (Budget(), 1),
        (Budget(requests=1000), 1),
        (Budget(requests=999), 2),
        (Budget(requests=400, received_bytes=1_000_000), 5),
        (Budget(seconds=7.0), 15),
    ],
)
def test_the_budget_that_is_spent_first_says_how_many_runs_it_takes(budget: Budget, runs: int) -> None:
    assert Expense(400, 1000, 5_000_000, 100.0).runs(budget) == runs


@pytest.mark.parametrize(
    ("number", "told"), [(0, 0), (7.4, 7), (99, 99), (104, 100), (5461, 5500), (1.25e6, 1_200_000)]
)
def test_what_is_not_known_exactly_is_told_in_two_digits(number: float, told: int) -> None:
    assert two_digits(number) == told


REPAIRED, SPARING = "repaired", "pruned"
EVERY = 7
"""Days from one full walk to the next."""


@pytest.mark.parametrize(
    ("walks", "days", "is_told"),
    [
        ((REPAIRED, REPAIRED), 6, True),
        ((REPAIRED, REPAIRED), 7, False),
        ((REPAIRED, SPARING), 0, False),
        ((SPARING, REPAIRED), 0, False),
        ((REPAIRED,), 0, False),
        ((), 0, False),
    ],
    ids=["both", "both, long ago", "the later one", "the earlier one", "the first one", "none"],
)
def test_pruned_walks_that_spared_nothing_twice_speak_against_the_next_one(
    walks: tuple[str, ...], days: int, is_told: bool
) -> None:
    """The latest comes first."""
    summary = last_harvest().summary
    last = [
        replace(summary, walk=walk, day=summary.day - timedelta(days=age)) for age, walk in enumerate(walks)
    ]
    why = why_not_pruned(last, None, summary.day + timedelta(days=days), EVERY)
    told = "the pruned walks of 2026-11-19 and 2026-11-20 had to ask for everything after all"
    assert why == (told if is_told else None)


def walked(walk: str, day: int, asked: int, *, requests: int = 0) -> HarvestSummary:
    """A harvest that asked so many tiles, and skipped some."""
    counts = {Outcome.NOTHING: 20, Outcome.IGNORED: asked - 70, Outcome.UPDATED: 50, Outcome.SKIPPED: 30}
    cost = Cost(requests or asked + 50, 0, 0, 0, 1.0)
    return replace(last_harvest().summary, walk=walk, day=date(2026, 11, day), cost=cost, counts=counts)


@pytest.mark.parametrize(
    ("asked", "is_told"), [((100, 100), False), ((141, 100), True), ((79, 160), False), ((79, 162), True)]
)
def test_pruned_walks_that_asked_more_than_a_full_one_speak_against_the_next_one(
    asked: tuple[int, int], is_told: bool
) -> None:
    last = [walked(SPARING, 19, asked[0]), walked(REPAIRED, 18, asked[1])]
    why = why_not_pruned(last, walked("full", 17, 120), date(2026, 11, 20), EVERY)
    assert (why is not None) == is_told
    if is_told:
        told = "asked {1} and {0} tiles, and the full one of 2026-11-17 asked 120".format(*asked)
        assert why == f"the pruned walks of 2026-11-18 and 2026-11-19 {told}"


def test_requests_that_kills_have_left_counted_too_high_speak_against_no_walk() -> None:
    last = [walked(SPARING, 19, 79, requests=10_000), walked(SPARING, 18, 79, requests=10_000)]
    assert why_not_pruned(last, walked("full", 17, 100), date(2026, 11, 20), EVERY) is None
    last = [walked(SPARING, 19, 101), walked(SPARING, 18, 101)]
    full = walked("full", 17, 100, requests=10_000)
    assert why_not_pruned(last, full, date(2026, 11, 20), EVERY) is not None


def test_a_harvest_tells_which_part_of_the_tiles_it_asked() -> None:
    summary = last_harvest().summary
    assert (summary.present, summary.asked_share) == (100, 1)
    skipping = replace(summary, counts={**summary.counts, Outcome.IGNORED: 69, Outcome.SKIPPED: 21})
    assert skipping.asked_share == pytest.approx(0.79)
    assert replace(summary, counts={}).asked_share == 1
