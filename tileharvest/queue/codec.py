"""Requests as JSON with a version number, as they wait in a queue and travel between machines.

There is no pickle. Reading a request makes plain values only, and runs nothing.
`scheduler/request_writer.py` looks up its class and its callbacks in lists of what is allowed.
"""

from __future__ import annotations

from enum import Enum
from math import isfinite
from types import NoneType
from typing import Any, Final, Literal, NoReturn

import msgspec

VERSION: Final = 3
"""The version of the format. It is raised when a field is added, dropped, or changes its meaning."""

NOT_BEFORE: Final = "not_before"
"""Key of meta, an order that any spider may give: seconds since 1970 before which the request is not
offered."""

Headers = tuple[tuple[str, tuple[str, ...]], ...]
"""The names of headers, each with its values, in order. The characters U+0000 to U+00FF stand for bytes (ISO
8859-1)."""

_LEAVES: Final = frozenset({str, bool, int, NoneType})
"""The types of values that JSON gives back as they were. Half of a surrogate pair is refused when a text is
written."""

_DEEPEST: Final = 64
"""The most levels of lists and dicts. A value with more is an accident, or holds itself."""


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
    dicts with texts as keys. Tuples are accepted, too, and come back as lists. Texts of a subclass of `str`
    come back as plain texts.
    """

    version: Literal[3]
    """The version is always written, so that no reader has to guess it."""
    kind: str = "Request"
    """The name of the request's class, which is one of those that its spider allows."""
    url: str
    method: str = "GET"
    headers: Headers = ()
    body: bytes = b""
    """The body is written in base64."""
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
    """Returns one line of JSON, without the fields that have their default values.

    Raises CodecError for a value that JSON would not give back as it was. The error names the place of the
    value in meta, cookies or cb_kwargs.
    """
    for field in ("meta", "cookies", "cb_kwargs"):
        if value := getattr(queued, field):
            _check(value, (field,))
    try:
        body = _ENCODER.encode(queued)
        # msgspec checks the types of what it reads, not of what it writes.
        _DECODER.decode(body)
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise CodecError(f"{error}") from None
    return body


def decode(body: bytes) -> QueuedRequest:
    """Returns the request that `encode` wrote. Raises CodecError, and nothing else, for all other bytes.

    Whoever makes a Scrapy request of it checks its names and headers.
    """
    try:
        return _DECODER.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise CodecError(
            f"a queued request cannot be read: {error}. It was not made, and nothing of it was run; this"
            f" program reads version {VERSION}; run again with --fresh, or a spider with -a fresh=1, which"
            " asks for everything"
        ) from None


def _check(value: Any, place: tuple[str | int, ...]) -> None:
    """Raises CodecError for a value that JSON does not give back as it was. `place` has the name of the
    field, then keys and indexes."""
    kind = type(value)
    if len(place) > _DEEPEST:
        _refuse(place[:4], f"what is nested in more than {_DEEPEST} levels, or in itself")
    if kind in (dict, list, tuple):
        for key, inner in value.items() if kind is dict else enumerate(value):
            if kind is dict and type(key) is not str:
                _refuse(place, f"the key {key!r}")
            if type(inner) not in _LEAVES:
                _check(inner, (*place, key))
    elif kind is float:
        if not isfinite(value):
            _refuse(place, f"the number {value}")
    elif not isinstance(value, str) or isinstance(value, Enum):
        # A subclass of `str` passes, such as lxml's texts, which parsers put into links.
        _refuse(place, f"{'an' if kind.__name__[0] in 'AEIOUaeiou' else 'a'} {kind.__name__}")


def _refuse(place: tuple[str | int, ...], what: str) -> NoReturn:
    field, *keys = place
    where = f"{field}{''.join(f'[{key!r}]' for key in keys)}"
    raise CodecError(
        f"{where}: {what}; JSON knows texts, finite numbers, True, False and None, in lists, or in dicts with"
        " texts as keys"
    )
