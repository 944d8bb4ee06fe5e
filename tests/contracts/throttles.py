"""The throttles of the contract suite, and a process that uses one."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from redis.asyncio import Redis

from tileharvest.politeness.redis import RedisThrottle
from tileharvest.politeness.sqlite import SqliteThrottle
from tileharvest.politeness.throttle import HORIZON, Share, Throttle

NOW: Final = 1_000.0


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


class Link:
    """A plain connection to Redis."""

    def __init__(self, socket: str) -> None:
        self.client: Any = Redis(unix_socket_path=socket, protocol=2)

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        await self.client.aclose()

    async def attempt(self, work: Callable[[Any], Awaitable[Any]], patience: float | None = None) -> Any:
        return await work(self.client)


@asynccontextmanager
async def opened(place: str, clock: Clock) -> AsyncIterator[Throttle]:
    """A throttle of its own on this place: a folder, the socket of a Redis, or `memory`."""
    throttle: Throttle
    if place.endswith(".sock"):
        throttle = RedisThrottle(Link(place))
    else:
        throttle = SqliteThrottle(None if place == "memory" else Path(place))
    throttle.clock = clock
    await throttle.open()
    try:
        yield throttle
    finally:
        await throttle.close()


async def take_starts(place: str, number: int, limits: dict[str, float]) -> list[float]:
    """The starts that a process takes which is never late."""
    starts: list[float] = []
    clock = Clock()
    async with opened(place, clock) as throttle:
        while len(starts) < number:
            found = await throttle.reserve("h", limits)
            starts += [found.start] if found.is_granted else []
            clock.now = max(clock.now, found.start - HORIZON)
    return starts


async def hold_share(place: str) -> None:
    """Takes all four places of a host, says so, and waits to be killed."""
    async with opened(place, Clock()) as throttle:
        await throttle.share("h", Share(f"{throttle.process}:0", "m", 0), 4, 4, 1_000.0)
        sys.stdout.write("held\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    if what == "hold":
        asyncio.run(hold_share(words[0]))
    else:
        place, number, *spacings = words
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        limits = {one: float(one) for one in spacings}
        json.dump(asyncio.run(take_starts(place, int(number), limits)), sys.stdout)
