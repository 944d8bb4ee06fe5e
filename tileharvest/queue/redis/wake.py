"""Messages that wake a worker with nothing to do when another one has pushed something."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from redis.exceptions import NoPermissionError, RedisClusterException, RedisError

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from redis.asyncio.client import PubSub

_logger = logging.getLogger(__name__)

_PAUSE: Final = 1.0
"""Seconds until a lost subscription is made again."""


class WakeUp:
    """Hears the messages on the channel of a map, but for those of this worker. They may be missed.

    It has a connection of its own from its first use on.
    """

    def __init__(self, client: Redis, channel: str, own: str) -> None:
        self._client = client
        self._channel = channel
        self._own = own.encode()
        self._subscription: PubSub | None = None
        self._is_allowed = True

    async def wait(self, timeout: float) -> bool:  # noqa: ASYNC109 - the time is the purpose, no limit
        """Wait for so many seconds at most. Returns whether there may be something to do. That is also True
        where it is not known: at the first time, because what came before is not told, and after the
        connection was lost."""
        end = asyncio.get_running_loop().time() + timeout
        if not self._is_allowed:
            await asyncio.sleep(timeout)
            return False
        try:
            if self._subscription is None:
                await self._subscribe()
                return True
            return await self._message_before(end)
        except NoPermissionError as error:
            _logger.warning("this worker looks for work from time to time only: %s", error)
            self._is_allowed = False
        except (RedisError, RedisClusterException, OSError):
            await asyncio.sleep(min(_PAUSE, timeout))
        await self.close()
        return True

    async def close(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.aclose()  # type: ignore[no-untyped-call]

    async def _subscribe(self) -> None:
        self._subscription = self._client.pubsub(ignore_subscribe_messages=True)
        await self._subscription.subscribe(self._channel)
        # Its own confirmation is the first to come; an error of the server comes here too.
        await self._subscription.get_message(timeout=_PAUSE)

    async def _message_before(self, end: float) -> bool:
        assert self._subscription is not None
        loop = asyncio.get_running_loop()
        while (left := end - loop.time()) > 0:
            message = await self._subscription.get_message(timeout=left)
            if message is not None and message["data"] != self._own:
                return True
        return False
