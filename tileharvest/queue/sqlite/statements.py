"""What is done to a queue in SQLite. Each function is one step of a transaction that its caller holds."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from tileharvest.queue.lanes import Lane, Turns
from tileharvest.queue.port import Counts, Failure, Lease

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from sqlite3 import Connection

    from tileharvest.queue.port import Entry

_EVER: Final = float("inf")

BELOW_ALL: Final = ""
"""Comes before every fingerprint, the empty one included: SQLite puts all texts before all bytes."""

_SEE: Final = "INSERT OR IGNORE INTO seen (segment, fingerprint) VALUES (?, ?)"
_QUEUE: Final = "INSERT INTO requests (segment, priority, attempt, due, body) VALUES (?, ?, ?, ?, ?)"

# Who holds a lease is known by its id and attempt. Expired leases are taken back before this is asked.
_FINISH: Final = "DELETE FROM requests WHERE id = ? AND attempt = ? AND until IS NOT NULL"
_GIVE_BACK: Final = "UPDATE requests SET until = NULL WHERE id = ? AND attempt = ? AND until IS NOT NULL"
_EXTEND: Final = "UPDATE requests SET until = ? WHERE id = ? AND attempt = ? AND until IS NOT NULL"
_FAIL: Final = """
    INSERT INTO failures (body, segment, priority, attempts, reason, failed)
    SELECT body, (SELECT name FROM segments WHERE id = segment), priority, attempt, ?, ?
    FROM requests WHERE id = ? AND attempt = ? AND until IS NOT NULL"""

_GIVE_UP: Final = """
    INSERT INTO failures (body, segment, priority, attempts, reason, failed)
    SELECT body, (SELECT name FROM segments WHERE id = segment), priority, attempt,
        replace(?, '{attempts}', attempt), ?
    FROM requests WHERE until <= ? AND attempt >= ? ORDER BY id"""
_GIVEN_UP: Final = "DELETE FROM requests WHERE until <= ? AND attempt >= ?"
_TAKE_BACK: Final = "UPDATE requests SET until = NULL, attempt = attempt + 1 WHERE until <= ?"

# The conditions are those of the partial indexes, word for word, or SQLite would not use them.
_FRONT: Final = """
    SELECT id, attempt, segment, priority, body FROM requests
    WHERE due IS NULL AND until IS NULL ORDER BY priority DESC, id LIMIT ?"""
_MINUS: Final = """
    SELECT id, attempt, segment, priority, body FROM requests
    WHERE due IS NULL AND until IS NULL AND priority < 0 ORDER BY priority DESC, id LIMIT ?"""
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
        (SELECT count(*) FROM seen WHERE segment = (SELECT max(id) FROM segments WHERE name != ''))"""
_FAILURES: Final = "SELECT id, body, segment, priority, attempts, reason, failed FROM failures ORDER BY id"

_FINGERPRINTS: Final = """
    SELECT fingerprint FROM seen
    WHERE segment = (SELECT id FROM segments WHERE name = ?) AND fingerprint > ?
    ORDER BY fingerprint LIMIT ?"""
_REMARKS: Final = "FROM remarks WHERE segment = (SELECT id FROM segments WHERE name = ?)"
_REMARK: Final = f"SELECT value {_REMARKS} AND key = ?"
_ALL_REMARKS: Final = f"SELECT key, value {_REMARKS}"
_DROP_REMARK: Final = f"DELETE {_REMARKS} AND key = ?"


def take_back_expired(connection: Connection, now: float, max_attempts: int, reason: str) -> None:
    """Puts expired leases back, or those of the last attempt on the failure list.

    In the reason, {attempts} becomes their number.
    """
    expired = "SELECT EXISTS (SELECT 1 FROM requests WHERE until <= ?)"
    if connection.execute(expired, (now,)).fetchone()[0]:
        _take_back(connection, until=now, now=now, max_attempts=max_attempts, reason=reason)


def take_back_all(connection: Connection, now: float, max_attempts: int, reason: str) -> None:
    """As `take_back_expired`, for all leases whatever their time."""
    _take_back(connection, until=_EVER, now=now, max_attempts=max_attempts, reason=reason)


def _take_back(connection: Connection, *, until: float, now: float, max_attempts: int, reason: str) -> None:
    connection.execute(_GIVE_UP, (reason, now, until, max_attempts))
    connection.execute(_GIVEN_UP, (until, max_attempts))
    connection.execute(_TAKE_BACK, (until,))


def let_wait_what_is_due(connection: Connection, now: float) -> None:
    connection.execute("UPDATE requests SET due = NULL WHERE due <= ?", (now,))


def push(connection: Connection, entries: Sequence[Entry], now: float) -> tuple[int, int]:
    """How many were duplicates, and how many false alarms."""
    segments = {name: _opened(connection, name) for name in dict.fromkeys(entry.segment for entry in entries)}
    duplicates = false_alarms = 0
    rows = []
    for entry in entries:
        segment = segments[entry.segment]
        if entry.fingerprint is not None:
            # Also for what is surely new: to insert is to look up, and one that is not new does no harm.
            if not connection.execute(_SEE, (segment, entry.fingerprint)).rowcount:
                duplicates += 1
                continue
            false_alarms += entry.maybe_seen
        due = None if entry.due is None or entry.due <= now else entry.due
        rows.append((segment, entry.priority, entry.attempt, due, entry.body))
    connection.executemany(_QUEUE, rows)
    return duplicates, false_alarms


def take_up(connection: Connection, failures: Sequence[int]) -> None:
    connection.executemany("DELETE FROM failures WHERE id = ?", ((failure,) for failure in failures))


def finish(connection: Connection, leases: Sequence[Lease]) -> int:
    """How many of them were held."""
    by_segment: dict[str, list[tuple[int, int]]] = {}
    for lease in leases:
        by_segment.setdefault(lease.segment, []).append((lease.id, lease.attempt))
    held = 0
    for segment, keys in by_segment.items():
        done = connection.executemany(_FINISH, keys).rowcount
        connection.execute("UPDATE segments SET done = done + ? WHERE name = ?", (done, segment))
        held += done
    return held


def fail(connection: Connection, leases: Iterable[tuple[Lease, str]], now: float) -> int:
    """How many of them were held."""
    held = 0
    for lease, reason in leases:
        held += connection.execute(_FAIL, (reason, now, lease.id, lease.attempt)).rowcount
        connection.execute(_FINISH, (lease.id, lease.attempt))
    return held


def give_back(connection: Connection, leases: Sequence[Lease]) -> int:
    """How many of them were held."""
    if not leases:
        return 0
    return connection.executemany(_GIVE_BACK, [(lease.id, lease.attempt) for lease in leases]).rowcount


def extend(connection: Connection, leases: Sequence[Lease], until: float) -> int:
    """How many of them are held."""
    if not leases:
        return 0
    rows = [(until, lease.id, lease.attempt) for lease in leases]
    return connection.executemany(_EXTEND, rows).rowcount


def lease_next(connection: Connection, turns: Turns, wanted: int, until: float) -> list[Lease]:
    front = connection.execute(_FRONT, (wanted,)).fetchall()
    minus_first = [turns.next_is_minus() for _ in front]
    minus = connection.execute(_MINUS, (sum(minus_first),)).fetchall() if any(minus_first) else []
    rows = _in_turn(front, minus, minus_first) if minus else front
    connection.executemany(_LEASE, [(until, row[0]) for row in rows])
    names = _names(connection)
    return [
        Lease(number, attempt, body, names[segment], priority, until)
        for number, attempt, segment, priority, body in rows
    ]


def _in_turn(front: Iterable[Any], minus: Iterable[Any], minus_first: Sequence[bool]) -> list[Any]:
    """One row for each turn. `front` has a row for each, so that no turn stays empty."""
    front, minus = iter(front), iter(minus)
    taken: dict[int, Any] = {}
    for is_minus in minus_first:
        candidates = chain(minus, front) if is_minus else front
        row = next(row for row in candidates if row[0] not in taken)
        taken[row[0]] = row
    return list(taken.values())


def has_waiting(connection: Connection) -> bool:
    found = connection.execute("SELECT EXISTS (SELECT 1 FROM requests WHERE due IS NULL AND until IS NULL)")
    return bool(found.fetchone()[0])


def next_due(connection: Connection) -> float | None:
    due: float | None = connection.execute("SELECT min(due) FROM requests WHERE due IS NOT NULL").fetchone()[
        0
    ]
    return due


def count_leased(connection: Connection) -> int:
    leased: int = connection.execute("SELECT count(*) FROM requests WHERE until IS NOT NULL").fetchone()[0]
    return leased


def counts(connection: Connection) -> Counts:
    """Reads the indexes of what waits and the fingerprints of the newest segment."""
    plus, normal, minus, delayed, leased, failed, done, seen = connection.execute(_COUNTS).fetchone()
    pending = {Lane.PLUS: plus, Lane.NORMAL: normal, Lane.MINUS: minus}
    return Counts(pending, delayed, leased, failed, done, seen)


def failures(connection: Connection) -> list[Failure]:
    return [Failure(*row) for row in connection.execute(_FAILURES)]


def clear_failures(connection: Connection) -> int:
    return connection.execute("DELETE FROM failures").rowcount


def fingerprints_after(connection: Connection, segment: str, last: bytes | str, most: int) -> list[bytes]:
    """Those above `last`, in order."""
    return [row[0] for row in connection.execute(_FINGERPRINTS, (segment, last, most))]


def forget(connection: Connection, segment: str) -> None:
    """Reads all that waits, of every segment."""
    found = connection.execute("SELECT id FROM segments WHERE name = ?", (segment,)).fetchone()
    if found is None:
        return
    for statement in (
        "DELETE FROM requests WHERE segment = ?",
        "DELETE FROM seen WHERE segment = ?",
        "DELETE FROM remarks WHERE segment = ?",
        "DELETE FROM segments WHERE id = ?",
    ):
        connection.execute(statement, found)


def forget_others(connection: Connection, kept: int, current: str) -> list[str]:
    """The names of those forgotten, oldest first."""
    others = "SELECT name FROM segments WHERE name NOT IN (?, '') ORDER BY id DESC LIMIT -1 OFFSET ?"
    names: list[str] = [row[0] for row in connection.execute(others, (current, kept - 1))][::-1]
    for name in names:
        forget(connection, name)
    return names


def note(connection: Connection, segment: str, key: str, value: str | None) -> str | None:
    """The empty value deletes the remark; what it was before, if there was any."""
    found = connection.execute(_REMARK, (segment, key)).fetchone()
    if value:
        row = (_opened(connection, segment), key, value)
        connection.execute("INSERT OR REPLACE INTO remarks (segment, key, value) VALUES (?, ?, ?)", row)
    elif value is not None:
        connection.execute(_DROP_REMARK, (segment, key))
    return found[0] if found else None


def notes(connection: Connection, segment: str) -> dict[str, str]:
    """By key."""
    return dict(connection.execute(_ALL_REMARKS, (segment,)).fetchall())


def _names(connection: Connection) -> dict[int, str]:
    return dict(connection.execute("SELECT id, name FROM segments").fetchall())


def _opened(connection: Connection, segment: str) -> int:
    """The segment's id; a new one is opened."""
    found = connection.execute("SELECT id FROM segments WHERE name = ?", (segment,)).fetchone()
    if found is None:
        inserting = "INSERT INTO segments (name) VALUES (?) RETURNING id"
        found = connection.execute(inserting, (segment,)).fetchone()
    number: int = found[0]
    return number
