from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from tests.history.making import DAY, LATER, LAYER, A, B, began, ended, found, record
from tileharvest.history.costs import Cost, spent
from tileharvest.history.summaries import failed_tiles

if TYPE_CHECKING:
    from tileharvest.history.database import History
    from tileharvest.tiles.grid import Tile

FIRST, SECOND, ELSEWHERE = (
    Cost(3, 500, 40, 6_000, 1.5),
    Cost(2, 3_000_000_000, 1, 0, 0.25),
    Cost(100, 9, 9, 9, 9),
)


def in_a_row(history: History, name: str) -> dict[tuple[str, Tile], int]:
    """By tile that fails: in how many harvests in a row."""
    return {(one.layer, one.tile): one.in_a_row for one in failed_tiles(history, name)}


def test_what_a_map_has_spent_on_a_day_is_the_sum_over_its_harvests(history: History) -> None:
    first = began(history, segment="morning")
    record(first, [found("add")], FIRST)
    ended(first)
    began(history, segment="evening").add_cost(SECOND)
    began(history, name="nether").add_cost(ELSEWHERE)
    began(history, LATER).add_cost(ELSEWHERE)
    assert spent(history, "world", DAY) == Cost(5, 3_000_000_500, 41, 6_000, 1.75)


def test_a_day_or_map_without_harvests_has_cost_nothing(history: History) -> None:
    began(history).add_cost(FIRST)
    assert spent(history, "world", LATER) == spent(history, "wrold", DAY) == Cost()


def test_what_a_harvest_costs_on_a_later_day_is_spent_on_that_day(history: History) -> None:
    """One of a week is continued each day, with what each day allows."""
    days = [DAY]
    harvest = began(history, segment="week", today=lambda: days[-1])
    record(harvest, [found("add")], FIRST)
    days.append(LATER)
    harvest.add_cost(SECOND)
    assert [spent(history, "world", day) for day in days] == [FIRST, SECOND]
    ended(harvest)
    began(history, LATER, today=lambda: LATER).add_cost(ELSEWHERE)
    assert [spent(history, "world", day) for day in days] == [FIRST, SECOND + ELSEWHERE]


def test_what_workers_on_two_days_spend_adds_up(history: History) -> None:
    """Two processes have one harvest, and each knows the day by its own clock."""
    early, late = (began(history, segment="week", today=lambda day=day: day) for day in (DAY, LATER))  # type: ignore[misc]
    for each in (early, late, early):
        each.add_cost(FIRST)
    assert spent(history, "world", DAY) == FIRST + FIRST
    assert spent(history, "world", LATER) == FIRST


def test_a_tile_fails_in_a_row_from_harvest_to_harvest_until_it_answers(history: History) -> None:
    seen = []
    for number, outcomes in enumerate(["fail", "fail fail", "fail ign", "fail"]):
        harvest = began(history, DAY + timedelta(days=number))
        for outcome in outcomes.split():
            record(harvest, [found(outcome)])
        ended(harvest)
        seen.append(in_a_row(history, "world"))
    assert seen == [{(LAYER, A): 1}, {(LAYER, A): 2}, {}, {(LAYER, A): 1}]


def test_harvests_that_did_not_ask_for_a_tile_do_not_count(history: History) -> None:
    for number, tile in enumerate([A, B, A]):
        # Each but the last is interrupted by the next.
        record(began(history, DAY + timedelta(days=number)), [found("fail", tile)])
    record(began(history, name="nether"), [found("fail")])
    assert in_a_row(history, "world") == {(LAYER, A): 2, (LAYER, B): 1}
    assert in_a_row(history, "wrold") == {}
