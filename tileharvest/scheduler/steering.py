"""Looks every second whether a crawl may go on, how fast, and how long."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from tileharvest.errors import QueueError
from tileharvest.politeness.gate import Reason
from tileharvest.queue.cancellation import cancel
from tileharvest.queue.directions import Directions, directions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tileharvest.maps.rates import Gap
    from tileharvest.politeness.gate import Gate
    from tileharvest.queue.port import RequestQueue

_logger = logging.getLogger(__name__)

LOOK: Final = 1.0
"""Seconds between two looks: a person who pauses a fleet waits for no more than two."""


class Steering:
    """Lets a crawl do what a person tells it, and what the hour asks for.

    `gap_at` gives what is to be between two requests now, None while nothing may be asked, for what a person
    has set by hand. `paced` is called with each change of it, `stopped` once with the budget that is spent,
    or None, when all workers are to end, `said` with each change for a person to read, and `failed` when the
    queue cannot be asked any more. `check` is called at each look, for what else may end the crawl.
    """

    def __init__(
        self,
        queue: RequestQueue,
        gate: Gate,
        *,
        gap_at: Callable[[Gap | None], Gap | None],
        paced: Callable[[Gap], Awaitable[None]],
        stopped: Callable[[str | None], None],
        said: Callable[[Directions, Directions], None],
        quiet: Callable[[], None],
        failed: Callable[[QueueError], None],
        check: Callable[[], Awaitable[None]],
    ) -> None:
        self._queue = queue
        self._gate = gate
        self._gap_at = gap_at
        self._paced = paced
        self._stopped = stopped
        self._said = said
        self._quiet = quiet
        self._failed = failed
        self._check = check
        self._task: asyncio.Task[None] | None = None
        self._at_start: Directions | None = None
        self.now = Directions()
        """What was last heard."""
        self._gap: Gap | None = None

    async def begin(self) -> None:
        """Look for the first time, then every second. Raises QueueError."""
        await self.look()
        self._task = asyncio.ensure_future(self._watch())

    async def end(self) -> None:
        if self._task is not None:
            await cancel(self._task)

    @property
    def gap(self) -> Gap | None:
        """Between two requests, as it was last looked up; None while none may start."""
        return self._gap

    def offered(self, gap: Gap) -> None:
        """Requests are offered with this gap from now on: if another one was heard of since it was looked up,
        the next look tells it."""
        self._gap = gap

    async def look(self) -> None:
        """Raises QueueError."""
        before, self.now = self.now, await directions(self._queue)
        self._at_start = self._at_start or self.now
        self._hold(Reason.PAUSED, self.now.paused is not None)
        gap = self._gap_at(self.now.rate)
        if gap is None and not self._gate.holds(Reason.QUIET):
            self._quiet()
        self._hold(Reason.QUIET, gap is None)
        if gap is not None and gap != self._gap:
            await self._paced(gap)
        self._gap = gap
        if self.now != before:
            self._said(before, self.now)
        if self.now.stop != self._at_start.stop:
            self._at_start = self.now
            self._stopped(self.now.spent)
        await self._check()

    def _hold(self, reason: Reason, holds: bool) -> None:
        (self._gate.hold if holds else self._gate.let_go)(reason)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            try:
                await self.look()
            except Exception as error:  # noqa: BLE001 - or nobody could pause or stop the crawl any more
                self._failed(error if isinstance(error, QueueError) else _unexpected(error))
                return


def _unexpected(error: Exception) -> QueueError:
    _logger.error("a mistake in the program stopped the crawl", exc_info=error)
    return QueueError(
        f"what a person tells the harvest cannot be heard any more ({error!r}), so it ends; nothing was lost:"
        " run again, and report this"
    )
