"""The queue of one crawl in SQLite: in a file, or in memory."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote

from pybloom_live import ScalableBloomFilter

from tileharvest.errors import ExitStatus, QueueError, program
from tileharvest.politeness.lock import Lock
from tileharvest.queue.port import (
    AFRESH,
    LAST,
    NOTHING_LOST,
    PUSHED,
    WORKER_ENDED,
    Counts,
    Exchanged,
    Failure,
    Lease,
    emptied,
    of_another_version,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tileharvest.queue.port import End, Entry

    Result = TypeVar("Result")

VERSION: Final = 9
"""The version of the tables, kept as SQLite's user_version."""

LOCK_TIMEOUT: Final = 30.0
"""Seconds to wait for another process. Transactions last milliseconds, and dropping a segment of a million
requests some seconds."""

_EXPECTED: Final = 100_000
"""The requests for which the filter of a new segment has room: 180 kB. It grows."""
_ERROR_RATE: Final = 1e-3
"""The probability with which the filter takes a new request for one that was seen. It is looked up then."""

_TABLES: Final = (
    # Numbers rise in the order in which segments were opened.
    "CREATE TABLE segments (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, done INTEGER NOT NULL)",
    "CREATE TABLE notes (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE seen (
        segment TEXT NOT NULL, fingerprint BLOB NOT NULL, PRIMARY KEY (segment, fingerprint)
    ) WITHOUT ROWID""",
    # AUTOINCREMENT: an id is never used again, or the holder of an old lease could end another request's.
    # `attempt` counts how often a request was handed out, `lost` how often its worker ended meanwhile.
    """CREATE TABLE requests (
        id INTEGER PRIMARY KEY AUTOINCREMENT, segment TEXT NOT NULL, slot TEXT NOT NULL,
        priority INTEGER NOT NULL, fingerprint BLOB, body BLOB NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('waiting', 'delayed', 'leased', 'failed')), due REAL,
        attempt INTEGER NOT NULL DEFAULT 0, lost INTEGER NOT NULL DEFAULT 0, reason TEXT, failed REAL
    )""",
    "CREATE INDEX waiting ON requests (slot, priority DESC, id) WHERE state = 'waiting'",
    "CREATE INDEX delayed ON requests (due) WHERE state = 'delayed'",
    "CREATE INDEX others ON requests (state, id) WHERE state IN ('leased', 'failed')",
    f"PRAGMA user_version = {VERSION}",
)

_INSERT: Final = """
    INSERT INTO requests (segment, slot, priority, fingerprint, body, state, due)
    VALUES (?, ?, ?, ?, ?, ?, ?)"""
_SEE: Final = "INSERT OR IGNORE INTO seen VALUES (?, ?) RETURNING 1"
# The first request that waits in the slot, or else in the next one that has any. One step of the index.
_FIRST: Final = """
    SELECT slot, priority, id FROM requests WHERE state = 'waiting' AND slot >= ?
    ORDER BY slot, priority DESC, id LIMIT 1"""
_NEXT_DUE: Final = "SELECT min(due) FROM requests WHERE state = 'delayed'"
_DUE: Final = "UPDATE requests SET state = 'waiting', due = NULL WHERE state = 'delayed' AND due <= ?"
_GIVE_UP: Final = """
    UPDATE requests SET state = 'failed', reason = ?, failed = ? WHERE state = 'leased' AND lost >= ?"""
_TAKE_BACK: Final = """
    UPDATE requests SET state = 'waiting', priority = CASE WHEN lost < ? THEN priority ELSE ? END
    WHERE state = 'leased'"""
_LEASE: Final = """
    UPDATE requests SET state = 'leased', attempt = attempt + 1 WHERE id = ?
    RETURNING id, attempt, body, priority, slot"""
_ENDINGS: Final = {
    "finish": "DELETE FROM requests WHERE id = ? AND attempt = ? RETURNING segment",
    "release": "UPDATE requests SET state = 'waiting' WHERE id = ? AND attempt = ? AND state = 'leased'",
    "fail": """UPDATE requests SET state = 'failed', reason = ?3, failed = ?4
        WHERE id = ?1 AND attempt = ?2 AND state != 'failed'""",
}
_UNSEE: Final = """
    DELETE FROM seen WHERE (segment, fingerprint) IN (
        SELECT segment, fingerprint FROM requests WHERE id = ? AND attempt = ?
    )"""
_FAILED: Final = "SELECT fingerprint, segment FROM requests WHERE id = ? AND state = 'failed'"
_TAKE_UP: Final = """
    UPDATE requests SET state = 'waiting', lost = 0, reason = NULL, failed = NULL, segment = ?,
        priority = max(1, priority) WHERE id = ?"""
_COUNTS: Final = """
    SELECT
        (SELECT count(*) FROM requests WHERE state = 'waiting' AND priority > 0),
        (SELECT count(*) FROM requests WHERE state = 'waiting' AND priority = 0),
        (SELECT count(*) FROM requests WHERE state = 'waiting' AND priority < 0),
        (SELECT count(*) FROM requests WHERE state = 'delayed'),
        (SELECT count(*) FROM requests WHERE state = 'leased'),
        (SELECT count(*) FROM requests WHERE state = 'failed'),
        coalesce((SELECT done FROM segments WHERE name = ?1), 0),
        (SELECT count(*) FROM seen WHERE segment = ?1)"""

_THREAD: Final = ThreadPoolExecutor(1, thread_name_prefix="queue")
"""Does the work of all queues of a process, so that the event loop never waits for the disk."""


class SqliteQueue:
    """A `RequestQueue` with one worker at a time and any number of commands beside it.

    A queue in a file outlives a SIGKILL. After a power cut it is in a state of some seconds before at most.
    A queue in memory ends when it is closed.

    The worker keeps a Bloom filter of what its segment has seen. The filter decides what is surely new; the
    rest is looked up.
    """

    def __init__(
        self,
        file: Path | None = None,
        *,
        work: str = "another crawl",
        max_attempts: int = 5,
    ) -> None:
        """Touches nothing yet.

        `work` says in messages what works on the queue. Without a file everything is in memory.
        """
        self._file = file
        self._work = work
        self._where = "the queue in memory" if file is None else f"the queue {file}"
        self._max_attempts = max_attempts
        self._lock = None if file is None else Lock(file.parent, file.stem)
        self._connection: sqlite3.Connection | None = None
        self._inode: int | None = None
        self._segment: str | None = None
        """The worker's segment. None for a command."""
        self._filter: ScalableBloomFilter | None = None

    async def open(self, segment: str, now: float) -> None:
        await self._in_thread(self._become_worker, segment, now)

    async def open_beside(self) -> None:
        await self._in_thread(self._connect)

    async def exchange(
        self, pushed: Sequence[Entry], ended: Sequence[End], number: int, held: Sequence[Lease], now: float
    ) -> Exchanged:
        return await self._run(self._exchange, pushed, ended, number, held, now)

    async def counts(self, segment: str | None) -> Counts:
        return await self._run(self._counts, segment)

    async def failures(self) -> Sequence[Failure]:
        statement = (
            "SELECT id, body, segment, priority, attempt, reason, failed FROM requests"
            " WHERE state = 'failed' ORDER BY failed, id"
        )
        return [Failure(*row) for row in await self._run(self._rows, statement)]

    async def take_up(self, ids: Sequence[int], segment: str | None) -> int:
        return await self._run(self._take_up, ids, segment)

    async def segments(self) -> Sequence[str]:
        names = "SELECT name FROM segments ORDER BY number"
        return [name for (name,) in await self._run(self._rows, names)]

    async def forget(self, segment: str) -> None:
        await self._run(self._forget, segment)

    async def note(self, key: str, value: str) -> None:
        await self._run(self._rows, "INSERT OR REPLACE INTO notes VALUES (?, ?)", key, value)

    async def notes(self) -> Mapping[str, str]:
        return dict(await self._run(self._rows, "SELECT key, value FROM notes WHERE value != ''"))

    async def workers(self) -> None:
        """One worker at a time uses this queue, and it says nothing of itself."""

    async def discard(self) -> None:
        await self._in_thread(self._discard)

    async def close(self) -> None:
        self._segment = None
        await self._in_thread(self._let_go)

    def _run(self, work: Callable[..., Result], *given: Any) -> asyncio.Future[Result]:
        """Does the work in one transaction, and returns its result."""
        return asyncio.get_running_loop().run_in_executor(_THREAD, self._transact, work, *given)

    def _in_thread(self, work: Callable[..., Result], *given: Any) -> asyncio.Future[Result]:
        guarded = queue_errors(self._where)(work)
        return asyncio.get_running_loop().run_in_executor(_THREAD, guarded, *given)

    # From here on in the thread.

    def _become_worker(self, segment: str, now: float) -> None:
        if self._lock is not None and not self._lock.take():
            raise QueueError(
                f"{self._work} runs in another process already; nothing was changed; let that end, or stop"
                f" it by `{program()} stop NAME`, then run again",
                exit_status=ExitStatus.USAGE,
            )
        self._connect()
        ((said,),) = self._rows("PRAGMA integrity_check(1)")
        if said != "ok":
            raise _unreadable(self._where, said)
        self._transact(self._begin_work, segment, now)

    def _connect(self) -> None:
        """Connects to the queue, and makes it if it does not exist. Raises QueueError for a file of another
        version or another program, which is not changed."""
        if self._connection is not None:
            return
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
        place = ":memory:" if self._file is None else self._file
        # isolation_level=None: sqlite3 begins no transactions by itself.
        connection = sqlite3.connect(
            place, timeout=LOCK_TIMEOUT, isolation_level=None, check_same_thread=False
        )
        try:
            _prepare(connection, self._where)
            self._inode = None if self._file is None else _inode(self._file)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _let_go(self) -> None:
        self._filter = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._lock is not None:
            self._lock.drop()

    def _discard(self) -> None:
        self._let_go()
        if self._file is None or self._lock is None:
            return
        if not self._lock.take():
            raise QueueError(f"{self._work} runs in another process; nothing was changed")
        try:
            # The database goes first: SQLite ignores a log without one, but applies a log to an old one.
            for ending in ("", "-wal", "-shm"):
                self._file.with_name(self._file.name + ending).unlink(missing_ok=True)
        finally:
            self._lock.drop()

    def _transact(self, work: Callable[..., Result], *given: Any) -> Result:
        """Returns the result of the work. Raises QueueError if the queue is not open, or if its file is gone
        or another one, because SQLite would go on in the file that nobody can see any more."""
        with queue_errors(self._where):
            connection = self._connection
            if connection is None:
                raise QueueError(f"{self._where} is not open; {NOTHING_LOST}; the program is about to end")
            if self._file is not None and _inode(self._file) != self._inode:
                raise emptied(self._where)
            # IMMEDIATE takes the write lock at once: a transaction that reads first and then writes would
            # fail instead of waiting when another process has written between.
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(*given)
                connection.execute("COMMIT")
            except BaseException:
                # After some errors, such as a full disk, SQLite has rolled back by itself.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return result

    def _rows(self, statement: str, *values: object) -> list[Any]:
        assert self._connection is not None
        return self._connection.execute(statement, values).fetchall()

    def _open_segment(self, name: str) -> None:
        self._rows("INSERT OR IGNORE INTO segments (name, done) VALUES (?, 0)", name)

    def _begin_work(self, segment: str, now: float) -> None:
        """Takes back all leases, and fills the filter with what the segment has seen. A million takes 4 s."""
        self._segment, most = segment, self._max_attempts
        self._rows("UPDATE requests SET lost = lost + 1 WHERE state = 'leased'")
        self._rows(_GIVE_UP, WORKER_ENDED.format(attempts=2 * most), now, 2 * most)
        self._rows(_TAKE_BACK, most, LAST)
        self._open_segment(segment)
        seen = self._rows("SELECT fingerprint FROM seen WHERE segment = ?", segment)
        room, growth = max(_EXPECTED, len(seen) * 5 // 4), ScalableBloomFilter.SMALL_SET_GROWTH
        self._filter = ScalableBloomFilter(room, _ERROR_RATE, growth)
        for (fingerprint,) in seen:
            self._filter.add(fingerprint.hex())

    def _exchange(
        self, pushed: Sequence[Entry], ended: Sequence[End], number: int, held: Sequence[Lease], now: float
    ) -> Exchanged:
        duplicates = self._push(pushed, now) if pushed else []
        for end in ended:
            self._end(end, now)
        self._rows(_DUE, now)
        ((next_due,),) = self._rows(_NEXT_DUE)
        leases, has_more = self._lease(number, held)
        return Exchanged(leases, duplicates, has_more, next_due)

    def _push(self, entries: Sequence[Entry], now: float) -> list[int]:
        """Queues the entries that are new. Returns the places of the others."""
        duplicates, new = [], []
        for segment in dict.fromkeys([entry.segment for entry in entries]):
            self._open_segment(segment)
        for place, entry in enumerate(entries):
            if self._is_new(entry.segment, entry.fingerprint):
                due = None if entry.due is None or entry.due <= now else entry.due
                state = "waiting" if due is None else "delayed"
                waits = entry.segment, entry.slot, entry.priority, entry.fingerprint, entry.body, state, due
                new.append(waits)
            else:
                duplicates.append(place)
        assert self._connection is not None
        self._connection.executemany(_INSERT, new)
        return duplicates

    def _is_new(self, segment: str, fingerprint: bytes | None) -> bool:
        """Returns whether a segment has not seen the fingerprint before. It has seen it then.

        The filter knows at once what is surely new. Only the table knows what was surely seen.
        """
        if fingerprint is None:
            return True
        is_surely_new = (
            self._filter is not None
            and segment == self._segment
            # The filter hashes the UTF-8 of `str(key)`.
            and not self._filter.add(fingerprint.hex())
        )
        return bool(self._rows(_SEE, segment, fingerprint)) or is_surely_new

    def _end(self, end: End, now: float) -> None:
        key = end.id, end.attempt
        if end.how == "unsee":
            self._rows(_UNSEE, *key)
        if end.how == "finish":
            for (segment,) in self._rows(_ENDINGS["finish"], *key):
                self._rows("UPDATE segments SET done = done + 1 WHERE name = ?", segment)
        elif end.how == "release":
            self._rows(_ENDINGS["release"], *key)
        else:
            self._rows(_ENDINGS["fail"], *key, end.reason, now)

    def _lease(self, most: int, held: Sequence[Lease]) -> tuple[list[Lease], bool]:
        """Returns at most so many leases, and whether anything else waits."""
        under_way = Counter([lease.slot for lease in held])
        first: list[tuple[int, int, int, str]] = []
        """The first request of each slot, in a form whose order is that of the leases."""
        leases: list[Lease] = []
        found = self._rows(_FIRST, "")
        while found:
            ((slot, priority, number),) = found
            heappush(first, (-priority, under_way[slot], number, slot))
            # No text lies between this one and that of the slot.
            found = self._rows(_FIRST, f"{slot}\0")
        while first and len(leases) < most:
            *_, number, slot = heappop(first)
            leases += [Lease(*row) for row in self._rows(_LEASE, number)]
            under_way[slot] += 1
            for next_slot, priority, number in self._rows(_FIRST, slot):
                if next_slot == slot:
                    heappush(first, (-priority, under_way[slot], number, slot))
        return leases, bool(first)

    def _counts(self, segment: str | None) -> Counts:
        if segment is None:
            newest = self._rows("SELECT name FROM segments WHERE name != ? ORDER BY number DESC", PUSHED)
            segment = newest[0][0] if newest else PUSHED
        return Counts(*self._rows(_COUNTS, segment)[0])

    def _take_up(self, ids: Sequence[int], segment: str | None) -> int:
        taken = 0
        if segment is not None:
            self._open_segment(segment)
        for number in ids:
            for fingerprint, before in self._rows(_FAILED, number):
                taken += 1
                is_known = segment not in (before, PUSHED, None) and not self._is_new(segment, fingerprint)
                if segment is None or is_known:
                    self._rows("DELETE FROM requests WHERE id = ?", number)
                else:
                    self._rows(_TAKE_UP, segment, number)
        return taken

    def _forget(self, segment: str) -> None:
        self._rows("DELETE FROM requests WHERE segment = ? AND state != 'failed'", segment)
        self._rows("DELETE FROM seen WHERE segment = ?", segment)
        self._rows("DELETE FROM segments WHERE name = ?", segment)


def file_stem(name: str) -> str:
    """Returns the name of a queue's file, without its ending, and of the lock of its worker."""
    return quote(name, safe=" :@+,=")


def _inode(file: Path) -> int | None:
    with suppress(FileNotFoundError):
        return file.stat().st_ino
    return None


def _prepare(connection: sqlite3.Connection, queue: str) -> None:
    # Another process may be making the same file.
    connection.execute("BEGIN IMMEDIATE")
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        for statement in _TABLES:
            connection.execute(statement)
    connection.execute("COMMIT")
    ((version,),) = connection.execute("PRAGMA user_version")
    if version != VERSION:
        raise of_another_version(queue, version, VERSION)
    # Another process that makes the same file may be doing this now. The file remembers it.
    with suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA journal_mode = WAL")
    # NORMAL flushes only when the log is worked into the file. A SIGKILL takes nothing, because the system
    # has what was written. A power cut can take whole commits from the end, which is harmless: results are
    # durable in the history before their lease ends, and a request and its children come and go in one
    # commit, so at worst work is offered again.
    connection.execute("PRAGMA synchronous = NORMAL")


@contextmanager
def queue_errors(queue: str) -> Iterator[None]:
    """Raises QueueError for every error of SQLite, or of the file's folder, inside the block."""
    try:
        yield
    except (sqlite3.Error, UnicodeError) as error:
        # An error without a code is sqlite3's own: it cannot decode what is in a damaged file.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
        if code & _PRIMARY in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            said = "malformed" if isinstance(error, UnicodeError) else str(error)
            raise _unreadable(queue, said) from error
        # The disk is too full for the shared memory file that lies beside a database.
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE):
            raise QueueError(
                f"disk full: {queue} could not be written; {NOTHING_LOST}; free space and run again"
            ) from error
        raise _failed(queue, str(error)) from error
    except OSError as error:
        raise _failed(queue, error.strerror or str(error)) from error


_PRIMARY: Final = 0xFF
"""The bits of SQLite's error codes that say the kind, https://www.sqlite.org/rescode.html"""


def _failed(queue: str, said: str) -> QueueError:
    return QueueError(
        f"{queue} failed ({said}); {NOTHING_LOST}; let other programs that use the file end, see that it and"
        f" its folder are writable, and run again; where that does not help, {AFRESH}"
    )


def _unreadable(queue: str, said: str) -> QueueError:
    return QueueError(
        f"{queue} cannot be read ({said}); it was not deleted, and the history is unharmed: {AFRESH}, or move"
        " the file away"
    )
