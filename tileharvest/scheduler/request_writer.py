"""Scrapy's requests as bytes and back, by Scrapy's own `Request.to_dict` and `request_from_dict`."""

from __future__ import annotations

import inspect
from math import isfinite
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

import msgspec
from scrapy import Request, Spider
from scrapy.http import FormRequest, JsonRequest
from scrapy.utils.request import request_from_dict

from tileharvest.maps.rates import Gap
from tileharvest.queue.codec import (
    VERSION,
    CodecError,
    QueuedRequest,
    decode,
    encode,
)
from tileharvest.queue.requests import DELAY, FAILURE, NOT_BEFORE, STATE, RequestState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tileharvest.queue.codec import Headers, Kind

_KINDS: Final[dict[type[Request], Kind]] = {
    Request: "Request",
    FormRequest: "FormRequest",
    JsonRequest: "JsonRequest",
}
"""The classes that a queued request may have, with their names in a queue."""
_PATHS: Final = {name: f"{kind.__module__}.{kind.__qualname__}" for kind, name in _KINDS.items()}
"""The paths by which `request_from_dict` finds the classes."""

_OF_THE_MOMENT: Final = frozenset({STATE, NOT_BEFORE, FAILURE, "download_latency"})
"""The keys of meta that belong to one attempt, or are kept elsewhere in the entry."""
_NOT_WRITTEN: Final = ("_class", "dumps_kwargs")
"""Keys of `Request.to_dict` that are not written. The kind tells the class, and `dumps_kwargs` has done its
work when a JsonRequest was made."""


class RequestWriter:
    """Writes the requests of one spider, and reads them. A callback is a method of the spider, and is written
    as its name.

    All methods raise CodecError, as `queue/codec.py` does.
    """

    def __init__(self, spider: Spider) -> None:
        self._spider = spider
        self._callbacks = callbacks_of(type(spider))
        methods = {MethodType(function, spider): name for name, function in self._callbacks.items()}
        self._names: dict[Any, str] = methods

    def write(self, request: Request) -> bytes:
        """Returns the request as bytes, without what belongs to one attempt."""
        kind, callback, errback = _KINDS.get(type(request)), request.callback, request.errback
        if kind is None:
            raise CodecError(f"its class is {type(request).__name__}, and none of {_listed(_PATHS)}")
        for field, method in (("callback", callback), ("errback", errback)):
            if not (method is None or (isinstance(method, MethodType) and method in self._names)):
                raise CodecError(f"its {field} {method!r} is no method of the spider")
        # Scrapy would look for each name among all members of the spider, which takes 85 us. For callback and
        # errback that is half of what a HEAD costs in all. So the request has the names meanwhile.
        names: Any = self._names.get(callback), self._names.get(errback)
        request.callback, request.errback = names
        try:
            found = request.to_dict()
        finally:
            request.callback, request.errback = callback, errback
        state: RequestState | None = request.meta.get(STATE)
        found["meta"] = request.meta.copy()
        for key in _OF_THE_MOMENT:
            found["meta"].pop(key, None)
        found["headers"] = _as_text(found["headers"]) if found["headers"] else ()
        for name in _NOT_WRITTEN:
            found.pop(name, None)
        if found["encoding"] == "utf-8":
            # msgspec leaves out a default text only if it is the same object.
            del found["encoding"]
        question = None if state is None else state.question
        return encode(QueuedRequest(version=VERSION, kind=kind, question=question, **found))

    def read(self, body: bytes, attempt: int) -> Request:
        """Returns the request in the bytes of an entry, for this attempt."""
        return self.made_of(decode(body), attempt)

    def made_of(self, queued: QueuedRequest, attempt: int) -> Request:
        """Returns a Scrapy request for this attempt of a queued request."""
        for field, name in (("callback", queued.callback), ("errback", queued.errback)):
            if name is not None and name not in self._callbacks:
                raise _unreadable(f"{field} '{name}' is not allowed, only {_listed(self._callbacks)}")
        found = msgspec.structs.asdict(queued)
        found["meta"] = {**queued.meta, STATE: RequestState(queued.question, attempt)}
        if queued.kind != "Request":
            found["_class"] = _PATHS[queued.kind]
        try:
            found["headers"] = _as_bytes(queued.headers) if queued.headers else {}
            return request_from_dict(found, spider=self._spider)
        except (LookupError, TypeError, ValueError) as error:
            raise _unreadable(f"{error}") from None


def callbacks_of(spider_class: type[Spider]) -> dict[str, Any]:
    """Returns the functions that a queued request may name as its callbacks.

    These are the methods of the spider's class and of its base classes, private ones included, such as
    `_callback` of CrawlSpider, which finds the callback of a rule. Of Scrapy's `Spider` only `parse` and
    `_parse` are allowed: no request may name `start` or `__init__`.
    """
    found: dict[str, Any] = {"parse": Spider.parse, "_parse": Spider._parse}
    of_spider = vars(Spider).keys() - found.keys()
    for base in reversed(spider_class.__mro__):
        if base not in Spider.__mro__:
            functions = ((name, value) for name, value in vars(base).items() if inspect.isfunction(value))
            found.update(
                (name, value)
                for name, value in functions
                if name not in of_spider and not (name.startswith("__") and name.endswith("__"))
            )
    return found


def mistake_in(request: Request) -> str | None:
    """Returns in words what is wrong with the orders in the request's meta, or with its priority. Returns
    None if nothing is. A mistake would make a queue fail, or the scheduler when it offers the request."""
    due = request.meta.get(NOT_BEFORE)
    if due is not None and (type(due) not in (int, float) or not isfinite(due)):
        return f"meta['{NOT_BEFORE}'] {due!r} is no time: give seconds since 1970"
    if DELAY in request.meta:
        try:
            Gap.of(request.meta[DELAY])
        except (TypeError, ValueError) as error:
            return f"meta['{DELAY}'] cannot be: {error}"
    if not -(2**63) <= request.priority < 2**63:
        return f"priority {request.priority} cannot be kept: it has more than 64 bits"
    return None


def _as_text(headers: Mapping[bytes, Iterable[bytes]]) -> Headers:
    """Returns the headers of `Request.to_dict` as `QueuedRequest.headers` has them."""
    return tuple(
        (name.decode("latin-1"), tuple(value.decode("latin-1") for value in values))
        for name, values in headers.items()
    )


def _as_bytes(headers: Headers) -> dict[bytes, list[bytes]]:
    """Returns the headers that `_as_text` was given. Raises ValueError for a text that stands for no
    bytes."""
    return {name.encode("latin-1"): [value.encode("latin-1") for value in values] for name, values in headers}


def _listed(names: Any) -> str:
    return ", ".join(sorted(names)) or "none"


def _unreadable(problem: str) -> CodecError:
    return CodecError(f"a queued request cannot be made: {problem}; nothing of it was run")
