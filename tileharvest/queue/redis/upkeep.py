"""What is done to a queue in Redis besides the work: seeing who works on it, and throwing it away."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import ResponseError

from tileharvest.errors import QueueError
from tileharvest.queue.fleet import Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileharvest.queue.redis.calls import Keys
    from tileharvest.queue.redis.connection import Client


_IDLE: Final = 15.0
"""Seconds after which one that was not heard of finishes nothing: three signs of life missed."""

_FACTS: Final = ("host", "machine", "pid", "segment", "started", "heartbeat", "finished", "rate", "share")


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """What was found where requests are, and is none."""

    id: str
    what: str
    """`unreadable`, `unreadable failure`, or `missing`: there was an id without a request."""
    content: bytes


async def workers(client: Client, keys: Keys, silent: float, listed: float, *, is_now: bool) -> list[Worker]:
    """The oldest first. A call for each. They are `listed` for so many seconds after they were last heard of
    if they hold leases, and else until they have been `silent` for so many; without `is_now` after any of
    them was. What is none is left out."""
    try:
        present = await _present(client, keys)
    except ResponseError:
        # Not of the right kind: no worker of this version could work on it.
        return []
    now = max((one.heartbeat for one in present), default=0.0)
    if is_now and present:
        now = await time(client, keys)
    ages = [(now - one.heartbeat, one) for one in present]
    return [
        one if age < _IDLE else replace(one, rate=0.0)
        for age, one in ages
        if age < silent or (one.leased and age < listed)
    ]


async def time(client: Client, keys: Keys) -> float:
    """Redis' present time, in seconds since 1970; of the node that has the map, where there are several."""
    seconds, fraction = await client.eval("return redis.call('TIME')", 1, keys.workers)
    return int(seconds) + int(fraction) / 1e6


async def dead_letters(client: Client, keys: Keys) -> list[DeadLetter]:
    """The oldest first."""
    letters = []
    for content in await client.lrange(keys.dead, 0, -1):
        head, _, record = content.partition(b"\n")
        name, _, what = _text(head).partition(" ")
        letters.append(DeadLetter(name, what, record))
    return letters


async def sign_off(client: Client, keys: Keys, own: str) -> None:
    """The worker is listed no more."""
    await client.zrem(keys.workers, own)
    await client.delete(keys.client(own))


async def discard(client: Client, keys: Keys, present: Sequence[Worker]) -> None:
    """Delete all keys, whatever they hold. Raises QueueError if there is a worker."""
    if present:
        others = ", ".join(f"{worker.host} (pid {worker.pid})" for worker in present)
        raise QueueError(
            f"the queue cannot start afresh while others work on it: {others}; nothing was changed; let them"
            " end or stop them, then run again; one that was killed is forgotten when its leases expire"
        )
    async for key in client.scan_iter(match=keys.pattern, count=1000):
        await client.unlink(key)


async def _present(client: Client, keys: Keys) -> list[Worker]:
    listed = [(one, await _facts(client, keys, one)) for one in await client.zrange(keys.workers, 0, -1)]
    held = await client.hgetall(keys.held)
    found = [_worker(facts, held.get(one, b"0")) for one, facts in listed]
    return sorted((one for one in found if one is not None), key=lambda one: one.started)


async def _facts(client: Client, keys: Keys, worker: bytes) -> list[bytes | None]:
    facts: list[bytes | None] = await client.hmget(keys.client(_text(worker)), _FACTS)
    return facts


def _worker(facts: list[Any], held: bytes) -> Worker | None:
    """None for one that has just signed off, or is none."""
    host, machine, pid, segment, started, heartbeat, finished, rate, share = facts
    try:
        return Worker(
            host=_text(host),
            machine=_text(machine),
            pid=int(pid),
            segment=_text(segment),
            started=float(started),
            heartbeat=float(heartbeat),
            leased=int(held),
            share=int(share) if share else None,
            finished=int(finished),
            rate=float(rate or 0.0),
        )
    except (AttributeError, TypeError, ValueError):
        return None


def _text(content: bytes) -> str:
    return content.decode(errors="backslashreplace")
