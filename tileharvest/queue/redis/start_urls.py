"""Start URLs of scrapy-redis in Redis, which we take without losing any, and scrapy-redis' own queues."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from contextlib import contextmanager
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import RedisError
from scrapy_redis import defaults

from tileharvest.errors import QueueError
from tileharvest.queue.redis.connection import connection_parameters
from tileharvest.queue.redis.link import RedisLink

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import redis
    from scrapy_redis.spiders import RedisMixin

    from tileharvest.queue.redis.connection import Client

_logger = logging.getLogger(__name__)

_COUNTS: Final = {b"list": "LLEN", b"zset": "ZCARD"}
"""The commands that count the requests in scrapy-redis' queues, by the type of the key."""

_PATIENCE: Final = 5.0
"""Seconds of patience with Redis for the question whether anything waits there."""

_SCRIPT: Final = resources.files("tileharvest.queue.redis").joinpath("scripts/start_urls.lua")


class StartUrls:
    """Takes start URLs in place of a spider of scrapy-redis, and forgets them when a queue has their
    requests.

    scrapy-redis removes start URLs from Redis before their requests are in any queue, so that a kill between
    the two loses them. Here start URLs move to a list of the process that takes them. `settle` drops the
    list. If a process was silent for long, its list goes back, in its order, when another process takes start
    URLs. So each start URL is served at least once, and perhaps twice if its process was killed.

    Calls are made with the spider's own client, which blocks: one call for a batch, and one a second while
    start URLs are taken and not settled.
    """

    def __init__(self, spider: RedisMixin, *, silent: float) -> None:
        """A process that was not heard of for `silent` seconds counts as gone. A spider that takes start URLs
        by a method of its own is left alone."""
        self._spider = spider
        self._server: redis.Redis = spider.server
        self._next: Any = None
        """The start URL that becomes requests now."""
        self._key: str = spider.redis_key
        self._silent = silent
        self._process = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._processes = f"{self._key}:taken"
        self._own = f"{self._processes}:{self._process}"
        self._script = self._server.register_script(_SCRIPT.read_text(encoding="utf-8"))
        self._holds_some = False
        self._all_pushed = True
        kinds = {
            spider.pop_list_queue: "list",
            spider.pop_priority_queue: "zset",
            self._server.spop: "set",
        }
        self._kind = kinds.get(spider.fetch_data)
        if self._kind is not None:
            self._requests = spider.next_requests
            spider.fetch_data, spider.next_requests = self._fetch, self._next_requests

    def check(self) -> None:
        """Tells the others that this process is alive. Call this every second."""
        if self._holds_some:
            with self._heard_later():
                self._call(0)

    def settle(self) -> None:
        """Drops the start URLs that were taken. Call this when the queue has all requests that were
        pushed."""
        if self._holds_some and self._all_pushed:
            with self._heard_later(), self._server.pipeline() as pipe:
                pipe.delete(self._own)
                pipe.zrem(self._processes, self._process)
                pipe.execute()
                self._holds_some = False

    @contextmanager
    def _heard_later(self) -> Iterator[None]:
        """Lets the block fail if Redis is away: it is told the next time. At worst some are served twice."""
        try:
            yield
        except (RedisError, OSError) as error:
            _logger.debug("Redis was not told about the start URLs of '%s': %s", self._key, error)

    def _next_requests(self) -> Iterator[Any]:
        """Yields the requests of the next start URLs. When it ends, all of them were pushed."""
        self._all_pushed = False
        # One by one: a start URL that cannot become a request does not stop the others.
        for start_url in self._taken(self._spider.redis_batch_size):
            self._next = start_url
            try:
                yield from self._requests()
            except Exception as error:  # noqa: BLE001 - whatever a spider's own method raises
                _logger.error("%r of '%s' makes no request and is dropped: %s", start_url, self._key, error)
        self._all_pushed = True

    def _fetch(self, _key: str, _number: int) -> list[Any]:
        return [self._next]

    def _taken(self, number: int) -> list[Any]:
        found = self._call(number)
        self._holds_some = self._holds_some or bool(found)
        return found

    def _call(self, number: int) -> list[Any]:
        keys = [self._key, self._processes, self._own]
        arguments = [self._kind, self._process, number, self._silent, f"{self._processes}:"]
        found: list[Any] = self._script(keys=keys, args=arguments)
        return found


async def refuse_pickled(settings: Mapping[str, Any], name: str, patience: float = _PATIENCE) -> None:
    """Raises QueueError if scrapy-redis' own scheduler has left requests of the spider in Redis, which are
    pickled and never read here. Raises QueueError, too, if that cannot be found out."""
    key = settings.get("SCHEDULER_QUEUE_KEY", defaults.SCHEDULER_QUEUE_KEY) % {"spider": name}
    link = RedisLink(connection_parameters(settings), f"the queue '{key}' of scrapy-redis", patience)
    await link.open()
    try:
        waiting = await link.attempt(partial(_waiting, key=key))
    finally:
        await link.close()
    if waiting:
        raise QueueError(
            f"in '{key}' of scrapy-redis pickled requests wait ({waiting:,}), which are never read: first"
            f" crawl '{name}' with SCHEDULER = 'scrapy_redis.scheduler.Scheduler' until it is idle, or delete"
            " that key"
        )


async def _waiting(client: Client, key: str) -> int:
    command = _COUNTS.get(await client.type(key))
    return 0 if command is None else int(await client.execute_command(command, key))
