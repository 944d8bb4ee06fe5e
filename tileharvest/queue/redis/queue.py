"""The queue of one map in Redis, for workers on any number of machines."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import time
from dataclasses import replace
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

import msgspec

from tileharvest.errors import QueueError
from tileharvest.queue.port import Worker, check_terms
from tileharvest.queue.redis import calls
from tileharvest.queue.redis.link import RedisLink
from tileharvest.queue.redis.shared_states import RedisStates
from tileharvest.queue.sentences import expired, sentence

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from tileharvest.queue.port import Changes, Counts, Exchange, Failure, Lease
    from tileharvest.queue.redis.connection import Client

    Found = TypeVar("Found")

_logger = logging.getLogger(__name__)

_MAPS_AT_ONCE: Final = 500
"""The number of maps that are asked about in one pipeline."""

_BRIEFLY: Final = 5.0
"""Seconds of patience with Redis for a list of many maps."""

_REMEMBERED: Final = 600
"""Seconds for which the last answer to a worker is kept at least. A call is repeated sooner."""

_AGAIN: Final = 0.1
"""Seconds after which to ask again for what was left to other workers."""

_WINDOW: Final = 5.0
"""Seconds over which the rate of a worker is measured."""

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
"""The file with the id that Linux draws at each start. All containers of a machine see the same id."""


Ending: TypeAlias = Literal["goes on", "yours", "ended"]
"""How far the work of a segment is. It `goes on` if something waits, is leased or is delayed, or if another
worker is about to end it. It is `yours` if nothing is left, and this worker is to end it or to push what is
missing; no other worker is told so."""


class RedisQueue:
    """A `RequestQueue` that any number of workers share, beside any number of programs. Each worker may come,
    go, freeze or be killed at any time.

    Each call is one script, which Redis runs as one step. An exchange whose answer did not arrive is sent
    again with the same number, and is then answered again without being made again. The other calls bear
    being made twice. Redis' clock counts: callers give times by their own clocks, whose differences do not
    matter. Redis' settings decide how durable the queue is: with `appendonly yes` it outlives a kill of the
    server, and with `appendfsync always` a power cut.

    A Redis may lose its last moments: a power cut takes the last second, and a replica that takes over had
    not heard of everything. The number of a worker's next exchange reveals this. The leases of the worker are
    then offered again, and what it says of them is refused, because what it had pushed below them may be
    lost.

    Redis keeps a record of what was seen in each segment. There is no filter before the record, so there are
    no false alarms.

    An exchange leases at most an equal part of what waits to each worker, and says in `held_until` when to
    ask for more. A worker that was not heard of for the time of a lease is gone, and its leases with it. At
    each opening it becomes a new client in Redis.
    """

    def __init__(
        self,
        parameters: Mapping[str, Any],
        map_name: str,
        *,
        max_attempts: int = 5,
        lease_seconds: float = 30.0,
        minus_share: int = 16,
        expected: int = 100_000,
        patience: float = 60.0,
        server_clock: bool = True,
    ) -> None:
        """Touches nothing yet. `parameters` are those of `connection.connect`.

        The record of a map's first segment is laid out for `expected` requests, and a later one for a quarter
        more than the last segment had. A call waits `patience` seconds for Redis. With `server_clock=False`,
        for tests, the times that callers give count as Redis' time.
        """
        check_terms(max_attempts, lease_seconds, minus_share, expected)
        self._link = RedisLink(parameters, f"the queue of map '{map_name}'", patience)
        self.patience = patience + float(parameters.get("socket_timeout") or 0.0)
        self._map_name = map_name
        self._key = partial(calls.key, map_name)
        """Returns the name of one of the map's keys."""
        self._key()
        self._lease_seconds = lease_seconds
        self._has_server_clock = server_clock
        self._was_short = False
        self._told: dict[str, Any] = {
            "format": calls.FORMAT,
            "lease_seconds": lease_seconds,
            "max_attempts": max_attempts,
            "expired": expired(lease_seconds),
            "minus_share": minus_share,
            "expected": expected,
            "kept": calls.KEPT,
            "remembered": max(_REMEMBERED, int(2 * lease_seconds)),
            "server_clock": server_clock,
            "joined": False,
        }
        """The arguments of every script."""
        self._turn = asyncio.Lock()
        """Held during an exchange, so that exchanges are made in the order of their numbers."""
        self._is_open = False
        self._client = ""
        self._number = 0
        """The number of the last exchange."""
        self._own: Worker | None = None
        """This worker, as it tells the others of itself. None for a program beside the workers."""
        self._window = 0.0
        """When the present window began in which the rate is measured."""
        self._counted = 0
        """The requests that were finished in this window."""
        self._dead = 0
        """The number of entries that are no requests, as a person was told last."""

    async def open(self, now: float) -> None:
        """Begins to work on the queue. Other workers keep their leases. Raises QueueError, also for a Redis
        that may throw requests away."""
        await self._open(now, is_worker=True)

    async def open_beside(self) -> None:
        """Opens the queue for a command that pushes, counts or sees to failures. `exchange` then accepts
        nothing but `pushed` and `taken_up`, and leases nothing."""
        await self._open(0.0, is_worker=False)

    async def discard(self) -> None:
        """Deletes all keys of the map, whatever they hold. This is not one step."""
        await self._link.open()
        try:
            if present := await self.workers():
                others = ", ".join(f"{worker.host} (pid {worker.pid})" for worker in present)
                raise QueueError(
                    f"the queue cannot start afresh while others work on it: {others}; nothing was changed;"
                    " let them end or stop them, then run again; one that was killed is forgotten when its"
                    " leases expire"
                )
            await self._link.attempt(self._delete_all)
        finally:
            await self._link.close()

    async def exchange(self, changes: Changes, wanted: int, now: float) -> Exchange:
        if wanted < 0:
            raise ValueError(f"{wanted} requests cannot be wanted")
        ended = len(changes.finished) + len(changes.failed)
        if self._own is None and (wanted or changes.ended):
            self._expect_open()
            raise RuntimeError("only a worker of a queue leases and finishes")
        async with self._turn:
            self._number += 1
            self._told["now"] = now
            self._note_work(now, ended, changes.share)
            told = {**calls.told(changes), "wanted": wanted, "number": self._number}
            answer, dead = calls.exchanged(await self._run("exchange", told))
        if self._own is not None:
            self._own.finished -= min(answer.refused, ended)
        if changes.is_seeded:
            self._told["was_seeded"] = True
        self._say_dead(dead)
        if wanted:
            # An exchange that wanted nothing was not turned away: the worker is still to ask again.
            self._was_short = answer.has_more and len(answer.leases) < wanted
        return replace(answer, held_until=now + _AGAIN) if self._was_short else answer

    async def extend(self, leases: Sequence[Lease], now: float) -> int:
        """Lets the leases last, and tells that this worker is alive."""
        self._told["now"] = now
        held = [(lease.id, lease.attempt) for lease in leases]
        return calls.decoded(await self._run("extend", {"leases": held}), int)

    async def counts(self, now: float) -> Counts:
        """Returns the counts. Reads the holder of each lease; all else is a number in Redis."""
        self._told["now"] = now
        return calls.counts(await self._run("counts"))

    async def failures(self) -> Sequence[Failure]:
        """Returns the failure list, oldest first, with times by Redis' clock."""
        key = self._key("failures")
        return calls.failures(await self._link.attempt(methodcaller("hgetall", key)))

    async def forget(self, segment: str) -> None:
        """Drops all of the segment but failures. Reads everything that waits: some seconds for a million, in
        which Redis does nothing else."""
        await self._run("forget", {"segments": [calls.string(segment)]})

    async def forget_others(self, kept: int, current: str) -> Sequence[str]:
        if kept < 1:
            raise ValueError(f"{kept} segments cannot be kept: the current one always is")
        key = self._key("segments")
        names = await self._link.attempt(methodcaller("zrange", key, 0, -1))
        others = [name for name in map(calls.text_of, names) if name not in (current, "")]
        dropped = others[: max(0, len(others) - (kept - 1))]
        if dropped:
            await self._run("forget", {"segments": [calls.string(name) for name in dropped]})
        return dropped

    async def note(self, segment: str, key: str, value: str) -> None:
        remark = {"segment": segment, "key": key, "value": value}
        await self._run("note", {name: calls.string(text) for name, text in remark.items()})

    async def notes(self, segment: str) -> Mapping[str, str]:
        """Returns all remarks of the segment. Reads one small hash."""
        key = self._key(f"segment:{segment}")
        return calls.remarks(await self._link.attempt(methodcaller("hgetall", key)))

    def hosts(self) -> RedisStates:
        """Returns the hosts of all workers on this Redis. They can be used while the queue is open."""
        return RedisStates(self._link, silent=self._lease_seconds, server_clock=self._has_server_clock)

    async def join(self, segment: str, harvest: str) -> bool:
        """Works for a harvest from now on. Returns whether the first requests are still to be pushed; every
        worker that is told so may push them. If the segment holds the work of another harvest, all of that
        work is forgotten before."""
        self._expect_open()
        if self._own is None:
            raise RuntimeError("only a worker of a queue joins a harvest")
        self._own.segment = segment
        self._told |= {"joined": calls.string(segment), "harvest": calls.string(harvest)}
        is_first = calls.decoded(await self._run("join"), bool)
        self._told["was_seeded"] = not is_first
        return is_first

    async def ending(self) -> Ending:
        """Returns how far the work is. A worker that is told `yours` keeps that right until it pushes, or
        calls `ended` or `close`, or was not heard of for the time of a lease.

        A request that a person pushes into an ended harvest is made first: the harvest goes on until then. A
        harvest whose place another one has taken has ended. Raises QueueError if Redis has lost the work, and
        RuntimeError if this worker has not joined it.
        """
        return await self._end(is_over=False)

    async def ended(self) -> None:
        """Tells the other workers that the end of the work is written. Does nothing if another worker has the
        right to end it by now."""
        await self._end(is_over=True)

    async def workers(self) -> Sequence[Worker]:
        """Returns the workers that were heard of within the time of a lease, the oldest first. Only reads."""
        now = None if self._has_server_clock else self._told.get("now", 0.0)
        look = partial(_living_workers, names=[self._map_name], lease_seconds=self._lease_seconds, now=now)
        (found,) = await self._link.attempt(look)
        return found

    async def close(self) -> None:
        """Signs off, and closes the link. Closing twice is harmless, and so is closing when Redis is gone."""
        was_open, self._is_open = self._is_open, False
        try:
            if was_open and self._own is not None:
                await self._link.attempt(self._sign_off, patience=0.0)
        except QueueError as error:
            _logger.debug("this worker is listed until it is forgotten: %s", error)
        finally:
            await self._link.close()

    async def _open(self, now: float, *, is_worker: bool) -> None:
        await self._link.open()
        try:
            self._client = secrets.token_hex(8)
            self._number, self._own = 0, None
            self._told |= {"client": self._client, "now": now, "joined": False}
            if is_worker:
                self._window = now
                started = now
                if self._has_server_clock:
                    started = await self._link.attempt(partial(_time, name=self._map_name))
                self._own = Worker(*_machine(), os.getpid(), "", started)
            self._is_open = True
            word, found = calls.decoded(await self._run("open"), tuple[str, msgspec.Raw])
            said = calls.text_of(found)
            if word != "open":
                said += f", this one's {calls.FORMAT}" if word == "format" else ""
                raise QueueError(sentence(word, self._link.queue, said))
        except BaseException:
            await self.close()
            raise

    def _expect_open(self) -> None:
        if not self._is_open:
            raise RuntimeError("the queue is not open")

    async def _run(self, name: str, particular: Mapping[str, Any] | None = None) -> bytes:
        """Returns the answer of a script. Its arguments have the last time that the caller gave."""
        self._expect_open()
        worker = self._own is not None and calls.told_worker(self._own)
        argument, began = {**self._told, "worker": worker, **(particular or {})}, time.monotonic()

        async def run(client: Client) -> bytes:
            # A call about the host comes before an exchange, and may have waited for Redis in its place.
            since = self._link.failing_since or began
            return await calls.run(client, name, self._key(), {"away": time.monotonic() - since, **argument})

        answer = await self._link.attempt(run)
        self._link.failing_since = None
        return answer

    def _note_work(self, now: float, ended: int, share: int | None) -> None:
        """Updates what this worker tells of itself: its share, and how much it has finished."""
        own = self._own
        if own is not None:
            own.share = share
            own.finished += ended
            self._counted += ended
            if now - self._window >= _WINDOW:
                own.rate = self._counted / (now - self._window)
                self._window, self._counted = now, 0

    def _say_dead(self, dead: int) -> None:
        """Logs an error if more entries than before are no requests."""
        if dead > self._dead:
            _logger.error(
                "%d entries of %s are no requests; they were moved to its list 'dead', and the others go on",
                dead - self._dead,
                self._link.queue,
            )
        self._dead = dead

    async def _end(self, *, is_over: bool) -> Ending:
        self._expect_open()
        if self._own is None or not self._told["joined"]:
            raise RuntimeError("only who has joined a harvest ends it")
        word: Any = calls.decoded(await self._run("ending", {"is_over": is_over}), str)
        if word == "lost":
            what = f"what it knew of segment '{self._own.segment}'"
            raise QueueError(sentence(word, self._link.queue, what))
        ending: Ending = word
        return ending

    async def _sign_off(self, client: Client) -> None:
        await client.zrem(self._key("workers"), self._client)
        await client.delete(self._key(f"client:{self._client}"))

    async def _delete_all(self, client: Client) -> None:
        async for key in client.scan_iter(match=self._key("*"), count=1000):
            await client.unlink(key)


async def notes_of_maps(
    parameters: Mapping[str, Any], names: Sequence[str], segment: str
) -> dict[str, Mapping[str, str]]:
    """Returns the remarks of the segment in the queue of each of these maps. Only reads, over one connection.

    `parameters` are those of `connection.connect`. Raises QueueError.
    """

    async def known(client: Client, names: Sequence[str]) -> list[dict[bytes, bytes]]:
        together = client.pipeline(transaction=False)
        for name in names:
            together.hgetall(calls.key(name, f"segment:{segment}"))
        found: list[dict[bytes, bytes]] = await together.execute()
        return found

    answers = await _of_maps(parameters, names, known)
    return dict(zip(names, map(calls.remarks, answers), strict=True))


async def workers_of_maps(
    parameters: Mapping[str, Any], names: Sequence[str], lease_seconds: float
) -> dict[str, Sequence[Worker]]:
    """Returns for each of these maps the workers that were heard of within the time of a lease. Only reads,
    over one connection.

    `parameters` are those of `connection.connect`. Raises QueueError.
    """
    found = await _of_maps(parameters, names, partial(_living_workers, lease_seconds=lease_seconds))
    return dict(zip(names, found, strict=True))


async def _of_maps(
    parameters: Mapping[str, Any], names: Sequence[str], ask: Callable[..., Awaitable[list[Found]]]
) -> list[Found]:
    """Returns what `ask` finds for each of these maps."""
    found: list[Found] = []
    link = RedisLink(parameters, "the queues of all maps", _BRIEFLY)
    await link.open()
    try:
        for first in range(0, len(names), _MAPS_AT_ONCE):
            found += await link.attempt(partial(ask, names=names[first : first + _MAPS_AT_ONCE]))
    finally:
        await link.close()
    return found


async def _living_workers(
    client: Client, names: Sequence[str], lease_seconds: float, now: float | None = None
) -> list[list[Worker]]:
    """Returns the workers of each queue that were heard of within the time of a lease, the oldest first. This
    takes three calls, or two more for each further node of a cluster. `now` takes the place of Redis'
    time."""
    together = client.pipeline(transaction=False)
    for name in names:
        together.zrange(calls.key(name, "workers"), 0, -1, withscores=True)
        together.hgetall(calls.key(name, "held"))
    answers = await together.execute()
    heard, held = answers[::2], answers[1::2]
    for name, of_queue in zip(names, heard, strict=True):
        for client_name, _ in of_queue:
            together.hget(calls.key(name, f"client:{calls.text_of(client_name)}"), "facts")
    told = iter(await together.execute())
    now = await _time(client, names[0]) if now is None else now
    found = []
    for of_queue, leased in zip(heard, held, strict=True):
        known = [calls.worker(next(told), at, int(leased.get(one, 0)), now) for one, at in of_queue]
        living = [one for one in known if one is not None and now - one.heartbeat < lease_seconds]
        found.append(sorted(living, key=lambda one: one.started))
    return found


async def _time(client: Client, name: str) -> float:
    """Returns Redis' time, in a cluster that of the map's node."""
    seconds, fraction = await client.eval("return redis.call('TIME')", 1, calls.key(name))
    return int(seconds) + int(fraction) / 1e6


def _machine() -> tuple[str, str]:
    """Returns the names of this host and of its machine, which containers of one machine have in common."""
    host = socket.gethostname()
    try:
        return host, _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return host, host
