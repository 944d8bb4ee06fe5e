"""Turns settings and arguments into objects. The only reader of our own settings."""

from __future__ import annotations

import gc
from contextlib import suppress
from datetime import UTC, date, datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from scrapy.exceptions import NotConfigured
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.conf import closest_scrapy_cfg
from scrapy.utils.misc import load_object

from tileharvest.errors import ConfigurationError
from tileharvest.harvesting import Harvesting
from tileharvest.history.database import History
from tileharvest.history.group_commit import LINGER
from tileharvest.holdings import DryHoldings, LocalHoldings, is_there
from tileharvest.maps.maps_file import find_map, load_maps
from tileharvest.scheduler.segments import parse_resolver
from tileharvest.store.opening import StorePlace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from zoneinfo import ZoneInfo

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from tileharvest.maps.description import MapDescription
    from tileharvest.scheduler.segments import SegmentResolver
    from tileharvest.store.port import TileStore

_LARGEST_PORT: Final = 65535


def maps_file(settings: BaseSettings) -> Path:
    """The file that describes the maps; it need not exist."""
    return _from_project(settings["TILEHARVEST_MAPS"])


def all_maps(settings: BaseSettings) -> dict[str, MapDescription]:
    """Raises ConfigurationError as `load_maps` does."""
    return {name: _limited(settings, one) for name, one in load_maps(maps_file(settings)).items()}


def described_map(settings: BaseSettings, name: str) -> MapDescription:
    """Raises ConfigurationError, naming the maps that exist."""
    return _limited(settings, find_map(maps_file(settings), name))


def _limited(settings: BaseSettings, description: MapDescription) -> MapDescription:
    """With the depth of the settings where the map has none of its own: all that looks which tiles are kept
    has to know of it."""
    limit = settings.getint("DEPTH_LIMIT")
    if limit <= 0 or description.max_depth is not None:
        return description
    return msgspec.structs.replace(description, max_depth=limit)


def data_folder(settings: BaseSettings) -> Path:
    """The folder for history and store; it need not exist."""
    return _from_project(settings["TILEHARVEST_DATA"])


def database_url(settings: BaseSettings) -> str:
    """SQLAlchemy's address of the history."""
    return settings["DATABASE_URL"] or f"sqlite:///{data_folder(settings) / 'history.sqlite'}"


def open_history_for_reading(settings: BaseSettings) -> History:
    """Raises HistoryError where there is none yet, or it cannot be read."""
    return History.open_read_only(database_url(settings))


def open_history_if_any(settings: BaseSettings) -> History | None:
    """As `open_history_for_reading`, but None where there is none yet."""
    return open_history_for_reading(settings) if has_history(settings) else None


def open_store_for_reading(settings: BaseSettings) -> TileStore:
    """The store, of which nothing need exist yet. Nothing is created, and nothing deleted."""
    return store_place(settings).open(read_only=True)


def store_place(settings: BaseSettings) -> StorePlace:
    """Where the images are; not opened yet. Raises ConfigurationError for what names no place."""
    return StorePlace.parse(settings["TILE_STORE"], data_folder(settings) / "tiles")


def has_history(settings: BaseSettings) -> bool:
    """Whether a first harvest has begun a history; also on a server. Raises HistoryError where it cannot be
    asked."""
    return is_there(database_url(settings))


def quieten(settings: BaseSettings, level: str) -> None:
    """Log from this level on only, in short lines, unless the user has chosen a level for this run."""
    if (settings.getpriority("LOG_LEVEL") or 0) < SETTINGS_PRIORITIES["cmdline"]:
        settings.set("LOG_LEVEL", level, priority="cmdline")
        settings.set("LOG_FORMAT", "%(levelname)s: %(message)s", priority="cmdline")


def progress_interval(settings: BaseSettings) -> float:
    """Seconds between two lines of progress. Raises ConfigurationError for what would write without end."""
    value = settings["PROGRESS_INTERVAL"]
    with suppress(TypeError, ValueError):
        if float(value) > 0:
            return float(value)
    raise ConfigurationError(f"PROGRESS_INTERVAL {value!r} cannot be: write seconds above 0, such as 60")


def relax_garbage_collection(settings: BaseSettings) -> None:
    """Let the collector of reference cycles look less often, and never again at what was imported."""
    gc.freeze()
    gc.set_threshold(settings.getint("GC_THRESHOLD"))


def harvesting_for(settings: BaseSettings, arguments: Mapping[str, str]) -> Harvesting:
    """The harvest that a spider's arguments ask for; nothing is touched yet.

    `map` is the map's name. `day` is an ISO date, today by default: for harvesting a site's past states
    one after the other. `segment` is a resolver's name in place of the setting SEGMENT. `dry=1` asks and
    reports but keeps nothing; `fresh=1` asks again for everything. Raises ConfigurationError.
    """
    map_name = arguments.get("map")
    if not map_name:
        raise ConfigurationError("which map? say -a map=NAME; `scrapy maps` lists them")
    description = described_map(settings, map_name)
    started = datetime.now(UTC)
    day = _day(description, arguments.get("day"), started)
    # A day that is past has no time of its own; the segment is that in which it began.
    moment = (
        started if day == started.astimezone(description.zone_info).date() else _midnight(description, day)
    )
    resolver = segment_resolver(settings, arguments.get("segment"), description.zone_info, started)
    dry = switch(arguments, "dry", "a dry run")
    # Parsed now, so that a slip of the pen is told before anything is touched.
    url, store = database_url(settings), store_place(settings)
    # Read by the scheduler, which is made when it is too late for one clear line.
    is_shared = queue_kind(settings) is QueueKind.REDIS
    switch(arguments, "stay", "a spider that waits for requests")
    return Harvesting(
        description,
        day=day,
        segment=resolver.segment_at(None, moment),
        again=dry or switch(arguments, "fresh", "asking again for everything"),
        holdings=DryHoldings(url, map_name) if dry else LocalHoldings(url, store),
        clock=lambda: datetime.now(UTC),
        linger=settings.getfloat("LINGER_SHARED") if is_shared else LINGER,
    )


def would_go_on(settings: BaseSettings, arguments: Mapping[str, str], harvesting: Harvesting) -> bool:
    """Whether a harvest of the map that began now, with the same arguments, had the same segment."""
    started = datetime.now(UTC)
    zone = harvesting.description.zone_info
    resolver = segment_resolver(settings, arguments.get("segment"), zone, started)
    moment = harvesting.segment.begins if "day" in arguments else started
    return resolver.segment_at(None, moment).name == harvesting.segment.name


def segment_resolver(
    settings: BaseSettings, name: str | None, zone: ZoneInfo, started: datetime
) -> SegmentResolver:
    """The resolver of that name, or of the setting SEGMENT, or the user's own class, made with the map's
    zone and the moment of the start. Raises ConfigurationError."""
    own = settings["SEGMENT_RESOLVER"]
    if name is None and own:
        resolver: SegmentResolver = load_object(own)(zone, started)
        return resolver
    return parse_resolver(settings["SEGMENT"] if name is None else name, zone, started)


def harvesting_of(crawler: Crawler) -> Harvesting:
    """The harvest of the crawler's spider. Raises NotConfigured, which switches the asking component
    off without a word, for a spider that harvests nothing."""
    harvesting = getattr(crawler.spider, "harvesting", None)
    if harvesting is None:
        raise NotConfigured
    assert isinstance(harvesting, Harvesting)
    return harvesting


def switch(arguments: Mapping[str, str], name: str, meaning: str) -> bool:
    value = arguments.get(name, "0")
    if value not in ("0", "1"):
        raise ConfigurationError(f"-a {name}={value} cannot be: write -a {name}=1 for {meaning}")
    return value == "1"


def metrics_address(settings: BaseSettings) -> tuple[str, int] | None:
    """Host and port at which a crawl's numbers are served; None: nowhere. Raises ConfigurationError."""
    port = str(settings["PROMETHEUS_PORT"] or "0")
    if not port.isdecimal() or int(port) > _LARGEST_PORT:
        raise ConfigurationError(f"PROMETHEUS_PORT {port} is no port: write a number up to {_LARGEST_PORT}")
    # To asyncio an empty host means every address there is, which nobody opens by leaving something out.
    return (settings["PROMETHEUS_HOST"] or "127.0.0.1", int(port)) if int(port) else None


class QueueKind(Enum):
    """Where requests wait."""

    MEMORY = "memory"
    SQLITE = "sqlite"
    REDIS = "redis"


REDIS_SETTINGS = ("REDIS_URL", "REDIS_HOST", "REDIS_PORT", "REDIS_PARAMS")
"""Any of them says that there is a Redis to be used."""


def queue_kind(settings: BaseSettings) -> QueueKind:
    """As SCHEDULER_QUEUE has it. Raises ConfigurationError for what names none."""
    name = settings["SCHEDULER_QUEUE"]
    if not name:
        return QueueKind.REDIS if any(settings[one] for one in REDIS_SETTINGS) else QueueKind.SQLITE
    try:
        return QueueKind(name)
    except ValueError:
        kinds = ", ".join(kind.value for kind in QueueKind)
        raise ConfigurationError(f"SCHEDULER_QUEUE '{name}' is none of: {kinds}") from None


def _midnight(description: MapDescription, day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=description.zone_info)


def _day(description: MapDescription, day: str | None, started: datetime) -> date:
    today = started.astimezone(description.zone_info).date()
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


def _from_project(path: str) -> Path:
    configuration = closest_scrapy_cfg()
    return (Path(configuration).parent if configuration else Path.cwd()) / path
