"""The throttle of a fleet, in Redis: a value for each host."""

from __future__ import annotations

import os
import secrets
import time
from typing import Any, Final
from urllib.parse import quote

from tileharvest.maps.rates import LONGEST
from tileharvest.politeness.throttle import HostState, Throttle

_SWAP: Final = """
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
return 1
"""
"""Writes what a host's state has become, unless it has changed since it was read."""
_KEPT: Final = 2 * int(LONGEST)
"""Seconds for which Redis keeps a host after the last change: twice the longest delay."""


class RedisThrottle(Throttle):
    """`Throttle` of all workers of all maps.

    Redis' clock counts, and answers are seconds from now: the clocks of the boxes may differ. Each call reads
    a host's state, changes it by the rules of `HostState`, and writes it if nobody else has done so in
    between; otherwise it begins anew. Of several workers that call at the same time one always succeeds. A
    call whose answer was lost is made again, and may reserve twice.
    """

    def __init__(self, link: Any) -> None:
        """`link` is the connection to Redis of the room above, whose `attempt` repeats a call that was not
        answered."""
        self._link = link
        self.clock = time.time
        """If a test sets another one, that takes the place of Redis' own, too."""
        self.process = f"{os.getpid()}-{secrets.token_hex(8)}"

    async def open(self) -> None:
        await self._link.open()

    async def close(self) -> None:
        await self._link.close()

    async def _do(self, act: str, host: str, *given: Any) -> tuple[float, Any]:
        key = key_of(host)

        async def run(client: Any) -> Any:
            while True:
                reading = client.pipeline(transaction=False).time().get(key)
                (seconds, microseconds), kept = await reading.execute()
                now = seconds + microseconds / 1e6 if self.clock is time.time else self.clock()
                state = HostState.read(kept)
                answer = getattr(state, act)(now, *given)
                if await client.eval(_SWAP, 1, key, kept or b"", state.kept(), _KEPT):
                    return answer

        answer = await self._link.attempt(run)
        return self.clock(), answer


def key_of(host: str) -> bytes:
    """Returns the key of a host, whose name is quoted: a redirect may lead to a host with any name, and a
    brace in the name would end the hash tag."""
    return f"tileharvest:throttle:{{{quote(host, safe=':[]', errors='backslashreplace')}}}".encode()
