"""Scrapy's requests as bytes and back, by Scrapy's own `Request.to_dict` and `request_from_dict`."""

from __future__ import annotations

import inspect
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import msgspec
from scrapy import Request, Spider
from scrapy.http import FormRequest, JsonRequest
from scrapy.utils.request import request_from_dict

from tileharvest.maps.rates import Gap
from tileharvest.queue.codec import (
    VERSION,
    QueuedRequest,
    UnreadableRequestError,
    UnwritableRequestError,
    decode,
    encode,
    headers_as_bytes,
    headers_as_text,
)
from tileharvest.queue.requests import DELAY, FAILURE, NOT_BEFORE, STATE, RequestState, question_of

if TYPE_CHECKING:
    from tileharvest.queue.codec import Kind

_KINDS: Final[dict[type[Request], Kind]] = {
    Request: "Request",
    FormRequest: "FormRequest",
    JsonRequest: "JsonRequest",
}
"""The allow-list of classes."""
_PATHS: Final = {name: f"{kind.__module__}.{kind.__qualname__}" for kind, name in _KINDS.items()}
"""As `request_from_dict` finds the class."""

_OF_THE_MOMENT: Final = frozenset({STATE, NOT_BEFORE, FAILURE, "download_latency"})
"""Keys of meta that say something of one attempt, or are kept elsewhere in the entry."""


class MistakenOrderError(ValueError):
    """An order in the request's meta, or its priority, cannot be; nothing was queued."""


class RequestWriter:
    """Writes the requests of one spider, and reads them back. A callback is a method of the spider, written
    by its name.

    Raises UnwritableRequestError and UnreadableRequestError as `queue/codec.py` does.
    """

    def __init__(self, spider: Spider) -> None:
        self._spider = spider
        self._callbacks = callbacks_of(type(spider))
        self._names = {function: name for name, function in self._callbacks.items()}

    def write(self, request: Request) -> bytes:
        """Returns the request as bytes, without what is of the moment."""
        kind = _KINDS.get(type(request))
        if kind is None:
            raise UnwritableRequestError(
                f"its class is {type(request).__name__}, and none of {_listed(_PATHS)}"
            )
        found = self._as_dict(request)
        found["headers"] = headers_as_text(found["headers"]) if found["headers"] else ()
        found["meta"] = {key: value for key, value in found["meta"].items() if key not in _OF_THE_MOMENT}
        if found["encoding"] == "utf-8":
            # msgspec leaves out a text only if it is the very object of the default.
            del found["encoding"]
        kept = {name: found[name] for name in Request.attributes if name in found}
        return encode(QueuedRequest(version=VERSION, kind=kind, question=question_of(request), **kept))

    def read(self, body: bytes, attempt: int) -> Request:
        """Returns the request that an entry's bytes hold, for that attempt."""
        queued = decode(body)
        for field, name in (("callback", queued.callback), ("errback", queued.errback)):
            if name is not None and name not in self._callbacks:
                raise _unreadable(f"{field} '{name}' is not allowed, only {_listed(self._callbacks)}")
        found: dict[str, Any] = {
            **msgspec.structs.asdict(queued),
            "headers": headers_as_bytes(queued.headers) if queued.headers else {},
            "meta": {**queued.meta, STATE: RequestState(queued.question, attempt)},
        }
        if queued.kind != "Request":
            found["_class"] = _PATHS[queued.kind]
        try:
            return request_from_dict(found, spider=self._spider)
        except (LookupError, TypeError, ValueError) as error:
            raise _unreadable(f"{error}") from None

    def _as_dict(self, request: Request) -> dict[str, Any]:
        """Returns what Scrapy makes of it, with the callbacks by name.

        Scrapy would look for each name among all members of the spider, 85 us each time: with both that is
        half of what a HEAD costs in all. So it is given the names.
        """
        callback, errback = request.callback, request.errback
        names: Any = self._name_of(callback, "callback"), self._name_of(errback, "errback")
        request.callback, request.errback = names
        try:
            return request.to_dict()
        finally:
            request.callback, request.errback = callback, errback

    def _name_of(self, callback: Any, field: str) -> str | None:
        if callback is None:
            return None
        is_own = getattr(callback, "__self__", None) is self._spider
        name = self._names.get(callback.__func__) if is_own and inspect.ismethod(callback) else None
        if name is None:
            raise UnwritableRequestError(f"its {field} {callback!r} is no method of the spider")
        return name


def callbacks_of(spider_class: type[Spider]) -> dict[str, Any]:
    """Returns the functions that a queued request may name: the allow-list.

    These are the methods of the spider's class and of those from which it inherits, private ones included,
    such as `_callback` of CrawlSpider, which finds the callback of a rule. Of Scrapy's `Spider` only `parse`
    is among them, and nothing of Python's own: no request may name `__init__` or `start`.
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


def check_orders(request: Request) -> None:
    """Raises MistakenOrderError for what would make a queue fail, or the scheduler when it comes to it."""
    due = request.meta.get(NOT_BEFORE)
    if due is not None and (type(due) not in (int, float) or not isfinite(due)):
        raise MistakenOrderError(f"meta['{NOT_BEFORE}'] {due!r} is no time: give seconds since 1970")
    if DELAY in request.meta:
        try:
            Gap.of(request.meta[DELAY])
        except (TypeError, ValueError) as error:
            raise MistakenOrderError(f"meta['{DELAY}'] cannot be: {error}") from None
    if not -(2**63) <= request.priority < 2**63:
        raise MistakenOrderError(f"priority {request.priority} cannot be kept: it has more than 64 bits")


def _listed(names: Any) -> str:
    return ", ".join(sorted(names)) or "none"


def _unreadable(problem: str) -> UnreadableRequestError:
    return UnreadableRequestError(f"a queued request cannot be made: {problem}; nothing of it was run")
