"""The language of a queue in Redis: keys, scripts, arguments and answers."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import msgspec
from redis.exceptions import NoScriptError

from tileharvest.queue.port import Counts, Exchange, Failure, Lane, Lease, Worker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileharvest.queue.port import Changes
    from tileharvest.queue.redis.connection import Client

    Value = TypeVar("Value")

FORMAT: Final = "3"
"""The format of what is in Redis. It is raised when older scripts could not go on with it."""

KEPT: Final = 35 * 24 * 3600
"""Seconds after which what is known of a segment is dropped, if nothing was pushed meanwhile. A segment must
be shorter. What waits is never dropped by time."""

_FIRST: Final = ("common", "segments", "seen")
"""What stands before all scripts."""

_LARGEST: Final = 2**53
"""Priorities beyond count as this: scores in Redis are floating-point numbers."""

_NOTE: Final = "note:"
"""Stands before the key of a remark, among all else that is known of a segment."""

_ENCODER: Final = msgspec.msgpack.Encoder()


def key(map_name: str, name: str = "") -> bytes:
    """Returns the name of one of a map's keys, or what all of them begin with.

    They have the map as hash tag, which keeps them on one node. Raises ValueError for a map that cannot be.
    """
    if not map_name or set("{}") & set(map_name):
        raise ValueError(f"'{map_name}' cannot name keys of Redis: it is empty, or has braces")
    return f"tileharvest:{{{map_name}}}:{name}".encode(errors="backslashreplace")


async def run(client: Client, name: str, prefix: bytes, argument: Mapping[str, Any]) -> bytes:
    """Returns the answer of one call of a script of the folder `scripts`, in MessagePack, about the keys that
    begin so. Sends the script to a server that has it not."""
    script, encoded = script_of(*_FIRST, name), _ENCODER.encode(argument)
    digest = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
    try:
        answer: bytes = await client.evalsha(digest, 1, prefix, encoded)
    except NoScriptError:
        answer = await client.eval(script, 1, prefix, encoded)
    return answer


async def swap(
    client: Client, key: bytes, before: bytes, after: bytes, seconds: int, told: str = "", wrong: float = 0.0
) -> tuple[bool, bytes, float]:
    """Keeps a value for so many seconds in place of the one that was read before, as `scripts/swap.lua` says.

    Returns whether it is kept, what there is now, and Redis' time.
    """
    is_kept, found, *time = await client.eval(script_of("swap"), 1, key, before, after, seconds, told, wrong)
    return bool(is_kept), found, int(time[0]) + int(time[1]) / 1e6


@cache
def script_of(*parts: str) -> str:
    """Returns these files of the folder `scripts`, one after the other."""
    folder = resources.files(__package__).joinpath("scripts")
    return "".join(folder.joinpath(f"{part}.lua").read_text(encoding="utf-8") for part in parts)


def string(content: bytes | str) -> msgspec.Raw:
    """Returns bytes or a text for a script, as MessagePack's longest kind of text: its reader there knows no
    bytes. Half surrogate pairs become escapes."""
    if isinstance(content, str):
        content = content.encode(errors="backslashreplace")
    return msgspec.Raw(b"\xdb" + len(content).to_bytes(4, "big") + content)


def content_of(answered: msgspec.Raw) -> bytes:
    """Returns the bytes of what a script answers as a text, which may be no UTF-8."""
    raw = bytes(answered)
    return raw[{0xD9: 2, 0xDA: 3, 0xDB: 5}.get(raw[0], 1) :]


def text_of(content: bytes | msgspec.Raw) -> str:
    """Returns as a text what came from Redis, where anything may stand."""
    if isinstance(content, msgspec.Raw):
        content = content_of(content)
    return content.decode(errors="backslashreplace")


def decoded(answer: bytes, kind: type[Value]) -> Value:
    """Returns an answer of this kind. It is for what is not asked for every request."""
    return msgspec.msgpack.decode(answer, type=kind)


_LEASED: TypeAlias = list[tuple[int, int, int, msgspec.Raw, msgspec.Raw]]
"""Id, attempt, priority, segment, body."""

_EXCHANGED: Final = msgspec.msgpack.Decoder(tuple[int, int, float | bool, int, bool, int, _LEASED])
"""The answer of an exchange, in the words of `exchange.lua`."""


def exchanged(answer: bytes) -> tuple[Exchange, int]:
    """Returns what an exchange has answered, and how many entries are no requests."""
    duplicates, refused, next_due, elsewhere, has_more, dead, leased = _EXCHANGED.decode(answer)
    leases = [
        Lease(number, attempt, content_of(body), text_of(segment), priority)
        for number, attempt, priority, segment, body in leased
    ]
    due = next_due or None
    return Exchange(leases, duplicates, 0, refused, due, elsewhere, has_more), dead


def told(changes: Changes) -> dict[str, Any]:
    """Returns the part of an exchange's argument that tells the changes."""
    return {
        "pushed": [
            (
                string(entry.segment),
                max(-_LARGEST, min(entry.priority, _LARGEST)),
                entry.attempt,
                False if entry.due is None else entry.due,
                entry.fingerprint is not None and string(entry.fingerprint),
                string(entry.body),
            )
            for entry in changes.pushed
        ],
        "taken_up": changes.taken_up,
        "finished": [(lease.id, lease.attempt, string(lease.segment)) for lease in changes.finished],
        "failed": [(lease.id, lease.attempt, string(reason)) for lease, reason in changes.failed],
        "returned": [(lease.id, lease.attempt) for lease in changes.returned],
        "cut_off": [(lease.id, lease.attempt) for lease in changes.cut_off],
        "is_seeded": changes.is_seeded,
    }


def counts(answer: bytes) -> Counts:
    (plus, normal, minus, delayed, leased, failed, done, seen, dead), oldest = decoded(
        answer, tuple[tuple[int, int, int, int, int, int, int, int, int], float]
    )
    pending = {Lane.PLUS: plus, Lane.NORMAL: normal, Lane.MINUS: minus}
    return Counts(pending, delayed, leased, failed, done, seen, dead, None if oldest < 0 else oldest)


def failures(found: Mapping[bytes, bytes]) -> list[Failure]:
    """Returns the failure list, oldest first. What is no failure is left out."""
    listed = []
    for number, record in found.items():
        with suppress(ValueError, msgspec.DecodeError):
            priority, attempts, segment, body, reason, failed = _FAILURE.decode(record)
            request = content_of(body), text_of(segment), priority, attempts
            listed.append(Failure(int(number), *request, text_of(reason), failed))
    return sorted(listed, key=lambda failure: failure.id)


_FAILURE: Final = msgspec.msgpack.Decoder(tuple[int, int, msgspec.Raw, msgspec.Raw, msgspec.Raw, float])


def told_worker(worker: Worker) -> msgspec.Raw:
    """Returns for a script what a worker tells of itself."""
    return string(_ENCODER.encode(worker))


def worker(told: bytes | None, heartbeat: float, held: int) -> Worker | None:
    """Returns a worker that was last heard of then and holds so many leases. Returns None for one that has
    just signed off, or is none."""
    try:
        known = decoded(told or b"", Worker)
    except msgspec.DecodeError:
        return None
    return msgspec.structs.replace(known, heartbeat=heartbeat, leased=held)


def remarks(found: Mapping[bytes, bytes]) -> dict[str, str]:
    """Returns the remarks among all that is known of a segment, by key."""
    fields = {text_of(field): text_of(value) for field, value in found.items()}
    return {field.removeprefix(_NOTE): value for field, value in fields.items() if field.startswith(_NOTE)}
