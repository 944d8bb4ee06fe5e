"""What a worker may yet spend of its run's budget."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tileharvest.errors import QueueError
from tileharvest.queue.pace import Amount

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileharvest.maps.budgets import Budget
    from tileharvest.queue.pace import PacedQueue

AT_ONCE: Final = 16
"""Requests asked of the purse at once, where it has so many: each further one is a call."""

BYTES_AT_ONCE: Final = 1_000_000

AGAIN: Final = 0.2
"""Seconds after which a purse is asked again that had nothing left but what others may return."""


class Allowance:
    """Decides at once, from what the purse of the run has granted this worker, whether a request may start.

    `more` is called when it is worth asking again; `spent` once, with the name of the budget, when nothing is
    left that would allow the next request; `failed` when the purse cannot be asked.
    """

    def __init__(
        self,
        purse: PacedQueue,
        budget: Budget,
        *,
        more: Callable[[], None],
        spent: Callable[[str], None],
        failed: Callable[[QueueError], None],
    ) -> None:
        self._purse = purse
        self._budget = budget
        self._more = more
        self._spent = spent
        self._failed = failed
        self._requests = 0
        self._bytes = 0
        self._reserved: dict[object, int] = {}
        self._largest = 0
        self._may_return = False
        """Whether others may wait for something that comes back of what was granted."""
        self._task: asyncio.Task[None] | None = None
        self._over = False

    def may_start(self, request: object, expected_bytes: int | None) -> bool:
        """Whether it may, and then its cost is set aside. `expected_bytes` of its answer, as far as is known,
        0 for a HEAD; None: as many as the largest so far."""
        size = self._largest if expected_bytes is None else expected_bytes
        needed = Amount(
            0 if self._budget.requests is None else 1, 0 if self._budget.received_bytes is None else size
        )
        if needed.requests > self._requests or needed.received_bytes > self._bytes:
            self._ask(needed)
            return False
        self._requests -= needed.requests
        self._bytes -= needed.received_bytes
        self._reserved[request] = needed.received_bytes
        return True

    def stop(self) -> None:
        """The purse is asked for nothing more."""
        self._over = True

    def ended(self, request: object, received_bytes: int, *, was_sent: bool = True) -> None:
        """The request is over, and has cost so many bytes; nothing at all if it was not sent."""
        if request in self._reserved:
            reserved = self._reserved.pop(request)
            if not was_sent and self._budget.requests is not None:
                self._requests += 1
            if self._budget.received_bytes is not None:
                self._bytes += reserved - received_bytes
                self._largest = max(self._largest, received_bytes)

    async def take(self, requests: int = 0, received_bytes: int = 0) -> bool:
        """Whether so much may be spent besides what is offered, as by requests that probe a site."""
        wanted = Amount(
            0 if self._budget.requests is None else requests,
            0 if self._budget.received_bytes is None else received_bytes,
        )
        if wanted == Amount():
            return True
        is_granted = (await self._purse.grant(wanted, Amount())).is_granted
        self._may_return = self._may_return or is_granted
        return is_granted

    async def give_back(self) -> None:
        """What was granted and will not be spent, for the other workers; they hear, too, that nothing more
        comes back. Raises QueueError.

        What answers have cost beyond what was granted stays owed, and is paid with the next request.
        """
        if self._task is not None:
            await asyncio.wait([self._task])
        rest = Amount(self._requests, max(0, self._bytes))
        self._requests, self._bytes = 0, min(0, self._bytes)
        if rest != Amount() or self._may_return:
            self._may_return = False
            await self._purse.grant(Amount(), rest)

    def _ask(self, needed: Amount) -> None:
        if self._task is None and not self._over:
            self._task = asyncio.ensure_future(self._asked(needed))

    async def _asked(self, needed: Amount) -> None:
        try:
            is_granted = await self._granted(needed)
        except QueueError as error:
            self._over = True
            self._failed(error)
            return
        finally:
            self._task = None
        if is_granted:
            self._more()
        else:
            self._over = True
            self._spent("requests" if self._lacking(needed).requests else "bytes")

    async def _granted(self, needed: Amount) -> bool:
        """False when the purse has not even what is needed, and nothing will be returned."""
        while not self._over and (lacking := self._lacking(needed)) != Amount():
            others_hold = False
            for wanted in (_generous(lacking), lacking):
                answer = await self._purse.grant(wanted, Amount())
                if answer.is_granted:
                    self._requests += wanted.requests
                    self._bytes += wanted.received_bytes
                    self._may_return = True
                    return True
                others_hold = answer.others_hold
            if not others_hold and not self._reserved:
                return False
            # Others, or what this worker has on the way, may cost less than was set aside.
            await asyncio.sleep(AGAIN)
        return True

    def _lacking(self, needed: Amount) -> Amount:
        return Amount(max(0, needed.requests - self._requests), max(0, needed.received_bytes - self._bytes))


def _generous(lacking: Amount) -> Amount:
    """So that not every request needs a call."""
    return Amount(
        max(AT_ONCE, lacking.requests) if lacking.requests else 0,
        lacking.received_bytes + BYTES_AT_ONCE if lacking.received_bytes else 0,
    )
