"""The film in a message, which shows how a map has changed in the last days. Only reads history and store."""

from __future__ import annotations

import logging
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tileharvest.errors import ConfigurationError, TileHarvestError
from tileharvest.export.excerpt import Wanted, excerpt_of
from tileharvest.export.film import FilmStyle, film_of, write_film
from tileharvest.export.film_file import usual_ending
from tileharvest.export.target import Awaited
from tileharvest.history.area_changes import changed_in, place_of
from tileharvest.history.changes import deepest_changes
from tileharvest.history.outlines import map_outline
from tileharvest.history.summaries import harvest_summaries
from tileharvest.notices.delivery import in_daemon
from tileharvest.tiles.ground import Ground
from tileharvest.tiles.pyramid import EVERYWHERE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date

    from tileharvest.history.database import History
    from tileharvest.history.outlines import MapOutline
    from tileharvest.maps.named_areas import NamedArea
    from tileharvest.notices.message import Report
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.grid import TileRange

_logger = logging.getLogger(__name__)

LARGEST_FILM: Final = 8_000_000
"""The most bytes of a film. Chats and mailboxes take that much."""
_SIZE: Final = (960, 540)
_PACE: Final = 1.0
"""The seconds for which each day is shown. There are few days."""
_SHARE: Final = 0.5
"""The share of a message's time that the film may take. The rest is for sending."""


def film_of_days(
    open_history: Callable[[], History],
    open_store: Callable[[], TileStore],
    report: Report,
    days: int,
    layer: str,
    view: TileRange,
    areas: Sequence[NamedArea] | None,
    patience: float,
) -> dict[str, bytes]:
    """Returns the film of the last `days` days: the content of a file by its name.

    The film shows the `view` of a layer. If areas are watched, it shows the first area that has changed that
    day.
    Returns nothing in these cases: the message is not the first one about a change in its period (periods are
    counted from a Monday); there is nothing to film; or the film would be too large or too
    late, which the log says. `patience` is the seconds for the film and for sending. Raises nothing.
    """
    limit = _SHARE * patience
    until = time.monotonic() + limit

    def check() -> None:
        if time.monotonic() > until:
            raise TileHarvestError("it takes too long")

    def make() -> dict[str, bytes]:
        with open_history() as history:
            return _film(history, open_store(), report, days, layer, view, areas, check)

    try:
        # In a thread of its own, because a call of a disk or database that does not answer cannot be ended.
        return in_daemon(make).result(limit)
    except TimeoutError:
        problem = f"it takes more than {limit:.2g} s"
    except (TileHarvestError, OSError) as error:
        problem = str(error)
    # Whatever happens, the message is sent, without a film.
    except Exception as error:  # noqa: BLE001
        problem = type(error).__name__
    _logger.warning(
        "the message about map '%s' goes without a film (%s): scrapy film makes one", report.map, problem
    )
    return {}


def _film(
    history: History,
    store: TileStore,
    report: Report,
    days: int,
    layer: str,
    view: TileRange,
    areas: Sequence[NamedArea] | None,
    check: Callable[[], None],
) -> dict[str, bytes]:
    outline = map_outline(history, report.map)
    changed = _changed_days(history, outline, areas, _first_day(report.day, days))
    shown = None if areas is None else next((one for one in areas if report.day in changed[one.name]), None)
    every = {day for of_one in changed.values() for day in of_one} - {outline.days[0]}
    # The first harvest shows everything for the first time, so it has no change to film.
    if min(every, default=None) != report.day or (areas is not None and shown is None):
        return {}
    if sum(summary.day == report.day for summary in harvest_summaries(history, report.map)) != 1:
        return {}
    check()
    first = max(report.day - timedelta(days=days), outline.days[0])
    named = {} if shown is None else {shown.name: shown}
    wanted = Wanted(
        layer=None if named else layer,
        area=next(iter(named), None),
        first=str(first),
        last=str(report.day),
        is_period=True,
    )
    excerpt = excerpt_of(history, report.map, wanted, (), named)
    if not named:
        excerpt = replace(excerpt, ground=Ground.of(view, excerpt.layer.factor))
    path = Path(f"film{usual_ending()}")
    film = film_of(excerpt, path, FilmStyle(_SIZE, pace=_PACE))
    if film.moments[-1].day != report.day or len(film.moments) == 1:
        return {}
    check()
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / path
        write_film(film, target, store, Awaited(check), LARGEST_FILM)
        return {f"{report.map}-{report.day}{path.suffix}": target.read_bytes()}


def _changed_days(
    history: History, outline: MapOutline, areas: Sequence[NamedArea] | None, since: date
) -> dict[str, set[date]]:
    """Returns the days since `since` on which each area has changed, by its name. Without areas it returns
    the days of each layer.

    An area that cannot be shown has no days, because no message names it.
    """
    if areas is None:
        every = {layer.name: deepest_changes(history, layer, EVERYWHERE) for layer in outline.layers}
        return {name: {day for day in days if day >= since} for name, days in every.items()}
    found: dict[str, set[date]] = {area.name: set() for area in areas}
    for area in areas:
        with suppress(ConfigurationError):
            found[area.name] = set(changed_in(history, *place_of(area, outline), since))
    return found


def _first_day(day: date, days: int) -> date:
    """Returns the first day of the period that contains a day. Periods start from a Monday: ordinal 1 was
    one."""
    return day - timedelta(days=(day.toordinal() - 1) % days)
