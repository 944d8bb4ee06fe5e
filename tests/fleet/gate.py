"""Rules of a `misbehaving` site by which a test holds a harvest where it wants it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from tests.servers import rules

if TYPE_CHECKING:
    from aiohttp import web

    from tests.servers.misbehaving import Exchange, Rule


class Gate:
    """Answers `after` requests. Then it keeps the answer to the next one, or to all that come, until it is
    opened."""

    def __init__(self, after: int = 0, *, keeps_all: bool = False) -> None:
        self._after = after
        self._keeps_all = keeps_all
        self._opened = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, exchange: Exchange) -> web.StreamResponse:
        if self._after:
            self._after -= 1
        elif self._loop is None or self._keeps_all:
            self._loop = asyncio.get_running_loop()
            await self._opened.wait()
        return await exchange.send_properly()

    @property
    def is_reached(self) -> bool:
        """Whether a request waits."""
        return self._loop is not None

    def open(self) -> None:
        assert self._loop is not None, "nobody waits"
        self._loop.call_soon_threadsafe(self._opened.set)


class Slow:
    """Each answer takes its time; the requests that wait for theirs are counted."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting = 0
        self.most = 0
        """The most requests that waited at the same time."""

    async def __call__(self, exchange: Exchange) -> web.StreamResponse:
        self._waiting += 1
        self.most = max(self.most, self._waiting)
        try:
            await asyncio.sleep(self._seconds)
        finally:
            # Also when the client has gone meanwhile.
            self._waiting -= 1
        return await exchange.send_properly()


class OnceTooMany:
    """Answers one request with a 429 that asks for so many seconds of rest. All later requests wait for
    `go_on`, and are answered by `rule`: so nobody begins anything new before all workers know of the rest."""

    def __init__(self, rest: int, rule: Rule) -> None:
        self._rest = rest
        self._rule = rule
        self._going = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.answered: float | None = None
        """When that was, on the monotonic clock."""

    async def __call__(self, exchange: Exchange) -> web.StreamResponse:
        if self.answered is None:
            self.answered = time.monotonic()
            self._loop = asyncio.get_running_loop()
            return await rules.too_many(str(self._rest))(exchange)
        await self._going.wait()
        return await self._rule(exchange)

    def go_on(self) -> None:
        assert self._loop is not None, "nobody was told"
        self._loop.call_soon_threadsafe(self._going.set)


def tiles_only(rule: Rule) -> Rule:
    """The rule for tiles; the site's configuration is answered properly."""

    async def answer(exchange: Exchange) -> web.StreamResponse:
        return await (rule(exchange) if exchange.path.endswith(".png") else exchange.send_properly())

    return answer
