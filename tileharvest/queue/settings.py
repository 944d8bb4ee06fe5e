"""The segments and the queues that the settings name."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from scrapy.utils.misc import load_object

from tileharvest.errors import ConfigurationError, QueueError
from tileharvest.maps.settings import data_folder, setting
from tileharvest.politeness.lock import Lock
from tileharvest.politeness.sqlite import SqliteThrottle
from tileharvest.queue.controls import Controls
from tileharvest.queue.map_leases import LocalMapLeases, RedisMapLeases
from tileharvest.queue.port import SILENT
from tileharvest.queue.segments import parse_resolver
from tileharvest.queue.sqlite.queue import SqliteQueue, file_stem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from datetime import datetime
    from pathlib import Path
    from zoneinfo import ZoneInfo

    from scrapy.settings import BaseSettings

    from tileharvest.politeness.throttle import Throttle
    from tileharvest.queue.port import Worker
    from tileharvest.queue.redis.link import RedisLink
    from tileharvest.queue.redis.queue import RedisQueue
    from tileharvest.queue.segments import Segment

QueueKind: TypeAlias = Literal["memory", "sqlite", "redis"]

_OF_REDIS = ("REDIS_URL", "REDIS_HOST", "REDIS_PORT", "REDIS_PARAMS")
_PATIENCE = 5.0
"""Seconds of patience with Redis for a list of many queues."""
_OUTAGE = 60.0
"""Seconds for which a crawl outlasts a Redis that is away."""


def segment_resolver(
    settings: BaseSettings, name: str | None, zone: ZoneInfo, started: datetime
) -> Callable[[datetime], Segment]:
    """Returns the function that gives the segment of a moment, as `name` describes it. Without a name the
    setting SEGMENT_RESOLVER may name a class of the user's own, and otherwise the setting SEGMENT counts.

    `zone` is the map's time zone, and `started` the moment of the start. Raises ConfigurationError."""
    own = setting(settings, "SEGMENT_RESOLVER")
    if name is None and own:
        resolver = load_object(own)(zone, started)
        return lambda moment: cast("Segment", resolver.segment_at(None, moment))
    return parse_resolver(setting(settings, "SEGMENT") if name is None else name, zone, started)


def queue_kind(settings: BaseSettings) -> QueueKind:
    """Returns the kind of queue that SCHEDULER_QUEUE names. If it names none, the settings for Redis decide.
    Raises ConfigurationError for a kind that does not exist."""
    of_redis = any(settings[one] for one in _OF_REDIS)
    name = setting(settings, "SCHEDULER_QUEUE") or ("redis" if of_redis else "sqlite")
    if name not in get_args(QueueKind):
        raise ConfigurationError(f"SCHEDULER_QUEUE '{name}' is none of: {', '.join(get_args(QueueKind))}")
    return cast("QueueKind", name)


def is_shared(settings: BaseSettings) -> bool:
    """Returns whether several workers may share the queues. Raises ConfigurationError."""
    return queue_kind(settings) == "redis"


def local_queue(
    settings: BaseSettings, name: str, *, work: str = "its crawl", in_memory: bool = False
) -> SqliteQueue:
    """Returns the queue of that name for one worker, in the data folder or in memory. It is not open. `work`
    says in messages what works on it."""
    file = None if in_memory else _queue_file(settings, name)
    return SqliteQueue(file, work=work, max_attempts=int(setting(settings, "MAX_ATTEMPTS")))


def redis_queue(settings: BaseSettings, name: str) -> RedisQueue:
    """Returns the queue of that name in Redis. It is not open."""
    from tileharvest.queue.redis.queue import RedisQueue  # noqa: PLC0415

    return RedisQueue(
        _redis_link(settings, f"the queue '{name}'", _OUTAGE),
        name,
        max_attempts=int(setting(settings, "MAX_ATTEMPTS")),
        silent=lease_seconds(settings),
    )


def shared_throttle(settings: BaseSettings, *, is_kept: bool = True) -> Throttle:
    """Returns the throttle that this process shares with others, in Redis or in the data folder. It is not
    open. A crawl that leaves nothing behind (`is_kept` is False) shares it if the data folder is there."""
    kind = queue_kind(settings)
    if kind != "redis":
        folder = data_folder(settings)
        is_beside_others = folder.is_dir() or (is_kept and kind == "sqlite")
        return SqliteThrottle(folder / "throttle" if is_beside_others else None)
    from tileharvest.politeness.redis import RedisThrottle  # noqa: PLC0415

    return RedisThrottle(_redis_link(settings, "the limits of hosts", _OUTAGE))


def map_leases(settings: BaseSettings) -> LocalMapLeases | RedisMapLeases:
    """Returns the map leases of all workers that share the queues. They are not open."""
    if not is_shared(settings):
        return LocalMapLeases(data_folder(settings) / "queues")
    link = _redis_link(settings, "the list of map leases", _PATIENCE)
    return RedisMapLeases(link, lease_seconds(settings))


def lease_seconds(settings: BaseSettings) -> float:
    """Returns the seconds after which a worker of a shared queue that is silent has lost its leases."""
    return min(float(setting(settings, "LEASE_SECONDS")), SILENT)


def has_queue(settings: BaseSettings, name: str) -> bool:
    """Returns whether there is a queue that a command may look into. In Redis there is one for each name."""
    return is_shared(settings) or _queue_file(settings, name).is_file()


def has_local_worker(settings: BaseSettings, name: str) -> bool:
    """Returns whether a process works on the queue's file. The file need not exist."""
    file = _queue_file(settings, name)
    return Lock(file.parent, file.stem).is_taken()


@asynccontextmanager
async def open_beside(settings: BaseSettings, name: str) -> AsyncIterator[SqliteQueue | RedisQueue]:
    """Opens the queue for a command, while workers may be at it. Raises QueueError."""
    queue = redis_queue(settings, name) if is_shared(settings) else local_queue(settings, name)
    try:
        await queue.open_beside()
        yield queue
    finally:
        await queue.close()


async def controls_for(settings: BaseSettings, name: str) -> Controls:
    """Returns the orders that hold for a queue now. Raises QueueError."""
    controls, errors = await controls_for_all(settings, [name])
    if errors:
        raise errors[0]
    return controls[name]


async def controls_for_all(
    settings: BaseSettings, names: Sequence[str]
) -> tuple[dict[str, Controls], list[QueueError]]:
    """Returns the orders that hold for each of these queues now, and the errors of those that could not be
    asked. A queue that does not exist has no orders, and is not made."""
    found = dict.fromkeys(names, Controls())
    errors: list[QueueError] = []
    if is_shared(settings):
        from tileharvest.queue.redis.queue import notes_of  # noqa: PLC0415

        try:
            async with _redis_link(settings, "the queues", _PATIENCE) as link:
                notes = await link.attempt(lambda client: notes_of(client, names))
        except QueueError as error:
            return {}, [error]
        return {name: Controls.read(one) for name, one in notes.items()}, []
    for name in filter(lambda one: has_queue(settings, one), names):
        try:
            async with open_beside(settings, name) as queue:
                found[name] = Controls.read(await queue.notes())
        except QueueError as error:
            del found[name]
            errors.append(error)
    return found, errors


async def workers_of_all(settings: BaseSettings, names: Sequence[str]) -> dict[str, Sequence[Worker]]:
    """Returns the workers of each of these queues in Redis. Raises QueueError."""
    from tileharvest.queue.redis.queue import workers_of  # noqa: PLC0415

    async with _redis_link(settings, "the queues", _PATIENCE) as link:
        return await link.attempt(lambda client: workers_of(client, names, lease_seconds(settings)))


def _redis_link(settings: BaseSettings, what: str, patience: float) -> RedisLink:
    # To load Redis' client takes 0.1 s, which most commands do not need.
    from tileharvest.queue.redis.link import RedisLink  # noqa: PLC0415

    return RedisLink(settings, what, patience)


def workers_on(settings: BaseSettings, name: str) -> int:
    """Returns how many workers are at the queue now, or 0 if that cannot be found out."""
    if not is_shared(settings):
        return int(has_local_worker(settings, name))
    try:
        return len(asyncio.run(workers_of_all(settings, [name]))[name])
    except QueueError:
        return 0


def _queue_file(settings: BaseSettings, name: str) -> Path:
    return data_folder(settings) / "queues" / f"{file_stem(name)}.sqlite"
