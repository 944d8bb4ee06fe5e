"""What a queue in Redis does besides when several workers share it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tileharvest.errors import QueueError
from tileharvest.queue.fleet import Ending, silent_after
from tileharvest.queue.redis import calls, upkeep
from tileharvest.queue.redis.hosts import RedisHosts
from tileharvest.queue.redis.pushed import Pushed
from tileharvest.queue.redis.session import Joined

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tileharvest.queue.fleet import Worker
    from tileharvest.queue.redis.connection import Client
    from tileharvest.queue.redis.link import RedisLink
    from tileharvest.queue.redis.session import Session
    from tileharvest.queue.redis.upkeep import DeadLetter

_WORDS: Final = {"goes on": Ending.GOES_ON, "yours": Ending.YOURS, "ended": Ending.ENDED}

_AT_ONCE: Final = 10_000
"""Fingerprints in one command."""


class RedisFleet:
    """The part of a `SharedQueue` that a `RequestQueue` has not."""

    def __init__(
        self, link: RedisLink, keys: calls.Keys, *, lease_seconds: float, has_server_clock: bool
    ) -> None:
        self._link = link
        self._session: Session | None = None
        self._keys = keys
        self._silent = silent_after(lease_seconds)
        self._listed = max(self._silent, lease_seconds)
        self._has_server_clock = has_server_clock
        self._pushed = Pushed()
        self._interruptions = 0

    def hosts(self) -> RedisHosts:
        """What all workers on this Redis know of hosts, for as long as the queue is open."""
        return RedisHosts(self._link, silent=self._silent, server_clock=self._has_server_clock)

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
        word = calls.word(await session.run_once("ending", {}))
        if word not in _WORDS:
            raise QueueError(
                f"{self._link.queue} has lost what it knew of segment '{segment}': it was deleted, or Redis"
                " did not keep it when it was started again; what was harvested is kept; run again, and the"
                " rest is asked for"
            )
        return _WORDS[word]

    async def ended(self, segment: str) -> None:
        """Nothing is done if another worker has the right to end it by now."""
        session = self._opened()
        session.joined_to(segment)
        await session.run_once("ended", {})

    async def doubtful(self, segment: str) -> Mapping[bytes, bytes]:
        """Those that workers with `keeps_doubtful` have pushed; kept as long as the filter."""
        self._link.expect_open()
        found: dict[bytes, bytes] = await self._link.attempt(
            lambda client: client.hgetall(self._keys.doubtful(segment))
        )
        return found

    async def confirm(self, segment: str, fingerprints: Sequence[bytes]) -> None:
        self._link.expect_open()
        key = self._keys.doubtful(segment)
        for first in range(0, len(fingerprints), _AT_ONCE):
            some = partial(_forget_fields, key=key, fields=fingerprints[first : first + _AT_ONCE])
            await self._link.attempt(some)

    def surely_pushed(self, segment: str, fingerprint: bytes) -> bool:
        """Of the last 25,000 at least."""
        self._forget_when_interrupted()
        return (segment, fingerprint) in self._pushed

    async def workers(self) -> Sequence[Worker]:
        """Those that were heard of in the last half minute, or in a lease's time if they hold some: so long
        one that sleeps may take itself for their holder."""
        self._link.expect_open()
        return await self._workers()

    async def time(self, now: float) -> float:
        """The present time by the clock that workers' times are of; `now` is the caller's, and counts where
        Redis' own does not."""
        self._link.expect_open()
        if not self._has_server_clock:
            return now
        return await self._link.attempt(lambda client: upkeep.time(client, self._keys))

    async def dead_letters(self) -> Sequence[DeadLetter]:
        """What was found to be no request, oldest first. Nobody looks at it again."""
        return await self._link.attempt(lambda client: upkeep.dead_letters(client, self._keys))

    async def wait_for_work(self, timeout: float) -> bool:  # noqa: ASYNC109 - it is the purpose, no limit
        """True as soon as another worker pushes into empty lanes, or ends the harvest. What is due or
        expires is not told."""
        return await self._opened().wake.wait(timeout)

    async def oldest_lease(self) -> float | None:
        """For how many seconds the oldest lease has been held, however often it was extended; None if there
        is none. Reads all leases: for people."""
        session = self._opened()
        return calls.age(await session.run("oldest", session.argument()))

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

    async def _workers(self) -> list[Worker]:
        return await self._link.attempt(
            lambda client: upkeep.workers(
                client, self._keys, self._silent, self._listed, is_now=self._has_server_clock
            )
        )


async def _forget_fields(client: Client, *, key: bytes, fields: Sequence[bytes]) -> None:
    await client.hdel(key, *fields)
