"""What is owed to a map's owner by day and by night, and by what ends a harvest before its time."""

from datetime import UTC, datetime
from typing import Final

import pytest

from tileharvest.errors import BudgetError, ExitStatus
from tileharvest.history.costs import Cost
from tileharvest.maps.budgets import Budget
from tileharvest.maps.rates import Delay
from tileharvest.maps.times import QuietHours
from tileharvest.politeness.rules import Rules, budget_of_run

NOON, EVENING = datetime(2026, 11, 20, 12, tzinfo=UTC), datetime(2026, 11, 20, 19, tzinfo=UTC)
QUIET: Final = (QuietHours.parse("18:00-23:00"),)


@pytest.mark.parametrize(
    ("gap", "quiet", "by_hand", "at_noon", "in_the_evening"),
    [
        pytest.param(1.0, None, None, 1.0, None, id="nothing is asked in quiet hours"),
        pytest.param(1.0, 5.0, None, 1.0, 5.0, id="or less"),
        pytest.param(9.0, 5.0, None, 9.0, 9.0, id="never faster"),
        pytest.param(1.0, 5.0, 0.7, 0.7, 5.0, id="a rate by hand"),
    ],
)
def test_the_gap_of_the_hour_is_never_shorter_than_quiet_hours_allow(
    gap: float, quiet: float | None, by_hand: float | None, at_noon: float, in_the_evening: float | None
) -> None:
    def delay(seconds: float | None) -> Delay | None:
        return None if seconds is None else Delay.of(seconds)

    rules = Rules("h", 1, Delay.of(gap), quiet=QUIET, quiet_gap=delay(quiet))
    assert rules.gap_at(NOON, by_hand=delay(by_hand)) == delay(at_noon)
    assert rules.gap_at(EVENING, by_hand=delay(by_hand)) == delay(in_the_evening)


def test_a_run_may_spend_the_less_of_its_own_budget_and_what_is_left_of_the_day() -> None:
    spent = Cost(requests=70, received_bytes=900, seconds=10.0)
    assert budget_of_run("m", Budget(50, 50, 50.0), Budget(100, 1000, 100.0), spent) == Budget(30, 50, 50.0)
    assert budget_of_run("m", Budget(5), Budget(seconds=9.0), Cost(seconds=4.0)) == Budget(5, None, 5.0)


@pytest.mark.parametrize("spent", [Cost(requests=100), Cost(received_bytes=1001), Cost(seconds=60.0)])
def test_nothing_is_asked_when_the_budget_of_the_day_is_spent(spent: Cost) -> None:
    with pytest.raises(BudgetError, match=r"has spent its daily budget .* tomorrow") as raised:
        budget_of_run("m", Budget(), Budget(100, 1000, 60.0), spent)
    assert raised.value.exit_status is ExitStatus.BUDGET
    assert raised.value.reason.startswith("daily budget: ")


def test_what_would_only_find_out_what_the_site_has_is_not_asked_either() -> None:
    assert budget_of_run("m", Budget(), Budget(100), Cost(requests=97)) == Budget(3)
    with pytest.raises(BudgetError, match=r"has spent its daily budget \(98 requests of 100 requests\)"):
        budget_of_run("m", Budget(), Budget(100), Cost(requests=98))
