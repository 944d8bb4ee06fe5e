"""The notice of a harvest that has ended: put together, and sent."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from tileharvest.errors import TileHarvestError
from tileharvest.history.outlines import map_outline
from tileharvest.history.summaries import harvest_summaries
from tileharvest.notices.delivery import deliver
from tileharvest.notices.message import compose
from tileharvest.notices.places import changed_places
from tileharvest.pictures.difference import change_picture

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date

    from tileharvest.history.costs import Cost
    from tileharvest.history.database import History
    from tileharvest.notices.message import Report
    from tileharvest.notices.places import ChangedPlace
    from tileharvest.notices.settings import Wishes
    from tileharvest.store.port import TileStore


def tell(
    report: Report,
    segment: str,
    wishes: Wishes,
    open_history: Callable[[], History],
    open_store: Callable[[], TileStore],
    patience: float,
) -> list[str]:
    """Sends the notice of a harvest that has ended. Returns who did not get it, and why.

    Blocks, and uses the network. Sending may take `patience` seconds. What cannot be read of history or
    store is left out.
    """
    places: list[ChangedPlace] = []
    picture = None
    with suppress(TileHarvestError), open_history() as history:
        report = replace(report, cost=_cost(history, report.map, segment))
        if report.changed:
            places = changed_places(history, report.map, report.day)
        if places:
            before = _day_before(history, report.map, report.day)
            picture = change_picture(
                history,
                open_store(),
                [(place.layer_id, place.view) for place in places],
                report.day,
                before,
            )
    return deliver(wishes.targets, compose(report, places, wishes.viewer), picture, patience)


def _cost(history: History, map_name: str, segment: str) -> Cost | None:
    """Returns what the newest harvest of the segment cost, all workers together; None if there is none."""
    for summary in reversed(harvest_summaries(history, map_name)):
        if summary.segment == segment:
            return summary.cost
    return None


def _day_before(history: History, map_name: str, day: date) -> date | None:
    return max((one for one in map_outline(history, map_name).days if one < day), default=None)
