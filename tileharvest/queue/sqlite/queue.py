"""The queue of one map in SQLite: in a file, or in memory."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import cache, partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tileharvest.errors import ExitStatus, QueueError
from tileharvest.program import program
from tileharvest.queue.locks import locks_in
from tileharvest.queue.port import Exchange, check_terms
from tileharvest.queue.seen_filter import check_filter
from tileharvest.queue.sentences import sentence
from tileharvest.queue.sqlite.file import LOCK_TIMEOUT, connect, rows_in
from tileharvest.queue.sqlite.statements import ANY, REMARKS, Statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tileharvest.queue.port import Changes, Counts, Failure, Lease

    Result = TypeVar("Result")

_THREADS: Final = 4
"""The threads of all queues of a process. With a thread for each queue, hundreds of threads would wait for
each other's turn in Python's interpreter."""
_SETTLED: Final = 0.1
"""Seconds after which a file that is written again has another time. Linux tells it to some milliseconds."""
_numbers: Final = count()


class SqliteQueue:
    """A `RequestQueue` with one worker at a time and any number of other programs beside it.

    A queue in a file outlives a SIGKILL. After a power cut it is in a state of some seconds before at most.
    The file does not shrink; its space is used again. A queue in memory ends with this object. Closing keeps
    everything in it, so that it can be opened again.

    The worker keeps a filter for each segment. The filter decides what is surely new; the rest is looked up.
    The filter knows what this worker has pushed, and what was pushed before it began. Another program must
    therefore push without a fingerprint, or the worker may push the same request once more.

    A queue does all its work in one thread, which it shares with other queues, so that the event loop never
    waits for the disk. A call that is cancelled may take effect nevertheless. The requests that it has leased
    are offered again when their leases expire.
    """

    patience: Final = LOCK_TIMEOUT

    def __init__(
        self,
        file: Path | None = None,
        *,
        max_attempts: int = 5,
        lease_seconds: float = 120.0,
        minus_share: int = 16,
        expected: int = 100_000,
        error_rate: float = 1e-6,
    ) -> None:
        """The file's name without its ending is the map's name, for messages. Without a file everything is in
        memory. A filter has room for the `expected` requests, or for a quarter more than the last segment had
        if that is more, and errs at `error_rate`. Touches nothing yet."""
        check_terms(max_attempts, lease_seconds, minus_share, expected)
        check_filter(expected, error_rate)
        self._file = file
        self._statements_on = partial(
            Statements,
            max_attempts=max_attempts,
            lease_seconds=lease_seconds,
            minus_share=minus_share,
            expected=expected,
            error_rate=error_rate,
        )
        self._is_worker = self._is_locked = False
        self._name = "the queue in memory" if file is None else f"the queue {file}"
        self._statements: Statements | None = None
        self._thread: _Thread | None = None
        self._notes: dict[str, tuple[tuple[int, ...] | None, Mapping[str, str]]] = {}
        """By segment: the remarks of the last look, and the stamp that the file had before it."""

    async def open(self, now: float) -> None:
        await self._open(lambda: self._open_as_worker(now))
        self._is_worker = True

    async def open_beside(self) -> None:
        """Opens the queue for a command that pushes, counts or sees to failures, also while a worker is at
        it.

        `exchange` then accepts nothing but `pushed` and `taken_up`, and leases nothing. Creates the queue if
        there is none.
        """
        await self._open(self._connect)
        self._is_worker = False

    async def discard(self) -> None:
        self._expect_closed()
        await asyncio.to_thread(self._discard)

    async def exchange(self, changes: Changes, wanted: int, now: float) -> Exchange:
        if wanted < 0:
            raise ValueError(f"{wanted} requests cannot be wanted")
        if not self._is_worker and (wanted or changes.ended):
            raise RuntimeError("only the worker of a queue leases and finishes")
        return await self._run(lambda statements: self._exchange(statements, changes, wanted, now))

    async def extend(self, leases: Sequence[Lease], now: float) -> int:
        return await self._run(lambda statements: statements.extend(leases, now))

    async def counts(self, now: float) -> Counts:
        return await self._run(lambda statements: statements.counts(now))

    async def failures(self) -> Sequence[Failure]:
        return await self._look(Statements.failures)

    async def forget(self, segment: str) -> None:
        await self._run(lambda statements: statements.forget(segment))

    async def forget_others(self, kept: int, current: str) -> Sequence[str]:
        if kept < 1:
            raise ValueError(f"{kept} segments cannot be kept: the current one always is")
        return await self._run(lambda statements: statements.forget_others(kept, current))

    async def note(self, segment: str, key: str, value: str) -> None:
        await self._run(lambda statements: statements.note(segment, key, value))

    async def notes(self, segment: str) -> Mapping[str, str]:
        # Each map looks for orders every second. Mostly nobody has written anything since the last look.
        stamp, (its_stamp, found) = self._stamp(), self._notes.get(segment, (None, {}))
        if stamp is None or stamp != its_stamp:
            found = await self._look(lambda statements: statements.notes(segment))
            self._notes[segment] = stamp, found
        return found

    def _stamp(self) -> tuple[int, ...] | None:
        """Returns numbers that change with each transaction of any program, because all of them are first
        written into a log. Returns None if there is no log, or if a further transaction could leave the same
        time: just after a transaction, and in a file system that keeps whole seconds."""
        if self._file is None:
            return None
        try:
            log = self._file.with_name(f"{self._file.name}-wal").stat()
        except OSError:
            return None
        if time.time() - log.st_mtime < _SETTLED or not log.st_mtime_ns % 1_000_000_000:
            return None
        return log.st_ino, log.st_size, log.st_mtime_ns

    async def workers(self) -> None:
        """Only one worker at a time uses this queue, and it tells nothing of itself."""

    async def close(self) -> None:
        """Closes the queue. Closing twice is harmless."""
        if self._thread is None:
            return
        thread, self._thread, self._notes = self._thread, None, {}
        await thread.do(self._let_go)

    async def _open(self, opening: Callable[[], None]) -> None:
        self._expect_closed()
        # A cancellation does not stop the opening. The thread is set before, so that `close` undoes it then.
        self._thread = _thread(next(_numbers) % _THREADS)
        try:
            await self._in_thread(opening)
        except Exception:
            self._thread = None
            raise

    async def _run(self, work: Callable[[Statements], Result]) -> Result:
        """Does the work in one transaction in the queue's thread, and returns its result."""
        return await self._in_thread(lambda: self._transact(work))

    async def _look(self, work: Callable[[Statements], Result]) -> Result:
        """Does a work of one statement that only reads, and returns its result. It waits for no lock: a
        transaction takes three times as long, and each map looks for orders every second."""
        return await self._in_thread(lambda: self._read(work))

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        """Does the work in the queue's thread, and returns its result."""
        if self._thread is None:
            raise QueueError(sentence("closed", self._name, ""))
        # The context of the caller goes along: by it the log tells whose queue this is.
        return await self._thread.do(partial(copy_context().run, work))

    def _expect_closed(self) -> None:
        if self._thread is not None:
            raise RuntimeError("the queue is open already")

    # From here on in the queue's thread.

    def _open_as_worker(self, now: float) -> None:
        with _queue_errors(self._name):
            self._lock()
        try:
            self._connect()
            self._transact(lambda statements: statements.begin_work(now))
        except BaseException:
            self._let_go()
            raise

    def _connect(self) -> None:
        if self._statements is None:
            with _queue_errors(self._name):
                self._statements = self._statements_on(connect(self._file))

    def _let_go(self) -> None:
        # A queue in memory keeps its connection, or its requests would be gone.
        if self._statements is not None and self._file is not None:
            self._statements.close()
            self._statements = None
        self._unlock()

    def _discard(self) -> None:
        self._statements = None
        if self._file is None:
            return
        with _queue_errors(self._name):
            self._lock()
            try:
                # The database goes first: SQLite ignores a log without one, but applies a log to an old one.
                for ending in ("", "-wal", "-shm"):
                    self._file.with_name(self._file.name + ending).unlink(missing_ok=True)
            finally:
                self._unlock()

    def _lock(self) -> None:
        """Locks the file for this worker. Raises QueueError if another worker has it."""
        if self._file is None:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._is_locked = locks_in(self._file.parent).take(self._file.stem)
        if not self._is_locked:
            name = self._file.stem
            raise QueueError(
                f"map '{name}' is being harvested by another process; nothing was changed; let it end, or"
                f" stop it with {program()} stop {name}, then run again",
                exit_status=ExitStatus.USAGE,
            )

    def _unlock(self) -> None:
        if self._file is not None and self._is_locked:
            self._is_locked = False
            locks_in(self._file.parent).drop(self._file.stem)

    def _transact(self, work: Callable[[Statements], Result]) -> Result:
        assert self._statements is not None
        with _queue_errors(self._name), self._statements.transaction():
            return work(self._statements)

    def _read(self, work: Callable[[Statements], Result]) -> Result:
        assert self._statements is not None
        with _queue_errors(self._name):
            return work(self._statements)

    def _exchange(self, statements: Statements, changes: Changes, wanted: int, now: float) -> Exchange:
        # This comes first: nobody holds an expired lease in the steps below.
        statements.settle(now)
        duplicates, false_alarms = statements.push(changes.pushed, now)
        statements.take_up(changes.taken_up)
        held = (
            statements.finish(changes.finished)
            + statements.fail(changes.failed, now)
            + statements.give_back(changes.returned)
            + statements.cut_off(changes.cut_off)
        )
        return Exchange(
            statements.lease_next(wanted, now),
            duplicates,
            false_alarms,
            len(changes.ended) - held,
            statements.next_due(),
            0 if self._is_worker else statements.count_leased(),
            statements.has_waiting(),
        )


def remarks_in(file: Path, segment: str) -> Mapping[str, str]:
    """Returns the remarks of the segment in the queue of a file, which may be in use. The caller waits for
    the disk. Changes nothing. Raises QueueError, also if there is no file."""
    with _queue_errors(f"the queue {file}"):
        return dict(rows_in(file, REMARKS, segment))


def has_requests_in(file: Path) -> bool:
    """Returns whether any request waits, is leased or is delayed. It looks in the same way as
    `remarks_in`."""
    with _queue_errors(f"the queue {file}"):
        return bool(rows_in(file, ANY))


@contextmanager
def _queue_errors(queue: str) -> Iterator[None]:
    """Raises QueueError for every error of SQLite, or of the file's folder, inside the block."""
    try:
        yield
    except sqlite3.Error as error:
        # Errors that the sqlite3 module itself finds have no name. One is a text that is not UTF-8.
        unnamed = "SQLITE_CORRUPT" if "decode" in str(error) else "SQLITE_ERROR"
        name = getattr(error, "sqlite_errorname", unnamed)
        raise QueueError(sentence(name, queue, str(error))) from error
    except UnicodeError as error:
        # SQLite's message repeats what stands in a damaged file, and sqlite3 cannot decode it.
        raise QueueError(sentence("SQLITE_CORRUPT", queue, "malformed")) from error
    except OSError as error:
        raise QueueError(sentence("SQLITE_CANTOPEN", queue, error.strerror or str(error))) from error


class _Thread:
    """A thread that does the works of queues in the order in which they come. It ends with the process.

    The works of one turn of the event loop are handed over together, because to wake the thread costs more
    CPU than most works. All queues of a process look for orders in the same turn.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="queue")
        self._gathered: list[tuple[asyncio.Future[Any], Callable[[], Any]]] = []
        """The works of this turn of the event loop, each with the future of its result."""

    async def do(self, work: Callable[[], Result]) -> Result:
        loop = asyncio.get_running_loop()
        # `asyncio.wrap_future` would double the cost of a look for orders.
        done: asyncio.Future[Result] = loop.create_future()
        # These may be the works of another loop, which was closed before it could hand them over.
        if not self._gathered or self._gathered[0][0].get_loop() is not loop:
            self._gathered = []
            loop.call_soon(self._hand_over, self._gathered)
        self._gathered.append((done, work))
        return await done

    def _hand_over(self, works: list[tuple[asyncio.Future[Any], Callable[[], Any]]]) -> None:
        self._gathered = []
        try:
            self._executor.submit(_do_all, works)
        except RuntimeError as error:
            # No thread can be started, or the process ends.
            for done, _ in works:
                _tell(done, None, error)


def _do_all(works: list[tuple[asyncio.Future[Any], Callable[[], Any]]]) -> None:
    for done, work in works:
        result: Any = None
        failure: BaseException | None = None
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is waited for
            failure = error
        # Nobody waits any more if the loop is closed.
        with suppress(RuntimeError):
            done.get_loop().call_soon_threadsafe(_tell, done, result, failure)


def _tell(done: asyncio.Future[Any], result: Any, failure: BaseException | None) -> None:
    if done.done():
        # Whoever waited for it was cancelled.
        return
    if failure is None:
        done.set_result(result)
    else:
        done.set_exception(failure)


@cache
def _thread(_: int) -> _Thread:
    """Returns the thread of this number."""
    return _Thread()
