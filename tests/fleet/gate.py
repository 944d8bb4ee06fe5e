"""Rules of a `misbehaving` site by which a test holds a harvest where it wants it."""

import asyncio

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


def tiles_only(rule: Rule) -> Rule:
    """The rule for tiles; the site's configuration is answered properly."""

    async def answer(exchange: Exchange) -> web.StreamResponse:
        return await (rule(exchange) if exchange.path.endswith(".png") else exchange.send_properly())

    return answer
