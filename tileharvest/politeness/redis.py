"""The throttle of a fleet, in Redis: a hash for each host, and one script."""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote

import msgspec
from redis.exceptions import NoScriptError

from tileharvest.maps.rates import LONGEST
from tileharvest.politeness.throttle import (
    HORIZON,
    SET_BACK,
    Limit,
    Places,
    Reservation,
    Share,
    Spent,
    fair_share,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    class Link(Protocol):
        """A connection to Redis, which repeats calls that were not answered. Its owner opens it."""

        async def attempt(
            self, work: Callable[[Any], Awaitable[Any]], patience: float | None = None
        ) -> Any: ...


_KEPT: Final = 2 * int(LONGEST)
"""Seconds for which Redis keeps a host after the last call: twice the longest gap."""


class RedisThrottle:
    """`Throttle` of all workers of all maps.

    Redis' clock counts. The difference to the callers' is bounded by how long each call has taken; as far as
    the bounds allow, there is none. A call whose answer was lost is made again, and may reserve twice.
    """

    def __init__(self, link: Link, *, server_clock: bool = True) -> None:
        """With `server_clock=False`, for tests, the times that callers give count as Redis' time."""
        self._link = link
        self._server_clock = server_clock
        self._ahead = 0.0
        """The seconds by which Redis' clock is ahead of the callers'."""
        self._others: dict[tuple[str, str], list[Share]] = {}
        """By host and worker: the shares of the others, as Redis had them last."""
        self.process = f"{os.getpid()}-{secrets.token_hex(8)}"

    async def open(self) -> None:
        pass

    async def reserve(
        self, host: str, number: int, limits: Sequence[Limit], now: float, horizon: float = HORIZON
    ) -> Reservation:
        began = time.monotonic()
        start, granted, its_time = await self._do(
            "reserve",
            host,
            now,
            number=number,
            limits=limits,
            horizon=horizon,
            set_back=SET_BACK,
            longest=LONGEST,
        )
        # Redis has answered between the call and now, which bounds the difference of the clocks.
        most, least = its_time - now, its_time - now - (time.monotonic() - began)
        self._ahead = min(max(self._ahead, least), most)
        return Reservation(start - self._ahead, max((one.spacing for one in limits), default=0.0), granted)

    async def rest(self, host: str, seconds: float, now: float) -> None:
        await self._do("rest", host, now, seconds=seconds)

    async def share(self, host: str, own: Share, places: Places, now: float) -> int:
        fair = fair_share(own, self._others.get((host, own.worker), []), places, now)
        number = await self._share(host, own, fair, places, now)
        # Fair shares follow from the others, who may have changed since the last call.
        again = fair_share(own, self._others[host, own.worker], places, now)
        return number if again == fair else await self._share(host, own, again, places, now)

    async def _share(self, host: str, own: Share, fair: int, places: Places, now: float) -> int:
        number, others = await self._do(
            "share",
            host,
            now,
            worker=own.worker,
            map=own.map,
            places=own.places,
            wanted=own.wanted,
            fair=fair,
            lasts=own.until - now,
            of_map=places.of_map,
            # Lua's tables have no place for a None.
            of_host=places.of_host or -1,
        )
        self._others[host, own.worker] = [
            Share(worker, name, held, wanted, own.until) for worker, name, held, wanted in others
        ]
        return int(number)

    async def leave(self, host: str, worker: str) -> None:
        await self._do("leave", host, 0.0, worker=worker)

    async def spend(self, host: str, name: str, spent: Spent) -> Spent:
        requests, received, seconds = spent
        told = {"map": name, "requests": requests, "bytes": received, "seconds": seconds}
        return Spent(*await self._do("spend", host, 0.0, **told))

    async def close(self) -> None:
        self._others.clear()

    async def _do(self, act: str, host: str, now: float, **given: Any) -> Any:
        """Runs the script, and returns its answer."""
        told = {"act": act, "kept": _KEPT, **given, **({} if self._server_clock else {"now": now})}
        argument = msgspec.msgpack.encode(told)

        async def run(client: Any) -> bytes:
            script, digest = _script()
            try:
                answer: bytes = await client.evalsha(digest, 1, key_of(host), argument)
            except NoScriptError:
                answer = await client.eval(script, 1, key_of(host), argument)
            return answer

        return msgspec.msgpack.decode(await self._link.attempt(run))


def key_of(host: str) -> bytes:
    """Returns the key of a host, whose name is quoted: a redirect may lead to a host with any name, and a
    brace in the name would end the hash tag."""
    return f"tileharvest:throttle:{{{quote(host, safe=':[]', errors='backslashreplace')}}}".encode()


@cache
def _script() -> tuple[str, str]:
    """Returns the script, and the digest by which Redis knows it."""
    script = resources.files(__package__).joinpath("throttle.lua").read_text(encoding="utf-8")
    return script, hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
