"""What ends a harvest before its time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tileharvest.errors import BudgetError, DaySpentError, ExitStatus
from tileharvest.history.costs import Cost
from tileharvest.maps.budgets import Budget
from tileharvest.politeness.limits import budget_of_run, check_room

if TYPE_CHECKING:
    from pathlib import Path


def test_a_run_may_spend_the_less_of_its_own_budget_and_what_is_left_of_the_day() -> None:
    spent = Cost(requests=70, received_bytes=900, seconds=10.0)
    of_run, of_day = Budget(50, 50, 50.0), Budget(100, 1000, 100.0)
    assert budget_of_run("m", of_run, of_day, spent) == Budget(30, 50, 50.0)


def test_what_only_one_of_them_limits_is_limited_by_that() -> None:
    assert budget_of_run("m", Budget(requests=5), Budget(seconds=9.0), Cost(seconds=4.0)) == Budget(
        5, None, 5.0
    )


@pytest.mark.parametrize("spent", [Cost(requests=100), Cost(received_bytes=1001), Cost(seconds=60.0)])
def test_nothing_is_asked_when_the_budget_of_the_day_is_spent(spent: Cost) -> None:
    with pytest.raises(DaySpentError, match=r"has spent its daily budget .* tomorrow") as raised:
        budget_of_run("m", Budget(), Budget(100, 1000, 60.0), spent)
    assert raised.value.exit_status is ExitStatus.BUDGET
    assert raised.value.reason.startswith("daily budget: ")


def test_what_would_only_find_out_what_the_site_has_is_not_asked_either() -> None:
    assert budget_of_run("m", Budget(), Budget(100), Cost(requests=97)) == Budget(3)
    with pytest.raises(BudgetError, match=r"has spent its daily budget \(98 requests of 100 requests\)"):
        budget_of_run("m", Budget(), Budget(100), Cost(requests=98))


@pytest.mark.parametrize("is_all_kept", [True, False])
def test_where_there_is_no_room_it_is_told_whether_what_came_is_kept(
    tmp_path: Path, is_all_kept: bool
) -> None:
    with pytest.raises(BudgetError) as raised:
        check_room(tmp_path, 1000, is_all_kept=is_all_kept, free=lambda place: 1)
    assert raised.value.is_all_kept is is_all_kept


def test_room_is_asked_for_what_is_to_come(tmp_path: Path) -> None:
    check_room(tmp_path, 1000, 500, free=lambda place: 1500)
    with pytest.raises(BudgetError, match="make room"):
        check_room(tmp_path, 1000, 501, free=lambda place: 1500)


def test_the_room_of_a_folder_to_be_made_is_that_of_the_one_above(tmp_path: Path) -> None:
    asked: list[Path] = []
    check_room(tmp_path / "data" / "x", 1, free=lambda place: asked.append(place) or 2)  # type: ignore[func-returns-value]
    assert asked == [tmp_path]


def test_sizes_are_told_as_people_write_them(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match=r"only 1\.5 MB are free .* min_free is 80\.0 GB") as raised:
        check_room(tmp_path, 80_000_000_000, free=lambda place: 1_500_000)
    assert raised.value.reason == "min_free: 80.0 GB"
    with pytest.raises(BudgetError, match=r"\(600\.0 MB of 500\.0 MB\)"):
        budget_of_run("m", Budget(), Budget(None, 500_000_000), Cost(received_bytes=600_000_000))
