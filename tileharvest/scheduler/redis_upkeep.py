"""What is done to a queue in Redis besides the work: seeing who works on it, and throwing it away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from tileharvest.errors import QueueError

if TYPE_CHECKING:
    from tileharvest.scheduler.redis_calls import Keys
    from tileharvest.scheduler.redis_connection import Client


@dataclass(frozen=True, slots=True)
class Worker:
    """Who works on a queue. Times are Redis' own, in seconds since 1970."""

    host: str
    pid: int
    started: float
    heartbeat: float
    """When it was last heard of."""
    leased: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """What was found where requests are, and is none."""

    id: str
    what: str
    """`unreadable`, `unreadable failure`, or `missing`: there was an id without a request."""
    content: bytes


async def workers(client: Client, keys: Keys) -> list[Worker]:
    """The oldest first. A call for each."""
    listed = [(one, await _facts(client, keys, one)) for one in await client.zrange(keys.workers, 0, -1)]
    held = await client.hgetall(keys.held)
    found = [_worker(facts, held.get(one, b"0")) for one, facts in listed]
    return sorted((one for one in found if one is not None), key=lambda one: one.started)


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


async def discard(client: Client, keys: Keys) -> None:
    """Delete all keys, whatever they hold. Raises QueueError if there is a worker."""
    try:
        present = await workers(client, keys)
    except ResponseError:
        # Not of the right kind: no worker of this version could work on it.
        present = []
    if present:
        others = ", ".join(f"{worker.host} (pid {worker.pid})" for worker in present)
        raise QueueError(
            f"the queue cannot start afresh while others work on it: {others}; nothing was changed; let them"
            " end or stop them, then run again; one that was killed is forgotten after some minutes"
        )
    async for key in client.scan_iter(match=keys.pattern, count=1000):
        await client.unlink(key)


async def _facts(client: Client, keys: Keys, worker: bytes) -> list[bytes | None]:
    facts: list[bytes | None] = await client.hmget(
        keys.client(_text(worker)), ["host", "pid", "started", "heartbeat"]
    )
    return facts


def _worker(facts: list[Any], held: bytes) -> Worker | None:
    """None for one that has just signed off, or is none."""
    host, pid, started, heartbeat = facts
    try:
        return Worker(_text(host), int(pid), float(started), float(heartbeat), int(held))
    except (AttributeError, TypeError, ValueError):
        return None


def _text(content: bytes) -> str:
    return content.decode(errors="backslashreplace")
