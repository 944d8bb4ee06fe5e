"""Where the settings let requests wait, and what the scheduler of a crawl works with."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from tileharvest.errors import QueueError
from tileharvest.scheduler.directions import Directions, directions
from tileharvest.scheduler.exchanging import LINGER
from tileharvest.scheduler.memory import MemoryQueue
from tileharvest.scheduler.paced import Paced
from tileharvest.scheduler.sqlite import SqliteQueue
from tileharvest.scheduler.sqlite_lock import is_locked
from tileharvest.watching import Watched
from tileharvest.wiring import QueueKind, data_folder, database_url, queue_kind, segment_resolver, switch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from tileharvest.courtesy import Courtesy
    from tileharvest.harvesting import Harvesting
    from tileharvest.scheduler.fleet import SharedQueue
    from tileharvest.scheduler.paced import LocalQueue
    from tileharvest.scheduler.pacing import PacedQueue
    from tileharvest.scheduler.port import RequestQueue
    from tileharvest.scheduler.redis import RedisQueue

_REDIS: Final = QueueKind.REDIS

_LEAST_AHEAD: Final = 16
"""Requests leased ahead of a shared queue at least: with fewer each of them would need a call of its own."""


@dataclass(frozen=True, slots=True)
class Scheduling:
    """What the scheduler of one crawl works with."""

    name: str
    """Of the map, or of the spider."""
    queue: PacedQueue
    shared: SharedQueue | None
    """The same queue where other workers may share it."""
    courtesy: Courtesy | None
    """What the map's owner may expect; None for a spider that harvests no map."""
    is_history_local: bool
    """Whether the history is a file, which only workers of one machine can share."""
    segment_of: Callable[[object | None], str]
    """The name of a request's segment; of the present one for None."""
    in_words: Callable[[float], str]
    """A time in seconds since 1970 for a person, in the map's zone."""
    local_time: Callable[[], datetime]
    """The present time in the map's zone."""
    clock: Callable[[], float]
    max_depth: int | None
    expected: int
    """Requests that a segment is expected to have."""
    error_rate: float
    ahead: int
    """Requests leased ahead."""
    lease_seconds: float
    linger: float
    """Seconds that what is finished waits for more before the queue is told."""
    segments_kept: int
    close_when_waiting: float | None
    """Seconds until the next delayed request is due for which the spider stays; None: any."""
    stay: bool
    fresh: bool


def scheduling_for(crawler: Crawler) -> Scheduling:
    """For the crawler's spider, whose arguments are its attributes. Raises ConfigurationError."""
    settings, spider = crawler.settings, crawler.spider
    harvesting: Harvesting | None = getattr(spider, "harvesting", None)
    description = harvesting.description if harvesting else None
    zone = description.zone_info if description else ZoneInfo("UTC")
    started = datetime.now(UTC)
    arguments = {
        name: str(getattr(spider, name)) for name in ("fresh", "stay", "dry") if hasattr(spider, name)
    }
    if harvesting is not None:

        def segment_of(request: object | None) -> str:
            return harvesting.segment.name
    else:
        resolver = segment_resolver(settings, getattr(spider, "segment", None), zone, started)

        def segment_of(request: object | None) -> str:
            return resolver.segment_at(request, datetime.now(UTC)).name

    name = description.name if description else spider.name  # type: ignore[union-attr]
    # A spider that was refused its harvest must leave nothing behind, nor must a dry run.
    refused = harvesting is None and getattr(spider, "holds_scheduler", False)
    kind = QueueKind.MEMORY if arguments.get("dry") == "1" or refused else queue_kind(settings)
    shared = _redis_queue(settings, name, is_harvest=harvesting is not None) if kind is _REDIS else None
    return Scheduling(
        name=name,
        queue=shared or _paced(settings, name, _own_queue(settings, name, kind), is_kept=not refused),
        shared=shared,
        courtesy=getattr(spider, "courtesy", None) if harvesting else None,
        is_history_local=database_url(settings).startswith("sqlite"),
        segment_of=segment_of,
        in_words=lambda moment: f"{datetime.fromtimestamp(moment, zone):%Y-%m-%d %H:%M:%S %Z}",
        local_time=lambda: datetime.now(zone),
        clock=time.time,
        # How deep a map is harvested its walk decides.
        max_depth=None if description else settings.getint("DEPTH_LIMIT") or None,
        expected=settings.getint("SEEN_EXPECTED"),
        error_rate=settings.getfloat("SEEN_ERROR_RATE"),
        ahead=_ahead(settings, kind),
        lease_seconds=settings.getfloat("LEASE_SECONDS"),
        linger=LINGER if shared is None else settings.getfloat("LINGER_SHARED"),
        segments_kept=settings.getint("SEGMENTS_KEPT"),
        close_when_waiting=_patience(settings["CLOSE_WHEN_WAITING"]),
        stay=switch(arguments, "stay", "a spider that waits for requests"),
        fresh=switch(arguments, "fresh", "asking again for everything"),
    )


def sqlite_queue(settings: BaseSettings, name: str) -> SqliteQueue:
    """The map's queue in the data folder; not opened yet."""
    return SqliteQueue(_queue_file(settings, name), **_queue_options(settings))


def redis_queue(settings: BaseSettings, name: str) -> RedisQueue:
    """The map's queue in Redis; not opened yet."""
    return _redis_queue(settings, name, is_harvest=True)


def has_queue(settings: BaseSettings, name: str) -> bool:
    """Whether the map has a queue that a command may look into; always so in Redis."""
    return queue_kind(settings) is _REDIS or _queue_file(settings, name).is_file()


def queue_lock(settings: BaseSettings, name: str) -> Path:
    """The file that the one worker of the map's queue file locks; it need not exist."""
    queue = _queue_file(settings, name)
    return queue.with_name(f"{queue.name}.lock")


@asynccontextmanager
async def open_beside(settings: BaseSettings, name: str) -> AsyncIterator[SqliteQueue | RedisQueue]:
    """The map's queue, open for a command beside whoever works on it. Raises QueueError."""
    is_redis = queue_kind(settings) is _REDIS
    queue = redis_queue(settings, name) if is_redis else sqlite_queue(settings, name)
    await queue.open_beside()
    try:
        yield queue
    finally:
        await queue.close()


async def directions_for(settings: BaseSettings, name: str) -> Directions:
    """What holds for a map now; nothing for one that has no queue yet, which gets none. Raises QueueError."""
    if not has_queue(settings, name):
        return Directions()
    async with open_beside(settings, name) as queue:
        return await directions(queue)


async def is_worked_on(settings: BaseSettings, name: str, queue: RequestQueue) -> bool:
    """Whether anybody harvests the map whose open queue this is. A worker of a shared queue that was killed
    counts until it has been silent for long. Raises QueueError."""
    if isinstance(queue, Watched):
        return bool(await queue.workers())
    return is_locked(queue_lock(settings, name))


def workers_on(settings: BaseSettings, name: str) -> int:
    """How many work on the map's queue at this moment; 0 where that cannot be found out."""
    if queue_kind(settings) is not _REDIS:
        return int(is_locked(queue_lock(settings, name)))

    async def count() -> int:
        async with open_beside(settings, name) as queue:
            return len(await queue.workers())  # type: ignore[union-attr]

    try:
        return asyncio.run(count())
    except QueueError:
        return 0


def is_being_harvested(settings: BaseSettings, name: str) -> bool:
    """Whether a worker works on the map's queue at this moment; False where that cannot be found out."""
    return workers_on(settings, name) > 0


def _redis_queue(settings: BaseSettings, name: str, *, is_harvest: bool) -> RedisQueue:
    # Where it is not used it need not be loaded: 0.1 s of each command.
    from tileharvest.scheduler.redis import RedisQueue  # noqa: PLC0415
    from tileharvest.scheduler.redis_connection import connect, connection_parameters  # noqa: PLC0415

    parameters: Mapping[str, Any] = {
        **{key: settings[key] for key in ("REDIS_URL", "REDIS_HOST", "REDIS_PORT", "REDIS_ENCODING")},
        "REDIS_DB": settings.get("REDIS_DB"),
        "REDIS_PARAMS": settings.getdict("REDIS_PARAMS"),
    }
    return RedisQueue(
        partial(connect, connection_parameters(parameters)),
        name,
        **_queue_options(settings),
        expected=settings.getint("SEEN_EXPECTED"),
        error_rate=settings.getfloat("SEEN_ERROR_RATE_SHARED"),
        # Only a harvest has a history to look them up in.
        keeps_doubtful=is_harvest,
    )


def _own_queue(settings: BaseSettings, name: str, kind: QueueKind) -> LocalQueue:
    if kind is QueueKind.SQLITE:
        return sqlite_queue(settings, name)
    return MemoryQueue(**_queue_options(settings))


def _queue_file(settings: BaseSettings, name: str) -> Path:
    return data_folder(settings) / "queues" / f"{name}.sqlite"


def _queue_options(settings: BaseSettings) -> dict[str, Any]:
    return {
        "max_attempts": settings.getint("MAX_ATTEMPTS"),
        "lease_seconds": settings.getfloat("LEASE_SECONDS"),
        "minus_share": settings.getint("MINUS_SHARE"),
    }


def _ahead(settings: BaseSettings, kind: QueueKind) -> int:
    most = settings.getint("LEASE_AHEAD")
    if kind is not _REDIS:
        return most
    wanted = settings.getint("CONCURRENT_REQUESTS") * settings.getint("LEASE_AHEAD_SHARED")
    return min(most, max(_LEAST_AHEAD, wanted))


def _paced(settings: BaseSettings, name: str, queue: LocalQueue, *, is_kept: bool) -> Paced:
    folder = data_folder(settings)
    # A dry run makes no folder.
    hosts = folder / "hosts" if is_kept and (isinstance(queue, SqliteQueue) or folder.is_dir()) else None
    return Paced(queue, hosts, name, clock=time.time, random=random.random)


def _patience(setting: Any) -> float | None:
    if isinstance(setting, bool):
        return 0.0 if setting else None
    return float(setting)
