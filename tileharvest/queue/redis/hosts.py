"""What workers that share a Redis know of the hosts that they ask: a key for each host."""

from __future__ import annotations

import os
import secrets
import time
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote

import msgspec

from tileharvest.maps.rates import LONGEST
from tileharvest.queue.hosts import decoded
from tileharvest.queue.redis.calls import swap

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileharvest.politeness.rate_limit import Host
    from tileharvest.queue.redis.link import RedisLink

    Result = TypeVar("Result")

_REMEMBERED: Final = 2 * int(LONGEST)
"""Seconds for which a host is remembered after the last step: twice the longest gap."""

_WRONG: Final = 0.1
"""Seconds by which the time of a step may differ from Redis' own. Twice as many for each further attempt, as
a way to Redis may take long."""


class RedisHosts:
    """`Hosts` for all workers of all maps, also in a cluster: each host's key has a hash tag of its own.

    Redis' clock counts, in a cluster that of the node which has the host. Each step is made here, with what
    was read last, and kept if that is still what Redis has: mostly one call, and one more where another
    worker was faster. A step whose answer was lost may be made twice: a start may be left out then, or a
    probe. One that a replica had not heard of when it took over is lost: the same start may be given again.
    """

    def __init__(self, link: RedisLink, *, silent: float, server_clock: bool = True) -> None:
        """`link` is opened and closed by others. Who was not heard of for `silent` seconds has ended.
        `server_clock=False` is for tests: then the times that callers give are taken for Redis' own."""
        self._link = link
        self._silent = silent
        self._server_clock = server_clock
        self._known: dict[str, bytes] = {}
        """As Redis had it last, by host."""
        self._ahead: dict[str, float] = {}
        """By host, as each may be on another node."""
        self.process = ""

    def open(self) -> None:
        """The link must be open."""
        self.process = f"{os.getpid()}-{secrets.token_hex(8)}"

    def ahead(self, host: str) -> float:
        return self._ahead.get(host, 0.0)

    async def change(self, host: str, now: float, step: Callable[[Host, float], Result]) -> Result:
        began, wrong = time.monotonic(), _WRONG
        while True:
            sent = now + (time.monotonic() - began if self._server_clock else 0.0)
            before, moment = self._known.get(host, b""), sent + self.ahead(host)
            known = self._settled(host, before, moment)
            result = step(known, moment)
            known.writer = secrets.token_hex(4)
            after, told = msgspec.json.encode(known), repr(moment) if self._server_clock else ""
            swapping = partial(
                swap, key=_key(host), before=before, after=after, seconds=_REMEMBERED, told=told, wrong=wrong
            )
            is_kept, self._known[host], its_time = await self._link.attempt(swapping)
            if self._server_clock:
                # As far as the answer shows that it is wrong.
                received = now + time.monotonic() - began
                self._ahead[host] = min(max(self.ahead(host), its_time - received), its_time - sent)
            if is_kept:
                return result
            wrong *= 2

    def close(self) -> None:
        """Forget what it knows. The others know what it has told until it has been silent for long."""
        self._known.clear()
        self.process = ""

    def _settled(self, host: str, content: bytes, moment: float) -> Host:
        known = decoded(content, f"{_key(host)!a} of Redis")
        others = [one for one in known.processes if one.id != self.process]
        known.settle(moment, [one.id for one in others if one.heard <= moment - self._silent])
        return known


def _key(host: str) -> bytes:
    """Returns the host's key, in which its name is quoted: a redirect may lead to a host with any name, and a
    brace in it would end the hash tag."""
    return f"tileharvest:limit:{{{quote(host, safe=':[]', errors='backslashreplace')}}}".encode()
