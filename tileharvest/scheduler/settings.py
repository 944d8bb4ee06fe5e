"""The queue of a crawl: which one the settings and the spider name, and how the crawl becomes its worker."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from datetime import UTC, datetime
from hashlib import sha1
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.utils.misc import load_object

from tileharvest.errors import QueueError
from tileharvest.maps.settings import setting, switch
from tileharvest.queue.controls import Controls
from tileharvest.queue.port import PUSHED
from tileharvest.queue.settings import local_queue, queue_kind, redis_queue, segment_resolver
from tileharvest.scheduler.crawl import crawl_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from tileharvest.queue.port import RequestQueue, Worker

_NOT_ARGUMENTS: Final = frozenset({"name", "fresh", "stay", "dry", "segment", "redis_key", "redis_encoding"})
"""Attributes of spiders that say nothing about what is crawled."""

_WITHOUT_EFFECT: Final = re.compile("JOBDIR|SCHEDULER_.+_QUEUE")
"""Scrapy's settings for the queues of its own scheduler."""


def queue_for(crawler: Crawler) -> tuple[RequestQueue, str]:
    """Returns the queue of a crawler, which is not open, and the segment of all its requests, fixed for the
    crawl. Raises ConfigurationError."""
    settings, spider, crawl = crawler.settings, crawler.spider, crawl_of(crawler)
    assert spider is not None
    own = own_arguments(spider)
    if crawl.harvest is not None:
        name = crawl.harvest.description.name
        work, segment = f"the harvest of map '{name}'", crawl.harvest.segment.name
    else:
        name = queue_name(settings, spider.name, arguments_of(spider))
        now = datetime.now(UTC)
        resolver = segment_resolver(settings, own.get("segment"), ZoneInfo("UTC"), now)
        work, segment = f"spider '{spider.name}'", resolver(now).name
    # A spider that was refused its harvest must leave nothing behind, and neither must a dry run.
    in_memory = own.get("dry") == "1" or crawl.is_ending or crawl.is_tool
    kind = "memory" if in_memory else queue_kind(settings)
    if kind == "redis":
        return redis_queue(settings, name), segment
    return local_queue(settings, name, work=work, in_memory=kind == "memory"), segment


def own_arguments(spider: Spider) -> dict[str, str]:
    """Returns the spider's own texts. Its class may use the names of our arguments for something else."""
    return {name: value for name, value in vars(spider).items() if isinstance(value, str)}


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


def without_effect(settings: BaseSettings) -> list[str]:
    """Returns the settings of the project that have no effect under our scheduler."""
    found = (one for one in settings if _WITHOUT_EFFECT.fullmatch(one) and settings.get(one))
    named = [one for one in found if (settings.getpriority(one) or 0) > 0]
    if load_object(settings["DUPEFILTER_CLASS"]) not in (BaseDupeFilter, RFPDupeFilter):
        named.append("DUPEFILTER_CLASS")
    return named


async def open_queue(queue: RequestQueue, segment: str, crawler: Crawler) -> Controls:
    """Becomes a worker of the queue, and forgets what does not count any more. Returns a person's orders.
    Raises QueueError, also if this worker must not work beside the others."""
    assert crawler.spider is not None
    is_fresh = switch(own_arguments(crawler.spider), "fresh", "asking again for everything")
    try:
        await queue.open(segment, time.time())
    except QueueError:
        if not is_fresh:
            raise
        # If a queue cannot be read, the message asks for `fresh=1`.
        await queue.discard()
        await queue.open(segment, time.time())
    is_harvest = crawl_of(crawler).harvest is not None
    is_history_local = False
    if is_harvest:
        # The history and the tiles need what other spiders may not have installed.
        from tileharvest.history.settings import database_url  # noqa: PLC0415

        is_history_local = database_url(crawler.settings).startswith("sqlite")
    refuse_company(await queue.workers() or (), segment, is_fresh=is_fresh, is_history_local=is_history_local)
    if is_fresh:
        await queue.forget(segment)
    others = [one for one in await queue.segments() if one not in (segment, PUSHED)]
    # A harvest makes no request of an earlier one.
    for earlier in others if is_harvest else others[:-1]:
        await queue.forget(earlier)
    return Controls.read(await queue.notes())


def refuse_company(
    workers: Sequence[Worker], segment: str, *, is_fresh: bool, is_history_local: bool
) -> None:
    """Raises QueueError if this worker must not work beside the others: for another segment than theirs,
    afresh, or with a history in a file beside workers of another machine."""
    mine = socket.gethostname(), os.getpid()
    # One with the same pid was killed in this container.
    own = [one for one in workers if (one.host, one.pid) == mine]
    others = [one for one in workers if one not in own]
    strangers = [one for one in others if one.machine not in {mine.machine for mine in own}]
    earlier = [one for one in others if one.segment not in ("", segment)]
    if is_history_local and strangers:
        raise QueueError(
            f"this worker keeps the history in a file of its own machine, and {named(strangers)} on"
            " another one works on the same queue: each would record a part of the harvest; nothing was asked"
            " for; give all of them one PostgreSQL, DATABASE_URL=postgresql+psycopg://USER:PASSWORD@HOST/NAME"
        )
    if earlier:
        raise QueueError(
            f"the crawl of {earlier[0].segment} is still under way at {named(earlier)}; nothing was asked"
            f" for; run again for {segment} when it has ended, or stop it; a worker that was killed is"
            " forgotten when its leases expire"
        )
    if is_fresh and others:
        raise QueueError(
            f"a crawl cannot start afresh while others work on it: {named(others)}; nothing was changed;"
            " let them end or stop them, or leave out --fresh or -a fresh=1 to work with them"
        )


def named(workers: Iterable[Worker]) -> str:
    """Returns a text such as `box-1 (pid 31), box-2 (pid 7)`."""
    return ", ".join(f"{worker.host} (pid {worker.pid})" for worker in workers)
