"""The rules of politeness for one map: what its owner may expect of a harvest. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tileharvest.maps.budgets import Budget
from tileharvest.maps.rates import NO_DELAY, Delay
from tileharvest.maps.times import quiet_until

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import datetime

    from tileharvest.maps.description import MapDescription
    from tileharvest.maps.times import QuietHours

_NO_LIMIT: Final = 1_000_000
"""More requests than are ever on the way."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that command line, `maps.toml` and settings give together."""

    host: str
    """The host of the map's page."""
    concurrency: int
    """The most requests of the map on the way at the same time, from all workers together."""
    gap: Delay = NO_DELAY
    """The gap between two requests of the map, from all workers together."""
    host_concurrency: int | None = None
    """The most requests on the way from all maps of the host together. None if only its maps limit them."""
    host_gap: Delay = NO_DELAY
    """The gap between two requests from all maps of the host together."""
    beside: Callable[[str], tuple[int | None, Delay]] = field(
        default=lambda host: (None, NO_DELAY), repr=False, compare=False
    )
    """Returns the same two limits of another host."""
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

    def limits_at(self, host: str) -> tuple[int, Delay]:
        """Returns the concurrency and the gap at a host, which a request of this map shares with all maps of
        that host."""
        if host != self.host:
            concurrency, gap = self.beside(host)
        else:
            concurrency, gap = self.host_concurrency, self.host_gap
        return concurrency or _NO_LIMIT, gap

    def quiet_until(self, moment: datetime) -> datetime | None:
        """Returns when the quiet hours of this moment end, or None if it lies in none. The moment is in the
        map's time zone."""
        return quiet_until(self.quiet, moment)

    def gap_at(self, moment: datetime, *, by_hand: Delay | None = None) -> Delay | None:
        """Returns the gap between two requests at this moment, or None while nothing may be asked.

        A rate set by hand takes the place of the map's own. It is never faster than the quiet hours allow.
        """
        gap = self.gap if by_hand is None else by_hand
        if self.quiet_until(moment) is None:
            return gap
        return None if self.quiet_gap is None else gap.at_least(self.quiet_gap)


def most_generous(its_maps: Collection[MapDescription], *, beside: bool = False) -> tuple[int, Delay]:
    """Returns the concurrency and the gap of all these maps of a host together, if nobody has set any for the
    host: those of the most generous map.

    With a single map the host has no gap, because the map has its own. Otherwise a rate set by hand could
    never be faster. `beside` says that requests of another map come to those of these maps: then the host has
    the gap of a single map, too.
    """
    gaps = [one.gap or NO_DELAY for one in its_maps]
    return (
        max((one.concurrency for one in its_maps), default=1),
        Delay.of(min(gap.least for gap in gaps)) if len(gaps) > (0 if beside else 1) else NO_DELAY,
    )
