"""The throttle of a fleet, in Redis: a hash for each host, and one script."""

from __future__ import annotations

import os
import secrets
import time
from importlib import resources
from typing import Any, Final

import msgspec

from tileharvest.maps.rates import LONGEST
from tileharvest.politeness.throttle import HORIZON, SET_BACK, TURN, Throttle

_SCRIPT: Final = resources.files(__package__).joinpath("throttle.lua").read_text(encoding="utf-8")
_RULES: Final = {
    "horizon": HORIZON,
    "set_back": SET_BACK,
    "longest": LONGEST,
    "turn": TURN,
    "kept": 2 * int(LONGEST),
}
"""What the script must know. Redis keeps a host for twice the longest delay after the last call."""


class RedisThrottle(Throttle):
    """`Throttle` of all workers of all maps. The script has the rules of `HostState`.

    Redis' clock counts, and answers are seconds from now: the clocks of the boxes may differ. A call whose
    answer was lost is made again, and may reserve twice.
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
        now = None if self.clock is time.time else self.clock()
        call = msgspec.msgpack.encode({"act": act, "given": given, "now": now, **_RULES})
        # A redirect may lead to a host with any name.
        key = f"tileharvest:throttle:{host}".encode(errors="backslashreplace")
        answer = await self._link.attempt(
            lambda client: client.register_script(_SCRIPT)(keys=[key], args=[call])
        )
        return self.clock(), msgspec.msgpack.decode(answer)
