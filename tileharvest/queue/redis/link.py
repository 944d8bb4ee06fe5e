"""The way to Redis: one client, which calls are repeated, and what a person is told when it is of no use."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, TypeVar

from redis.asyncio import Redis, RedisCluster
from redis.exceptions import (
    NoPermissionError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
)

from tileharvest.errors import QueueError
from tileharvest.queue.redis.calls import script
from tileharvest.queue.redis.connection import masked, parameters_of, place
from tileharvest.queue.redis.errors import line, may_pass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from tileharvest.queue.redis.connection import Client

    Result = TypeVar("Result")

_logger = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0
"""Seconds between two attempts: the pause doubles from the first to the longest."""

_TO_OPEN: Final = 5.0
"""Seconds of patience at the start at most: a wrong address is told soon."""

_OLDEST: Final = 6
"""Version of Redis."""


async def _information(client: Client) -> dict[str, Any]:
    """What the server tells of itself; nothing if it may not be asked."""
    try:
        information: dict[str, Any] = await client.info()
    except NoPermissionError:
        return {}
    return information


class RedisLink:
    """Calls that reach Redis once or more, though the connection is lost meanwhile.

    The client repeats nothing itself. Here each call is repeated until it is answered, or for `patience`
    seconds; so each must bear being made twice. The client's own time limits come on top of the patience.
    """

    def __init__(self, connect: Callable[[], Client], map_name: str, patience: float) -> None:
        self._connect = connect
        self._map_name = map_name
        self._patience = patience
        self._client: Client | None = None
        self.is_cluster = False
        """Known when the server has been checked."""
        self.interruptions = 0
        """How often a call had to be repeated."""

    @property
    def is_open(self) -> bool:
        return self._client is not None

    @property
    def client(self) -> Client:
        """Raises RuntimeError if it is not open."""
        self.expect_open()
        return self._client

    def expect_open(self) -> None:
        if self._client is None:
            raise RuntimeError("the queue is not open")

    @property
    def queue(self) -> str:
        """Which queue it is and where, for messages."""
        return f"the queue of map '{self._map_name}' at {place(self.client)}"

    def open(self) -> None:
        """Raises ConfigurationError for parameters that cannot be; does not connect yet."""
        if self._client is not None:
            raise RuntimeError("the queue is open already")
        self._client = self._connect()

    async def close(self) -> None:
        """Closing twice is harmless."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def run(self, name: str, keys: Sequence[bytes], argument: Mapping[str, Any]) -> bytes:
        """The answer of a script that may be run twice with this argument. Raises QueueError."""
        return await self.attempt(lambda client: script(name).run(client, keys, argument))

    async def attempt(
        self, work: Callable[[Client], Awaitable[Result]], patience: float | None = None
    ) -> Result:
        """The result of what may be done twice. Raises QueueError."""
        loop = asyncio.get_running_loop()
        end = loop.time() + (self._patience if patience is None else patience)
        pause = _FIRST_PAUSE
        while True:
            try:
                return await work(self.client)
            except (RedisError, RedisClusterException, OSError) as error:
                if not may_pass(error) or loop.time() + pause > end:
                    raise self.failure(error) from error
                if pause == _FIRST_PAUSE:
                    _logger.warning("%s; trying again", line(error, self.queue, self._said(error)))
                self.interruptions += 1
                await self._leave(error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def check_server(self) -> None:
        """The first call. Raises QueueError if there is no Redis that lets one in, and for one that is too
        old, or that may throw requests away."""
        about = await self.attempt(_information, min(self._patience, _TO_OPEN))
        self.is_cluster = about.get("redis_mode") == "cluster" or isinstance(self.client, RedisCluster)
        version = str(about.get("redis_version", _OLDEST))
        major, _, _ = version.partition(".")
        if major.isdigit() and int(major) < _OLDEST:
            raise self.failure(ResponseError(f"its version is {version}"))
        policy = str(about.get("maxmemory_policy", ""))
        if about.get("maxmemory") and policy.startswith("allkeys"):
            raise QueueError(
                f"{self.queue} may throw requests away when its memory is full (maxmemory-policy {policy});"
                " nothing was changed; let an administrator set maxmemory-policy noeviction"
            )

    async def _leave(self, error: Exception) -> None:
        """A server that has become a replica is left: its name may belong to another one by now."""
        if isinstance(error, ReadOnlyError) and isinstance(self.client, Redis):
            await self.client.connection_pool.disconnect(inuse_connections=False)

    def failure(self, error: Exception) -> QueueError:
        return QueueError(line(error, self.queue, self._said(error)))

    def _said(self, error: Exception) -> str:
        words = " ".join(str(error).split()) or type(error).__name__
        return masked(words.rstrip("."), parameters_of(self.client))
