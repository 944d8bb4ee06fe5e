"""The thread in which the harvests of a process write, in transactions that they share."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    Work: TypeAlias = Callable[[Connection], None]

_MOST: Final = 100
"""Works in one transaction. Each is a batch of one harvest, mostly of a few results."""


class Writer:
    """Writes what it is given, in this order. What waits together is written in one transaction.

    A transaction ends with a flush of the disk, which takes 1 to 20 ms. Two hundred harvests that each
    flushed for themselves would wait for each other. There is one thread, as a database file has one writer.
    """

    def __init__(self, write: Callable[[Work], None]) -> None:
        """`write` does a work in a transaction that is durable when it returns."""
        self._write = write
        self._waiting: deque[tuple[Work, Future[None]]] = deque()
        self._thread = ThreadPoolExecutor(1, "history-writer")

    def submit(self, work: Work) -> Future[None]:
        """Returns at once. The future is done when the work is durable, or it has the error that kept it from
        that. It must be possible to repeat the work: a transaction that fails is made anew for each work, so
        that no harvest fails by another one's mistake."""
        future: Future[None] = Future()
        self._waiting.append((work, future))
        self._thread.submit(self._write_waiting)
        return future

    def close(self) -> None:
        """Waits for what was submitted. Nothing can be submitted then."""
        self._thread.shutdown()

    def _write_waiting(self) -> None:
        taken = [self._waiting.popleft() for _ in range(min(_MOST, len(self._waiting)))]
        taken = [(work, future) for work, future in taken if future.set_running_or_notify_cancel()]
        if not taken:
            # An earlier call has written it, together with its own.
            return
        if len(taken) > 1 and self._write_together([work for work, _ in taken]):
            for _, future in taken:
                future.set_result(None)
            return
        for work, future in taken:
            try:
                self._write(work)
            except BaseException as error:  # noqa: BLE001 - it is raised where the work is waited for
                future.set_exception(error)
            else:
                future.set_result(None)

    def _write_together(self, works: list[Work]) -> bool:
        """Returns whether all of them are durable; otherwise none is."""

        def write_all(connection: Connection) -> None:
            for work in works:
                work(connection)

        try:
            self._write(write_all)
        except Exception:  # noqa: BLE001 - whose it is shows when each is written alone
            return False
        return True
