"""Requests as JSON with a version number, as they wait in a queue and travel between machines.

There is no pickle, and nothing is found by its name here: reading a request only ever makes plain values.
`scheduler/request_writer.py` looks the class and the callbacks up in lists of its own.
"""

from __future__ import annotations

from enum import Enum
from math import isfinite
from types import NoneType
from typing import Any, Final, Literal, NoReturn

import msgspec

from tileharvest.tiles.questions import TileQuestion

VERSION: Final = 2
"""Of the format. To be raised when a field is added, dropped or changes its meaning."""

Kind = Literal["Request", "FormRequest", "JsonRequest"]

Headers = tuple[tuple[str, tuple[str, ...]], ...]
"""Names, each with its values, in order; the characters U+0000 to U+00FF stand for bytes (ISO 8859-1)."""

_LEAVES: Final = frozenset({str, bool, int, NoneType})
"""Types of values that are the same in JSON. Half of a surrogate pair is refused when a text is written."""

_DEEPEST: Final = 64
"""Levels of lists and dicts; more are an accident, or one that holds itself."""


class CodecError(ValueError):
    """The request has a value that JSON does not give back as it was; or the bytes are no request that this
    program may make, and nothing of them was run."""


class QueuedRequest(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    # These stand in nearly every request, of which there can be millions.
    rename={"version": "v", "callback": "cb", "errback": "eb", "question": "asks"},
):
    """A request as it waits in a queue: the fields of `scrapy.Request` as plain values, and the question.

    In meta, cb_kwargs and cookies: None, truth values, finite numbers, texts, lists, and dicts with texts as
    keys. Tuples are taken too and come back as lists, texts of a class of their own as plain texts.
    """

    version: Literal[2]
    """Always written: a reader must never have to guess it."""
    kind: Kind = "Request"
    url: str
    method: str = "GET"
    headers: Headers = ()
    body: bytes = b""
    """Written in base64."""
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
    question: TileQuestion | None = None


# `str.__str__` gives the plain text of a text of a class of its own, and raises TypeError for all else.
_ENCODER: Final = msgspec.json.Encoder(enc_hook=str.__str__)
_DECODER: Final = msgspec.json.Decoder(QueuedRequest)


def encode(queued: QueuedRequest) -> bytes:
    """Returns one line of JSON, without what has its default value.

    Raises CodecError for what JSON would not give back as it was. Of meta, cookies and cb_kwargs
    it names the place.
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


def encode_own(queued: QueuedRequest) -> bytes:
    """Returns the same of a request that holds nothing but what this program has made itself: that is not
    checked. Raises ValueError for a text that has no bytes."""
    return _ENCODER.encode(queued)


def decode(body: bytes) -> QueuedRequest:
    """Returns the request that `encode` wrote. Raises CodecError, and nothing else, for all other
    bytes. The names and headers in it are checked by whoever makes a request of it."""
    try:
        return _DECODER.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise CodecError(
            f"a queued request cannot be read: {error}. It was not made, and nothing of it was run; this"
            f" program reads version {VERSION}; run again with -a fresh=1, which asks for everything"
        ) from None


def _check(value: Any, place: tuple[str | int, ...]) -> None:
    """Refuse what JSON does not give back as it was. The place is the field, then keys and indexes."""
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
        # What is left is a text of a class of its own, such as lxml's, which parsers put into links.
        _refuse(place, f"{'an' if kind.__name__[0] in 'AEIOUaeiou' else 'a'} {kind.__name__}")


def _refuse(place: tuple[str | int, ...], what: str) -> NoReturn:
    field, *keys = place
    where = f"{field}{''.join(f'[{key!r}]' for key in keys)}"
    raise CodecError(
        f"{where}: {what}; JSON knows texts, finite numbers, True, False and None, in lists, or in dicts with"
        " texts as keys"
    )
