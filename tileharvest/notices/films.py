"""The film that goes with a message: how a map has changed in the last days. Reads history and store only."""

from __future__ import annotations

import logging
import tempfile
import time
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tileharvest.errors import TileHarvestError
from tileharvest.export.excerpt import Wanted, excerpt_of
from tileharvest.export.film import FilmStyle, film_of, write_film
from tileharvest.history.outlines import map_outline
from tileharvest.history.summaries import harvest_summaries

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from tileharvest.history.database import History
    from tileharvest.maps.named_areas import NamedArea
    from tileharvest.notices.message import Report
    from tileharvest.store.port import TileStore

_logger = logging.getLogger(__name__)

LARGEST_FILM: Final = 8_000_000
"""Bytes that chats and mailboxes take."""
_SIZE: Final = (960, 540)
_PACE: Final = 1.0
"""Seconds of a day: there are few."""
_PATIENCE: Final = 12.0
"""Seconds after which a film is given up, so that the message is not late by it."""


def film_of_days(
    history: History, store: TileStore, report: Report, days: int, areas: Sequence[NamedArea]
) -> tuple[str, bytes] | None:
    """Returns the film of the last days, as the name of a file and what is in it.

    It shows the first of these areas, or the whole map. None where the message is not the first one
    about a change in its period of days, which are counted from a Monday; where there is nothing to film; and
    where it would be too large or late, which the log tells. Raises HistoryError.
    """
    named = {area.name: area for area in areas}
    try:
        first = max(report.day - timedelta(days=days), map_outline(history, report.map).days[0])
        wanted = Wanted(area=next(iter(named), None), first=str(first), last=str(report.day), is_period=True)
        excerpt = excerpt_of(history, report.map, wanted, (), named)
        path = Path("film.mp4" if find_spec("av") is not None else "film.webp")
        film = film_of(excerpt, path, FilmStyle(_SIZE, camera="fixed" if named else "follow", pace=_PACE))
        changed = [moment.day for moment in film.moments[1:]]
        if not changed or changed[-1] != report.day or not _is_first(history, report, changed, days):
            return None
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / path
            size, _ = write_film(film, target, store, _Deadline(time.monotonic() + _PATIENCE))
            if size > LARGEST_FILM:
                raise TileHarvestError(f"it has {size:,} bytes")
            return f"{report.map}-{report.day}{path.suffix}", target.read_bytes()
    except TileHarvestError as error:
        _logger.warning(
            "the message about map '%s' goes without a film (%s): scrapy film makes one", report.map, error
        )
        return None


def _is_first(history: History, report: Report, changed: Sequence[date], days: int) -> bool:
    """Says whether no message before this one was about a change in the same period."""
    own = _period(report.day, days)
    if any(_period(day, days) == own for day in changed if day < report.day):
        return False
    return sum(summary.day == report.day for summary in harvest_summaries(history, report.map)) == 1


def _period(day: date, days: int) -> int:
    """Returns the number of a day's period. Day 1 of the calendar was a Monday."""
    return (day.toordinal() - 1) // days


class _Deadline:
    """Ends a film that takes too long."""

    def __init__(self, until: float) -> None:
        self._until = until

    def expects(self, parts: int) -> None:
        """A film may have any number of frames."""

    def passed(self, parts: int = 1) -> None:
        if time.monotonic() > self._until:
            raise TileHarvestError(f"it took more than {_PATIENCE:g} s")
