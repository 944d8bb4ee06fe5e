"""How workers on a queue in Redis keep one pace, and divide one budget."""

from __future__ import annotations

from dataclasses import astuple
from math import isfinite
from typing import TYPE_CHECKING

from tileharvest.errors import QueueError
from tileharvest.queue.pace import Granted, Worked
from tileharvest.queue.redis import calls

if TYPE_CHECKING:
    from tileharvest.maps.budgets import Budget
    from tileharvest.politeness.pace import Pace
    from tileharvest.queue.pace import Amount
    from tileharvest.queue.redis.link import RedisLink
    from tileharvest.queue.redis.session import Session


class RedisPacing:
    """The part of a `PacedQueue` that a `RequestQueue` has not.

    What is known of a host is shared by all maps of it, but in a cluster, where each map has its own. Its
    limits are those of the worker that joined last, or has set a pace.
    """

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._session: Session | None = None

    async def set_pace(self, pace: Pace) -> None:
        """Also for a program beside the workers. The next start follows the last one by the new gap. Raises
        ValueError for another host than that of the pace before."""
        session = self._opened()
        if session.pace is not None and session.pace.host != pace.host:
            raise ValueError(f"a map of host '{session.pace.host}' cannot keep a pace of host '{pace.host}'")
        session.pace = pace
        await session.run("set_pace", session.argument())

    async def rest(self, host: str, seconds: float) -> float:
        """Raises ValueError for what is no time."""
        if not host or not isfinite(seconds):
            raise ValueError(f"host '{host}' cannot rest for {seconds} s")
        argument = {"seconds": max(0.0, seconds)}
        return calls.seconds(await self._opened().run_once("rest", argument, host=host))

    async def claim_probe(self, host: str, seconds: float) -> bool:
        """Once only for who has claimed it, too. Raises ValueError for what is no time."""
        if not host or not (isfinite(seconds) and seconds > 0):
            raise ValueError(f"a probe of host '{host}' cannot take {seconds} s")
        return calls.truth(await self._opened().run_once("probe", {"seconds": seconds}, host=host))

    async def open_purse(self, budget: Budget) -> None:
        """Others are at it while any that has opened the purse was heard of in the last half minute."""
        limits = (budget.requests, budget.received_bytes, budget.seconds)
        opens = [False if limit is None else limit for limit in limits]
        session = self._worker()
        await session.run_once("purse", {"opens": opens})
        session.has_purse = True

    async def grant(self, wanted: Amount, returned: Amount) -> Granted:
        """Everything without a purse. Who was refused last, has returned something and wanted nothing, or has
        not asked for half a minute, is not believed to return anything: so workers that have spent all do not
        wait for each other.

        Raises ValueError for negative amounts, and QueueError where Redis has lost the purse.
        """
        session = self._worker()
        amounts = {"wanted": astuple(wanted), "returned": astuple(returned)}
        if min(*amounts["wanted"], *amounts["returned"]) < 0:
            raise ValueError(f"{wanted} cannot be granted, nor {returned} be returned")
        if not session.has_purse:
            return Granted(is_granted=True)
        word, others_hold = calls.purse(await session.run_once("purse", {"opens": False, **amounts}))
        return Granted(self._is_granted(word), others_hold)

    async def worked(self, seconds: float) -> Worked:
        """Raises QueueError where Redis has lost the purse."""
        session = self._worker()
        if not session.has_purse:
            return Worked(seconds)
        word, known = calls.worked(await session.run("worked", {**session.argument(), "worked": seconds}))
        return Worked(known, is_spent=not self._is_granted(word))

    def _is_granted(self, word: str) -> bool:
        if word == "lost":
            raise QueueError(
                f"{self._link.queue} has lost what may yet be spent: it was deleted, or Redis did not keep it"
                " when it was started again; what was harvested is kept; run again, and the rest is asked for"
            )
        return word == "granted"

    def _opened(self) -> Session:
        """Raises RuntimeError if the queue is not open."""
        if self._session is None:
            raise RuntimeError("the queue is not open")
        return self._session

    def _worker(self) -> Session:
        """Raises RuntimeError for a program beside the workers."""
        session = self._opened()
        if not session.is_worker:
            raise RuntimeError("only a worker of a queue spends")
        return session
