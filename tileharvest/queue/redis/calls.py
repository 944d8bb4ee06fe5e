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
"""The version of what is in Redis. It is raised when older scripts could not go on with the content."""

KEPT: Final = 35 * 24 * 3600
"""Seconds after which Redis drops what is known of a segment into which nothing was pushed meanwhile. A
segment must be shorter. Requests that wait are never dropped by time."""

_FIRST: Final = ("common", "segments", "seen")
"""The scripts that stand before every other script."""

_LARGEST: Final = 2**53
"""The largest priority. Larger ones count as this one, because scores in Redis are floating-point numbers."""

_NOTE: Final = "note:"
"""The prefix of a remark's key in the hash of all that is known of a segment."""

_ENCODER: Final = msgspec.msgpack.Encoder()


def key(map_name: str, name: str = "") -> bytes:
    """Returns one of a map's keys, or without a name the prefix of all of them.

    The map is their hash tag, which keeps them on one node of a cluster. Raises ValueError for a map whose
    name cannot be a hash tag.
    """
    if not map_name or set("{}") & set(map_name):
        raise ValueError(f"'{map_name}' cannot name keys of Redis: it is empty, or has braces")
    return f"tileharvest:{{{map_name}}}:{name}".encode(errors="backslashreplace")


async def run(client: Client, name: str, prefix: bytes, argument: Mapping[str, Any]) -> bytes:
    """Runs a script of the folder `scripts` on the keys with this prefix, and returns its answer in
    MessagePack.

    Sends the script if the server does not have it."""
    script, encoded = script_of(*_FIRST, name), _ENCODER.encode(argument)
    digest = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
    try:
        answer: bytes = await client.evalsha(digest, 1, prefix, encoded)
    except NoScriptError:
        answer = await client.eval(script, 1, prefix, encoded)
    return answer


@cache
def script_of(*parts: str) -> str:
    """Returns the text of these files of the folder `scripts`, one after the other."""
    folder = resources.files(__package__).joinpath("scripts")
    return "".join(folder.joinpath(f"{part}.lua").read_text(encoding="utf-8") for part in parts)


def string(content: bytes | str) -> msgspec.Raw:
    """Returns bytes or a text as MessagePack's longest kind of text, because Redis' reader knows no bytes.
    Halves of surrogate pairs become escapes."""
    if isinstance(content, str):
        content = content.encode(errors="backslashreplace")
    return msgspec.Raw(b"\xdb" + len(content).to_bytes(4, "big") + content)


def content_of(answered: msgspec.Raw) -> bytes:
    """Returns the bytes of a text in a script's answer. They may be no UTF-8."""
    raw = bytes(answered)
    return raw[{0xD9: 2, 0xDA: 3, 0xDB: 5}.get(raw[0], 1) :]


def text_of(content: bytes | msgspec.Raw) -> str:
    """Returns a text from Redis. Bytes that are no UTF-8 become escapes."""
    if isinstance(content, msgspec.Raw):
        content = content_of(content)
    return content.decode(errors="backslashreplace")


def decoded(answer: bytes, kind: type[Value]) -> Value:
    """Returns an answer of this type. It makes a decoder for each call, so it is for rare calls."""
    return msgspec.msgpack.decode(answer, type=kind)


_LEASED: TypeAlias = list[tuple[int, int, int, msgspec.Raw, msgspec.Raw]]
"""The leases in an answer: id, attempt, priority, segment and body of each."""

_EXCHANGED: Final = msgspec.msgpack.Decoder(
    tuple[int, int, float | bool, int, bool, int, _LEASED, list[msgspec.Raw]]
)
"""Reads the answer of an exchange, as the head of `exchange.lua` describes it."""


def exchanged(answer: bytes) -> tuple[Exchange, int]:
    """Returns the answer of an exchange, and the number of entries that are no requests."""
    duplicates, refused, next_due, elsewhere, has_more, dead, leased, orders = _EXCHANGED.decode(answer)
    leases = [
        Lease(number, attempt, content_of(body), text_of(segment), priority)
        for number, attempt, priority, segment, body in leased
    ]
    known = list(map(content_of, orders))
    notes = remarks(dict(zip(known[::2], known[1::2], strict=True)))
    due = next_due or None
    return Exchange(leases, duplicates, 0, refused, due, elsewhere, has_more, notes=notes), dead


def told(changes: Changes) -> dict[str, Any]:
    """Returns the changes as arguments of `exchange.lua`."""
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
    """Returns the counts in the answer of `counts.lua`."""
    (plus, normal, minus, delayed, leased, failed, done, seen, dead), oldest = decoded(
        answer, tuple[tuple[int, int, int, int, int, int, int, int, int], float]
    )
    pending = {Lane.PLUS: plus, Lane.NORMAL: normal, Lane.MINUS: minus}
    return Counts(pending, delayed, leased, failed, done, seen, dead, None if oldest < 0 else oldest)


def failures(found: Mapping[bytes, bytes]) -> list[Failure]:
    """Returns the failures in a hash, oldest first. Records that are no failures are left out."""
    listed = []
    for number, record in found.items():
        with suppress(ValueError, msgspec.DecodeError):
            priority, attempts, segment, body, reason, failed = _FAILURE.decode(record)
            request = content_of(body), text_of(segment), priority, attempts
            listed.append(Failure(int(number), *request, text_of(reason), failed))
    return sorted(listed, key=lambda failure: failure.id)


_FAILURE: Final = msgspec.msgpack.Decoder(tuple[int, int, msgspec.Raw, msgspec.Raw, msgspec.Raw, float])


def told_worker(worker: Worker) -> msgspec.Raw:
    """Returns what a worker tells of itself as an argument of a script."""
    return string(_ENCODER.encode(worker))


def worker(told: bytes | None, heartbeat: float, held: int, now: float) -> Worker | None:
    """Returns the worker that has told this, with the time when it was last heard of, the number of its
    leases, and the present time. Returns None for a worker that has just signed off, and for bytes that are
    no worker."""
    try:
        known = decoded(told or b"", Worker)
    except msgspec.DecodeError:
        return None
    return msgspec.structs.replace(known, heartbeat=heartbeat, leased=held, looked_at=now)


def remarks(found: Mapping[bytes, bytes]) -> dict[str, str]:
    """Returns the remarks in the hash of all that is known of a segment, by key."""
    fields = {text_of(field): text_of(value) for field, value in found.items()}
    return {field.removeprefix(_NOTE): value for field, value in fields.items() if field.startswith(_NOTE)}
