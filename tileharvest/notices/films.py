"""The film in a message, which shows how a map has changed in the last days. Only reads history and store."""

from __future__ import annotations

import logging
import tempfile
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tileharvest.errors import TileHarvestError
from tileharvest.export.excerpt import Wanted, excerpt_of
from tileharvest.export.film import FilmStyle, film_of, write_film
from tileharvest.export.film_file import usual_ending
from tileharvest.export.target import Awaited
from tileharvest.history.outlines import map_outline
from tileharvest.notices.delivery import in_daemon
from tileharvest.tiles.ground import Ground

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileharvest.history.database import History
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
    place: tuple[str, TileRange] | NamedArea,
    patience: float,
) -> dict[str, bytes]:
    """Returns the film of the last `days` days: the content of a file by its name.

    The film shows a place: tiles of a layer, or a named area. Returns nothing if there is no change to film,
    or if the film would be too large or too late, which the log says. `patience` is the seconds for the film
    and for sending. Raises nothing.
    """
    limit = _SHARE * patience
    until = time.monotonic() + limit

    def check() -> None:
        if time.monotonic() > until:
            raise TileHarvestError("it takes too long")

    def make() -> dict[str, bytes]:
        with open_history() as history:
            return _film(history, open_store(), report, days, place, check)

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
        "the message about map '%s' goes without a film (%s): tileharvest film makes one", report.map, problem
    )
    return {}


def _film(
    history: History,
    store: TileStore,
    report: Report,
    days: int,
    place: tuple[str, TileRange] | NamedArea,
    check: Callable[[], None],
) -> dict[str, bytes]:
    first = max(report.day - timedelta(days=days), map_outline(history, report.map).days[0])
    period = Wanted(first=str(first), last=str(report.day))
    if isinstance(place, tuple):
        layer, view = place
        excerpt = excerpt_of(history, report.map, replace(period, layer=layer))
        excerpt = replace(excerpt, ground=Ground.of(view, excerpt.layer.factor))
    else:
        excerpt = excerpt_of(history, report.map, replace(period, area=place.name), {place.name: place})
    path = Path(f"film{usual_ending()}")
    film = film_of(excerpt, path, FilmStyle(_SIZE, pace=_PACE))
    # The first harvest shows everything for the first time, so it has no change to film.
    if len(film.moments) == 1:
        return {}
    check()
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / path
        write_film(film, target, store, Awaited(check), LARGEST_FILM)
        return {f"{report.map}-{report.day}{path.suffix}": target.read_bytes()}
