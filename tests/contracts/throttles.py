"""The throttles of the contract suite, and a process that uses one."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redis.asyncio import Redis

from tileharvest.politeness.redis import RedisThrottle
from tileharvest.politeness.sqlite import SqliteThrottle
from tileharvest.politeness.throttle import HORIZON, Limit, Places, Share

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tileharvest.politeness.throttle import Throttle


class Link:
    """A plain connection to Redis."""

    def __init__(self, socket: str) -> None:
        self.client: Any = Redis(unix_socket_path=socket, protocol=2)

    async def attempt(self, work: Callable[[Any], Awaitable[Any]], patience: float | None = None) -> Any:
        return await work(self.client)


@asynccontextmanager
async def opened(place: str) -> AsyncIterator[Throttle]:
    """A throttle of its own on this place: a folder, the socket of a Redis, or `memory`."""
    link = Link(place) if place.endswith(".sock") else None
    throttle: Throttle
    if link is not None:
        throttle = RedisThrottle(link, server_clock=False)
    else:
        throttle = SqliteThrottle(None if place == "memory" else Path(place))
    await throttle.open()
    try:
        yield throttle
    finally:
        await throttle.close()
        if link is not None:
            await link.client.aclose()


async def take_starts(place: str, number: int, limits: list[Limit]) -> list[float]:
    """So many starts, which a process takes that is never late."""
    starts: list[float] = []
    now = 1_000.0
    async with opened(place) as throttle:
        while len(starts) < number:
            found = await throttle.reserve("h", 5, limits, now)
            starts += [found.start + place * found.spacing for place in range(found.number)]
            now = max(now, found.start + max(0, found.number - 1) * found.spacing - HORIZON)
    return starts


async def hold_share(place: str) -> None:
    """Takes all four places of a host, says so, and waits to be killed."""
    async with opened(place) as throttle:
        worker = f"{getattr(throttle, 'process', '')}:0"
        await throttle.share("h", Share(worker, "m", 4, 4, 2_000.0), Places(4), 1_000.0)
        sys.stdout.write("held\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    if what == "hold":
        asyncio.run(hold_share(words[0]))
    else:
        place, number, *spacings = words
        limits = [Limit(str(one), float(one)) for one in spacings]
        json.dump(asyncio.run(take_starts(place, int(number), limits)), sys.stdout)
