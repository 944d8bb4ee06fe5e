"""The rules of politeness for one map: what its owner may expect of a harvest. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tileharvest.errors import BudgetError
from tileharvest.maps.budgets import OF_DAY, PARTS, Budget, amount_in_words
from tileharvest.maps.rates import NO_DELAY, Delay
from tileharvest.maps.times import quiet_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from tileharvest.history.costs import Cost
    from tileharvest.maps.times import QuietHours

_TO_BEGIN: Final = 2
"""Requests before the first tile: robots.txt and the map's configuration."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that command line, `maps.toml` and settings give together."""

    host: str
    """The host of the map's page."""
    concurrency: int
    """The most requests of the map on the way at the same time, from all workers together."""
    gap: Delay = NO_DELAY
    """The gap between two requests of the map, from all workers together."""
    limits_at: Callable[[str], tuple[int, Delay]] = lambda host: (1_000_000, NO_DELAY)
    """Returns the concurrency and the gap at a host, which a request of this map shares with all maps of that
    host."""
    autothrottle: bool = False
    quiet: tuple[QuietHours, ...] = ()
    quiet_gap: Delay | None = None
    """The gap between two requests in the quiet hours. None if nothing is asked then."""
    budget: Budget = field(default_factory=Budget)
    """The budget of one run."""
    daily_budget: Budget = field(default_factory=Budget)
    """The budget of all runs of a day."""
    min_free: int | None = None
    """The bytes that must stay free on the disk of the data folder."""
    robots: bool = True
    """Whether robots.txt is obeyed."""
    user_agents: tuple[str, ...] = ()
    """At least one. Each request takes one of them at random."""

    def quiet_until(self, moment: datetime) -> datetime | None:
        """Returns when the quiet hours of this moment end, or None if requests may be made. The moment is in
        the map's time zone."""
        return quiet_until(self.quiet, moment) if self.quiet_gap is None else None

    def gap_at(self, moment: datetime, *, by_hand: Delay | None = None) -> Delay:
        """Returns the gap between two requests at this moment, if any may be made.

        A rate set by hand takes the place of the map's own. It is never faster than the quiet hours allow.
        """
        gap = self.gap if by_hand is None else by_hand
        if self.quiet_gap is None or quiet_until(self.quiet, moment) is None:
            return gap
        return gap.at_least(self.quiet_gap)


def budget_of_run(name: str, budget: Budget, daily: Budget, spent: Cost) -> Budget:
    """Returns the budget of one run of a map: `budget`, or what is left of the `daily` one where that is
    less.

    Raises BudgetError if nothing of the daily budget is left. Nothing was asked then.
    """
    limits: list[Any] = []
    costs = (spent.requests, spent.received_bytes, spent.seconds)
    for part, most, of_day, already in zip(PARTS, budget.limits, daily.limits, costs, strict=True):
        # A run that could only probe the site is not worth its requests, and nothing would record it.
        if of_day is not None and already + (_TO_BEGIN if part == "requests" else 0) >= of_day:
            limit = amount_in_words(of_day, part)
            raise BudgetError(
                f"map '{name}' has spent its daily budget ({amount_in_words(already, part)} of {limit});"
                " nothing was asked; run it again tomorrow to go on",
                f"{OF_DAY}: {limit}",
            )
        left = None if of_day is None else of_day - already
        limits.append(min((one for one in (most, left) if one is not None), default=None))
    return Budget(*limits)
