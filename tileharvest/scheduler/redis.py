"""The queue of one map in Redis: for several workers, on one machine or on many."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from typing import TYPE_CHECKING, Any, Final

from tileharvest.errors import QueueError
from tileharvest.scheduler import redis_calls as calls
from tileharvest.scheduler import redis_upkeep as upkeep
from tileharvest.scheduler.lanes import Turns
from tileharvest.scheduler.port import Exchange
from tileharvest.scheduler.redis_failures import refusal
from tileharvest.scheduler.redis_filter import FilterShape
from tileharvest.scheduler.redis_link import RedisLink
from tileharvest.scheduler.redis_wake import WakeUp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from tileharvest.scheduler.port import Changes, Counts, Failure, Lease
    from tileharvest.scheduler.redis_connection import Client
    from tileharvest.scheduler.redis_upkeep import DeadLetter, Worker

_logger = logging.getLogger(__name__)

_REMEMBERED: Final = 600
"""Seconds at least for which a worker is listed that is not heard of, and its last answer is kept. A call
is repeated within less."""


class RedisQueue:
    """A `RequestQueue` for as many workers as there are, and any number of programs beside them.

    Each call is one script, which Redis runs as one step. A call whose answer did not arrive is made again
    with the same number, and is then only answered again. Redis' clock counts; times at this interface are
    those of the caller's, and differences between them do not matter. How durable it is, Redis' settings
    say: with `appendonly yes` it outlives a kill of the server, with `appendfsync always` a power cut.

    What was seen is kept as one Bloom filter for each segment, so it is known with a probability only:
    about one in `1 / error_rate` new requests is taken for a seen one, counted among the duplicates and
    not made. What the filter says is final: there are no false alarms, and no fingerprints to be told.
    `Entry.maybe_seen` is not looked at, as no worker knows what another one has pushed.
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
        server_clock: bool = True,
    ) -> None:
        """Touches nothing yet. `connect` makes a client, as `redis_connection.connect` does.

        A filter has room for the `expected` requests, or for a quarter more than the last segment had. It
        is dropped when nothing was pushed for `kept_seconds`, which must be longer than a segment; what
        waits is never dropped by time. Redis is waited for during `patience` seconds, less than a lease.
        `server_clock=False` is for tests: then the times that callers give are taken for the present one.
        """
        if max_attempts < 1 or lease_seconds <= 0:
            raise ValueError(f"{max_attempts} attempts of {lease_seconds} s would offer no request")
        Turns(minus_share)
        self._shape = FilterShape.fitting(expected, error_rate)
        self._error_rate = error_rate
        self._keys = calls.Keys(map_name)
        self._link = RedisLink(connect, map_name, patience)
        self._options = {
            "lease_seconds": lease_seconds,
            "max_attempts": max_attempts,
            "minus_share": minus_share,
            "kept": kept_seconds,
            "remembered": max(_REMEMBERED, int(2 * lease_seconds)),
            "server_clock": server_clock,
            "channel": self._keys.channel,
        }
        self._is_worker = False

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
            await self._link.attempt(lambda client: upkeep.discard(client, self._keys))
        finally:
            await self._link.close()

    async def exchange(self, changes: Changes, wanted: int, now: float) -> Exchange:
        if wanted < 0:
            raise ValueError(f"{wanted} requests cannot be wanted")
        if not self._is_worker and (wanted or changes.finished or changes.failed or changes.returned):
            raise RuntimeError("only a worker of a queue leases and finishes")
        self._link.expect_open()
        names = _segments_of(changes)
        async with self._turn:
            self._number += 1
            argument = {**self._argument(now), "wanted": wanted}
            while True:
                shapes = {name: self._shapes.get(name, self._shape_of_new) for name in names}
                told = argument | calls.told(changes, shapes)
                answer = calls.exchanged(await self._run("exchange", told, names))
                if isinstance(answer, calls.Done):
                    break
                for number, filters, seen in answer.found:
                    self._learn(names[number - 1], calls.text_of(filters), seen)
        self._shapes.update(shapes)
        self._warn(answer)
        return Exchange(
            calls.leases_of(answer),
            answer.duplicates,
            refused=answer.refused,
            next_due=answer.next_due,
            leased_elsewhere=answer.leased_elsewhere,
        )

    async def extend(self, leases: Sequence[Lease], now: float) -> int:
        """Also tells that this worker is alive."""
        self._link.expect_open()
        held = [(lease.id, lease.attempt) for lease in leases]
        return calls.number(await self._run("extend", {**self._argument(now), "leases": held}))

    async def counts(self, now: float) -> Counts:
        """Reads numbers only."""
        self._link.expect_open()
        return calls.counts(await self._run("counts", self._argument(now)))

    async def failures(self) -> Sequence[Failure]:
        """Their times are Redis' own."""
        self._link.expect_open()
        return calls.failures(await self._run("failures", self._argument()))

    async def clear_failures(self) -> int:
        return calls.number(await self._run_once("failures", {"clear": True}))

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
        return calls.remark(await self._run_once("note", remark))

    async def close(self) -> None:
        """Closing twice is harmless, and so is closing when Redis is gone."""
        if not self._link.is_open:
            return
        try:
            await self._wake.close()
            if self._is_known:
                await self._link.attempt(
                    lambda client: upkeep.sign_off(client, self._keys, self._client), patience=0.0
                )
        except QueueError as error:
            _logger.debug("this worker is listed until it is forgotten: %s", error)
        finally:
            await self._link.close()

    async def workers(self) -> Sequence[Worker]:
        """Those that were heard of in the last ten minutes, or in two leases' time if that is more."""
        return await self._link.attempt(lambda client: upkeep.workers(client, self._keys))

    async def dead_letters(self) -> Sequence[DeadLetter]:
        """What was found to be no request, oldest first. Nobody looks at it again."""
        return await self._link.attempt(lambda client: upkeep.dead_letters(client, self._keys))

    async def wait_for_work(self, timeout: float) -> bool:  # noqa: ASYNC109 - it is the purpose, no limit
        """Whether there may be something to lease before so many seconds are over: True as soon as another
        worker pushes into empty lanes. A hint: it may be missed, and what is due or expires is not told."""
        self._link.expect_open()
        return await self._wake.wait(timeout)

    async def _open(self, now: float, *, is_worker: bool) -> None:
        self._link.open()
        self._is_worker = is_worker
        self._is_known = False
        self._client = secrets.token_hex(8)
        self._number = 0
        self._turn = asyncio.Lock()
        self._shapes: dict[str, FilterShape] = {}
        self._wake = WakeUp(self._link.client, self._keys.channel, self._client)
        try:
            await self._link.check_server()
            argument = {**self._argument(now), "format": calls.FORMAT}
            keys = [*self._all_keys(), self._keys.trial]
            opened = calls.opened(await self._link.run("open", keys, argument))
            self._shape_of_new = self._shape_after(opened)
            self._is_known = True
        except BaseException:
            await self.close()
            raise

    def _shape_after(self, opened: calls.Opened) -> FilterShape:
        """Of the filters of new segments. Raises QueueError if the queue could not be opened."""
        if opened.word != "open":
            raise QueueError(refusal(opened.word, opened.what, self._link.queue))
        try:
            expected = max(self._shape.capacity, int(opened.what) * 5 // 4)
            return FilterShape.fitting(expected, self._error_rate)
        except ValueError:
            return self._shape

    def _argument(self, now: float = 0.0) -> dict[str, Any]:
        """What every script is told."""
        argument = {**self._options, "now": now, "client": self._client, "number": self._number}
        if self._is_worker:
            argument["worker"] = {"host": calls.text(socket.gethostname()), "pid": os.getpid()}
        return argument

    def _all_keys(self, segments: Iterable[str] = ()) -> list[bytes]:
        return [*self._keys.fixed, self._keys.client(self._client), *map(self._keys.filter, segments)]

    async def _run(self, name: str, argument: dict[str, Any], segments: Iterable[str] = ()) -> bytes:
        return await self._link.run(name, self._all_keys(segments), argument)

    async def _run_once(self, name: str, particular: dict[str, Any], segments: Iterable[str] = ()) -> bytes:
        """With a number, so that it does nothing again when it is repeated."""
        self._link.expect_open()
        async with self._turn:
            self._number += 1
            return await self._run(name, {**self._argument(), **particular}, segments)

    async def _forget(self, segments: Sequence[str], listing: Sequence[bytes] | None) -> bool:
        argument = {
            "segments": [calls.text(name) for name in segments],
            "listing": listing is not None and [calls.string(name) for name in listing],
        }
        return calls.truth(await self._run_once("forget", argument, segments))

    def _learn(self, segment: str, text: str, seen: int) -> None:
        """Another worker has opened the segment with other expectations, or its filter has grown."""
        self._shapes[segment] = learned = FilterShape(text)
        *_, (_, _, added) = learned.filters
        if seen:
            _logger.warning(
                "the filter of segment '%s' is full: %d were seen, and it was made for %d; added room for %d"
                " more. Nothing is lost; a higher SEEN_EXPECTED saves time and memory",
                segment,
                seen,
                learned.capacity - added,
                added,
            )

    def _warn(self, answer: calls.Done) -> None:
        if answer.buried:
            _logger.error(
                "%d entries of %s are no requests; they were moved to its list 'dead', and the others go on",
                answer.buried,
                self._link.queue,
            )


def _segments_of(changes: Changes) -> list[str]:
    """Each once."""
    pushed = [entry.segment for entry in changes.pushed]
    return list(dict.fromkeys([*pushed, *(lease.segment for lease in changes.finished)]))
