"""The SQL statements of a queue in SQLite, and the steps of a transaction that are made of them."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tileharvest.queue.port import Counts, Failure, Lane, Lease
from tileharvest.queue.seen_filter import SeenFilter
from tileharvest.queue.sentences import WORKER_ENDED, expired
from tileharvest.queue.sqlite.file import CHECKSUM, summed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from sqlite3 import Connection

    from tileharvest.queue.port import Entry

_EVER: Final = float("inf")

LOGGED: Final = 100
"""The batches of fingerprints in the log before they are moved into the table. With 512 fingerprints in each,
moving takes 0.2 s and 4 MB."""

_FILTERS: Final = 4
"""The number of segments whose filters are kept: the newest ones. Most requests are of one segment, and for a
while of the next one, too."""

_PRINTS: Final = msgspec.msgpack.Encoder()
_READ_PRINTS: Final = msgspec.msgpack.Decoder(list[bytes])

_SEE: Final = "INSERT OR IGNORE INTO seen (segment, fingerprint) VALUES (?, ?)"
_SEEN: Final = "SELECT fingerprint FROM seen WHERE segment = ?"
_LOG: Final = "INSERT INTO surely_new (segment, number, fingerprints) VALUES (?, ?, ?)"
_QUEUE: Final = "INSERT INTO requests (segment, priority, attempt, due, body) VALUES (?, ?, ?, ?, ?)"

# A lease is known by its id and attempt. Expired leases are taken back before any of these statements.
_FINISH: Final = "DELETE FROM requests WHERE id = ? AND attempt = ? AND until IS NOT NULL"
_GIVE_BACK: Final = "UPDATE requests SET until = NULL WHERE id = ? AND attempt = ? AND until IS NOT NULL"
_CUT_OFF: Final = (
    "UPDATE requests SET until = NULL, attempt = attempt + 1"
    " WHERE id = ? AND attempt = ? AND until IS NOT NULL"
)
_EXTEND: Final = "UPDATE requests SET until = ? WHERE id = ? AND attempt = ? AND until IS NOT NULL"
_GIVE_UP: Final = """
    INSERT INTO failures (body, segment, priority, attempts, reason, failed)
    SELECT body, (SELECT name FROM segments WHERE id = segment), priority, attempt,
        replace(?, '{attempts}', attempt), ?
    FROM requests WHERE """
_FAIL: Final = _GIVE_UP + "id = ? AND attempt = ? AND until IS NOT NULL"
_GIVE_UP_EXPIRED: Final = _GIVE_UP + "until <= ? AND attempt >= ? ORDER BY id"
_GIVEN_UP: Final = "DELETE FROM requests WHERE until <= ? AND attempt >= ?"
_TAKE_BACK: Final = "UPDATE requests SET until = NULL, attempt = attempt + 1 WHERE until <= ?"

# These conditions repeat those of the partial indexes word for word, or SQLite would not use the indexes.
_WAITING: Final = "FROM requests WHERE due IS NULL AND until IS NULL"
_ROWS: Final = "SELECT id, attempt, segment, priority, body " + _WAITING
_FRONT: Final = _ROWS + " ORDER BY priority DESC, id LIMIT ?"
_MINUS: Final = _ROWS + " AND priority < 0 ORDER BY priority DESC, id LIMIT ?"
_LEASE: Final = "UPDATE requests SET until = ? WHERE id = ?"

_COUNTS: Final = """
    SELECT
        (SELECT count(*) FROM requests WHERE due IS NULL AND until IS NULL AND priority > 0),
        (SELECT count(*) FROM requests WHERE due IS NULL AND until IS NULL AND priority = 0),
        (SELECT count(*) FROM requests WHERE due IS NULL AND until IS NULL AND priority < 0),
        (SELECT count(*) FROM requests WHERE due IS NOT NULL),
        (SELECT count(*) FROM requests WHERE until IS NOT NULL),
        (SELECT count(*) FROM failures),
        (SELECT coalesce(sum(done), 0) FROM segments
            WHERE id = (SELECT max(id) FROM segments WHERE name != '')),
        (SELECT count(*) FROM seen WHERE segment = (SELECT max(id) FROM segments WHERE name != ''))
            + (SELECT coalesce(sum(number), 0) FROM surely_new
                WHERE segment = (SELECT max(id) FROM segments WHERE name != ''))"""
ANY: Final = "SELECT 1 FROM requests LIMIT 1"
"""Finds a row if there is any request, in any state."""
_FAILURES: Final = "SELECT id, body, segment, priority, attempts, reason, failed FROM failures ORDER BY id"

_OF_SEGMENT: Final = "FROM remarks WHERE segment = (SELECT id FROM segments WHERE name = ?)"
REMARKS: Final = f"SELECT key, value {_OF_SEGMENT}"
_DROP_REMARK: Final = f"DELETE {_OF_SEGMENT} AND key = ?"
_FORGET: Final = (
    "DELETE FROM requests WHERE segment = ?",
    "DELETE FROM seen WHERE segment = ?",
    "DELETE FROM surely_new WHERE segment = ?",
    "DELETE FROM remarks WHERE segment = ?",
    "DELETE FROM segments WHERE id = ?",
)


def turns(before: int, number: int, minus_share: int) -> list[bool]:
    """Returns for each of `number` offers, after the `before` ones, whether it asks the minus lane first.

    The last one of every `minus_share` offers does, so that the lane does not starve. With a share of 0, no
    offer does.
    """
    return [minus_share > 0 and offer % minus_share == 0 for offer in range(before + 1, before + number + 1)]


class Statements:
    """The tables of a queue. Each method is one step of a transaction that its caller has begun.

    Methods that take leases return how many of them were held.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        max_attempts: int,
        lease_seconds: float,
        minus_share: int,
        expected: int,
        error_rate: float,
    ) -> None:
        """`connection` is open, and begins no transactions by itself."""
        self._connection = connection
        self._max_attempts = max_attempts
        self._lease_seconds = lease_seconds
        self._minus_share = minus_share
        self._offered = 0
        """The leases since this object was made. They tell when the minus lane has its turn."""
        self._expected = expected
        self._error_rate = error_rate
        self._filters: dict[int, SeenFilter] | None = None
        """The filter of what was seen in each segment, by the segment's id. None for a program beside the
        worker, which looks everything up."""

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Lets everything inside the block take effect, or nothing if it raises."""
        # IMMEDIATE takes the write lock at once: a transaction that reads first and then writes would fail
        # instead of waiting when another process has written between.
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            # After some errors, such as a full disk, SQLite has rolled back by itself.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def settle(self, now: float) -> None:
        """Takes back expired leases, and lets delayed requests that are due wait in their lanes."""
        if self._exists("FROM requests WHERE until <= ?", now):
            self._take_back(now, now, expired(self._lease_seconds))
        self._connection.execute("UPDATE requests SET due = NULL WHERE due <= ?", (now,))

    def begin_work(self, now: float) -> None:
        """Becomes the worker, which filters what is pushed. Takes back all leases, also those that would
        last.

        First reads the whole file, and raises sqlite3.DatabaseError if it is damaged. That takes 0.1 s of CPU
        for each 100,000 requests that wait."""
        said = self._value("PRAGMA integrity_check(1)")
        if said != "ok":
            raise _damaged(f"malformed: {said.removeprefix('*** in database main ***').strip()}")
        self._take_back(_EVER, now, WORKER_ENDED)
        self._expected = max(self._expected, self.counts(now).seen * 5 // 4)
        self._filters = {}

    def push(self, entries: Sequence[Entry], now: float) -> tuple[int, int]:
        """Queues the entries that are new. Returns the number of duplicates, and the number of false alarms.

        Entries that the filter calls new are queued without a look-up. Their fingerprints are appended to a
        log, one row for a batch. Only entries that may have been seen are looked up, one by one, in the table
        of what was seen. The log is moved into the table before.
        """
        segments = {name: self._opened(name) for name in dict.fromkeys(entry.segment for entry in entries)}
        if self._filters is not None:
            # Only at the beginning of a push: a filter that is filled again must find everything in the
            # tables.
            for old in sorted(self._filters)[:-_FILTERS]:
                del self._filters[old]
        doubtful = [self._may_be_seen(segments[entry.segment], entry.fingerprint) for entry in entries]
        new: dict[int, list[bytes]] = {}
        for entry, is_doubtful in zip(entries, doubtful, strict=True):
            if entry.fingerprint is not None and not is_doubtful:
                new.setdefault(segments[entry.segment], []).append(entry.fingerprint)
        self._log_surely_new(new)
        if any(doubtful):
            self._work_in()
        duplicates = false_alarms = 0
        rows = []
        for entry, is_doubtful in zip(entries, doubtful, strict=True):
            segment = segments[entry.segment]
            if is_doubtful:
                if not self._change(_SEE, [(segment, entry.fingerprint)]):
                    duplicates += 1
                    continue
                false_alarms += self._filters is not None
            due = None if entry.due is None or entry.due <= now else entry.due
            rows.append((segment, entry.priority, entry.attempt, due, summed(entry.segment, entry.body)))
        self._change(_QUEUE, rows)
        return duplicates, false_alarms

    def take_up(self, failures: Sequence[int]) -> None:
        """Removes these failures from the failure list."""
        self._change("DELETE FROM failures WHERE id = ?", [(failure,) for failure in failures])

    def finish(self, leases: Sequence[Lease]) -> int:
        """Ends these leases, whose requests are done."""
        by_segment: dict[str, list[tuple[int, int]]] = {}
        for lease in leases:
            by_segment.setdefault(lease.segment, []).append((lease.id, lease.attempt))
        held = 0
        for segment, keys in by_segment.items():
            done = self._change(_FINISH, keys)
            self._connection.execute("UPDATE segments SET done = done + ? WHERE name = ?", (done, segment))
            held += done
        return held

    def fail(self, leases: Iterable[tuple[Lease, str]], now: float) -> int:
        """Moves these requests to the failure list, each with a reason."""
        held = 0
        for lease, reason in leases:
            held += self._change(_FAIL, [(reason, now, lease.id, lease.attempt)])
            self._change(_FINISH, [(lease.id, lease.attempt)])
        return held

    def give_back(self, leases: Sequence[Lease]) -> int:
        """Lets these requests wait again. They keep their attempts and their places."""
        return self._change(_GIVE_BACK, [(lease.id, lease.attempt) for lease in leases])

    def cut_off(self, leases: Sequence[Lease]) -> int:
        """Lets these requests wait for their next attempts. They keep their places."""
        return self._change(_CUT_OFF, [(lease.id, lease.attempt) for lease in leases])

    def extend(self, leases: Sequence[Lease], now: float) -> int:
        """Lets these leases last for the full time from now, unless they have expired."""
        self.settle(now)
        until = now + self._lease_seconds
        return self._change(_EXTEND, [(until, lease.id, lease.attempt) for lease in leases])

    def lease_next(self, wanted: int, now: float) -> list[Lease]:
        """Leases up to so many requests, in the order of the lanes."""
        if not wanted:
            return []
        until = now + self._lease_seconds
        front = self._connection.execute(_FRONT, (wanted,)).fetchall()
        minus_first = turns(self._offered, len(front), self._minus_share)
        self._offered += len(front)
        asked = sum(minus_first)
        minus = self._connection.execute(_MINUS, (asked,)).fetchall() if asked else []
        rows = _in_turn(front, minus, minus_first) if minus else front
        self._change(_LEASE, [(until, row[0]) for row in rows])
        names = dict(self._connection.execute("SELECT id, name FROM segments").fetchall())
        return [
            Lease(number, attempt, _unharmed(names.get(segment), body), names[segment], priority)
            for number, attempt, segment, priority, body in rows
        ]

    def has_waiting(self) -> bool:
        """Returns whether any request could be leased. Reads one row."""
        return self._exists(_WAITING)

    def next_due(self) -> float | None:
        """Returns when the first delayed request is due, or None if none is delayed."""
        due: float | None = self._value("SELECT min(due) FROM requests WHERE due IS NOT NULL")
        return due

    def count_leased(self) -> int:
        """Returns the number of leases."""
        leased: int = self._value("SELECT count(*) FROM requests WHERE until IS NOT NULL")
        return leased

    def counts(self, now: float) -> Counts:
        """Returns the counts. Reads the indexes of the requests, and the newest segment's fingerprints."""
        self.settle(now)
        plus, normal, minus, *others = self._connection.execute(_COUNTS).fetchone()
        return Counts({Lane.PLUS: plus, Lane.NORMAL: normal, Lane.MINUS: minus}, *others)

    def failures(self) -> list[Failure]:
        """Returns the failure list, oldest first."""
        rows = self._connection.execute(_FAILURES)
        return [Failure(row[0], _unharmed(row[2], row[1]), *row[2:]) for row in rows]

    def forget(self, segment: str) -> None:
        """Drops everything of the segment but its failures. Reads the requests of all segments."""
        number = self._value("SELECT id FROM segments WHERE name = ?", segment)
        for statement in _FORGET:
            self._connection.execute(statement, (number,))
        if self._filters is not None:
            self._filters.pop(number, None)

    def forget_others(self, kept: int, current: str) -> list[str]:
        """Forgets all segments but `current` and the `kept` - 1 newest others. Returns the forgotten names,
        oldest first."""
        others = "SELECT name FROM segments WHERE name NOT IN (?, '') ORDER BY id DESC LIMIT -1 OFFSET ?"
        names: list[str] = [row[0] for row in self._connection.execute(others, (current, kept - 1))][::-1]
        for name in names:
            self.forget(name)
        return names

    def note(self, segment: str, key: str, value: str) -> None:
        """Writes a remark, or drops it for an empty value."""
        if value:
            row = (self._opened(segment), key, value)
            self._change("INSERT OR REPLACE INTO remarks (segment, key, value) VALUES (?, ?, ?)", [row])
        else:
            self._change(_DROP_REMARK, [(segment, key)])

    def notes(self, segment: str) -> dict[str, str]:
        """Returns all remarks of the segment, by key."""
        return dict(self._connection.execute(REMARKS, (segment,)).fetchall())

    def _may_be_seen(self, segment: int, fingerprint: bytes | None) -> bool:
        """Returns False for a fingerprint that is surely new, and for None, which is never filtered."""
        if fingerprint is None or self._filters is None:
            return fingerprint is not None
        if segment not in self._filters:
            self._filters[segment] = self._filled_filter(segment)
        return self._filters[segment].add(fingerprint)

    def _filled_filter(self, segment: int) -> SeenFilter:
        """Returns the filter of a segment, filled with all that was seen there. A million takes 4 s."""
        self._work_in()
        found = SeenFilter(self._expected, self._error_rate)
        for (fingerprint,) in self._connection.execute(_SEEN, (segment,)):
            found.add(fingerprint)
        return found

    def _log_surely_new(self, fingerprints: Mapping[int, list[bytes]]) -> None:
        """Appends to the log the fingerprints that filters have called new, by segment."""
        for segment, found in fingerprints.items():
            self._change(_LOG, [(segment, len(found), _PRINTS.encode(found))])
        if fingerprints and self._value("SELECT max(id) - min(id) FROM surely_new") >= LOGGED:
            self._work_in()

    def _work_in(self) -> None:
        """Moves the fingerprints from the log into the table, where they can be looked up."""
        logged = self._connection.execute("SELECT segment, fingerprints FROM surely_new").fetchall()
        if logged:
            try:
                batches = [(segment, _READ_PRINTS.decode(found)) for segment, found in logged]
            except msgspec.MsgspecError as error:
                raise _damaged(f"what was seen: {error}") from error
            # Sorted, because then all fingerprints of one page of the table come together.
            self._change(_SEE, sorted((segment, one) for segment, found in batches for one in found))
            self._connection.execute("DELETE FROM surely_new")

    def _take_back(self, until: float, now: float, reason: str) -> None:
        """Takes back the leases that end by `until`. Requests at their last attempt go to the failure
        list."""
        self._connection.execute(_GIVE_UP_EXPIRED, (reason, now, until, self._max_attempts))
        self._connection.execute(_GIVEN_UP, (until, self._max_attempts))
        self._connection.execute(_TAKE_BACK, (until,))

    def _opened(self, segment: str) -> int:
        """Returns the segment's id. Opens the segment if it is new."""
        number: int | None = self._value("SELECT id FROM segments WHERE name = ?", segment)
        if number is None:
            number = self._value("INSERT INTO segments (name) VALUES (?) RETURNING id", segment)
        assert number is not None
        return number

    def _change(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> int:
        """Executes the statement for each of these rows. Returns how many rows of tables it has changed."""
        return self._connection.executemany(statement, rows).rowcount if rows else 0

    def _exists(self, what: str, *values: object) -> bool:
        return bool(self._value(f"SELECT EXISTS (SELECT 1 {what})", *values))

    def _value(self, statement: str, *values: object) -> Any:
        """Returns the first value of the first row, or None without a row."""
        rows = self._connection.execute(statement, values).fetchall()
        return rows[0][0] if rows else None


def _unharmed(segment: str | None, stored: bytes) -> bytes:
    """Returns the body without its checksum. Raises sqlite3.DatabaseError if body or segment is not what was
    written."""
    body = stored[:-CHECKSUM]
    if segment is None or summed(segment, body) != stored:
        raise _damaged("a request is not what was written")
    return body


def _damaged(said: str) -> sqlite3.DatabaseError:
    """Returns the error that SQLite raises if it finds damage itself."""
    error = sqlite3.DatabaseError(said)
    error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_CORRUPT, "SQLITE_CORRUPT"
    return error


def _in_turn(front: Iterable[Any], minus: Iterable[Any], minus_first: Sequence[bool]) -> list[Any]:
    """Returns one row for each turn: for True the next of `minus` if there is one, else the next of `front`.

    `front` has a row for each turn, so that no turn stays empty. No row is returned twice."""
    front, minus = iter(front), iter(minus)
    taken: dict[int, Any] = {}
    for is_minus in minus_first:
        candidates = chain(minus, front) if is_minus else front
        row = next(row for row in candidates if row[0] not in taken)
        taken[row[0]] = row
    return list(taken.values())
