"""An outage: a host that goes down and, perhaps, comes back, as its visitors see it."""

import time
from math import inf

from aiohttp import web

from tests.servers import rules
from tests.servers.misbehaving import Exchange


class Outage:
    """A rule that resets every connection after so many answers.

    The host comes back after so many probes. A probe is a HEAD for a path that was answered already; no other
    request is like that.
    """

    def __init__(self, answers: int, *, probes: float = inf) -> None:
        self._answers = answers
        self._awaited = probes
        self._answered: set[str] = set()
        self.failures: list[float] = []
        """When those requests came, on the monotonic clock, that were reset and were not probes."""
        self.probes: list[float] = []
        """When the probes came that were reset, on the monotonic clock."""

    async def __call__(self, exchange: Exchange) -> web.StreamResponse:
        now = time.monotonic()
        self._answers -= 1
        if self._answers >= 0:
            self._answered.add(exchange.path)
            return await exchange.send_properly()
        if len(self.probes) >= self._awaited:
            return await exchange.send_properly()
        is_probe = exchange.request.method == "HEAD" and exchange.path in self._answered
        (self.probes if is_probe else self.failures).append(now)
        return await rules.reset()(exchange)
