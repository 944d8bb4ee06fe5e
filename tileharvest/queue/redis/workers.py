"""Who works on a queue in Redis, as the workers themselves have told it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import ResponseError

from tileharvest.queue.redis.calls import text_of
from tileharvest.queue.shared_queue import Worker, silent_after

if TYPE_CHECKING:
    from tileharvest.queue.redis.calls import Keys
    from tileharvest.queue.redis.connection import Client
    from tileharvest.queue.redis.link import RedisLink

_IDLE: Final = 15.0
"""Seconds after which one that was not heard of finishes nothing: three signs of life missed."""

_FACTS: Final = ("host", "machine", "pid", "segment", "started", "heartbeat", "finished", "rate", "share")


class Workers:
    """The workers of one map. Raises QueueError where Redis cannot be asked."""

    def __init__(self, link: RedisLink, keys: Keys, *, lease_seconds: float, has_server_clock: bool) -> None:
        self._link = link
        self._keys = keys
        self._has_server_clock = has_server_clock
        self.silent = silent_after(lease_seconds)
        """Seconds after which one that was not heard of is taken for gone."""
        self.listed = max(self.silent, lease_seconds)
        """Seconds for which one that holds leases is listed after it was last heard of: so long one that
        sleeps may take itself for their holder."""

    async def present(self) -> list[Worker]:
        """Those that were heard of lately, the oldest first. A call for each. What is no worker is left
        out."""
        return await self._link.attempt(self._present)

    async def time(self) -> float:
        """Redis' present time, in seconds since 1970; in a cluster that of the node that has the map."""
        return await self._link.attempt(self._time)

    async def sign_off(self, own: str) -> None:
        """The worker is listed no more. Tries once."""

        async def sign_off(client: Client) -> None:
            await client.zrem(self._keys.workers, own)
            await client.delete(self._keys.client(own))

        await self._link.attempt(sign_off, patience=0.0)

    async def _time(self, client: Client) -> float:
        seconds, fraction = await client.eval("return redis.call('TIME')", 1, self._keys.workers)
        return int(seconds) + int(fraction) / 1e6

    async def _present(self, client: Client) -> list[Worker]:
        try:
            known = await self._known(client)
        except ResponseError:
            # Not of the right kind: no worker of this version could work on it.
            return []
        now = max((one.heartbeat for one in known), default=0.0)
        if known and self._has_server_clock:
            now = await self._time(client)
        return [
            one if now - one.heartbeat < _IDLE else replace(one, rate=0.0)
            for one in known
            if now - one.heartbeat < (self.listed if one.leased else self.silent)
        ]

    async def _known(self, client: Client) -> list[Worker]:
        names = await client.zrange(self._keys.workers, 0, -1)
        facts = [(name, await client.hmget(self._keys.client(text_of(name)), _FACTS)) for name in names]
        held = await client.hgetall(self._keys.held)
        found = [_worker(of_one, held.get(name, b"0")) for name, of_one in facts]
        return sorted((one for one in found if one is not None), key=lambda one: one.started)


def _worker(facts: list[Any], held: bytes) -> Worker | None:
    """None for one that has just signed off, or is none."""
    host, machine, pid, segment, started, heartbeat, finished, rate, share = facts
    try:
        return Worker(
            host=text_of(host),
            machine=text_of(machine),
            pid=int(pid),
            segment=text_of(segment),
            started=float(started),
            heartbeat=float(heartbeat),
            leased=int(held),
            share=int(share) if share else None,
            finished=int(finished),
            rate=float(rate or 0.0),
        )
    except (AttributeError, TypeError, ValueError):
        return None
