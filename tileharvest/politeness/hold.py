"""Why nothing may start, and until when. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from tileharvest.politeness.reasons import Reason

if TYPE_CHECKING:
    from datetime import datetime


class Hold(NamedTuple):
    """The reason for which nothing may start."""

    reason: Reason
    until: float | None = None
    """When it ends, in seconds since 1970. None if nobody knows."""


@dataclass(frozen=True, slots=True)
class Holds:
    """All that may hold the requests of a map back at one moment."""

    spent: bool = False
    """Whether a budget is spent, or the disk is full: the harvest is about to end."""
    paused: bool = False
    """Whether a person has paused the map."""
    quiet_until: datetime | None = None
    """When the present quiet hours without a rate end."""
    rests_until: float | None = None
    """When the rest of the host ends."""
    down_until: float | None = None
    """When the host, which does not answer, is asked again. Infinity if nobody knows."""

    def at(self, now: float) -> Hold | None:
        """Returns what holds requests back, or None if they may start. Of several reasons the first one that
        no waiting ends is told, and else the one that ends last."""
        if self.spent:
            return Hold(Reason.SPENT)
        if self.paused:
            return Hold(Reason.PAUSED)
        ends = {
            Reason.QUIET: None if self.quiet_until is None else self.quiet_until.timestamp(),
            Reason.RESTING: self.rests_until,
            Reason.DOWN: self.down_until,
        }
        last = max(ends, key=lambda reason: ends[reason] or -inf)
        until = ends[last]
        if until is None or until <= now:
            return None
        return Hold(last, None if until == inf else until)
