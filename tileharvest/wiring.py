"""Turns settings and arguments into objects. The only reader of our own settings."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.exceptions import NotConfigured
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.conf import closest_scrapy_cfg

from tileharvest.errors import ConfigurationError
from tileharvest.harvesting import Harvesting
from tileharvest.history.database import History
from tileharvest.maps.description import MapDescription, find_map, load_maps
from tileharvest.store.files import FileStore
from tileharvest.store.memory import DryStore

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from tileharvest.store.port import TileStore


def maps_file(settings: BaseSettings) -> Path:
    """The file that describes the maps; it need not exist."""
    return _from_project(settings["TILEHARVEST_MAPS"])


def all_maps(settings: BaseSettings) -> dict[str, MapDescription]:
    """Raises ConfigurationError as `load_maps` does."""
    return load_maps(maps_file(settings))


def data_folder(settings: BaseSettings) -> Path:
    """The folder for history and store; it need not exist."""
    return _from_project(settings["TILEHARVEST_DATA"])


def database_url(settings: BaseSettings) -> str:
    """SQLAlchemy's address of the history."""
    return settings["DATABASE_URL"] or f"sqlite:///{data_folder(settings) / 'history.sqlite'}"


def open_history_for_reading(settings: BaseSettings) -> History:
    """Raises HistoryError where there is none yet, or it cannot be read."""
    return History.open_read_only(database_url(settings))


def has_history(settings: BaseSettings) -> bool:
    """Whether a first harvest has begun a history; always so where a server holds it."""
    return _exists(database_url(settings))


def quieten(settings: BaseSettings, level: str) -> None:
    """Log from this level on only, in short lines, unless the user has chosen a level for this run."""
    if (settings.getpriority("LOG_LEVEL") or 0) < SETTINGS_PRIORITIES["cmdline"]:
        settings.set("LOG_LEVEL", level, priority="cmdline")
        settings.set("LOG_FORMAT", "%(levelname)s: %(message)s", priority="cmdline")


def relax_garbage_collection(settings: BaseSettings) -> None:
    """Let the collector of reference cycles look less often, and never again at what was imported."""
    gc.freeze()
    gc.set_threshold(settings.getint("GC_THRESHOLD"))


def harvesting_for(
    settings: BaseSettings, map_name: str | None, day: str | None = None, dry: str | None = None
) -> Harvesting:
    """The harvest that a spider's arguments ask for; nothing is touched yet.

    `day` is an ISO date, today by default: for publishing a site's past states one after the other.
    `dry` is `1` for a harvest that asks and reports but keeps nothing. Raises ConfigurationError.
    """
    if not map_name:
        raise ConfigurationError("which map? say -a map=NAME; `scrapy maps` lists them")
    description = find_map(maps_file(settings), map_name)
    if dry not in (None, "0", "1"):
        raise ConfigurationError(f"-a dry={dry} cannot be: write -a dry=1 for a dry run")
    return Harvesting(
        description,
        day=_day(description, day),
        holdings=(DryHoldings if dry == "1" else LocalHoldings)(
            database_url(settings), data_folder(settings), map_name
        ),
        clock=lambda: datetime.now(UTC),
    )


def harvesting_of(crawler: Crawler) -> Harvesting:
    """The harvest of the crawler's spider. Raises NotConfigured, which switches the asking component
    off without a word, for a spider that harvests nothing."""
    harvesting = getattr(crawler.spider, "harvesting", None)
    if harvesting is None:
        raise NotConfigured
    assert isinstance(harvesting, Harvesting)
    return harvesting


@dataclass(frozen=True, slots=True)
class LocalHoldings:
    """History and store as the settings say."""

    url: str
    folder: Path
    map_name: str

    def open_history(self) -> History:
        return History.open(self.url)

    def open_store(self) -> TileStore:
        return FileStore(self.folder / "tiles")


@dataclass(frozen=True, slots=True)
class DryHoldings:
    """A copy of the map's history that is thrown away, and a store that keeps nothing."""

    url: str
    folder: Path
    map_name: str

    def open_history(self) -> History:
        if not _exists(self.url):
            return History.open_temporary()
        with History.open_read_only(self.url) as history:
            return history.dry_copy(self.map_name)

    def open_store(self) -> TileStore:
        return DryStore()


def _day(description: MapDescription, day: str | None) -> date:
    today = datetime.now(description.zone_info).date()
    if day is None:
        return today
    try:
        wanted = date.fromisoformat(day)
    except ValueError:
        raise ConfigurationError(f"-a day={day} is no date: write -a day={today}") from None
    if wanted > today:
        raise ConfigurationError(
            f"-a day={day} has not begun: today is {today} in the map's time zone, {description.timezone}"
        )
    return wanted


def _exists(url: str) -> bool:
    return not url.startswith("sqlite:///") or Path(url.removeprefix("sqlite:///")).exists()


def _from_project(path: str) -> Path:
    configuration = closest_scrapy_cfg()
    return (Path(configuration).parent if configuration else Path.cwd()) / path
