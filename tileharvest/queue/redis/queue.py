"""The queue of one map in Redis: for several workers, on one machine or on many."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import ResponseError

from tileharvest.errors import QueueError
from tileharvest.queue.lanes import Turns
from tileharvest.queue.port import Exchange
from tileharvest.queue.redis import calls
from tileharvest.queue.redis.filter import FilterShape, warn_of_growth
from tileharvest.queue.redis.hosts import RedisHosts
from tileharvest.queue.redis.link import RedisLink
from tileharvest.queue.redis.wake import WakeUp
from tileharvest.queue.sentences import expired, sentence
from tileharvest.queue.shared_queue import Ending, silent_after

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    from tileharvest.queue.port import Changes, Counts, Failure, Lease
    from tileharvest.queue.redis.connection import Client
    from tileharvest.queue.shared_queue import Worker

_logger = logging.getLogger(__name__)

_ENDINGS: Final = {"goes on": Ending.GOES_ON, "yours": Ending.YOURS, "ended": Ending.ENDED}

_AT_ONCE: Final = 10_000
"""Fingerprints in one command."""

_REMEMBERED: Final = 600
"""Seconds at least for which the last answer to a worker is kept. A call is repeated within less."""

_AGAIN: Final = 0.1
"""Seconds after which it is worth asking again for what other workers were to have."""

_IDLE: Final = 15.0
"""Seconds after which a worker that was not heard of finishes nothing: three signs of life missed."""

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
"""Linux draws another one at each start; all its containers see the same."""


class RedisQueue:
    """A `SharedQueue` for as many workers as there are, and any number of programs beside them.

    Each call is one script, which Redis runs as one step. A call whose answer did not arrive is made again
    with the same number, and is then only answered again. Redis' clock counts; times at this interface are
    those of the caller's, and differences between them do not matter. How durable it is, Redis' settings
    say: with `appendonly yes` it outlives a kill of the server, with `appendfsync always` a power cut.

    What was seen is kept as one Bloom filter for each segment, so it is known with a probability only:
    about one in `1 / error_rate` new requests is taken for a seen one, counted among the duplicates and
    not made. What the filter says is final: there are no false alarms, and no fingerprints to be told.
    `Entry.maybe_seen` is not looked at, as no worker knows what another one has pushed.

    A worker gets at most what is its part if all workers take the same of what waits, and is told in
    `held_until` when to ask for more. From one opening to the next it is another client in Redis.
    """

    def __init__(
        self,
        parameters: Mapping[str, Any],
        map_name: str,
        *,
        max_attempts: int = 5,
        lease_seconds: float = 120.0,
        minus_share: int = 16,
        expected: int = 100_000,
        error_rate: float = 1e-9,
        kept_seconds: int = 35 * 24 * 3600,
        patience: float = 60.0,
        keeps_doubtful: bool = False,
        server_clock: bool = True,
    ) -> None:
        """Touches nothing yet. `parameters` are those of `connection.connect`.

        A filter has room for the `expected` requests, or for a quarter more than the last segment had. It
        is dropped when nothing was pushed for `kept_seconds`, which must be longer than a segment; what
        waits is never dropped by time. Redis is waited for during `patience` seconds, less than a lease.
        `keeps_doubtful` keeps what this worker pushes and the filter drops, for `doubtful`.
        `server_clock=False` is for tests: then the times that callers give are taken for the present one.
        """
        if max_attempts < 1 or lease_seconds <= 0:
            raise ValueError(f"{max_attempts} attempts of {lease_seconds} s would offer no request")
        Turns(minus_share)
        self._shape = FilterShape.fitting(expected, error_rate)
        """The shape of the filters of new segments."""
        self._error_rate = error_rate
        self._link = RedisLink(parameters, map_name, patience)
        self._keys = calls.Keys(map_name)
        self._silent = silent_after(lease_seconds)
        """Seconds after which a worker that was not heard of is taken for gone."""
        self._listed = max(self._silent, lease_seconds)
        """Seconds for which one that holds leases is listed after it was last heard of: so long one that
        sleeps may take itself for their holder."""
        self._has_server_clock = server_clock
        self._keeps_doubtful = keeps_doubtful
        self._was_short = False
        self._shapes: dict[str, FilterShape] = {}
        """The shapes of the filters as this worker believes them to be, by segment. The first worker that
        pushes into a segment says which it is; the others learn it from Redis."""
        self._told: dict[str, Any] = {
            "lease_seconds": lease_seconds,
            "max_attempts": max_attempts,
            "expired": expired(lease_seconds),
            "minus_share": minus_share,
            "kept": kept_seconds,
            "remembered": max(_REMEMBERED, int(2 * lease_seconds)),
            "listed": self._listed,
            "silent": self._silent,
            "server_clock": server_clock,
            "channel": self._keys.channel,
        }
        """What every script is told."""
        self._turn = asyncio.Lock()
        """Held during calls with numbers."""
        self._wake: WakeUp | None = None
        """None while the queue is not open."""
        self._client = ""
        self._number = 0
        """The number of the last call that was numbered."""
        self._is_worker = False
        self._segment: str | None = None
        """The segment that it works for. None where it works for no harvest, as for other spiders than those
        of maps."""

    async def open(self, now: float) -> None:
        """Leases of other workers are left to them. Raises QueueError, also for a Redis that might throw
        requests away."""
        await self._open(now, is_worker=True)

    async def open_beside(self) -> None:
        """Open it for a command: to push, to count, to see to failures. `exchange` then takes nothing but
        pushed and taken up, and leases nothing."""
        await self._open(0.0, is_worker=False)

    async def discard(self) -> None:
        """Delete all keys of the map, whatever they hold. This is not one step."""
        self._link.open()
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
        self._opened()
        if not self._is_worker and (wanted or changes.finished or changes.failed or changes.returned):
            raise RuntimeError("only a worker of a queue leases and finishes")
        async with self._turn:
            self._number += 1
            self._told["now"] = now
            answer = await self._exchanged(changes, {"wanted": wanted, "now": now})
        if changes.is_seeded:
            self._told["was_seeded"] = True
        if answer.buried:
            _logger.error(
                "%d entries of %s are no requests; they were moved to its list 'dead', and the others go on",
                answer.buried,
                self._link.queue,
            )
        if wanted:
            # Else nobody was turned away now, but whoever was before is to come again.
            self._was_short = answer.has_more and len(answer.leases) < wanted
        return Exchange(
            calls.leases_of(answer),
            answer.duplicates,
            refused=answer.refused,
            next_due=answer.next_due,
            leased_elsewhere=answer.leased_elsewhere,
            has_more=answer.has_more,
            held_until=now + _AGAIN if self._was_short else None,
        )

    async def extend(self, leases: Sequence[Lease], now: float) -> int:
        """Let the leases last, and tell that this worker is alive."""
        self._told["now"] = now
        held = [(lease.id, lease.attempt) for lease in leases]
        return calls.decoded(await self._run("extend", {"leases": held}), int)

    async def counts(self, now: float) -> Counts:
        """Reads numbers, and who holds the leases."""
        self._told["now"] = now
        return calls.counts(await self._run("counts"))

    async def failures(self) -> Sequence[Failure]:
        """Their times are Redis' own."""
        return calls.failures(await self._run("failures"))

    async def fingerprints(self, segment: str) -> AsyncIterator[Sequence[bytes]]:
        """Yields nothing: the filter knows what it has seen, but cannot tell it."""
        nothing: list[Sequence[bytes]] = []
        for batch in nothing:
            yield batch

    async def forget(self, segment: str) -> None:
        """Reads everything that waits; Redis does nothing else meanwhile, some seconds for a million."""
        await self._run_once("forget", {"segments": [calls.text(segment)]}, [segment])

    async def forget_others(self, kept: int, current: str) -> Sequence[str]:
        if kept < 1:
            raise ValueError(f"{kept} segments cannot be kept: the current one always is")
        names = map(
            calls.text_of, await self._link.attempt(lambda client: client.zrange(self._keys.segments, 0, -1))
        )
        others = [name for name in names if name not in (current, "")]
        dropped = others[: max(0, len(others) - (kept - 1))]
        if dropped:
            await self._run_once("forget", {"segments": [calls.text(name) for name in dropped]}, dropped)
        return dropped

    async def note(self, segment: str, key: str, value: str | None = None) -> str | None:
        remark = {
            "segment": calls.text(segment),
            "key": calls.text(key),
            "value": value is not None and calls.text(value),
        }
        before = calls.decoded(await self._run_once("note", remark), list[bytes])
        return calls.text_of(before[0]) if before else None

    async def notes(self, segment: str) -> Mapping[str, str]:
        """Reads those of all segments, which are few."""
        found = await self._link.attempt(lambda client: client.hgetall(self._keys.remarks))
        return calls.remarks(segment, found)

    def hosts(self) -> RedisHosts:
        """Returns what all workers on this Redis know of hosts, for as long as the queue is open."""
        return RedisHosts(self._link, silent=self._silent, server_clock=self._has_server_clock)

    async def join(self, segment: str, harvest: str) -> bool:
        self._opened()
        if not self._is_worker:
            raise RuntimeError("only a worker of a queue joins a harvest")
        self._segment = segment
        self._told |= {"joined": calls.text(segment), "harvest": calls.text(harvest), "was_seeded": False}
        answer = await self._run_once("join", {"segments": [calls.text(segment)]}, [segment])
        is_first = calls.decoded(answer, bool)
        self._told["was_seeded"] = not is_first
        return is_first

    async def ending(self, segment: str) -> Ending:
        """Returns how far the work is. What was pushed into an ended harvest is made first: it goes on until
        that is done, and is ended then. It has ended, too, where another harvest has taken its place.

        Raises QueueError if Redis has lost the work, and RuntimeError if this worker has not joined it.
        """
        word = await self._end(segment, is_over=False)
        if word not in _ENDINGS:
            lost = f"what it knew of segment '{segment}'"
            raise QueueError(sentence("lost", self._link.queue, lost))
        return _ENDINGS[word]

    async def ended(self, segment: str) -> None:
        """Nothing is done if another worker has the right to end it by now."""
        await self._end(segment, is_over=True)

    async def doubtful(self, segment: str) -> Mapping[bytes, bytes]:
        """Returns those that workers with `keeps_doubtful` have pushed. They are kept as long as the
        filter."""
        found: dict[bytes, bytes] = await self._link.attempt(
            lambda client: client.hgetall(self._keys.doubtful(segment))
        )
        return found

    async def confirm(self, segment: str, fingerprints: Sequence[bytes]) -> None:
        key = self._keys.doubtful(segment)

        async def confirm(client: Client, some: Sequence[bytes]) -> None:
            await client.hdel(key, *some)

        for first in range(0, len(fingerprints), _AT_ONCE):
            await self._link.attempt(partial(confirm, some=fingerprints[first : first + _AT_ONCE]))

    async def wait_for_work(self, timeout: float) -> bool:  # noqa: ASYNC109 - it is the purpose, no limit
        """Returns True as soon as another worker pushes into empty lanes, or ends the harvest. What is due
        or expires is not told."""
        return await self._opened().wait(timeout)

    async def workers(self) -> Sequence[Worker]:
        """Returns those that were heard of in the last half minute. Who holds leases may be silent as long as
        they last. This takes a call for each. What is no worker is left out."""
        known = await self._link.attempt(self._known_workers)
        now = await self.time(max((one.heartbeat for one in known), default=0.0)) if known else 0.0
        return [
            one if now - one.heartbeat < _IDLE else replace(one, rate=0.0)
            for one in known
            if now - one.heartbeat < (self._listed if one.leased else self._silent)
        ]

    async def time(self, now: float) -> float:
        """Returns Redis' own time, in a cluster that of the node that has the map; `now` where that does not
        count."""
        if not self._has_server_clock:
            return now
        seconds, fraction = await self._link.attempt(
            lambda client: client.eval("return redis.call('TIME')", 1, self._keys.workers)
        )
        return int(seconds) + int(fraction) / 1e6

    async def close(self) -> None:
        """Closing twice is harmless, and so is closing when Redis is gone."""
        wake, self._wake = self._wake, None
        try:
            if wake is not None:
                await wake.close()
                await self._link.attempt(self._sign_off, patience=0.0)
        except QueueError as error:
            _logger.debug("this worker is listed until it is forgotten: %s", error)
        finally:
            await self._link.close()

    async def _open(self, now: float, *, is_worker: bool) -> None:
        self._link.open()
        try:
            await self._link.check_server()
            self._client = secrets.token_hex(8)
            self._number, self._is_worker, self._segment = 0, is_worker, None
            self._told |= {"client": self._client, "now": now, "joined": False}
            self._told["worker"] = _worker() if is_worker else False
            argument = {**self._told, "number": 0, "format": calls.FORMAT}
            answer = await self._link.run("open", [*self._all_keys(), self._keys.trial], argument)
            word, found = calls.decoded(answer, tuple[str, bytes])
            said = calls.text_of(found)
            if word != "open":
                said += f", this one's {calls.FORMAT}" if word == "format" else ""
                raise QueueError(sentence(word, self._link.queue, said))
            self._wake = WakeUp(self._link.client, self._keys.channel, self._client)
            self._shapes.clear()
            self._expect_as_many(int(said))
        except BaseException:
            await self.close()
            raise

    def _expect_as_many(self, seen: int) -> None:
        """Let the filters of new segments have room for more than the last one had."""
        # Where that is too large for Redis, what was expected must do.
        with contextlib.suppress(ValueError):
            self._shape = FilterShape.fitting(max(self._shape.capacity, seen * 5 // 4), self._error_rate)

    def _opened(self) -> WakeUp:
        """Raises RuntimeError if the queue is not open."""
        if self._wake is None:
            raise RuntimeError("the queue is not open")
        return self._wake

    async def _run(
        self, name: str, particular: Mapping[str, Any] | None = None, segments: Iterable[str] = ()
    ) -> bytes:
        """Returns the answer of a script, which is told of these segments, and of the last time that the
        caller gave."""
        self._opened()
        argument = {**self._told, "number": self._number, **(particular or {})}
        return await self._link.run(name, self._all_keys(segments), argument)

    async def _run_once(
        self, name: str, particular: Mapping[str, Any], segments: Iterable[str] = ()
    ) -> bytes:
        """Run a script with a number, so that it does nothing again when the call is repeated."""
        self._opened()
        async with self._turn:
            self._number += 1
            return await self._run(name, particular, segments)

    def _all_keys(self, segments: Iterable[str] = ()) -> list[bytes]:
        of_segments = [key for name in segments for key in self._keys.of_segment(name)]
        return [*self._keys.fixed, self._keys.client(self._client), *of_segments]

    async def _exchanged(self, changes: Changes, asked: Mapping[str, Any]) -> calls.Done:
        pushed = [entry.segment for entry in changes.pushed]
        names = list(dict.fromkeys([*pushed, *(lease.segment for lease in changes.finished)]))
        while True:
            shapes = {name: self._shapes.get(name, self._shape) for name in names}
            told = calls.told(changes, shapes, keeps_doubtful=self._keeps_doubtful)
            answer = calls.exchanged(await self._run("exchange", {**told, **asked}, names))
            if isinstance(answer, calls.Done):
                self._shapes.update(shapes)
                return answer
            for number, filters, seen in answer.found:
                name = names[number - 1]
                self._shapes[name] = FilterShape(calls.text_of(filters))
                if seen:
                    warn_of_growth(name, self._shapes[name], seen)

    async def _end(self, segment: str, *, is_over: bool) -> str:
        self._opened()
        if self._segment != segment:
            raise RuntimeError(f"only who has joined segment '{segment}' ends it")
        return calls.decoded(await self._run_once("ending", {"is_over": is_over}), str)

    async def _known_workers(self, client: Client) -> list[Worker]:
        found = []
        try:
            held = await client.hgetall(self._keys.held)
            for name in await client.zrange(self._keys.workers, 0, -1):
                facts = await client.hmget(self._keys.client(calls.text_of(name)), calls.WORKER_FACTS)
                found.append(calls.worker(facts, held.get(name, b"0")))
        except ResponseError:
            # A key is not of the right kind: no worker of this version could work on it.
            return []
        return sorted((one for one in found if one is not None), key=lambda one: one.started)

    async def _sign_off(self, client: Client) -> None:
        await client.zrem(self._keys.workers, self._client)
        await client.delete(self._keys.client(self._client))

    async def _delete_all(self, client: Client) -> None:
        async for key in client.scan_iter(match=self._keys.pattern, count=1000):
            await client.unlink(key)


@cache
def _worker() -> dict[str, Any]:
    host = calls.text(socket.gethostname())
    try:
        machine = calls.text(_BOOT.read_text(encoding="ascii").strip())
    except OSError:
        machine = host
    return {"host": host, "machine": machine, "pid": os.getpid()}
