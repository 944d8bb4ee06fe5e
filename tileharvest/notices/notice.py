"""The notice of a harvest that has ended: how it is made, with its picture and its film, and sent."""

from __future__ import annotations

import logging
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tileharvest.errors import TileHarvestError
from tileharvest.export.excerpt import excerpt_of
from tileharvest.export.film import FilmStyle, film_of, usual_ending, write_film
from tileharvest.history.outlines import map_outline
from tileharvest.history.summaries import harvest_summaries
from tileharvest.notices.delivery import deliver, in_daemon
from tileharvest.notices.message import compose, is_wanted
from tileharvest.notices.places import changed_areas, changed_places
from tileharvest.pictures.scenes import change_picture
from tileharvest.tiles.ground import Ground

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileharvest.history.costs import Cost
    from tileharvest.history.database import History
    from tileharvest.maps.named_areas import NamedArea
    from tileharvest.notices.message import Report
    from tileharvest.notices.places import ChangedPlace
    from tileharvest.notices.settings import Wishes
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.grid import TileRange

_logger = logging.getLogger(__name__)

_LARGEST_FILM: Final = 8_000_000
"""The most bytes of a film. Chats and mailboxes take that much."""
_SIZE: Final = (960, 540)
_PACE: Final = 1.0
"""The seconds for which each day is shown. There are few days."""
_SHARE: Final = 0.5
"""The share of a message's time that the film may take. The rest is for sending."""
_UNREAD: Final = (
    "The history could not be read just now, so it is not known whether a watched area has changed. Nothing"
    " is lost."
)

_LEAST: Final = 3.0
"""The least seconds for sending, however long the history took."""


def send_notice(
    report: Report,
    segment: str,
    wishes: Wishes,
    open_history: Callable[[], History],
    open_store: Callable[[], TileStore],
    patience: float,
) -> list[str]:
    """Sends the notice of a harvest that has ended. Returns the targets that did not get it, with the
    reasons.

    If areas are watched, a change elsewhere does not count. If the history cannot be read, any change is an
    occasion, because it may lie in an area. Parts that cannot be read are left out, and so is a film that
    takes too long: the message is always sent. Blocks for up to `patience` seconds, and uses the network.
    """
    until = time.monotonic() + patience
    places: list[ChangedPlace] = []
    views: list[tuple[str, TileRange]] = []
    files: dict[str, bytes] = {}
    is_read = False
    """Whether it is known which areas have changed."""
    with suppress(TileHarvestError), open_history() as history:
        report = replace(report, cost=_cost(history, report.map, segment))
        outline = map_outline(history, report.map)
        if report.changed and wishes.areas is not None:
            places = changed_areas(history, outline, report.day, wishes.areas)
        elif report.changed:
            places = changed_places(history, outline, report.day)
        is_read = True
        views = [(place.layer, view) for place in places for view in place.views]
        if views:
            picture = change_picture(history, open_store(), outline, views, report.day)
            if picture is not None:
                files["change.jpg"] = picture
    if wishes.film_days and views:
        names = {place.area for place in places}
        watched = next((one for one in wishes.areas or () if one.name in names), None)
        left = until - time.monotonic()
        files |= _film_of_days(open_history, open_store, report, wishes.film_days, watched or views[0], left)
    is_elsewhere = wishes.areas is not None and is_read and not places
    if is_elsewhere and not is_wanted(report, [one for one in wishes.occasions if one != "change"]):
        return []
    in_areas, elsewhere = ((), places) if wishes.areas is None else (places, ())
    message = compose(report, elsewhere, wishes.viewer, in_areas)
    if wishes.areas is not None and not is_read and report.changed:
        message = replace(message, body=f"{message.body}\n{_UNREAD}\n")
    return deliver(wishes.targets, message, files, max(_LEAST, until - time.monotonic()))


def _cost(history: History, map_name: str, segment: str) -> Cost | None:
    """Returns the cost of the segment's newest harvest, of all workers together, or None if there is none."""
    for summary in reversed(harvest_summaries(history, map_name)):
        if summary.segment == segment:
            return summary.cost
    return None


class _Deadline:
    """A watch of a film that nobody waits for after a moment of the monotonic clock."""

    note = ""

    def __init__(self, until: float) -> None:
        self._until = until

    def expects(self, parts: int) -> None:
        self.passed(parts)

    def passed(self, parts: int = 1) -> None:
        if time.monotonic() > self._until:
            raise TileHarvestError("it takes too long")


def _film_of_days(
    open_history: Callable[[], History],
    open_store: Callable[[], TileStore],
    report: Report,
    days: int,
    place: tuple[str, TileRange] | NamedArea,
    patience: float,
) -> dict[str, bytes]:
    """Returns the film of the last `days` days: the content of a file by its name.

    The film shows a place: tiles of a layer, or a named area. Returns nothing if there is no change to film,
    or if the film would be too large or too late, which the log says. `patience` is the seconds for the film
    and for sending. Raises nothing.
    """
    limit = _SHARE * patience
    watch = _Deadline(time.monotonic() + limit)

    def make() -> dict[str, bytes]:
        with open_history() as history:
            first = str(max(report.day - timedelta(days=days), map_outline(history, report.map).days[0]))
            if isinstance(place, tuple):
                excerpt = excerpt_of(history, report.map, layer=place[0], first=first, last=str(report.day))
                excerpt = replace(excerpt, ground=Ground.of(place[1], excerpt.layer.factor))
            else:
                named, last = {place.name: place}, str(report.day)
                excerpt = excerpt_of(history, report.map, named, area=place.name, first=first, last=last)
            path = Path(f"film{usual_ending()}")
            film = film_of(excerpt, path, FilmStyle(_SIZE, pace=_PACE))
            # The first harvest shows everything for the first time, so it has no change to film.
            if len(film.moments) == 1:
                return {}
            with tempfile.TemporaryDirectory() as folder:
                write_film(film, Path(folder) / path, open_store(), watch, _LARGEST_FILM)
                return {f"{report.map}-{report.day}{path.suffix}": (Path(folder) / path).read_bytes()}

    try:
        # In a thread of its own, because a call of a disk or database that does not answer cannot be ended.
        return in_daemon(make).result(limit)
    # Whatever happens, the message is sent, without a film.
    except Exception as error:  # noqa: BLE001
        is_known = isinstance(error, (TileHarvestError, OSError))
        problem = (str(error) if is_known else "") or type(error).__name__
    _logger.warning(
        "the message about map '%s' goes without a film (%s): tileharvest film makes one", report.map, problem
    )
    return {}
