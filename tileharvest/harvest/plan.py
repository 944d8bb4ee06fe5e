"""The plan of a harvest: its cost by the last harvest, or by a sample of the map. Pure."""

from __future__ import annotations

from math import ceil, floor, isnan, log10
from typing import TYPE_CHECKING, Any, NamedTuple

from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from tileharvest.history.summaries import Precedent
    from tileharvest.maps.budgets import Budget
    from tileharvest.politeness.rules import Rules


class Expense(NamedTuple):
    """The cost of a harvest, or of a part of it."""

    tiles: float
    """The number of tiles that are kept."""
    requests: float
    received_bytes: float
    """Bytes of bodies. NaN if the site does not tell the size of a tile; every sum with it is NaN, too."""
    seconds: float = 0.0

    def runs(self, budget: Budget) -> int:
        """Returns the number of runs that a harvest takes if each run may spend the budget."""
        spent = (
            (self.requests, budget.requests),
            (0 if isnan(self.received_bytes) else self.received_bytes, budget.received_bytes),
            (self.seconds, budget.seconds),
        )
        return max((1, *(ceil(amount / limit) for amount, limit in spent if limit is not None)))

    def as_plain(self) -> dict[str, Any]:
        """Returns the cost for programs. The names never change, and an unknown number is None."""
        return {
            "tiles": round(self.tiles),
            "requests": round(self.requests),
            "received_bytes": None if isnan(self.received_bytes) else round(self.received_bytes),
            "seconds": round(self.seconds, 1),
        }


class HarvestPlan(NamedTuple):
    """The cost of the next harvest."""

    expected: Expense
    most: Expense
    least: Expense | None = None
    """None if it may cost next to nothing."""
    is_exact: bool = True
    """Whether numbers are shown to the last digit. They are not if only a part of the map was sampled."""

    def shown(self, number: float) -> int:
        """Returns a number of the plan as it is shown to people."""
        return round(number) if self.is_exact else two_digits(number)


def plan_by_last(last: Precedent, rules: Rules, *, is_pruned: bool, share: int = 1) -> HarvestPlan:
    """Returns the cost of the next harvest, without asking the site.

    It is expected to cost what the last harvest has cost that walked as the next one will (`is_pruned`), or
    else the last full one. The most is a full walk in which every tile has changed: one more request for each
    tile, and the bytes of all of them. A request takes as long as in that harvest, or longer if the map's
    limit is slower now. `share` is the number of days over which the empty places of a map of one zoom are
    asked again, and 1 for other maps.
    """
    full = last.full or last.summary
    like = last.pruned if is_pruned and last.pruned is not None else full
    if share > 1 and last.summary.walk == "share":
        like = last.summary
    tiles, gap = last.summary.present, max(rules.gap.mean, rules.host_gap.mean)
    each = max(gap, like.cost.seconds / max(1, like.cost.requests))
    requests: float = like.cost.requests
    if like.walk != "share":
        requests -= like.counts.get(Outcome.NOTHING, 0) * (1 - 1 / share)
    most = full.cost.requests + tiles
    return HarvestPlan(
        expected=Expense(tiles, requests, like.cost.received_bytes, requests * each),
        most=Expense(tiles, most, max(full.cost.received_bytes, last.present_bytes), most * each),
    )


def two_digits(number: float) -> int:
    """Returns a number of 100 and more rounded to two digits: 5,461 becomes 5,500."""
    return int(round(number, 1 - floor(log10(number)))) if number >= 100 else round(number)
