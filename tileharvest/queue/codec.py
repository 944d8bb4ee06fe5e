"""Requests as JSON, to wait in a queue and to travel between machines.

There is no pickle, and no class or function is found by its name here: reading a request only ever makes
plain values. The caller looks kind and callbacks up in lists of its own, after `check_names`.
"""

from __future__ import annotations

from math import isfinite
from operator import attrgetter
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, get_args

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

VERSION: Final = 1
"""Of the format. To be raised when a field is added, dropped or changes its meaning."""

Kind = Literal["Request", "FormRequest", "JsonRequest"]
KINDS: Final[frozenset[str]] = frozenset(get_args(Kind))

Headers = tuple[tuple[str, tuple[str, ...]], ...]
"""Names, each with its values, in order; the characters U+0000 to U+00FF stand for bytes (ISO 8859-1)."""

_Place = tuple[str | int, ...]
"""Where a value is: the field, then the keys and indexes that lead to it."""

_DEEPEST: Final = 64
"""Levels of lists and dicts; more are an accident, or one that holds itself."""
_LONGEST: Final = 14_000
"""Bits of an integer: Python neither writes nor reads one of more than 4,300 digits, or 14,284 bits."""


class UnwritableRequestError(ValueError):
    """The request has a value that JSON does not give back as it was; nothing was queued."""


class UnreadableRequestError(ValueError):
    """The bytes are no request of this version that may be made; nothing of them was run."""


class QueuedRequest(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    # These stand in nearly every request, of which there can be millions.
    rename={"version": "v", "callback": "cb", "errback": "eb"},
):
    """A request as it waits in a queue; the fields are those of `scrapy.Request`, but as plain values.

    In meta, cb_kwargs and cookies: None, truth values, numbers but NaN and the infinite ones, texts, lists,
    and dicts with texts as keys. Tuples are taken too and come back as lists.
    """

    version: Literal[1]
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
    flags: tuple[str, ...] = ()


_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "version": (int,),
    "kind": (str,),
    "url": (str,),
    "method": (str,),
    "headers": (tuple,),
    "body": (bytes,),
    "cookies": (dict, list),
    "meta": (dict,),
    "cb_kwargs": (dict,),
    "callback": (str, NoneType),
    "errback": (str, NoneType),
    "priority": (int,),
    "dont_filter": (bool,),
    "encoding": (str,),
    "flags": (tuple,),
}
"""What each field must be, and no subclass of it: msgspec checks what it reads, not what it writes."""
_CHOICES: Final = {"version": frozenset({VERSION}), "kind": KINDS}
_ADVICE: Final = "write texts, numbers, True, False and None, in lists, or in dicts whose keys are texts"
_VALUES: Final = attrgetter(*_TYPES)
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(QueuedRequest)


def encode(queued: QueuedRequest) -> bytes:
    """One line of JSON, without what has its default value. Raises UnwritableRequestError, naming the
    place of what JSON would not give back as it was."""
    for (field, types), value in zip(_TYPES.items(), _VALUES(queued), strict=True):
        if type(value) not in types:
            _refuse((field,), _named(value))
        if value and field != "body":
            _check(value, (field,))
    _check_meaning(queued)
    return _ENCODER.encode(queued)


def decode(body: bytes) -> QueuedRequest:
    """The request that `encode` wrote; tuples in meta, cb_kwargs and cookies have become lists.

    Raises UnreadableRequestError, and nothing else, for whatever is no request of this version. Whether
    the names of callbacks may be used is for `check_names` to say, before they are.
    """
    try:
        queued = _DECODER.decode(body)
        headers_as_bytes(queued.headers)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _unreadable(str(error)) from None
    return queued


def check_names(queued: QueuedRequest, kinds: Collection[str], callbacks: Collection[str]) -> None:
    """Raises UnreadableRequestError unless the kind, the callback and the errback are of these names;
    a request may do without callback and errback."""
    if queued.kind not in kinds:
        raise _unreadable(f"kind '{queued.kind}' is not allowed, only {_listed(kinds)}")
    for field, name in (("callback", queued.callback), ("errback", queued.errback)):
        if name is not None and name not in callbacks:
            raise _unreadable(f"{field} '{name}' is not allowed, only {_listed(callbacks)}")


def headers_as_text(headers: Iterable[tuple[bytes, Iterable[bytes]]]) -> Headers:
    """The items of `scrapy.Request.headers`, for `QueuedRequest.headers`."""
    return tuple(
        (name.decode("latin-1"), tuple(value.decode("latin-1") for value in values))
        for name, values in headers
    )


def headers_as_bytes(headers: Headers) -> list[tuple[bytes, list[bytes]]]:
    """What `headers_as_text` was given; `scrapy.Request` takes it. Raises ValueError for a text that
    stands for no bytes; what was decoded has none."""
    return [
        (name.encode("latin-1"), [value.encode("latin-1") for value in values]) for name, values in headers
    ]


def _check(value: Any, place: _Place) -> None:
    """Refuse what JSON does not give back as it was."""
    check = _CHECKS.get(type(value))
    if check is None:
        _refuse(place, _named(value))
    check(value, place)


def _pass(value: bool | None, place: _Place) -> None:
    """Either is always kept."""


def _check_text(text: str, place: _Place) -> None:
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        _refuse(place, f"{text!a}, which has half of a surrogate pair,")


def _check_integer(number: int, place: _Place) -> None:
    if number.bit_length() > _LONGEST:
        _refuse(place, "an integer of thousands of digits")


def _check_float(number: float, place: _Place) -> None:
    if not isfinite(number):
        _refuse(place, f"the number {number}")


def _check_list(values: Iterable[Any], place: _Place) -> None:
    _check_depth(place)
    for number, value in enumerate(values):
        _check(value, (*place, number))


def _check_dict(values: dict[Any, Any], place: _Place) -> None:
    _check_depth(place)
    for key, value in values.items():
        if type(key) is not str:
            _refuse(place, f"the key {key!r}")
        _check_text(key, place)
        _check(value, (*place, key))


_CHECKS: Final[dict[type, Callable[[Any, _Place], None]]] = {
    str: _check_text,
    int: _check_integer,
    float: _check_float,
    bool: _pass,
    NoneType: _pass,
    list: _check_list,
    tuple: _check_list,
    dict: _check_dict,
}


def _check_depth(place: _Place) -> None:
    if len(place) > _DEEPEST:
        _refuse(place[:4], f"what is nested in more than {_DEEPEST} levels, or in itself,")


def _check_meaning(queued: QueuedRequest) -> None:
    """Refuse what is JSON, but would be refused when it is read."""
    for field, allowed in _CHOICES.items():
        if (value := getattr(queued, field)) not in allowed:
            _refuse((field,), repr(value), f"this is one of {_listed(map(str, allowed))}")
    for number, flag in enumerate(queued.flags):
        if type(flag) is not str:
            _refuse(("flags", number), _named(flag), "flags are texts")
    for number, cookie in enumerate(queued.cookies):
        if isinstance(queued.cookies, list) and type(cookie) is not dict:
            _refuse(("cookies", number), _named(cookie), "cookies are one dict, or a list of dicts")
    for number, header in enumerate(queued.headers):
        if not _is_header(header):
            _refuse(("headers", number), repr(header), "use headers_as_text")


def _is_header(header: Any) -> bool:
    return (
        type(header) is tuple
        and len(header) == 2
        and type(header[1]) is tuple
        and all(type(text) is str and max(text, default="") <= "\u00ff" for text in (header[0], *header[1]))
    )


def _refuse(place: _Place, what: str, advice: str = _ADVICE) -> NoReturn:
    field, *keys = place
    where = f"{field}{''.join(f'[{key!r}]' for key in keys)}"
    raise UnwritableRequestError(f"{where}: {what} cannot be kept; {advice}. Nothing was queued")


def _named(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _unreadable(problem: str) -> UnreadableRequestError:
    return UnreadableRequestError(
        f"a queued request cannot be read: {problem}. It was not made, and nothing of it was run; this "
        f"program reads version {VERSION}"
    )
