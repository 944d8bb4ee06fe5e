"""The notice of a harvest that has ended: how it is made and sent."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tileharvest.errors import TileHarvestError
from tileharvest.history.outlines import map_outline
from tileharvest.history.summaries import harvest_summaries
from tileharvest.notices.delivery import deliver
from tileharvest.notices.films import film_of_days
from tileharvest.notices.message import compose, is_wanted
from tileharvest.notices.places import changed_areas, changed_places
from tileharvest.pictures.scenes import change_picture

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileharvest.history.costs import Cost
    from tileharvest.history.database import History
    from tileharvest.notices.message import Report
    from tileharvest.notices.places import ChangedArea, ChangedPlace
    from tileharvest.notices.settings import Wishes
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.grid import TileRange


_UNREAD: Final = (
    "The history could not be read just now, so it is not known whether a watched area has changed. Nothing"
    " is lost."
)

_LEAST: Final = 3.0
"""The least seconds for sending, however long the history took."""


def tell(
    report: Report,
    segment: str,
    wishes: Wishes,
    open_history: Callable[[], History],
    open_store: Callable[[], TileStore],
    patience: float,
) -> list[str]:
    """Sends the notice of a harvest that has ended. Returns the targets that did not get it, with the
    reasons.

    If areas are watched, a change elsewhere is no occasion. If the history cannot be read, any change is an
    occasion, because it may lie in an area. Parts that cannot be read are left out, and so is a film that
    takes too long: the message is always sent. Blocks for up to `patience` seconds, and uses the network.
    """
    until = time.monotonic() + patience
    places: list[ChangedPlace] = []
    areas: list[ChangedArea] = []
    views: list[tuple[str, TileRange]] = []
    files: dict[str, bytes] = {}
    is_read = False
    """Whether it is known which areas have changed."""
    with suppress(TileHarvestError), open_history() as history:
        report = replace(report, cost=_cost(history, report.map, segment))
        outline = map_outline(history, report.map)
        if report.changed and wishes.areas is not None:
            areas = changed_areas(history, outline, report.day, wishes.areas)
        elif report.changed:
            places = changed_places(history, outline, report.day)
        is_read = True
        views = [(place.layer, place.view) for place in places]
        views += [(area.layer, view) for area in areas for view in area.views]
        if views:
            picture = change_picture(history, open_store(), outline, views, report.day)
            if picture is not None:
                files["change.jpg"] = picture
    if wishes.film_days and views:
        changed = {area.name for area in areas}
        watched = next((one for one in wishes.areas or () if one.name in changed), None)
        place = watched or views[0]
        left = until - time.monotonic()
        files |= film_of_days(open_history, open_store, report, wishes.film_days, place, left)
    is_elsewhere = wishes.areas is not None and is_read and not areas
    if is_elsewhere and not _is_wanted_without_change(report, wishes.occasions):
        return []
    message = compose(report, places, wishes.viewer, areas)
    if wishes.areas is not None and not is_read and report.changed:
        message = replace(message, body=f"{message.body}\n{_UNREAD}\n")
    return deliver(wishes.targets, message, files, max(_LEAST, until - time.monotonic()))


def _is_wanted_without_change(report: Report, occasions: Sequence[str]) -> bool:
    return is_wanted(report, [one for one in occasions if one != "change"])


def _cost(history: History, map_name: str, segment: str) -> Cost | None:
    """Returns the cost of the segment's newest harvest, of all workers together, or None if there is none."""
    for summary in reversed(harvest_summaries(history, map_name)):
        if summary.segment == segment:
            return summary.cost
    return None
