"""The language of a queue in Redis: keys, scripts, arguments and answers."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from redis.exceptions import NoScriptError

from tileharvest.queue.lanes import Lane
from tileharvest.queue.port import Counts, Failure, Lease
from tileharvest.queue.shared_queue import Worker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tileharvest.queue.port import Changes
    from tileharvest.queue.redis.connection import Client
    from tileharvest.queue.redis.filter import FilterShape

    Value = TypeVar("Value")

FORMAT: Final = "2"
"""The format of what is in Redis. It is raised when older scripts could not go on with it."""

_NAMES: Final = (
    *("plus", "normal", "minus", "delayed"),
    *("requests", "attempts", "holders", "leases", "held"),
    "failures",
    *("segments", "filters", "accepted", "done", "remarks"),
    *("numbers", "dead", "workers", "harvests"),
)
"""In the order in which the scripts expect the keys."""

WORKER_FACTS: Final = (
    *("host", "machine", "pid", "segment", "started"),
    *("heartbeat", "finished", "rate", "share"),
)
"""The fields of a worker's key that `worker` reads."""

_FIRST: Final = ("common", "requests", "segments", "filter", "harvests")
"""What stands before all scripts."""

_LARGEST: Final = 2**53
"""Priorities beyond count as this: scores in Redis are floating-point numbers."""


class Keys:
    """The names of a map's keys. All of them have the map as hash tag, which keeps them on one node."""

    def __init__(self, map_name: str) -> None:
        if not map_name or set("{}") & set(map_name):
            raise ValueError(f"'{map_name}' cannot name keys of Redis: it is empty, or has braces")
        self._prefix = f"tileharvest:{{{map_name}}}:"
        self.fixed = tuple(map(self.named, _NAMES))
        self.segments, self.held = self.named("segments"), self.named("held")
        self.workers = self.named("workers")
        self.remarks = self.named("remarks")
        self.trial = self.named("trial")
        self.channel = f"{self._prefix}wake"

    def named(self, name: str) -> bytes:
        return f"{self._prefix}{name}".encode()

    def client(self, client: str) -> bytes:
        """Holds what is known of a worker, and its last call."""
        return self.named(f"client:{client}")

    def filter(self, segment: str) -> bytes:
        """Holds the bitmap of what was seen in the segment."""
        return f"{self._prefix}seen:{segment}".encode(errors="backslashreplace")

    def doubtful(self, segment: str) -> bytes:
        """Holds what was dropped as seen in the segment: bodies by fingerprint."""
        return f"{self._prefix}doubtful:{segment}".encode(errors="backslashreplace")

    def of_segment(self, segment: str) -> tuple[bytes, bytes]:
        """Returns both, in the order in which the scripts expect them."""
        return self.filter(segment), self.doubtful(segment)

    @property
    def pattern(self) -> bytes:
        """Matches all of the map's keys, in SCAN."""
        return self.named("*")


async def run(client: Client, name: str, keys: Sequence[bytes], argument: Mapping[str, Any]) -> bytes:
    """Returns the answer of one call of a script of the folder `scripts`, in MessagePack. Sends the script to
    a server that has it not."""
    script, encoded = script_of(*_FIRST, name), _ENCODER.encode(argument)
    digest = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
    try:
        answer: bytes = await client.evalsha(digest, len(keys), *keys, encoded)
    except NoScriptError:
        answer = await client.eval(script, len(keys), *keys, encoded)
    return answer


@cache
def script_of(*parts: str) -> str:
    """Returns these files of the folder `scripts`, one after the other."""
    folder = resources.files(__package__).joinpath("scripts")
    return "".join(folder.joinpath(f"{part}.lua").read_text(encoding="utf-8") for part in parts)


class Filters(msgspec.Struct, array_like=True, tag="filters"):
    """The filters of some segments are others than was believed; nothing else was done."""

    found: list[tuple[int, bytes, int]]
    """Number of the segment in the call, from 1 on; text of the filter; how many requests it had seen when
    it grew just now, else 0."""


class Done(msgspec.Struct, array_like=True, tag="done"):
    """The answer of an exchange."""

    duplicates: int
    refused: int
    next_due: float | None
    leased_elsewhere: int
    until: float
    buried: int
    has_more: bool
    """Whether something waits that was not leased."""
    leases: list[tuple[int, int, int, bytes, bytes]]
    """Id, attempt, priority, segment, body."""


_ENCODER: Final = msgspec.msgpack.Encoder()
_EXCHANGED: Final[msgspec.msgpack.Decoder[Filters | Done]] = msgspec.msgpack.Decoder(Filters | Done)


def told(
    changes: Changes, shapes: Mapping[str, FilterShape], *, keeps_doubtful: bool = False
) -> dict[str, Any]:
    """Returns the part of an exchange's argument that tells the changes. `shapes` has all their segments."""
    numbers = {name: number for number, name in enumerate(shapes, 1)}
    return {
        "segments": [{"name": text(name), "filter": shape.text} for name, shape in shapes.items()],
        "pushed": [
            (
                numbers[entry.segment],
                _limited(entry.priority),
                entry.attempt,
                False if entry.due is None else entry.due,
                entry.fingerprint is not None and string(shapes[entry.segment].places(entry.fingerprint)),
                string(entry.body),
                keeps_doubtful and entry.fingerprint is not None and string(entry.fingerprint),
            )
            for entry in changes.pushed
        ],
        "taken_up": changes.taken_up,
        "finished": [(lease.id, lease.attempt, numbers[lease.segment]) for lease in changes.finished],
        "failed": [(lease.id, lease.attempt, text(reason)) for lease, reason in changes.failed],
        "returned": [(lease.id, lease.attempt) for lease in changes.returned],
        "is_seeded": changes.is_seeded,
        "share": changes.share is not None and changes.share,
    }


def text(value: str) -> msgspec.Raw:
    """Returns a text for a script, which gets it as bytes. Half surrogate pairs become escapes."""
    return string(value.encode(errors="backslashreplace"))


def string(content: bytes) -> msgspec.Raw:
    """Returns bytes for a script, as MessagePack's longest kind of text: its reader there knows no bytes."""
    return msgspec.Raw(b"\xdb" + len(content).to_bytes(4, "big") + content)


def text_of(content: bytes) -> str:
    """Returns as a text what came from Redis, where anything may stand."""
    return content.decode(errors="backslashreplace")


def exchanged(answer: bytes) -> Filters | Done:
    return _EXCHANGED.decode(answer)


def decoded(answer: bytes, kind: type[Value]) -> Value:
    """Returns an answer of this kind. It is for what is not asked for every request."""
    return msgspec.msgpack.decode(answer, type=kind)


def leases_of(done: Done) -> list[Lease]:
    return [
        Lease(number, attempt, body, text_of(segment), priority, done.until)
        for number, attempt, priority, segment, body in done.leases
    ]


def failures(answer: bytes) -> list[Failure]:
    return [
        Failure(number, body, text_of(segment), priority, attempts, text_of(reason), failed)
        for priority, attempts, failed, segment, body, reason, number in decoded(
            answer, list[tuple[int, int, float, bytes, bytes, bytes, int]]
        )
    ]


def counts(answer: bytes) -> Counts:
    (plus, normal, minus, delayed, leased, failed, done, seen, dead), oldest = decoded(
        answer, tuple[tuple[int, int, int, int, int, int, int, int, int], float | None]
    )
    pending = {Lane.PLUS: plus, Lane.NORMAL: normal, Lane.MINUS: minus}
    return Counts(pending, delayed, leased, failed, done, seen, dead, oldest)


def worker(facts: list[Any], held: bytes) -> Worker | None:
    """Returns a worker, of which these WORKER_FACTS are known and so many leases. Returns None for one that
    has just signed off, or is none."""
    host, machine, pid, segment, started, heartbeat, finished, rate, share = facts
    try:
        return Worker(
            host=text_of(host),
            machine=text_of(machine),
            pid=int(pid),
            segment=text_of(segment),
            started=float(started),
            heartbeat=float(heartbeat),
            leased=int(held),
            share=int(share) if share else None,
            finished=int(finished),
            rate=float(rate or 0.0),
        )
    except (AttributeError, TypeError, ValueError):
        return None


def remarks(segment: str, found: Mapping[bytes, bytes]) -> dict[str, str]:
    """Returns the remarks of the segment, by key, out of those of all segments. `note.lua` writes each field
    as the length of the segment's name, a colon, the name, and the key."""
    name = segment.encode(errors="backslashreplace")
    start = b"%d:%b" % (len(name), name)
    return {
        text_of(field.removeprefix(start)): text_of(value)
        for field, value in found.items()
        if field.startswith(start)
    }


def _limited(priority: int) -> int:
    return max(-_LARGEST, min(priority, _LARGEST))
