"""The queue of one map in Redis: for several workers, on one machine or on many."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from tileharvest.queue.lanes import Turns
from tileharvest.queue.port import Exchange
from tileharvest.queue.redis import calls, upkeep
from tileharvest.queue.redis.filter import FilterShape, KnownShapes
from tileharvest.queue.redis.fleet import RedisFleet
from tileharvest.queue.redis.link import RedisLink
from tileharvest.queue.redis.session import Session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from tileharvest.queue.port import Changes, Counts, Failure, Lease
    from tileharvest.queue.redis.connection import Client

_logger = logging.getLogger(__name__)

_REMEMBERED: Final = 600
"""Seconds at least for which the last answer to a worker is kept. A call is repeated within less."""

_AGAIN: Final = 0.1
"""Seconds after which it is worth asking again for what other workers were to have."""


class RedisQueue(RedisFleet):
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
        """Touches nothing yet. `connect` makes a client, as `redis_connection.connect` does.

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
        keys = calls.Keys(map_name)
        super().__init__(
            RedisLink(connect, map_name, patience),
            keys,
            lease_seconds=lease_seconds,
            has_server_clock=server_clock,
        )
        self._keeps_doubtful = keeps_doubtful
        self._waits = False
        self._was_short = False
        self._options = {
            "lease_seconds": lease_seconds,
            "max_attempts": max_attempts,
            "minus_share": minus_share,
            "kept": kept_seconds,
            "remembered": max(_REMEMBERED, int(2 * lease_seconds)),
            "listed": self._listed,
            "silent": self._silent,
            "server_clock": server_clock,
            "channel": keys.channel,
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
            present = await self._workers()
            await self._link.attempt(lambda client: upkeep.discard(client, self._keys, present))
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
        return calls.number(await session.run("extend", {**session.argument(now), "leases": held}))

    async def counts(self, now: float) -> Counts:
        """Reads numbers only."""
        session = self._opened()
        return calls.counts(await session.run("counts", session.argument(now)))

    async def failures(self) -> Sequence[Failure]:
        """Their times are Redis' own."""
        session = self._opened()
        return calls.failures(await session.run("failures", session.argument()))

    async def clear_failures(self) -> int:
        return calls.number(await self._opened().run_once("failures", {"clear": True}))

    async def fingerprints(self, segment: str) -> AsyncIterator[Sequence[bytes]]:
        """None: the filter knows what it has seen, but cannot tell it. It is asked in each exchange."""
        nothing: list[Sequence[bytes]] = []
        for batch in nothing:
            yield batch

    async def forget(self, segment: str) -> None:
        """Reads everything that waits; Redis does nothing else meanwhile, some seconds for a million."""
        await self._forget([segment], listing=None)

    async def forget_others(self, kept: int, current: str) -> Sequence[str]:
        if kept < 1:
            raise ValueError(f"{kept} segments cannot be kept: the current one always is")
        while True:
            listing = await self._link.attempt(lambda client: client.zrange(self._keys.segments, 0, -1))
            others = [name for found in listing if (name := calls.text_of(found)) not in (current, "")]
            dropped = others[: max(0, len(others) - (kept - 1))]
            if not dropped or await self._forget(dropped, listing=listing):
                return dropped

    async def note(self, segment: str, key: str, value: str | None = None) -> str | None:
        remark = {
            "segment": calls.text(segment),
            "key": calls.text(key),
            "value": value is not None and calls.text(value),
        }
        return calls.remark(await self._opened().run_once("note", remark))

    async def notes(self, segment: str) -> Mapping[str, str]:
        """Reads those of all segments, which are few."""
        self._link.expect_open()
        found = await self._link.attempt(lambda client: client.hgetall(self._keys.remarks))
        return calls.remarks(segment, found)

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
            self._session = Session(self._link, self._keys, self._options, is_worker=is_worker)
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

    async def _forget(self, segments: Sequence[str], listing: Sequence[bytes] | None) -> bool:
        session = self._opened()
        self._pushed.forget()
        argument = {
            "segments": [calls.text(name) for name in segments],
            "listing": listing is not None and [calls.string(name) for name in listing],
        }
        return calls.truth(await session.run_once("forget", argument, segments))


def _segments_of(changes: Changes) -> list[str]:
    """Each once."""
    pushed = [entry.segment for entry in changes.pushed]
    return list(dict.fromkeys([*pushed, *(lease.segment for lease in changes.finished)]))
