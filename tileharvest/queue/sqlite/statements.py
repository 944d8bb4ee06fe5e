"""The statements of a queue in SQLite."""

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
"""Batches of fingerprints in the log, before they are worked into the table. With 512 in each that takes
0.2 s and 4 MB."""

_FILTERS: Final = 4
"""Segments whose filters are kept, the newest ones. Most requests are of one segment, and for a while of the
next one too."""

_PRINTS: Final = msgspec.msgpack.Encoder()
_READ_PRINTS: Final = msgspec.msgpack.Decoder(list[bytes])

_SEE: Final = "INSERT OR IGNORE INTO seen (segment, fingerprint) VALUES (?, ?)"
_SEEN: Final = "SELECT fingerprint FROM seen WHERE segment = ?"
_LOG: Final = "INSERT INTO surely_new (segment, number, fingerprints) VALUES (?, ?, ?)"
_QUEUE: Final = "INSERT INTO requests (segment, priority, attempt, due, body) VALUES (?, ?, ?, ?, ?)"

# Who holds a lease is known by its id and attempt. Expired leases are taken back before this is asked.
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

# The conditions are those of the partial indexes, word for word, or SQLite would not use them.
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
"""A row if there is any request, in whatever state."""
_FAILURES: Final = "SELECT id, body, segment, priority, attempts, reason, failed FROM failures ORDER BY id"

_OF_SEGMENT: Final = "FROM remarks WHERE segment = (SELECT id FROM segments WHERE name = ?)"
_REMARKS: Final = f"SELECT key, value {_OF_SEGMENT}"
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

    Of every `minus_share` offers the last one does, so that the lane does not starve. With a share of 0 none
    does.
    """
    return [minus_share > 0 and offer % minus_share == 0 for offer in range(before + 1, before + number + 1)]


def remarks_of(connection: Connection, segment: str) -> dict[str, str]:
    """Returns all remarks of the segment, by key."""
    return dict(connection.execute(_REMARKS, (segment,)).fetchall())


class Statements:
    """A queue's tables. Each method is one step of a transaction, which its caller holds.

    Methods that are given leases return how many of them were held.
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
        """The connection is open, and begins no transactions by itself."""
        self._connection = connection
        self._max_attempts = max_attempts
        self._lease_seconds = lease_seconds
        self._minus_share = minus_share
        self._offered = 0
        """Leases since this was made, by which the minus lane has its turns."""
        self._expected = expected
        self._error_rate = error_rate
        self._filters: dict[int, SeenFilter] | None = None
        """By the id of the segment: what was seen there. None for a program beside the worker, which looks
        everything up."""

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything inside takes effect, or nothing if it raises."""
        # IMMEDIATE takes the write lock at once: a transaction that reads first and then writes would fail
        # instead of waiting when another process has written between.
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            # After some errors, a full disk for one, SQLite has taken everything back by itself.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def settle(self, now: float) -> None:
        """Put leases that have expired, and delayed requests that are due, where they belong."""
        if self._exists("FROM requests WHERE until <= ?", now):
            self._take_back(now, now, expired(self._lease_seconds))
        self._connection.execute("UPDATE requests SET due = NULL WHERE due <= ?", (now,))

    def begin_work(self, now: float) -> None:
        """Be the worker from now on, who filters what is pushed. Ends all leases, whatever their time.

        Reads the whole file before, and raises sqlite3.DatabaseError where a disk has changed it. That takes
        0.1 s of CPU for each 100,000 requests that wait."""
        said = self._value("PRAGMA integrity_check(1)")
        if said != "ok":
            raise _damaged(f"malformed: {said.removeprefix('*** in database main ***').strip()}")
        self._take_back(_EVER, now, WORKER_ENDED)
        self._expected = max(self._expected, self.counts(now).seen * 5 // 4)
        self._filters = {}

    def push(self, entries: Sequence[Entry], now: float) -> tuple[int, int]:
        """Queue what is new. Returns how many were duplicates, and how many false alarms.

        What the filter calls surely new is taken on its word: its fingerprints are appended to a log, in one
        row for a batch, and nothing is looked up. Only what may have been seen is looked up, one by one, in
        the table of what was seen; the log is worked into it before.
        """
        segments = {name: self._opened(name) for name in dict.fromkeys(entry.segment for entry in entries)}
        if self._filters is not None:
            # Not in the midst of a push: a filter that is filled again must find all in the tables.
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
        """Let these leave the failure list."""
        self._change("DELETE FROM failures WHERE id = ?", [(failure,) for failure in failures])

    def finish(self, leases: Sequence[Lease]) -> int:
        """End these, which are done."""
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
        """Put these into the failure list, each with a reason."""
        held = 0
        for lease, reason in leases:
            held += self._change(_FAIL, [(reason, now, lease.id, lease.attempt)])
            self._change(_FINISH, [(lease.id, lease.attempt)])
        return held

    def give_back(self, leases: Sequence[Lease]) -> int:
        """Let these wait again. They keep attempt and place."""
        return self._change(_GIVE_BACK, [(lease.id, lease.attempt) for lease in leases])

    def cut_off(self, leases: Sequence[Lease]) -> int:
        """Let these wait for their next attempt. They keep their place."""
        return self._change(_CUT_OFF, [(lease.id, lease.attempt) for lease in leases])

    def extend(self, leases: Sequence[Lease], now: float) -> int:
        """Let these last for the full time from now, unless they have expired."""
        self.settle(now)
        until = now + self._lease_seconds
        return self._change(_EXTEND, [(until, lease.id, lease.attempt) for lease in leases])

    def lease_next(self, wanted: int, now: float) -> list[Lease]:
        """Lease up to so many, in the order of the lanes."""
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
        """Returns whether anything could be leased. Looks at one row."""
        return self._exists(_WAITING)

    def next_due(self) -> float | None:
        """Returns when the first delayed request is due."""
        due: float | None = self._value("SELECT min(due) FROM requests WHERE due IS NOT NULL")
        return due

    def count_leased(self) -> int:
        """Returns how many leases there are."""
        leased: int = self._value("SELECT count(*) FROM requests WHERE until IS NOT NULL")
        return leased

    def counts(self, now: float) -> Counts:
        """Reads the indexes of what waits and the fingerprints of the newest segment."""
        self.settle(now)
        plus, normal, minus, *others = self._connection.execute(_COUNTS).fetchone()
        return Counts({Lane.PLUS: plus, Lane.NORMAL: normal, Lane.MINUS: minus}, *others)

    def failures(self) -> list[Failure]:
        """Returns the failure list, oldest first."""
        rows = self._connection.execute(_FAILURES)
        return [Failure(row[0], _unharmed(row[2], row[1]), *row[2:]) for row in rows]

    def forget(self, segment: str) -> None:
        """Drop all of the segment but its failures. Reads all that waits, of every segment."""
        number = self._value("SELECT id FROM segments WHERE name = ?", segment)
        for statement in _FORGET:
            self._connection.execute(statement, (number,))
        if self._filters is not None:
            self._filters.pop(number, None)

    def forget_others(self, kept: int, current: str) -> list[str]:
        """Forget all segments but the current one and the newest others. Returns the names, oldest first."""
        others = "SELECT name FROM segments WHERE name NOT IN (?, '') ORDER BY id DESC LIMIT -1 OFFSET ?"
        names: list[str] = [row[0] for row in self._connection.execute(others, (current, kept - 1))][::-1]
        for name in names:
            self.forget(name)
        return names

    def note(self, segment: str, key: str, value: str | None) -> str | None:
        """Write a remark, or drop it where the value is empty. Returns what it was before."""
        before = self.notes(segment).get(key)
        if value:
            row = (self._opened(segment), key, value)
            self._change("INSERT OR REPLACE INTO remarks (segment, key, value) VALUES (?, ?, ?)", [row])
        elif value is not None:
            self._change(_DROP_REMARK, [(segment, key)])
        return before

    def notes(self, segment: str) -> dict[str, str]:
        """Returns all remarks of the segment, by key."""
        return remarks_of(self._connection, segment)

    def _may_be_seen(self, segment: int, fingerprint: bytes | None) -> bool:
        """Returns False for what is surely new, and for what is not filtered."""
        if fingerprint is None or self._filters is None:
            return fingerprint is not None
        if segment not in self._filters:
            self._filters[segment] = self._filled_filter(segment)
        return self._filters[segment].add(fingerprint)

    def _filled_filter(self, segment: int) -> SeenFilter:
        """Returns the filter of a segment, with all that was seen there: 4 s for a million."""
        self._work_in()
        found = SeenFilter(self._expected, self._error_rate)
        for (fingerprint,) in self._connection.execute(_SEEN, (segment,)):
            found.add(fingerprint)
        return found

    def _log_surely_new(self, fingerprints: Mapping[int, list[bytes]]) -> None:
        """Append to the log what filters call new, by segment."""
        for segment, found in fingerprints.items():
            self._change(_LOG, [(segment, len(found), _PRINTS.encode(found))])
        if fingerprints and self._value("SELECT max(id) - min(id) FROM surely_new") >= LOGGED:
            self._work_in()

    def _work_in(self) -> None:
        """Move the fingerprints from the log into the table in which they can be looked up."""
        logged = self._connection.execute("SELECT segment, fingerprints FROM surely_new").fetchall()
        if logged:
            try:
                batches = [(segment, _READ_PRINTS.decode(found)) for segment, found in logged]
            except msgspec.MsgspecError as error:
                raise _damaged(f"what was seen: {error}") from error
            # Sorted, all that a page of the table gets comes at once.
            self._change(_SEE, sorted((segment, one) for segment, found in batches for one in found))
            self._connection.execute("DELETE FROM surely_new")

    def _take_back(self, until: float, now: float, reason: str) -> None:
        """Put leases back that end by then; those of the last attempt go to the failure list."""
        self._connection.execute(_GIVE_UP_EXPIRED, (reason, now, until, self._max_attempts))
        self._connection.execute(_GIVEN_UP, (until, self._max_attempts))
        self._connection.execute(_TAKE_BACK, (until,))

    def _opened(self, segment: str) -> int:
        """Returns the segment's id. A new one is opened."""
        number: int | None = self._value("SELECT id FROM segments WHERE name = ?", segment)
        if number is None:
            number = self._value("INSERT INTO segments (name) VALUES (?) RETURNING id", segment)
        assert number is not None
        return number

    def _change(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> int:
        """Returns how many rows were changed."""
        return self._connection.executemany(statement, rows).rowcount if rows else 0

    def _exists(self, what: str, *values: object) -> bool:
        return bool(self._value(f"SELECT EXISTS (SELECT 1 {what})", *values))

    def _value(self, statement: str, *values: object) -> Any:
        """Returns the first value of the first row, or None without a row."""
        rows = self._connection.execute(statement, values).fetchall()
        return rows[0][0] if rows else None


def _unharmed(segment: str | None, stored: bytes) -> bytes:
    """Returns the body. Raises sqlite3.DatabaseError where it, or its segment, is not what was written."""
    body = stored[:-CHECKSUM]
    if segment is None or summed(segment, body) != stored:
        raise _damaged("a request is not what was written")
    return body


def _damaged(said: str) -> sqlite3.DatabaseError:
    """Returns what SQLite would raise had it found the damage by itself."""
    error = sqlite3.DatabaseError(said)
    error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_CORRUPT, "SQLITE_CORRUPT"
    return error


def _in_turn(front: Iterable[Any], minus: Iterable[Any], minus_first: Sequence[bool]) -> list[Any]:
    """Returns one row for each turn. `front` has a row for each, so that no turn stays empty."""
    front, minus = iter(front), iter(minus)
    taken: dict[int, Any] = {}
    for is_minus in minus_first:
        candidates = chain(minus, front) if is_minus else front
        row = next(row for row in candidates if row[0] not in taken)
        taken[row[0]] = row
    return list(taken.values())
