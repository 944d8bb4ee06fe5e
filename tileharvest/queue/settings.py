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
from tileharvest.queue.map_leases import LocalMapLeases
from tileharvest.queue.orders import Orders, orders_of
from tileharvest.queue.port import SILENT
from tileharvest.queue.requests import PUSHED
from tileharvest.queue.segments import parse_resolver
from tileharvest.queue.sqlite.queue import SqliteQueue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime
    from pathlib import Path
    from zoneinfo import ZoneInfo

    from scrapy.settings import BaseSettings

    from tileharvest.queue.map_leases import MapLeases
    from tileharvest.queue.port import RequestQueue, Worker
    from tileharvest.queue.redis.queue import RedisQueue
    from tileharvest.queue.segments import SegmentResolver


def segment_resolver(
    settings: BaseSettings, name: str | None, zone: ZoneInfo, started: datetime
) -> SegmentResolver:
    """Returns the resolver of that name, or of the setting SEGMENT, or one of the user's own class. It has
    the map's zone and the moment of the start. Raises ConfigurationError."""
    own = setting(settings, "SEGMENT_RESOLVER")
    if name is None and own:
        resolver: SegmentResolver = load_object(own)(zone, started)
        return resolver
    return parse_resolver(setting(settings, "SEGMENT") if name is None else name, zone, started)


QueueKind: TypeAlias = Literal["memory", "sqlite", "redis"]
"""Where requests wait."""

REDIS_SETTINGS = ("REDIS_URL", "REDIS_HOST", "REDIS_PORT", "REDIS_PARAMS")
"""Any of them says that there is a Redis to be used."""


def queue_kind(settings: BaseSettings) -> QueueKind:
    """Returns what SCHEDULER_QUEUE names. Raises ConfigurationError for what names none."""
    name = setting(settings, "SCHEDULER_QUEUE")
    if not name:
        return "redis" if any(settings[one] for one in REDIS_SETTINGS) else "sqlite"
    if name not in get_args(QueueKind):
        raise ConfigurationError(f"SCHEDULER_QUEUE '{name}' is none of: {', '.join(get_args(QueueKind))}")
    return cast("QueueKind", name)


def is_shared(settings: BaseSettings) -> bool:
    """Returns whether several workers may share the queues. Raises ConfigurationError as `queue_kind`."""
    return queue_kind(settings) == "redis"


def local_queue(settings: BaseSettings, name: str, *, in_memory: bool = False) -> SqliteQueue:
    """Returns the map's queue for one worker, in the data folder or in memory. It is not opened yet."""
    file = None if in_memory else _queue_file(settings, name)
    return SqliteQueue(
        file, **_queue_options(settings), error_rate=float(setting(settings, "SEEN_ERROR_RATE"))
    )


def redis_queue(settings: BaseSettings, name: str) -> RedisQueue:
    """Returns the map's queue in Redis. It is not opened yet."""
    # Where it is not used it need not be loaded: 0.1 s of each command.
    from tileharvest.queue.redis.connection import connection_parameters  # noqa: PLC0415
    from tileharvest.queue.redis.queue import RedisQueue  # noqa: PLC0415

    return RedisQueue(connection_parameters(settings), name, **_queue_options(settings))


def map_leases(settings: BaseSettings) -> MapLeases:
    """Returns the leases on maps of all workers that share the queues. They are not opened yet."""
    if not is_shared(settings):
        return LocalMapLeases(data_folder(settings) / "queues")
    from tileharvest.queue.redis.connection import connection_parameters  # noqa: PLC0415
    from tileharvest.queue.redis.map_leases import RedisMapLeases  # noqa: PLC0415

    return RedisMapLeases(connection_parameters(settings), silent=lease_seconds(settings))


def lease_seconds(settings: BaseSettings) -> float:
    """Returns for how long a lease lasts. That of a shared queue ends soon after its worker's last sign of
    life."""
    longest = SILENT if is_shared(settings) else inf
    return min(float(setting(settings, "LEASE_SECONDS")), longest)


def has_queue(settings: BaseSettings, name: str) -> bool:
    """Returns whether the map has a queue that a command may look into. In Redis it always has."""
    return is_shared(settings) or _queue_file(settings, name).is_file()


def has_local_worker(settings: BaseSettings, name: str) -> bool:
    """Returns whether a process works on the map's queue file, which need not exist."""
    return locks_in(_queue_file(settings, name).parent).is_taken(name)


@asynccontextmanager
async def open_beside(settings: BaseSettings, name: str) -> AsyncIterator[SqliteQueue | RedisQueue]:
    """Opens the map's queue for a command, beside whoever works on it. Raises QueueError."""
    queue = redis_queue(settings, name) if is_shared(settings) else local_queue(settings, name)
    await queue.open_beside()
    try:
        yield queue
    finally:
        await queue.close()


async def orders_for(settings: BaseSettings, name: str) -> Orders:
    """Returns what holds for a map now. A map without a queue has no orders, and gets no queue. Raises
    QueueError."""
    if is_shared(settings):
        async with open_beside(settings, name) as queue:
            return await orders_of(queue)
    return await asyncio.to_thread(_local_orders, settings, name)


async def orders_for_all(
    settings: BaseSettings, names: Sequence[str]
) -> tuple[dict[str, Orders], list[QueueError]]:
    """Returns what holds for each of these maps now, and why others could not be asked."""
    if not is_shared(settings):
        return await asyncio.to_thread(_all_local_orders, settings, names)
    from tileharvest.queue.redis.connection import connection_parameters  # noqa: PLC0415
    from tileharvest.queue.redis.queue import notes_of_maps  # noqa: PLC0415

    try:
        notes = await notes_of_maps(connection_parameters(settings), names, PUSHED)
    except QueueError as error:
        return {}, [error]
    return {name: Orders.read(of_map) for name, of_map in notes.items()}, []


async def workers_of_all(
    settings: BaseSettings, names: Sequence[str]
) -> dict[str, tuple[Sequence[Worker], float]]:
    """Returns who works on each of these queues in Redis, and the present time by its clock. Raises
    QueueError."""
    from tileharvest.queue.redis.connection import connection_parameters  # noqa: PLC0415
    from tileharvest.queue.redis.queue import workers_of_maps  # noqa: PLC0415

    return await workers_of_maps(connection_parameters(settings), names, lease_seconds(settings))


def has_requests(settings: BaseSettings, name: str) -> bool:
    """Returns whether any request is in the map's queue file. Raises QueueError where that cannot be told."""
    return _queue_file(settings, name).is_file() and not local_queue(settings, name).glance_whether_empty()


def _all_local_orders(
    settings: BaseSettings, names: Sequence[str]
) -> tuple[dict[str, Orders], list[QueueError]]:
    found: dict[str, Orders] = {}
    errors: list[QueueError] = []
    for name in names:
        try:
            found[name] = _local_orders(settings, name)
        except QueueError as error:
            errors.append(error)
    return found, errors


def _local_orders(settings: BaseSettings, name: str) -> Orders:
    """Reads a file and makes none. Raises QueueError."""
    if not _queue_file(settings, name).is_file():
        return Orders()
    return Orders.read(local_queue(settings, name).glance(PUSHED))


async def is_worked_on(settings: BaseSettings, name: str, queue: RequestQueue) -> bool:
    """Returns whether anybody harvests the map whose open queue this is. A worker of a shared queue that was
    killed counts until it has been silent for long. Raises QueueError."""
    workers = await queue.workers()
    return has_local_worker(settings, name) if workers is None else bool(workers)


def workers_on(settings: BaseSettings, name: str) -> int:
    """Returns how many work on the map's queue at this moment, or 0 where that cannot be found out."""

    async def count() -> int:
        async with open_beside(settings, name) as queue:
            return len(await queue.workers() or ())

    if not is_shared(settings):
        return int(has_local_worker(settings, name))
    try:
        return asyncio.run(count())
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
