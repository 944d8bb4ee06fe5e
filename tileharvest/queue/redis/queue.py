"""The queue of one crawl in Redis, for workers on any number of machines."""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
from collections import Counter
from contextlib import suppress
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from redis.exceptions import RedisError

from tileharvest.errors import QueueError
from tileharvest.queue.port import (
    LAST,
    PUSHED,
    SILENT,
    WORKER_ENDED,
    Counts,
    Entry,
    Exchanged,
    Failure,
    Lease,
    Worker,
    emptied,
    of_another_version,
)
from tileharvest.queue.redis.link import connect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tileharvest.queue.port import End
    from tileharvest.queue.redis.link import Client, RedisLink

FORMAT: Final = "7"
"""The version of what is in Redis. It is raised when older scripts could not go on with the content."""

_BEATS: Final = 6
"""How often a worker says within `silent` seconds that it is alive."""

_AT_ONCE: Final = 1000
"""The most requests that one call pushes, so that no call keeps Redis from others for long."""

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_HOST: Final = socket.gethostname()
_MACHINE: Final = _HOST, _BOOT.read_text(encoding="ascii").strip() if _BOOT.exists() else _HOST
"""The names of this host and of its machine: the id that Linux draws at each start, which all containers of a
machine have in common."""


class RedisQueue:
    """A `RequestQueue` that any number of workers share, beside any number of programs. Each worker may come,
    go, freeze or be killed at any time.

    Each call is one script, which Redis runs as one step, or several of them. A call whose answer did not
    arrive is made again: leases that were handed out are handed out once more, a lease ends once, and what
    was pushed without a fingerprint may wait twice. Redis' clock counts. Redis' settings decide how durable
    the queue is: with `appendonly yes` it outlives a kill of the server, and with `appendfsync always` a
    power cut.

    A worker that was not heard of for `silent` seconds is gone, and its leases with it. It tells from a
    thread that it is alive, so that a callback may block for as long as it likes.
    """

    def __init__(
        self,
        link: RedisLink,
        name: str,
        *,
        max_attempts: int = 5,
        silent: float = SILENT,
        server_clock: bool = True,
    ) -> None:
        """Touches nothing yet. `link` is not open.

        With `server_clock=False`, for tests, the times that callers give count as Redis' time, and a worker
        does not say that it is alive.
        """
        self._link = link
        self._queue = name
        self._prefix = prefix_of(name)
        self._silent = silent
        self._max_attempts = max_attempts
        self._has_server_clock = server_clock
        self._born = b""
        self._name = ""
        """The name of this worker. Empty for a command."""
        self._own = Worker(*_MACHINE, os.getpid(), "", 0.0)
        self._is_over = threading.Event()

    async def open(self, segment: str, now: float) -> None:
        await self.open_beside()
        self._name = secrets.token_hex(8)
        if self._has_server_clock:
            ((seconds, fraction),) = await self._pipe(("time",))
            now = seconds + fraction / 1e6
        self._own = Worker(*_MACHINE, os.getpid(), segment, now)
        # The leases of others are left alone here: the server may have been away, and they with it.
        await self._pipe(
            ("zadd", self._key("workers"), {self._name: now}),
            ("hset", self._key("facts"), self._name, msgspec.json.encode(self._own)),
        )
        if self._has_server_clock:
            self._is_over = threading.Event()
            threading.Thread(target=self._keep_alive, name="leases", daemon=True).start()

    async def open_beside(self) -> None:
        await self._link.open()
        self._born, key = b"", self._key("queue")
        *_, (found, self._born) = await self._pipe(
            ("hsetnx", key, "format", FORMAT),
            ("hsetnx", key, "born", secrets.token_hex(8)),
            ("hmget", key, "format", "born"),
        )
        if found != FORMAT.encode():
            raise of_another_version(self._link.queue, found.decode(errors="replace"), FORMAT)

    async def exchange(
        self, pushed: Sequence[Entry], ended: Sequence[End], number: int, held: Sequence[Lease], now: float
    ) -> Exchanged:
        duplicates: list[int] = []
        for first in range(0, len(pushed), _AT_ONCE):
            told = [part for entry in pushed[first : first + _AT_ONCE] for part in _told(entry)]
            duplicates += [first + place for place in await self._run("push", now, *told)]
        if ended:
            told = [part for one in ended for part in (f"{one.id:016d}", one.attempt, one.how, one.reason)]
            await self._run("end", now, *told)
            self._own.finished += sum(one.how == "finish" for one in ended)
        if not self._name:
            return Exchanged(duplicates=duplicates)
        under_way = Counter(lease.slot for lease in held)
        asked = {"number": number, "held": [lease.id for lease in held], "under_way": under_way}
        has_more, next_due, elsewhere, rows = await self._run("lease", now, json.dumps(asked))
        leases = [
            Lease(int(one), int(attempt), body, int(priority), slot.decode())
            for one, attempt, body, priority, slot in rows
        ]
        self._own.leased = len(held) + len(leases)
        return Exchanged(leases, duplicates, bool(has_more), float(next_due) if next_due else None, elsewhere)

    async def counts(self, segment: str | None) -> Counts:
        slots, workers, segments = await self._pipe(
            ("smembers", self._key("slots")),
            ("zrange", self._key("workers"), 0, -1),
            ("zrevrange", self._key("segments"), 0, 1),
        )
        if segment is None:
            segment = next((one.decode() for one in segments if one.decode() != PUSHED), PUSHED)
        # Scores are negative priorities.
        lanes = [("-inf", "(0"), (0, 0), ("(0", "+inf")]
        waiting = [("zcount", self._key("waiting:", slot), *lane) for lane in lanes for slot in slots]
        held = [("scard", self._key("leases:", one)) for one in workers]
        rest = [
            ("zcard", self._key("delayed")),
            ("zcard", self._key("failed")),
            ("hget", self._key("done"), segment),
            ("scard", self._key("seen:", segment)),
        ]
        found = await self._pipe(*waiting, *held, *rest)
        delayed, failed, done, seen = found[len(waiting) + len(held) :]
        plus, normal, minus = (sum(found[lane * len(slots) : (lane + 1) * len(slots)]) for lane in range(3))
        leased = sum(found[len(waiting) : len(waiting) + len(held)])
        return Counts(plus, normal, minus, delayed, leased, failed, int(done or 0), seen)

    async def failures(self) -> Sequence[Failure]:
        (listed,) = await self._pipe(("zrange", self._key("failed"), 0, -1, False, True))
        times = dict(listed)
        rows = await self._entries(list(times), "body", "segment", "priority", "attempt", "reason")
        return [
            Failure(int(one), body, segment.decode(), int(priority), int(attempt), why.decode(), times[one])
            for one, (body, segment, priority, attempt, why) in rows.items()
        ]

    async def take_up(self, ids: Sequence[int], segment: str | None) -> int:
        known = [f"{one:016d}".encode() for one in ids]
        rows = await self._entries(known, "body", "fingerprint", "priority", "slot", "segment")
        for one, (body, fingerprint, priority, slot, before) in rows.items():
            if segment is not None:
                seen_by = None if segment in (before.decode(), PUSHED) else fingerprint or None
                again = Entry(body, segment, seen_by, max(1, int(priority)), slot=slot.decode())
                await self._run("push", 0.0, *_told(again))
            await self._pipe(("zrem", self._key("failed"), one), ("delete", self._key("entry:", one)))
        return len(rows)

    async def segments(self) -> Sequence[str]:
        (names,) = await self._pipe(("zrange", self._key("segments"), 0, -1))
        return [name.decode() for name in names]

    async def forget(self, segment: str) -> None:
        """Drops what the segment has. This is not one step, and nobody else should work on the segment."""

        async def found(client: Client) -> list[bytes]:
            keys = client.scan_iter(match=self._key("entry:*"), count=1000)
            return [key.removeprefix(self._key("entry:")) async for key in keys]

        (failed,) = await self._pipe(("zrange", self._key("failed"), 0, -1))
        rows = await self._entries(await self._link.attempt(found), "segment", "attempt")
        mine = [
            (one, row[1]) for one, row in rows.items() if row[0] == segment.encode() and one not in failed
        ]
        for first in range(0, len(mine), _AT_ONCE):
            ends = [part for end in mine[first : first + _AT_ONCE] for part in (*end, "finish", "")]
            await self._run("end", 0.0, *ends)
        await self._pipe(
            ("delete", self._key("seen:", segment)),
            ("hdel", self._key("done"), segment),
            ("zrem", self._key("segments"), segment),
        )

    async def note(self, key: str, value: str) -> None:
        notes = self._key("notes")
        await self._pipe(("hset", notes, key, value) if value else ("hdel", notes, key))

    async def notes(self) -> Mapping[str, str]:
        (found,) = await self._pipe(("hgetall", self._key("notes")))
        return _texts(found)

    async def workers(self) -> Sequence[Worker]:
        found = await self._link.attempt(lambda client: workers_of(client, [self._queue], self._silent))
        return found[self._queue]

    async def discard(self) -> None:
        """Deletes all keys of the queue, whatever they hold. This is not one step. Workers notice it."""

        async def delete(client: Client) -> None:
            async for key in client.scan_iter(match=self._prefix + b"*", count=1000):
                await client.unlink(key)

        await self.close()
        async with self._link:
            await self._link.attempt(delete)

    async def close(self) -> None:
        """Signs off, and closes the link, also when Redis is gone. Leases that were not ended are offered
        again when this worker has been silent for long enough."""
        self._is_over.set()
        name, self._name = self._name, ""
        with suppress(QueueError, RuntimeError):
            if name:
                (held,) = await self._pipe(("scard", self._key("leases:", name)), patience=0.0)
                if not held:
                    workers, facts = self._key("workers"), self._key("facts")
                    await self._pipe(("zrem", workers, name), ("hdel", facts, name), patience=0.0)
        await self._link.close()

    def _key(self, *parts: str | bytes) -> bytes:
        return self._prefix + b"".join(part.encode() if isinstance(part, str) else part for part in parts)

    async def _run(self, script: str, now: float, *told: Any) -> Any:
        """Returns the answer of a script."""

        async def run(client: Client) -> Any:
            call = client.register_script(script_of(script))
            return await call(keys=[self._prefix], args=[*self._head(now), *told])

        return await self._link.attempt(run)

    def _head(self, now: float) -> tuple[Any, ...]:
        return self._born, "" if self._has_server_clock else now, self._name

    async def _pipe(self, *commands: tuple[Any, ...], patience: float | None = None) -> list[Any]:
        """Returns the answers to these commands, which only read, or bear being given twice.

        Raises QueueError if the queue was emptied."""

        async def together(client: Client) -> list[Any]:
            pipe = client.pipeline(transaction=False)
            pipe.hget(self._key("queue"), "born")
            for name, *arguments in commands:
                getattr(pipe, name)(*arguments)
            found: list[Any] = await pipe.execute()
            return found

        born, *answers = await self._link.attempt(together, patience)
        if self._born and born != self._born:
            raise emptied(self._link.queue)
        return answers

    async def _entries(self, ids: Sequence[bytes], *fields: str) -> dict[bytes, list[bytes]]:
        """Returns these fields of the requests that exist among these."""
        found = await self._pipe(*(("hmget", self._key("entry:", one), fields) for one in ids))
        return {one: row for one, row in zip(ids, found, strict=True) if row[0] is not None}

    def _alive(self) -> tuple[Any, ...]:
        """Returns what `reap.lua` is told."""
        reason = WORKER_ENDED.format(attempts=2 * self._max_attempts)
        return msgspec.json.encode(self._own), self._silent, self._max_attempts, LAST, reason

    def _keep_alive(self) -> None:
        """Says in a thread that this worker is alive. A Redis that is away hears it later: whoever waits for
        an answer says so."""
        client, is_over = connect(self._link.settings, is_async=False), self._is_over
        head, script = self._head(0.0), script_of("reap")
        while not is_over.wait(self._silent / _BEATS):
            with suppress(RedisError, OSError):
                client.eval(script, 1, self._prefix, *head, *self._alive())
        with suppress(RedisError, OSError):
            client.close()


def prefix_of(name: str) -> bytes:
    """Returns the prefix of a queue's keys. The braces end the name, whatever it is."""
    return f"tileharvest:{{{name.replace('}', '%7D')}}}:".encode()


async def workers_of(client: Client, names: Sequence[str], silent: float) -> dict[str, Sequence[Worker]]:
    """Returns for each queue the workers that were heard of within `silent` seconds, the oldest first."""
    together = client.pipeline(transaction=False)
    for name in names:
        together.zrange(prefix_of(name) + b"workers", 0, -1, withscores=True)
        together.hgetall(prefix_of(name) + b"facts")
    together.time()
    *answers, (seconds, fraction) = await together.execute()
    now = seconds + fraction / 1e6
    found: dict[str, Sequence[Worker]] = {}
    for name, heard, facts in zip(names, answers[::2], answers[1::2], strict=True):
        living = [(facts[one], at) for one, at in heard if now - at < silent and one in facts]
        told = [
            msgspec.structs.replace(msgspec.json.decode(fact, type=Worker), heartbeat=at, looked_at=now)
            for fact, at in living
        ]
        found[name] = sorted(told, key=lambda one: one.started)
    return found


async def notes_of(client: Client, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Returns the notes of each queue."""
    together = client.pipeline(transaction=False)
    for name in names:
        together.hgetall(prefix_of(name) + b"notes")
    return dict(zip(names, map(_texts, await together.execute()), strict=True))


@cache
def script_of(name: str) -> str:
    """Returns the text of a script."""
    folder = resources.files("tileharvest.queue.redis").joinpath("scripts")
    return "".join(folder.joinpath(f"{part}.lua").read_text(encoding="utf-8") for part in ("common", name))


def _told(entry: Entry) -> tuple[Any, ...]:
    """Returns an entry as `push.lua` takes it."""
    return (
        entry.segment,
        entry.fingerprint or "",
        entry.priority,
        "" if entry.due is None else entry.due,
        entry.slot,
        entry.body,
    )


def _texts(found: Mapping[bytes, bytes]) -> dict[str, str]:
    return {key.decode(errors="replace"): value.decode(errors="replace") for key, value in found.items()}
