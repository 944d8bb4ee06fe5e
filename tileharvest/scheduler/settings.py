"""The parts and options of a crawl's scheduler, made of the settings and the spider's arguments."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from scrapy.dupefilters import BaseDupeFilter
from scrapy.utils.misc import load_object

from tileharvest.harvest.settings import switch
from tileharvest.history.settings import database_url
from tileharvest.maps.settings import data_folder, setting
from tileharvest.queue.polite_queue import PoliteQueue
from tileharvest.queue.port import SILENT
from tileharvest.queue.settings import (
    lease_seconds,
    local_queue,
    queue_kind,
    redis_queue,
    segment_resolver,
)
from tileharvest.queue.shared_states import StateFile
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.scheduler.worker import LINGER

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from tileharvest.queue.redis.queue import RedisQueue
    from tileharvest.queue.redis.start_urls import StartUrls
    from tileharvest.queue.segments import SegmentResolver
    from tileharvest.queue.settings import QueueKind


@dataclass(frozen=True, slots=True)
class Scheduling:
    """The parts and options of the scheduler of one crawl."""

    name: str
    """The map's name, or the spider's."""
    queue: PoliteQueue
    shared: RedisQueue | None
    """The queue inside `queue` if other workers may share it."""
    is_history_local: bool
    """Whether the history is a file, which only workers of one machine can share."""
    segment: str | None
    """The segment of all requests. None for a spider whose next request may belong to another segment."""
    resolver: SegmentResolver
    """Tells the segment of a request if there is not one for all."""
    local_time: Callable[[], datetime]
    """The present time in the map's zone."""
    clock: Callable[[], float]
    ahead: int
    """The requests that are leased ahead of their turn at most."""
    block_size: int
    """The most tiles that one request of Scrapy's stands for. 1 if each tile goes alone."""
    lease_seconds: float
    linger: float
    """Seconds for which changes wait for more changes before the queue hears of them."""
    segments_kept: int
    """The segments whose seen requests are remembered, the present one included."""
    close_when_waiting: float | None
    """The spider stays if the next delayed request is due within so many seconds. None if it always stays."""
    stay: bool
    """Whether the spider stays when nothing is left."""
    fresh: bool
    """Whether the spider asks again for everything."""
    filters: bool
    """Whether a request that was seen in its segment is dropped."""
    is_tool: bool
    """Whether one of Scrapy's tools asks. Its requests wait in memory, because the shell gives them their
    callback only after it has enqueued them."""

    def segment_of(self, request: object | None = None) -> str:
        """Returns the name of a request's segment, or without a request that of the present segment."""
        return self.segment or self.resolver.segment_at(request, datetime.now(UTC)).name


def scheduling_for(crawler: Crawler) -> Scheduling:
    """Returns the parts and options for a crawler. Raises ConfigurationError."""
    settings, spider = crawler.settings, crawler.spider
    crawl = crawl_of(crawler)
    harvest = crawl.harvest
    description = harvest.description if harvest else None
    zone = description.zone_info if description else ZoneInfo("UTC")
    # The spider's own attributes only: its class may use these names for something else.
    own = vars(spider)
    arguments = {name: own[name] for name in ("fresh", "stay", "dry") if isinstance(own.get(name), str)}
    name = description.name if description else spider.name  # type: ignore[union-attr]
    # A spider that was refused its harvest must leave nothing behind, and neither must a dry run.
    refused = crawl.is_ending
    in_memory = arguments.get("dry") == "1" or refused or crawl.is_tool
    kind: QueueKind = "memory" if in_memory else queue_kind(settings)
    shared = redis_queue(settings, name) if kind == "redis" else None
    queue = shared or local_queue(settings, name, in_memory=kind == "memory")
    hosts = shared.hosts() if shared is not None else _host_file(settings, kind, is_kept=not refused)
    return Scheduling(
        name=name,
        queue=PoliteQueue(queue, hosts, name, crawl.traffic, clock=time.time, random=random.random),
        shared=shared,
        is_history_local=database_url(settings).startswith("sqlite"),
        segment=None if harvest is None else harvest.segment.name,
        resolver=segment_resolver(settings, own.get("segment"), zone, datetime.now(UTC)),
        local_time=lambda: datetime.now(zone),
        clock=time.time,
        ahead=int(setting(settings, "LEASE_AHEAD")),
        block_size=_block_size(settings) if harvest is not None else 1,
        lease_seconds=lease_seconds(settings),
        linger=LINGER if shared is None else float(setting(settings, "LINGER_SHARED")),
        segments_kept=int(setting(settings, "SEGMENTS_KEPT")),
        close_when_waiting=_patience(setting(settings, "CLOSE_WHEN_WAITING")),
        stay=switch(arguments, "stay", "a spider that waits for requests"),
        fresh=switch(arguments, "fresh", "asking again for everything"),
        filters=load_object(settings["DUPEFILTER_CLASS"]) is not BaseDupeFilter,
        is_tool=crawl.is_tool,
    )


def start_urls_of(spider: Spider, longest: float) -> StartUrls | None:
    """Returns the start URLs of a spider that scrapy-redis feeds, or None for any other spider."""
    if not any(kind.__module__ == "scrapy_redis.spiders" for kind in type(spider).__mro__):
        return None
    if spider.server is None:  # type: ignore[attr-defined]
        # The spider has the mixin and has not called `setup_redis`, so nothing feeds it.
        return None
    # Most processes need not load Redis' client.
    from tileharvest.queue.redis.start_urls import StartUrls  # noqa: PLC0415

    return StartUrls(spider, silent=min(SILENT, longest))


def _block_size(settings: BaseSettings) -> int:
    """Returns the most tiles of a block. It is 1 if Scrapy itself is to pause between requests, because
    Scrapy would see only the first of a block."""
    waits = settings.getbool("AUTOTHROTTLE_ENABLED") or settings.getfloat("DOWNLOAD_DELAY")
    return 1 if waits or settings.getdict("DOWNLOAD_SLOTS") else max(1, int(setting(settings, "BLOCK_SIZE")))


def _host_file(settings: BaseSettings, kind: QueueKind, *, is_kept: bool) -> StateFile:
    """Returns the hosts of all processes of this machine. A dry run makes no folder for them: without the
    data folder its hosts are in memory."""
    folder = data_folder(settings)
    is_beside_others = is_kept and (kind == "sqlite" or folder.is_dir())
    return StateFile(folder / "hosts" if is_beside_others else None)


def _patience(setting: Any) -> float | None:
    if isinstance(setting, bool):
        return 0.0 if setting else None
    return float(setting)
