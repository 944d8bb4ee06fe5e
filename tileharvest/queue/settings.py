"""The segments and the queue that the settings name."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from math import inf
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

from scrapy.utils.misc import load_object

from tileharvest.errors import ConfigurationError, QueueError
from tileharvest.maps.settings import data_folder, setting
from tileharvest.queue.locks import locks_in
from tileharvest.queue.map_leases import MapLeases
from tileharvest.queue.orders import Orders
from tileharvest.queue.port import SILENT
from tileharvest.queue.requests import PUSHED
from tileharvest.queue.segments import parse_resolver
from tileharvest.queue.shared_states import StateFile
from tileharvest.queue.sqlite.queue import SqliteQueue, has_requests_in, remarks_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime
    from pathlib import Path
    from zoneinfo import ZoneInfo

    from scrapy.settings import BaseSettings

    from tileharvest.queue.port import RequestQueue, Worker
    from tileharvest.queue.redis.queue import RedisQueue
    from tileharvest.queue.segments import SegmentResolver


def segment_resolver(
    settings: BaseSettings, name: str | None, zone: ZoneInfo, started: datetime
) -> SegmentResolver:
    """Returns the resolver that `name` describes. Without a name the setting SEGMENT_RESOLVER may name a
    class of the user's own, and otherwise the setting SEGMENT counts.

    `zone` is the map's time zone, and `started` the moment of the start. Raises ConfigurationError."""
    own = setting(settings, "SEGMENT_RESOLVER")
    if name is None and own:
        resolver: SegmentResolver = load_object(own)(zone, started)
        return resolver
    return parse_resolver(setting(settings, "SEGMENT") if name is None else name, zone, started)


QueueKind: TypeAlias = Literal["memory", "sqlite", "redis"]
"""The kinds of places where requests wait."""

REDIS_SETTINGS = ("REDIS_URL", "REDIS_HOST", "REDIS_PORT", "REDIS_PARAMS")
"""If any of these settings is set, requests wait in Redis."""


def queue_kind(settings: BaseSettings) -> QueueKind:
    """Returns the kind of queue that SCHEDULER_QUEUE names. If it names none, the settings for Redis decide.
    Raises ConfigurationError for a kind that does not exist."""
    name = setting(settings, "SCHEDULER_QUEUE")
    if not name:
        return "redis" if any(settings[one] for one in REDIS_SETTINGS) else "sqlite"
    if name not in get_args(QueueKind):
        raise ConfigurationError(f"SCHEDULER_QUEUE '{name}' is none of: {', '.join(get_args(QueueKind))}")
    return cast("QueueKind", name)


def is_shared(settings: BaseSettings) -> bool:
    """Returns whether several workers may share the queues. Raises ConfigurationError as `queue_kind`
    does."""
    return queue_kind(settings) == "redis"


def local_queue(settings: BaseSettings, name: str, *, in_memory: bool = False) -> SqliteQueue:
    """Returns the map's queue for one worker, in the data folder or in memory. The queue is not open."""
    file = None if in_memory else _queue_file(settings, name)
    return SqliteQueue(
        file, **_queue_options(settings), error_rate=float(setting(settings, "SEEN_ERROR_RATE"))
    )


def redis_queue(settings: BaseSettings, name: str) -> RedisQueue:
    """Returns the map's queue in Redis. The queue is not open."""
    # To load Redis' client takes 0.1 s, which most commands do not need.
    from tileharvest.queue.redis.connection import connection_parameters  # noqa: PLC0415
    from tileharvest.queue.redis.queue import RedisQueue  # noqa: PLC0415

    return RedisQueue(connection_parameters(settings), name, **_queue_options(settings))


def map_leases(settings: BaseSettings) -> MapLeases:
    """Returns the map leases of all workers that share the queues. They are not open."""
    if not is_shared(settings):
        folder = data_folder(settings)
        return MapLeases(StateFile(folder / "hosts"), queues=locks_in(folder / "queues"))
    from tileharvest.queue.redis.connection import connection_parameters  # noqa: PLC0415
    from tileharvest.queue.redis.link import RedisLink  # noqa: PLC0415
    from tileharvest.queue.redis.shared_states import RedisStates  # noqa: PLC0415

    silent = lease_seconds(settings)
    link = RedisLink(connection_parameters(settings), "the list of map leases", silent)
    return MapLeases(RedisStates(link, silent=silent), link=link)


def lease_seconds(settings: BaseSettings) -> float:
    """Returns the seconds for which a lease lasts. In a shared queue that is `SILENT` at most, so that others
    soon have what a killed worker had."""
    longest = SILENT if is_shared(settings) else inf
    return min(float(setting(settings, "LEASE_SECONDS")), longest)


def has_queue(settings: BaseSettings, name: str) -> bool:
    """Returns whether the map has a queue that a command may look into. In Redis every map has one."""
    return is_shared(settings) or _queue_file(settings, name).is_file()


def has_local_worker(settings: BaseSettings, name: str) -> bool:
    """Returns whether a process works on the map's queue file. The file need not exist."""
    return locks_in(_queue_file(settings, name).parent).is_taken(name)


@asynccontextmanager
async def open_beside(settings: BaseSettings, name: str) -> AsyncIterator[SqliteQueue | RedisQueue]:
    """Opens the map's queue for a command, while workers may be at it. Raises QueueError."""
    queue = redis_queue(settings, name) if is_shared(settings) else local_queue(settings, name)
    await queue.open_beside()
    try:
        yield queue
    finally:
        await queue.close()


async def orders_for(settings: BaseSettings, name: str) -> Orders:
    """Returns the orders that hold for a map now. Raises QueueError."""
    orders, errors = await orders_for_all(settings, [name])
    if errors:
        raise errors[0]
    return orders[name]


async def orders_for_all(
    settings: BaseSettings, names: Sequence[str]
) -> tuple[dict[str, Orders], list[QueueError]]:
    """Returns the orders that hold for each of these maps now, and the errors of maps that could not be
    asked.

    A map without a queue has no orders, and gets no queue."""
    if not is_shared(settings):
        return await asyncio.to_thread(_local_orders, settings, names)
    from tileharvest.queue.redis.connection import connection_parameters  # noqa: PLC0415
    from tileharvest.queue.redis.queue import notes_of_maps  # noqa: PLC0415

    try:
        notes = await notes_of_maps(connection_parameters(settings), names, PUSHED)
    except QueueError as error:
        return {}, [error]
    return {name: Orders.read(of_map) for name, of_map in notes.items()}, []


async def workers_of_all(settings: BaseSettings, names: Sequence[str]) -> dict[str, Sequence[Worker]]:
    """Returns the workers of each of these queues in Redis. Raises QueueError."""
    from tileharvest.queue.redis.connection import connection_parameters  # noqa: PLC0415
    from tileharvest.queue.redis.queue import workers_of_maps  # noqa: PLC0415

    return await workers_of_maps(connection_parameters(settings), names, lease_seconds(settings))


def has_requests(settings: BaseSettings, name: str) -> bool:
    """Returns whether any request is in the map's queue file. Raises QueueError if the file cannot be
    read."""
    file = _queue_file(settings, name)
    return file.is_file() and has_requests_in(file)


def _local_orders(settings: BaseSettings, names: Sequence[str]) -> tuple[dict[str, Orders], list[QueueError]]:
    """Returns what `orders_for_all` does, for queues in files."""
    found: dict[str, Orders] = {}
    errors: list[QueueError] = []
    for name in names:
        try:
            file = _queue_file(settings, name)
            found[name] = Orders.read(remarks_in(file, PUSHED)) if file.is_file() else Orders()
        except QueueError as error:
            errors.append(error)
    return found, errors


async def is_worked_on(settings: BaseSettings, name: str, queue: RequestQueue) -> bool:
    """Returns whether anybody works on this open queue of a map. A worker of a shared queue that was killed
    counts until it has been silent for the time of a lease. Raises QueueError."""
    workers = await queue.workers()
    return has_local_worker(settings, name) if workers is None else bool(workers)


def workers_on(settings: BaseSettings, name: str) -> int:
    """Returns how many workers are at the map's queue now, or 0 if that cannot be found out."""
    if not is_shared(settings):
        return int(has_local_worker(settings, name))
    try:
        return len(asyncio.run(workers_of_all(settings, [name]))[name])
    except QueueError:
        return 0


def _queue_file(settings: BaseSettings, name: str) -> Path:
    return data_folder(settings) / "queues" / f"{name}.sqlite"


def _queue_options(settings: BaseSettings) -> dict[str, Any]:
    return {
        "max_attempts": int(setting(settings, "MAX_ATTEMPTS")),
        "lease_seconds": lease_seconds(settings),
        "minus_share": int(setting(settings, "MINUS_SHARE")),
        "expected": int(setting(settings, "SEEN_EXPECTED")),
    }
