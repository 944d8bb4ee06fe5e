"""Requests as JSON with a version number, as they wait in a queue and travel between machines.

There is no pickle, and nothing is found by its name here: reading a request only ever makes plain values.
`scheduler/request_writer.py` looks its class and its callbacks up in lists of its own.
"""

from __future__ import annotations

from enum import Enum
from math import isfinite
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

import msgspec

from tileharvest.tiles.questions import Asked, TileQuestion

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

VERSION: Final = 2
"""Of the format. To be raised when a field is added, dropped or changes its meaning."""

Kind = Literal["Request", "FormRequest", "JsonRequest"]

Headers = tuple[tuple[str, tuple[str, ...]], ...]
"""Names, each with its values, in order; the characters U+0000 to U+00FF stand for bytes (ISO 8859-1)."""

_DEEPEST: Final = 64
"""Levels of lists and dicts; more are an accident, or one that holds itself."""


class UnwritableRequestError(ValueError):
    """The request has a value that JSON does not give back as it was."""


class UnreadableRequestError(ValueError):
    """The bytes are no request that this program may make; nothing of them was run."""


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

    version: Literal[1, 2]
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


def _plain(value: Any) -> str:
    """Returns the plain text of what msgspec does not know. Raises TypeError if it is no text."""
    if not _is_own_text(value):
        raise TypeError(f"a {type(value).__name__} is no JSON")
    return str.__str__(value)


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_plain)
_DECODER: Final = msgspec.json.Decoder(QueuedRequest)


def encode(queued: QueuedRequest) -> bytes:
    """Returns one line of JSON, without what has its default value.

    Raises UnwritableRequestError, naming the place of what JSON would not give back as it was.
    """
    for field in ("meta", "cookies", "cb_kwargs"):
        if value := getattr(queued, field):
            _check(value, (field,))
    try:
        body = _ENCODER.encode(queued)
        # msgspec checks the types of what it reads, not of what it writes.
        _DECODER.decode(body)
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise UnwritableRequestError(f"{error}") from None
    return body


def decode(body: bytes) -> QueuedRequest:
    """Returns the request that `encode` wrote, in this version or the first one.

    Raises UnreadableRequestError, and nothing else, for all other bytes. The names in it are checked by
    whoever looks them up.
    """
    try:
        queued = _DECODER.decode(body)
        if queued.headers:
            headers_as_bytes(queued.headers)
        return queued if queued.version == VERSION else _from_first_version(queued)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise UnreadableRequestError(
            f"a queued request cannot be read: {error}. It was not made, and nothing of it was run; this"
            f" program reads versions 1 and {VERSION}; run again with -a fresh=1, which asks for everything"
        ) from None


def headers_as_text(headers: Mapping[bytes, Iterable[bytes]]) -> Headers:
    """Returns for `QueuedRequest.headers` what `headers` of `Request.to_dict` holds."""
    return tuple(
        (name.decode("latin-1"), tuple(value.decode("latin-1") for value in values))
        for name, values in headers.items()
    )


def headers_as_bytes(headers: Headers) -> dict[bytes, list[bytes]]:
    """Returns what `headers_as_text` was given. Raises ValueError for a text that stands for no bytes."""
    return {name.encode("latin-1"): [value.encode("latin-1") for value in values] for name, values in headers}


def _from_first_version(queued: QueuedRequest) -> QueuedRequest:
    """Version 1 kept the question in meta, key by key, and the tile as a list."""
    fields = {*TileQuestion.__struct_fields__, *Asked.__struct_fields__, "expected_bytes"}
    found = {key: value for key, value in queued.meta.items() if key in fields}
    meta = {key: value for key, value in queued.meta.items() if key not in fields}
    if not {"layer", "tile"} <= found.keys():
        return msgspec.structs.replace(queued, version=VERSION)
    if found["tile"] is not None:
        found["tile"] = dict(zip(("zoom", "x", "y"), found["tile"], strict=True))
    # The length of an answer is not foreseen any more.
    found.pop("expected_bytes", None)
    found["asked"] = {key: found.pop(key) for key in Asked.__struct_fields__ if key in found}
    question = msgspec.convert(found, TileQuestion)
    return msgspec.structs.replace(queued, version=VERSION, meta=meta, question=question)


def _check(value: Any, place: tuple[str | int, ...]) -> None:
    """Refuse what JSON does not give back as it was. The place is the field, then keys and indexes."""
    kind = type(value)
    if len(place) > _DEEPEST:
        _refuse(place[:4], f"what is nested in more than {_DEEPEST} levels, or in itself")
    if kind is dict:
        for key, inner in value.items():
            if type(key) is not str:
                _refuse(place, f"the key {key!r}")
            _check_text(key, place)
            _check(inner, (*place, key))
    elif kind in (list, tuple):
        for number, inner in enumerate(value):
            _check(inner, (*place, number))
    elif kind is str:
        _check_text(value, place)
    elif kind not in (bool, int, NoneType):
        _check_other(value, place)


def _check_other(value: Any, place: tuple[str | int, ...]) -> None:
    """Refuse what is neither a finite number nor a text of a class of its own."""
    kind = type(value)
    if kind is float:
        if not isfinite(value):
            _refuse(place, f"the number {value}")
    elif _is_own_text(value):
        _check_text(value, place)
    else:
        _refuse(place, f"{'an' if kind.__name__[0] in 'AEIOUaeiou' else 'a'} {kind.__name__}")


def _is_own_text(value: Any) -> bool:
    """Returns whether it is a text of a class of its own, such as lxml's, which parsers put into links."""
    return isinstance(value, str) and not isinstance(value, Enum)


def _check_text(text: str, place: tuple[str | int, ...]) -> None:
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        _refuse(place, f"{text!a}, which has half of a surrogate pair")


def _refuse(place: tuple[str | int, ...], what: str) -> NoReturn:
    field, *keys = place
    where = f"{field}{''.join(f'[{key!r}]' for key in keys)}"
    raise UnwritableRequestError(
        f"{where}: {what}; JSON knows texts, finite numbers, True, False and None, in lists, or in dicts with"
        " texts as keys"
    )
