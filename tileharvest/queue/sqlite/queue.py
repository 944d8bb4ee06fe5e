"""The queue of one map in one SQLite file: for a person with one computer, without any server."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

from tileharvest.queue.lanes import Turns
from tileharvest.queue.port import Exchange
from tileharvest.queue.sqlite import statements
from tileharvest.queue.sqlite.errors import as_queue_errors
from tileharvest.queue.sqlite.file import connect, connect_to_read, transaction
from tileharvest.queue.sqlite.lock import WorkerLock

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from tileharvest.queue.port import Changes, Counts, Failure, Lease

    Result = TypeVar("Result")

FINGERPRINTS: Final = 4096
"""In one batch: some milliseconds of reading, some hundred kilobytes."""


class SqliteQueue:
    """A `RequestQueue` in a file, with one worker at a time and any number of processes beside it.

    Durable after a SIGKILL; after a power cut it is in a state that it was in some seconds before at most.
    All work is done in one thread of its own, so that the event loop never waits for the disk. A call
    that is cancelled may take effect nevertheless; what it would have leased is offered again when the
    lease expires. The file does not shrink, its space is used again.
    """

    def __init__(
        self, file: Path, *, max_attempts: int = 5, lease_seconds: float = 120.0, minus_share: int = 16
    ) -> None:
        """The file's name without its ending is the map's, for messages. Touches nothing yet."""
        if max_attempts < 1 or lease_seconds <= 0:
            raise ValueError(f"{max_attempts} attempts of {lease_seconds} s would offer no request")
        self._file = file
        self._max_attempts = max_attempts
        self._lease_seconds = lease_seconds
        self._turns = Turns(minus_share)
        self._lock = WorkerLock(file)
        self._is_worker = False
        self._connection: sqlite3.Connection | None = None
        self._thread: ThreadPoolExecutor | None = None

    async def open(self, now: float) -> None:
        await self._open(lambda: self._open_as_worker(now))
        self._is_worker = True

    async def open_beside(self) -> None:
        """Open it for a command, also while a worker is at it: to push, to count, to see to failures.

        `exchange` then takes nothing but pushed and taken up, and leases nothing. Creates the queue if
        there is none.
        """
        await self._open(self._connect)
        self._is_worker = False

    async def discard(self) -> None:
        """Delete the file, whatever it holds and whoever wrote it, when a person has asked to start afresh.

        The queue must not be open here; raises QueueError if another process is its worker. What a
        process beside it pushes at this moment is lost.
        """
        self._expect_closed()
        await asyncio.to_thread(self._discard)

    async def exchange(self, changes: Changes, wanted: int, now: float) -> Exchange:
        if wanted < 0:
            raise ValueError(f"{wanted} requests cannot be wanted")
        if not self._is_worker and (wanted or changes.finished or changes.failed or changes.returned):
            raise RuntimeError("only the worker of a queue leases and finishes")
        return await self._run(lambda connection: self._exchange(connection, changes, wanted, now))

    async def extend(self, leases: Sequence[Lease], now: float) -> int:
        def extend(connection: sqlite3.Connection) -> int:
            self._settle(connection, now)
            return statements.extend(connection, leases, now + self._lease_seconds)

        return await self._run(extend)

    async def counts(self, now: float) -> Counts:
        def counts(connection: sqlite3.Connection) -> Counts:
            self._settle(connection, now)
            return statements.counts(connection)

        return await self._run(counts)

    async def failures(self) -> Sequence[Failure]:
        return await self._run(statements.failures)

    async def clear_failures(self) -> int:
        return await self._run(statements.clear_failures)

    async def fingerprints(self, segment: str) -> AsyncIterator[Sequence[bytes]]:
        """In ascending order. Reads beside the other work; what is pushed meanwhile may come or not."""
        self._expect_open()
        reading = await asyncio.to_thread(self._guarded, lambda: connect_to_read(self._file))
        try:
            last: bytes | str = statements.BELOW_ALL
            while batch := await asyncio.to_thread(self._fingerprints, reading, segment, last):
                yield batch
                last = batch[-1]
        finally:
            reading.close()

    async def forget(self, segment: str) -> None:
        await self._run(lambda connection: statements.forget(connection, segment))

    async def forget_others(self, kept: int, current: str) -> Sequence[str]:
        if kept < 1:
            raise ValueError(f"{kept} segments cannot be kept: the current one always is")
        return await self._run(lambda connection: statements.forget_others(connection, kept, current))

    async def note(self, segment: str, key: str, value: str | None = None) -> str | None:
        return await self._run(lambda connection: statements.note(connection, segment, key, value))

    async def notes(self, segment: str) -> Mapping[str, str]:
        return await self._run(lambda connection: statements.notes(connection, segment))

    async def has_waiting(self) -> bool:
        """Whether something is left that was due at the last exchange. Looks at one row."""
        return await self._run(statements.has_waiting)

    async def close(self) -> None:
        """Closing twice is harmless."""
        if self._thread is None:
            return
        thread, self._thread = self._thread, None
        await asyncio.get_running_loop().run_in_executor(thread, self._let_go)
        thread.shutdown(wait=False)

    async def _open(self, opening: Callable[[], None]) -> None:
        self._expect_closed()
        # Set before, so that after a cancellation, which does not stop the opening, `close` undoes it.
        self._thread = thread = ThreadPoolExecutor(1, thread_name_prefix="queue")
        try:
            await asyncio.get_running_loop().run_in_executor(thread, self._guarded, opening)
        except Exception:
            self._thread = None
            thread.shutdown(wait=False)
            raise

    async def _run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """The work in one transaction, in the queue's thread."""
        thread = self._expect_open()
        return await asyncio.get_running_loop().run_in_executor(thread, self._transact, work)

    def _expect_open(self) -> ThreadPoolExecutor:
        if self._thread is None:
            raise RuntimeError("the queue is not open")
        return self._thread

    def _expect_closed(self) -> None:
        if self._thread is not None:
            raise RuntimeError("the queue is open already")

    # From here on in the queue's thread.

    def _guarded(self, work: Callable[[], Result]) -> Result:
        with as_queue_errors(self._file):
            return work()

    def _open_as_worker(self, now: float) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._lock.acquire()
        try:
            self._connect()
            assert self._connection is not None
            reason = "its worker ended {attempts} times while it was under way"
            with transaction(self._connection) as connection:
                statements.take_back_all(connection, now, self._max_attempts, reason)
        except BaseException:
            self._let_go()
            raise

    def _connect(self) -> None:
        self._connection = connect(self._file)

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._lock.release()

    def _discard(self) -> None:
        with as_queue_errors(self._file):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
            try:
                # The database first: SQLite ignores a log without one, but would apply half of a pair.
                for ending in ("", "-wal", "-shm"):
                    self._file.with_name(self._file.name + ending).unlink(missing_ok=True)
            finally:
                self._lock.release()

    def _transact(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        assert self._connection is not None
        with as_queue_errors(self._file), transaction(self._connection) as connection:
            return work(connection)

    def _settle(self, connection: sqlite3.Connection, now: float) -> None:
        reason = f"not finished within {self._lease_seconds:g} s in {{attempts}} attempts"
        statements.take_back_expired(connection, now, self._max_attempts, reason)
        statements.let_wait_what_is_due(connection, now)

    def _exchange(
        self, connection: sqlite3.Connection, changes: Changes, wanted: int, now: float
    ) -> Exchange:
        # First, so that what expired counts as held nowhere below.
        self._settle(connection, now)
        duplicates, false_alarms = statements.push(connection, changes.pushed, now)
        statements.take_up(connection, changes.taken_up)
        held = (
            statements.finish(connection, changes.finished)
            + statements.fail(connection, changes.failed, now)
            + statements.give_back(connection, changes.returned)
        )
        until = now + self._lease_seconds
        leases = statements.lease_next(connection, self._turns, wanted, until) if wanted else []
        return Exchange(
            leases,
            duplicates,
            false_alarms,
            len(changes.finished) + len(changes.failed) + len(changes.returned) - held,
            statements.next_due(connection),
            0 if self._is_worker else statements.count_leased(connection),
        )

    def _fingerprints(self, reading: sqlite3.Connection, segment: str, last: bytes | str) -> list[bytes]:
        with as_queue_errors(self._file):
            return statements.fingerprints_after(reading, segment, last, FINGERPRINTS)
