"""From the end of a harvest to the message that was sent: the only part that puts the others together."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from tileharvest.errors import TileHarvestError
from tileharvest.history.outlines import map_outline
from tileharvest.history.summaries import harvest_summaries
from tileharvest.notices.message import compose
from tileharvest.notices.picture import change_picture
from tileharvest.notices.places import changed_places
from tileharvest.notices.sending import deliver

if TYPE_CHECKING:
    from datetime import date

    from tileharvest.history.costs import Cost
    from tileharvest.history.database import History
    from tileharvest.notices.message import Report
    from tileharvest.notices.places import ChangedPlace
    from tileharvest.notices.sending import Undelivered
    from tileharvest.notices.targets import Target
    from tileharvest.store.port import TileStore


class Kept(Protocol):
    """Opens for reading what a harvest has kept."""

    def open_history(self) -> History:
        """Raises HistoryError."""
        ...

    def open_store(self) -> TileStore:
        """Raises StoreError, or ConfigurationError."""
        ...


@dataclass(frozen=True, slots=True)
class Wishes:
    """Who is told when."""

    targets: tuple[Target, ...]
    occasions: tuple[str, ...]
    """Words of `Occasion`."""
    viewer: str = ""
    """The address of the viewer, for links; empty: without links."""


def tell(report: Report, segment: str, wishes: Wishes, kept: Kept, patience: float) -> list[Undelivered]:
    """Send the notice of a harvest that has ended; who did not get it. Blocks, and uses the network.

    `patience` in seconds is for the sending. What cannot be read of history or store is left out.
    """
    places: list[ChangedPlace] = []
    picture = None
    with suppress(TileHarvestError), kept.open_history() as history:
        report = replace(report, cost=_cost(history, report.map, segment))
        if report.changed:
            places = changed_places(history, report.map, report.day)
        if places:
            before = _day_before(history, report.map, report.day)
            picture = change_picture(history, kept.open_store(), places, report.day, before)
    return deliver(wishes.targets, compose(report, places, wishes.viewer), picture, patience)


def _cost(history: History, map_name: str, segment: str) -> Cost | None:
    """Of the newest harvest of the segment, all workers together; None where there is none."""
    for summary in reversed(harvest_summaries(history, map_name)):
        if summary.segment == segment:
            return summary.cost
    return None


def _day_before(history: History, map_name: str, day: date) -> date | None:
    return max((one for one in map_outline(history, map_name).days if one < day), default=None)
