"""Requests as JSON with a version number, as they wait in a queue and travel between machines.

There is no pickle. Reading a request makes plain values only, and runs nothing.
`scheduler/request_writer.py` looks up its class and its callbacks in lists of what is allowed.
"""

from __future__ import annotations

from enum import Enum
from math import isfinite
from types import NoneType
from typing import Any, Final, Literal
from zlib import crc32

import msgspec

VERSION: Final = 4
"""The version of the format. It is raised when a field is added, dropped, or changes its meaning."""

NOT_BEFORE: Final = "not_before"
"""Key of meta, an order that any spider may give: seconds since 1970 before which the request is not
offered."""

_PLAIN: Final = frozenset({str, int, bool, NoneType})
"""The types whose values JSON always gives back as they were."""

_DIGITS: Final = 8
"""The length of the checksum, CRC-32 in hexadecimal, that stands before the JSON. A flipped bit on the disk
would else become another address, and nobody would notice."""


class CodecError(ValueError):
    """A request has a value that JSON does not give back as it was, or bytes are not a request that this
    program may make. In the second case nothing of them was run."""


class QueuedRequest(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    # These stand in nearly every request, of which there can be millions.
    rename={"version": "v", "callback": "cb", "errback": "eb"},
):
    """A request as it waits in a queue: the fields of `scrapy.Request` as plain values.

    The fields meta, cb_kwargs and cookies may hold None, truth values, finite numbers, texts, lists, and
    dicts with texts as keys. Tuples come back as lists, and texts of a subclass of `str` as plain texts.
    """

    version: Literal[4]
    """The version is always written, so that no reader has to guess it."""
    kind: str = "Request"
    """The name of the request's class, which is one of those that its spider allows."""
    url: str
    method: str = "GET"
    headers: list[tuple[bytes, list[bytes]]] = msgspec.field(default_factory=list)
    """The names of headers, each with its values. These and the body are written in base64."""
    body: bytes = b""
    cookies: dict[str, Any] | list[dict[str, Any]] = msgspec.field(default_factory=dict)
    meta: dict[str, Any] = msgspec.field(default_factory=dict)
    cb_kwargs: dict[str, Any] = msgspec.field(default_factory=dict)
    callback: str | None = None
    """The name of a method of the spider."""
    errback: str | None = None
    priority: int = 0
    dont_filter: bool = False
    encoding: str = "utf-8"
    flags: list[str] = msgspec.field(default_factory=list)


# `str.__str__` gives the plain text of a text of a class of its own, and raises TypeError for all else.
_ENCODER: Final = msgspec.json.Encoder(enc_hook=str.__str__)
_DECODER: Final = msgspec.json.Decoder(QueuedRequest)


def encode(queued: QueuedRequest) -> bytes:
    """Returns a checksum and one line of JSON, without the fields that have their default values.

    Raises CodecError for a value that JSON would not give back as it was. The error names the field.
    """
    try:
        for field in ("meta", "cookies", "cb_kwargs"):
            if value := getattr(queued, field):
                _check(value, field)
        text = _ENCODER.encode(queued)
        # msgspec checks the types of what it reads, not of what it writes.
        _DECODER.decode(text)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise CodecError(f"{error}") from None
    return b"%08x" % crc32(text) + text


def decode(body: bytes) -> QueuedRequest:
    """Returns the request that `encode` wrote. Raises CodecError, and nothing else, for all other bytes.

    Whoever makes a Scrapy request of it checks its names and headers.
    """
    text = body[_DIGITS:]
    try:
        if body[:_DIGITS] != b"%08x" % crc32(text):
            raise ValueError("its checksum does not match, so it was damaged")
        return _DECODER.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise CodecError(
            f"a queued request cannot be read: {error}. It was not made, and nothing of it was run; this"
            f" program reads version {VERSION}; run again with --fresh, or a spider with -a fresh=1, which"
            " asks for everything"
        ) from None


def _check(value: Any, field: str) -> None:
    """Raises CodecError for a value that JSON does not give back as it was, and RecursionError for one that
    holds itself."""
    kind = type(value)
    if kind in (dict, list, tuple):
        # A dict's keys are texts of the plain class.
        is_kept = kind is not dict or {*map(type, value)} <= {str}
        for inner in value.values() if kind is dict else value:
            if type(inner) not in _PLAIN:
                _check(inner, field)
    elif kind is float:
        is_kept = isfinite(value)
    else:
        # A subclass of `str` passes, such as lxml's texts, which parsers put into links.
        is_kept = isinstance(value, str) and not isinstance(value, Enum)
    if not is_kept:
        raise CodecError(
            f"{field} has {value!r:.60}; JSON knows texts, finite numbers, True, False and None, in lists, or"
            " in dicts with texts as keys"
        )
