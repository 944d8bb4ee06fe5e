"""The rules of politeness for one map: what its owner may expect of a harvest. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tileharvest.maps.budgets import Budget
from tileharvest.maps.quiet_hours import quiet_until
from tileharvest.maps.rates import NO_GAP, Gap

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from tileharvest.maps.description import MapDescription
    from tileharvest.maps.quiet_hours import QuietHours


@dataclass(frozen=True, slots=True)
class Rules:
    """What command line, `maps.toml` and settings say together."""

    host: str
    """That of the map's page."""
    concurrency: int
    """Requests of the map on the way at the same time, from all workers together."""
    gap: Gap = NO_GAP
    """Between two requests of the map, from all workers together."""
    host_concurrency: int | None = None
    """The same for all maps of the host. None: as its maps say."""
    host_gap: Gap = NO_GAP
    store_gap: Gap = NO_GAP
    """Between the storing of two images, for each worker."""
    autothrottle: bool = False
    quiet: tuple[QuietHours, ...] = ()
    quiet_gap: Gap | None = None
    """Between two requests in the quiet hours. None: nothing is asked then."""
    budget: Budget = field(default_factory=Budget)
    """Of one run."""
    daily_budget: Budget = field(default_factory=Budget)
    """Of all runs of a day."""
    min_free: int | None = None
    """Bytes that must stay free on the disk of the data folder."""
    robots: bool = True
    """Whether robots.txt is obeyed."""
    user_agents: tuple[str, ...] = ()
    """At least one. Of several, each request takes one at random."""
    crawl_gap: Gap = NO_GAP
    """What the site's robots.txt asks for between two requests."""

    def quiet_until(self, moment: datetime) -> datetime | None:
        """Returns when the present quiet hours end, for a moment of the map's time zone. None without any."""
        return quiet_until(self.quiet, moment)

    def gap_at(self, moment: datetime, *, by_hand: Gap | None = None) -> Gap | None:
        """Returns the gap between two requests at this moment, or None while nothing may be asked.

        A rate set by hand takes the place of the map's own. It is never faster than the quiet hours and the
        site's robots.txt allow.
        """
        gap = (self.gap if by_hand is None else by_hand).at_least(self.crawl_gap)
        if self.quiet_until(moment) is None:
            return gap
        return None if self.quiet_gap is None else gap.at_least(self.quiet_gap)


def most_generous(its_maps: Collection[MapDescription]) -> tuple[int, Gap]:
    """Returns the concurrency and the gap for all these maps of a host together, where nothing is said of the
    host: what the most generous of them may have alone.

    A single map keeps its own gap, so that the host needs none: else a rate set by hand could never be a
    faster one.
    """
    gaps = [one.gap or NO_GAP for one in its_maps]
    return (
        max((one.concurrency for one in its_maps), default=1),
        NO_GAP if len(gaps) < 2 else Gap.of(min(gap.least for gap in gaps)),
    )
