from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from tileharvest.harvest.plan import Expense, plan_by_last
from tileharvest.history.costs import Cost
from tileharvest.history.summaries import HarvestSummary, Precedent
from tileharvest.maps.budgets import Budget
from tileharvest.maps.rates import Delay
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


def rules(gap: Delay | None = None, host_gap: Delay | None = None, concurrency: int = 4) -> Rules:
    return Rules(
        "map.example.net",
        concurrency,
        gap=gap or Delay(0, 0),
        limits_at=lambda host: (4, host_gap or Delay(0, 0)),
    )


def pruned_harvest() -> Precedent:
    """The harvest after `last_harvest`: of its 100 tiles 90 were not asked, nor the places with nothing."""
    full = last_harvest()
    counts = {Outcome.IGNORED: 6, Outcome.UPDATED: 4, Outcome.SKIPPED: 90}
    summary = replace(full.summary, id=2, cost=Cost(16, 4_000, seconds=9.0), counts=counts, walk="pruned")
    return Precedent(summary, full.present_bytes, summary, full.summary)


def test_of_the_empty_places_of_one_zoom_the_next_harvest_asks_a_share() -> None:
    full = last_harvest()
    assert plan_by_last(full, rules(), is_pruned=False, share=5).expected.requests == 135 - 20 * 4 / 5
    shared = replace(full.summary, walk="share", cost=Cost(120, 9_000, seconds=1.0))
    after = Precedent(shared, full.present_bytes, full=full.summary)
    assert plan_by_last(after, rules(), is_pruned=False, share=5).expected.requests == 120


@pytest.mark.parametrize(
    ("last", "is_pruned", "expected"),
    [
        (last_harvest(), False, Expense(100, 135, 11_000, 300.0)),
        (last_harvest(), True, Expense(100, 135, 11_000, 300.0)),
        (pruned_harvest(), True, Expense(100, 16, 4_000, 9.0)),
        (pruned_harvest(), False, Expense(100, 135, 11_000, 300.0)),
    ],
    ids=["full", "no pruned one yet", "pruned", "full after a pruned one"],
)
def test_the_next_harvest_costs_what_the_last_of_its_walk_did(
    last: Precedent, is_pruned: bool, expected: Expense
) -> None:
    assert plan_by_last(last, rules(), is_pruned=is_pruned).expected == pytest.approx(expected)


@pytest.mark.parametrize(("gap", "each"), [(Delay(2.0, 4.0), 3.0), (Delay(0.1, 0.3), 300 / 135)])
def test_a_limit_that_has_become_slower_since_counts(gap: Delay, each: float) -> None:
    plan = plan_by_last(last_harvest(), rules(gap), is_pruned=False)
    assert plan.expected.seconds == pytest.approx(135 * each)
    # At most every tile is fetched.
    assert plan.most == pytest.approx(Expense(100, 235, 105_000, 235 * each))


@pytest.mark.parametrize(
    ("budget", "runs"),
    [
        (Budget(), 1),
        (Budget(requests=1000), 1),
        (Budget(requests=999), 2),
        (Budget(requests=400, bytes=1_000_000), 5),
        (Budget(seconds=7.0), 15),
    ],
)
def test_the_budget_that_is_spent_first_says_how_many_runs_it_takes(budget: Budget, runs: int) -> None:
    assert Expense(400, 1000, 5_000_000, 100.0).runs(budget) == runs
