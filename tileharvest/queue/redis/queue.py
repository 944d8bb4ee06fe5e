"""The queue of one map in Redis: for several workers, on one machine or on many."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tileharvest.errors import QueueError
from tileharvest.queue.fleet import Ending
from tileharvest.queue.lanes import Turns
from tileharvest.queue.port import Exchange
from tileharvest.queue.redis import calls
from tileharvest.queue.redis.filter import FilterShape, KnownShapes, Pushed
from tileharvest.queue.redis.hosts import RedisHosts
from tileharvest.queue.redis.link import RedisLink
from tileharvest.queue.redis.session import Joined, Session
from tileharvest.queue.redis.workers import Workers
from tileharvest.queue.sentences import expired, sentence

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from tileharvest.queue.fleet import Worker
    from tileharvest.queue.port import Changes, Counts, Failure, Lease
    from tileharvest.queue.redis.connection import Client

_logger = logging.getLogger(__name__)

_ENDINGS: Final = {"goes on": Ending.GOES_ON, "yours": Ending.YOURS, "ended": Ending.ENDED}

_AT_ONCE: Final = 10_000
"""Fingerprints in one command."""

_REMEMBERED: Final = 600
"""Seconds at least for which the last answer to a worker is kept. A call is repeated within less."""

_AGAIN: Final = 0.1
"""Seconds after which it is worth asking again for what other workers were to have."""


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
    `held_until` when to ask for more.
    """

    def __init__(
        self,
        connect: Callable[[], Client],
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
        """Touches nothing yet. `connect` makes a client, as `connection.connect` does.

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
        self._error_rate = error_rate
        self._link = RedisLink(connect, map_name, patience)
        self._session: Session | None = None
        self._keys = calls.Keys(map_name)
        self._workers = Workers(
            self._link, self._keys, lease_seconds=lease_seconds, has_server_clock=server_clock
        )
        self._has_server_clock = server_clock
        self._keeps_doubtful = keeps_doubtful
        self._pushed = Pushed()
        self._interruptions = 0
        self._waits = False
        self._was_short = False
        self._options = {
            "lease_seconds": lease_seconds,
            "max_attempts": max_attempts,
            "expired": expired(lease_seconds),
            "minus_share": minus_share,
            "kept": kept_seconds,
            "remembered": max(_REMEMBERED, int(2 * lease_seconds)),
            "listed": self._workers.listed,
            "silent": self._workers.silent,
            "server_clock": server_clock,
            "channel": self._keys.channel,
        }

    async def open(self, now: float) -> None:
        """Leases of other workers are left to them. Raises QueueError, also for a Redis that might throw
        requests away."""
        await self._open(now, is_worker=True)

    async def open_beside(self) -> None:
        """Open it for a command: to push, to count, to see to failures. `exchange` then takes nothing but
        pushed and taken up, and leases nothing."""
        await self._open(0.0, is_worker=False)

    async def discard(self) -> None:
        """Delete all keys of the map, whatever they hold, when a person has asked to start afresh.

        The queue must not be open here; raises QueueError if it has a worker. Not one step: what a program
        beside it pushes at this moment may be lost.
        """
        self._link.open()
        try:
            if present := await self._workers.present():
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
        session = self._opened()
        if not session.is_worker and (wanted or changes.finished or changes.failed or changes.returned):
            raise RuntimeError("only a worker of a queue leases and finishes")
        async with session.turn:
            self._forget_when_interrupted()
            session.number += 1
            answer = await self._exchanged(session, changes, {**session.argument(now), "wanted": wanted})
            self._note(session, changes, answer)
        self._waits = answer.waits
        if wanted:
            # Else nobody was turned away now, but whoever was before is to come again.
            self._was_short = answer.waits and len(answer.leases) < wanted
        return Exchange(
            calls.leases_of(answer),
            answer.duplicates,
            refused=answer.refused,
            next_due=answer.next_due,
            leased_elsewhere=answer.leased_elsewhere,
            held_until=now + _AGAIN if self._was_short else None,
        )

    async def has_waiting(self) -> bool:
        """Whether something was left that was due at the last exchange. Asks nobody."""
        return self._waits

    async def extend(self, leases: Sequence[Lease], now: float) -> int:
        """Also tells that this worker is alive."""
        session = self._opened()
        held = [(lease.id, lease.attempt) for lease in leases]
        answer = await session.run("extend", {**session.argument(now), "leases": held})
        return calls.decoded(answer, int)

    async def counts(self, now: float) -> Counts:
        """Reads numbers only."""
        session = self._opened()
        return calls.counts(await session.run("counts", session.argument(now)))

    async def failures(self) -> Sequence[Failure]:
        """Their times are Redis' own."""
        session = self._opened()
        return calls.failures(await session.run("failures", session.argument()))

    async def clear_failures(self) -> int:
        return calls.decoded(await self._opened().run_once("failures", {"clear": True}), int)

    async def fingerprints(self, segment: str) -> AsyncIterator[Sequence[bytes]]:
        """None: the filter knows what it has seen, but cannot tell it. It is asked in each exchange."""
        nothing: list[Sequence[bytes]] = []
        for batch in nothing:
            yield batch

    async def forget(self, segment: str) -> None:
        """Reads everything that waits; Redis does nothing else meanwhile, some seconds for a million."""
        await self._forget([segment])

    async def forget_others(self, kept: int, current: str) -> Sequence[str]:
        if kept < 1:
            raise ValueError(f"{kept} segments cannot be kept: the current one always is")
        names = map(
            calls.text_of, await self._link.attempt(lambda client: client.zrange(self._keys.segments, 0, -1))
        )
        others = [name for name in names if name not in (current, "")]
        dropped = others[: max(0, len(others) - (kept - 1))]
        if dropped:
            await self._forget(dropped)
        return dropped

    async def note(self, segment: str, key: str, value: str | None = None) -> str | None:
        remark = {
            "segment": calls.text(segment),
            "key": calls.text(key),
            "value": value is not None and calls.text(value),
        }
        before = calls.decoded(await self._opened().run_once("note", remark), list[bytes])
        return calls.text_of(before[0]) if before else None

    async def notes(self, segment: str) -> Mapping[str, str]:
        """Reads those of all segments, which are few."""
        found = await self._link.attempt(lambda client: client.hgetall(self._keys.remarks))
        return calls.remarks(segment, found)

    def hosts(self) -> RedisHosts:
        """Returns what all workers on this Redis know of hosts, for as long as the queue is open."""
        return RedisHosts(self._link, silent=self._workers.silent, server_clock=self._has_server_clock)

    async def join(self, segment: str, harvest: str) -> bool:
        session = self._opened()
        if not session.is_worker:
            raise RuntimeError("only a worker of a queue joins a harvest")
        session.joined = Joined(segment, harvest, was_seeded=False)
        argument = {"segments": [calls.text(segment)]}
        is_first = calls.truth(await session.run_once("join", argument, [segment]))
        session.joined.was_seeded = not is_first
        return is_first

    async def ending(self, segment: str) -> Ending:
        """What was pushed into an ended harvest is made first: it goes on until that is done, and is ended
        then. It has ended, too, for a worker whose harvest another one has taken the place of.

        Raises QueueError if Redis has lost the work, and RuntimeError if this worker has not joined it.
        """
        session = self._opened()
        session.joined_to(segment)
        word = calls.decoded(await session.run_once("ending", {}), str)
        if word not in _ENDINGS:
            lost = f"what it knew of segment '{segment}'"
            raise QueueError(sentence("lost", self._link.queue, lost))
        return _ENDINGS[word]

    async def ended(self, segment: str) -> None:
        """Nothing is done if another worker has the right to end it by now."""
        session = self._opened()
        session.joined_to(segment)
        await session.run_once("ended", {})

    async def doubtful(self, segment: str) -> Mapping[bytes, bytes]:
        """Those that workers with `keeps_doubtful` have pushed; kept as long as the filter."""
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

    def surely_pushed(self, segment: str, fingerprint: bytes) -> bool:
        """Of the last 25,000 at least."""
        self._forget_when_interrupted()
        return (segment, fingerprint) in self._pushed

    async def wait_for_work(self, timeout: float) -> bool:  # noqa: ASYNC109 - it is the purpose, no limit
        """True as soon as another worker pushes into empty lanes, or ends the harvest. What is due or
        expires is not told."""
        return await self._opened().wake.wait(timeout)

    async def workers(self) -> Sequence[Worker]:
        """Those that were heard of in the last half minute, or in a lease's time if they hold some."""
        return await self._workers.present()

    async def time(self, now: float) -> float:
        """Redis' own; `now` where that does not count."""
        return await self._workers.time() if self._has_server_clock else now

    async def dead_letters(self) -> Sequence[calls.DeadLetter]:
        """Nobody looks at them again."""
        found = await self._link.attempt(lambda client: client.lrange(self._keys.dead, 0, -1))
        return [calls.dead_letter(one) for one in found]

    async def oldest_lease(self) -> float | None:
        """However often it was extended. Reads all leases: for people."""
        session = self._opened()
        seconds = calls.decoded(await session.run("oldest", session.argument()), list[float])
        return seconds[0] if seconds else None

    async def close(self) -> None:
        """Closing twice is harmless, and so is closing when Redis is gone."""
        session, self._session = self._session, None
        try:
            if session is not None:
                await session.close()
        finally:
            await self._link.close()

    async def _open(self, now: float, *, is_worker: bool) -> None:
        self._link.open()
        self._pushed.forget()
        try:
            self._session = Session(self._link, self._keys, self._options, self._workers, is_worker=is_worker)
            self._shapes = KnownShapes(self._shape_after(await self._session.open(now)))
        except BaseException:
            await self.close()
            raise

    def _shape_after(self, seen: int) -> FilterShape:
        """Of the filters of new segments, when the last one had so many requests."""
        try:
            return FilterShape.fitting(max(self._shape.capacity, seen * 5 // 4), self._error_rate)
        except ValueError:
            return self._shape

    async def _exchanged(self, session: Session, changes: Changes, argument: dict[str, Any]) -> calls.Done:
        names = _segments_of(changes)
        while True:
            shapes = self._shapes.of(names)
            told = calls.told(changes, shapes, keeps_doubtful=self._keeps_doubtful)
            answer = calls.exchanged(await session.run("exchange", argument | told, names))
            if isinstance(answer, calls.Done):
                self._shapes.keep(shapes)
                return answer
            for number, filters, seen in answer.found:
                self._shapes.learn(names[number - 1], calls.text_of(filters), seen)

    def _note(self, session: Session, changes: Changes, answer: calls.Done) -> None:
        """What it means for this worker that it was answered."""
        if answer.before != session.exchanged:
            # A server that does not remember the last exchange may have lost more.
            self._pushed.forget()
        session.exchanged = session.number
        if not self._forget_when_interrupted():
            self._pushed.add(changes.pushed)
        if session.joined is not None and changes.is_seeded:
            session.joined.was_seeded = True
        if answer.buried:
            _logger.error(
                "%d entries of %s are no requests; they were moved to its list 'dead', and the others go on",
                answer.buried,
                self._link.queue,
            )

    async def _forget(self, segments: Sequence[str]) -> None:
        self._pushed.forget()
        argument = {"segments": [calls.text(name) for name in segments]}
        await self._opened().run_once("forget", argument, segments)

    def _opened(self) -> Session:
        """Raises RuntimeError if the queue is not open."""
        if self._session is None:
            raise RuntimeError("the queue is not open")
        return self._session

    def _forget_when_interrupted(self) -> bool:
        """Whether any call was repeated since this was asked last: then nothing is sure any more."""
        before, self._interruptions = self._interruptions, self._link.interruptions
        if before == self._interruptions:
            return False
        self._pushed.forget()
        return True

    async def _delete_all(self, client: Client) -> None:
        async for key in client.scan_iter(match=self._keys.pattern, count=1000):
            await client.unlink(key)


def _segments_of(changes: Changes) -> list[str]:
    """Each once."""
    pushed = [entry.segment for entry in changes.pushed]
    return list(dict.fromkeys([*pushed, *(lease.segment for lease in changes.finished)]))
