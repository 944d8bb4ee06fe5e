"""The parts and options of a crawl's scheduler, made of the settings and the spider's arguments."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha1
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.utils.misc import load_object

from tileharvest.maps.settings import setting, switch
from tileharvest.queue.settings import local_queue, queue_kind, redis_queue, segment_resolver
from tileharvest.scheduler.crawl import crawl_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from tileharvest.queue.port import RequestQueue

_NOT_ARGUMENTS: Final = frozenset({"name", "fresh", "stay", "dry", "segment", "redis_key", "redis_encoding"})
"""Attributes of spiders that say nothing about what is crawled."""

_ENOUGH: Final = 16
"""Requests at the same time if Scrapy's CONCURRENT_REQUESTS sets no limit."""

_SEGMENTS_KEPT: Final = 2
"""The segments whose requests are kept for another spider than one of tiles: the present one, and the one
before."""

_WITHOUT_EFFECT: Final = (
    "JOBDIR",
    "SCHEDULER_DISK_QUEUE",
    "SCHEDULER_MEMORY_QUEUE",
    "SCHEDULER_PRIORITY_QUEUE",
    "SCHEDULER_START_DISK_QUEUE",
    "SCHEDULER_START_MEMORY_QUEUE",
)
"""Scrapy's settings for the queues of its own scheduler."""


@dataclass(frozen=True, slots=True)
class Scheduling:
    """The parts and options of the scheduler of one crawl."""

    queue: RequestQueue
    is_history_local: bool
    """Whether results go to a history in a file, which only workers of one machine can share."""
    segment: str
    """The segment of all requests. It is fixed when the crawl starts."""
    ahead: int
    """The most requests that are leased before the engine asks for them: half of those that are under
    way. So the engine need not wait for each one, and what is urgent waits for a few others at most."""
    segments_kept: int
    """The segments whose requests are kept, the present one included."""
    close_when_waiting: float
    """The spider stays if the next delayed request is due within these seconds."""
    stay: bool
    """Whether the spider stays when nothing is left."""
    fresh: bool
    """Whether the spider asks again for everything."""
    filters: bool
    """Whether a request that was seen in its segment is dropped."""
    is_tool: bool
    """Whether one of Scrapy's tools asks. Its requests wait in memory, because the shell gives them their
    callback only after it has enqueued them."""


def scheduling_for(crawler: Crawler) -> Scheduling:
    """Returns the parts and options for a crawler. Raises ConfigurationError."""
    settings, spider = crawler.settings, crawler.spider
    assert spider is not None
    crawl = crawl_of(crawler)
    harvest = crawl.harvest
    zone = harvest.description.zone_info if harvest else ZoneInfo("UTC")
    # The spider's own attributes only: its class may use these names for something else.
    own = {name: value for name, value in vars(spider).items() if isinstance(value, str)}
    # A spider that was refused its harvest must leave nothing behind, and neither must a dry run.
    in_memory = own.get("dry") == "1" or crawl.is_ending or crawl.is_tool
    kind = "memory" if in_memory else queue_kind(settings)
    name = harvest.description.name if harvest else queue_name(settings, spider.name, arguments_of(spider))
    if harvest is None:
        resolver = segment_resolver(settings, own.get("segment"), zone, datetime.now(UTC))
        segment = resolver.segment_at(None, datetime.now(UTC)).name
    else:
        segment = harvest.segment.name
    work = f"the harvest of map '{name}'" if harvest else f"spider '{spider.name}'"
    owner = harvest.description.name if harvest else spider.name
    return Scheduling(
        queue=redis_queue(settings, name)
        if kind == "redis"
        else local_queue(settings, name, work=work, owner=owner, in_memory=kind == "memory"),
        is_history_local=harvest is not None and _is_history_local(settings),
        segment=segment,
        ahead=(settings.getint("CONCURRENT_REQUESTS") or _ENOUGH) // 2,
        # A harvest makes no request of an earlier one.
        segments_kept=1 if harvest else _SEGMENTS_KEPT,
        close_when_waiting=float(setting(settings, "CLOSE_WHEN_WAITING")),
        stay=switch(own, "stay", "a spider that waits for requests"),
        fresh=switch(own, "fresh", "asking again for everything"),
        filters=load_object(settings["DUPEFILTER_CLASS"]) is not BaseDupeFilter,
        is_tool=crawl.is_tool,
    )


def queue_name(settings: BaseSettings, spider_name: str, arguments: Mapping[str, Any] | None = None) -> str:
    """Returns the name of a spider's queue: QUEUE_NAME, in which `{bot}` and `{spider}` are replaced, and a
    hash of the spider's arguments if it has any. Crawls of one name share a queue."""
    form = str(setting(settings, "QUEUE_NAME"))
    name = form.replace("{bot}", settings["BOT_NAME"]).replace("{spider}", spider_name)
    if not arguments or "{spider}" not in form:
        return name
    plain = json.dumps(dict(arguments), sort_keys=True).encode()
    return f"{name}:{sha1(plain, usedforsecurity=False).hexdigest()[:8]}"


def arguments_of(spider: Spider) -> dict[str, Any]:
    """Returns the arguments with which a spider was made, as far as it shows them: its own attributes that
    are texts or lists of texts, and that differ from those of its class. Scrapy keeps them nowhere else."""
    return {
        name: value
        for name, value in vars(spider).items()
        if name not in _NOT_ARGUMENTS
        and not name.startswith("_")
        and value != getattr(type(spider), name, None)
        and (
            isinstance(value, str)
            or (isinstance(value, list) and value and all(isinstance(one, str) for one in value))
        )
    }


def _is_history_local(settings: BaseSettings) -> bool:
    # The history and the tiles need what other spiders may not have installed.
    from tileharvest.history.settings import database_url  # noqa: PLC0415

    return database_url(settings).startswith("sqlite")


def without_effect(settings: BaseSettings) -> list[str]:
    """Returns the settings of the project that have no effect under our scheduler."""
    named = [one for one in _WITHOUT_EFFECT if settings.get(one) and (settings.getpriority(one) or 0) > 0]
    if load_object(settings["DUPEFILTER_CLASS"]) not in (BaseDupeFilter, RFPDupeFilter):
        named.append("DUPEFILTER_CLASS")
    return named
