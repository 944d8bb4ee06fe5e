"""A host that goes down, as one that probes it sees it."""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING

from tests.servers import rules

if TYPE_CHECKING:
    from aiohttp import web

    from tests.servers.misbehaving import Exchange


class Outage:
    """A rule: after so many answers every connection is reset, until so many probes were made, or for so many
    seconds from the first reset on.

    A probe asks by HEAD for what was answered already, as nothing else does.
    """

    def __init__(self, answers: int, *, probes: float = inf, seconds: float = inf) -> None:
        self._answers = answers
        self._awaited = probes
        self._seconds = seconds
        self._answered: set[str] = set()
        self._began = inf
        self.failures: list[float] = []
        """When the others came that were reset, on the monotonic clock."""
        self.probes: list[float] = []
        """When they came, without the one that was answered at last."""

    async def __call__(self, exchange: Exchange) -> web.StreamResponse:
        now = time.monotonic()
        self._answers -= 1
        if self._answers >= 0:
            self._answered.add(exchange.path)
            return await exchange.send_properly()
        self._began = min(self._began, now)
        if len(self.probes) >= self._awaited or now >= self._began + self._seconds:
            return await exchange.send_properly()
        is_probe = exchange.request.method == "HEAD" and exchange.path in self._answered
        (self.probes if is_probe else self.failures).append(now)
        return await rules.reset()(exchange)
