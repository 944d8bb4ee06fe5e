"""The work of one segment as a harvest sees it: who begins it, and who may end it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from tileharvest.errors import QueueError
from tileharvest.queue.codec import UnreadableRequestError
from tileharvest.queue.fleet import Ending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileharvest.queue.fleet import SharedQueue
    from tileharvest.queue.port import Failure, RequestQueue
    from tileharvest.scheduler.exchanging import Exchanging
    from tileharvest.scheduler.request_writer import RequestWriter
    from tileharvest.scheduler.sharing import Sharing


class Work:
    """From the moment on in which requests are offered. Raises QueueError when the queue cannot go on.

    Where a queue has one worker only, that one begins and ends everything.
    """

    def __init__(
        self,
        exchanging: Exchanging,
        segment: str,
        *,
        queue: RequestQueue,
        writer: RequestWriter,
        is_first: bool = True,
        shared: SharedQueue | None = None,
        sharing: Sharing | None = None,
    ) -> None:
        self._exchanging = exchanging
        self._segment = segment
        self._queue = queue
        self._writer = writer
        self._shared = shared
        self._sharing = sharing
        self.is_first = is_first
        """Whether the first requests are still to be enqueued; when they are, say `seeded`."""

    def seeded(self) -> None:
        """All first requests are enqueued."""
        self._exchanging.seeded()

    @property
    def is_ended(self) -> bool:
        """Whether another worker has ended it."""
        return self._sharing is not None and self._sharing.ending is Ending.ENDED

    @property
    def waits(self) -> bool:
        """Whether nothing is left but requests for later."""
        exchanging = self._exchanging
        return exchanging.is_empty and exchanging.next_due is not None and not exchanging.others_work

    async def may_end(self) -> bool:
        """Whether it is for this worker to end it, as nothing is left of it and no other worker does."""
        return True if self._sharing is None else await self._sharing.may_end()

    async def ended(self) -> None:
        """Its end is written: the others end too."""
        if self._shared is not None:
            await self._shared.ended(self._segment)

    async def given_up(self) -> list[tuple[Failure, Any]]:
        """What of the segment is in the failure list, each with its request."""
        found: list[tuple[Failure, Any]] = []
        for failure in await self._queue.failures():
            if failure.segment == self._segment:
                with contextlib.suppress(UnreadableRequestError):
                    found.append((failure, self._writer.read(failure.body, failure.attempts)))
        return found

    def take_up(self, failure: Failure) -> None:
        """It is to leave the failure list, as it is enqueued again."""
        self._exchanging.take_up(failure.id, None)

    async def doubtful(self) -> dict[bytes, Any]:
        """Requests that were dropped as seen, and might not have been; each by what `confirm` takes."""
        if self._shared is None:
            return {}
        found: dict[bytes, Any] = {}
        for fingerprint, body in (await self._shared.doubtful(self._segment)).items():
            try:
                found[fingerprint] = self._writer.read(body, 1)
            except UnreadableRequestError as error:
                raise QueueError(f"{error}; run again with -a fresh=1, which asks for everything") from error
        return found

    async def confirm(self, fingerprints: Sequence[bytes]) -> None:
        """These are doubtful no more: they are done, or enqueued again."""
        if self._shared is not None:
            await self._shared.confirm(self._segment, fingerprints)
