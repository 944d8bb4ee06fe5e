"""The states that workers of one Redis share: a key for each."""

from __future__ import annotations

import os
import secrets
import time
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote

import msgspec

from tileharvest.maps.rates import LONGEST
from tileharvest.queue.redis.calls import script_of
from tileharvest.queue.shared_states import decoded

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileharvest.politeness.rate_limit import Host
    from tileharvest.queue.map_table import MapTable
    from tileharvest.queue.redis.connection import Client
    from tileharvest.queue.redis.link import RedisLink

    Result = TypeVar("Result")
    State = TypeVar("State", Host, MapTable)

_REMEMBERED: Final = 2 * int(LONGEST)
"""Seconds for which Redis keeps a state after the last step: twice the longest gap."""

_WRONG: Final = 0.1
"""Seconds by which the time of a step may differ from Redis' time. Each further attempt allows twice as many,
because a call may take long to reach Redis."""

_SIGNS: Final = 12
"""The most signs of life that a process gives the others in the time after which it counts as ended, if it
has nothing else to tell. It counts as ended by so much too soon at most."""


class RedisStates:
    """`SharedStates` for all workers of all maps. In a cluster each key has a hash tag of its own.

    Redis' clock counts; in a cluster it is the clock of the key's node. A step is made here with the state
    that was read last, and is kept if Redis still has that state. This mostly takes one call, and one more
    for each time that another worker was faster. A step that tells the others nothing new changes nothing in
    Redis, so that it makes no other worker the slower one. A step whose answer was lost may be made twice:
    then a start may stay unused, or a probe. A step of which a replica had not heard when it took over is
    lost: then the same start may be given twice.
    """

    def __init__(self, link: RedisLink, *, silent: float, server_clock: bool = True) -> None:
        """The owner of `link` opens and closes it. A process that was not heard of for `silent` seconds
        counts as ended. With `server_clock=False`, for tests, the times that callers give count as Redis'
        time."""
        self._link = link
        self._silent = silent
        self._server_clock = server_clock
        self._known: dict[str, bytes] = {}
        """The states that Redis had last, by name."""
        self._ahead: dict[str, float] = {}
        """The seconds by which Redis' clock is ahead, by name: each state may be on another node."""
        self.process = ""

    def open(self) -> None:
        """Begins to take part. The link must be open."""
        self.process = f"{os.getpid()}-{secrets.token_hex(8)}"

    def ahead(self, name: str) -> float:
        return self._ahead.get(name, 0.0)

    async def change(
        self,
        kind: type[State],
        name: str,
        now: float,
        step: Callable[[State, float], Result],
        *,
        patience: float | None = None,
    ) -> Result:
        began, wrong = time.monotonic(), _WRONG
        while True:
            sent = now + (time.monotonic() - began if self._server_clock else 0.0)
            before, moment = self._known.get(name, b""), sent + self.ahead(name)
            known = self._settled(kind, name, before, moment)
            seen = known.seen_by_others(self.process, self._silent / _SIGNS)
            result = step(known, moment)
            after, told = before, repr(moment) if self._server_clock else ""
            if known.seen_by_others(self.process, self._silent / _SIGNS) != seen:
                known.writer = secrets.token_hex(4)
                after = msgspec.json.encode(known)
            swapping = partial(swap, key=key_of(name), before=before, after=after, told=told, wrong=wrong)
            is_kept, self._known[name], its_time = await self._link.attempt(swapping, patience)
            if self._server_clock:
                # The answer was made between `sent` and `received`, which bounds the difference.
                received = now + time.monotonic() - began
                self._ahead[name] = min(max(self.ahead(name), its_time - received), its_time - sent)
            if is_kept:
                return result
            wrong *= 2

    def close(self) -> None:
        """Forgets the states. The other processes count this one until it has been silent for long."""
        self._known.clear()
        self.process = ""

    def _settled(self, kind: type[State], name: str, content: bytes, moment: float) -> State:
        known = decoded(kind, content, f"{key_of(name)!a} of Redis")
        others = [(one, heard) for one, heard in known.heard.items() if one != self.process]
        known.settle(moment, [one for one, heard in others if heard <= moment - self._silent])
        return known


async def swap(
    client: Client, key: bytes, before: bytes, after: bytes, told: str, wrong: float
) -> tuple[bool, bytes, float]:
    """Runs `scripts/swap.lua`. It keeps `after` if the value is still `before`, and if the time that was
    `told` is wrong by `wrong` seconds at most. An empty text is never wrong.

    Returns whether it is kept, the value that there is now, and Redis' time.
    """
    arguments = before, after, _REMEMBERED, told, wrong
    is_kept, found, seconds, fraction = await client.eval(script_of("swap"), 1, key, *arguments)
    return bool(is_kept), found, int(seconds) + int(fraction) / 1e6


def key_of(name: str) -> bytes:
    """Returns the key of a state, in which the name is quoted. A redirect may lead to a host with any name,
    and a brace in the name would end the hash tag."""
    return f"tileharvest:limit:{{{quote(name, safe=':[]', errors='backslashreplace')}}}".encode()
