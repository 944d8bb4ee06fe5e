"""Scrapy's requests as bytes and back, by their `attributes` and Scrapy's own `request_from_dict`."""

from __future__ import annotations

import inspect
from types import MethodType
from typing import Any, Final

import msgspec
from scrapy import Request, Spider
from scrapy.http import FormRequest, JsonRequest
from scrapy.utils.request import request_from_dict

from tileharvest.queue.codec import NOT_BEFORE, VERSION, CodecError, QueuedRequest, decode, encode
from tileharvest.scheduler.leases import LEASE

_CLASSES: Final = (Request, FormRequest, JsonRequest)
"""The classes of requests that any spider may have. A spider's `request_classes` adds others."""

_OF_THE_MOMENT: Final = frozenset({LEASE, NOT_BEFORE, "download_latency"})
"""The keys of meta that belong to one attempt, or are kept elsewhere in the entry."""


class RequestWriter:
    """Writes the requests of one spider, and reads them. A callback is a method of the spider, and is written
    as its name. The spider's `request_classes` names classes of its own, whose `attributes` are no others
    than those of `Request`. All methods raise CodecError."""

    def __init__(self, spider: Spider) -> None:
        self._spider = spider
        self._callbacks = callbacks_of(type(spider))
        self._names: dict[Any, str] = {
            MethodType(function, spider): name for name, function in self._callbacks.items()
        }
        classes = (*_CLASSES, *getattr(spider, "request_classes", ()))
        self._classes: dict[str, type[Request]] = {one.__name__: one for one in classes}
        self._allowed = ", ".join(sorted(self._classes))

    def write(self, request: Request) -> bytes:
        """Returns the request as bytes, without what belongs to one attempt."""
        kind = type(request).__name__
        if self._classes.get(kind) is not type(request):
            raise CodecError(f"its class is {kind}, and none of {self._allowed}")
        found = {name: getattr(request, name) for name in request.attributes}
        for field in ("callback", "errback"):
            method = found[field]
            if not (method is None or (isinstance(method, MethodType) and method in self._names)):
                raise CodecError(f"its {field} {method!r} is not a method of the spider")
            found[field] = self._names.get(method)
        found["meta"] = {key: value for key, value in request.meta.items() if key not in _OF_THE_MOMENT}
        found["headers"] = list(request.headers.items())
        # It has done its work when a JsonRequest was made.
        found.pop("dumps_kwargs", None)
        try:
            return encode(QueuedRequest(version=VERSION, kind=kind, **found))
        except TypeError as error:
            raise CodecError(f"it has an attribute that no request of Scrapy has: {error}") from None

    def read(self, body: bytes) -> Request:
        """Returns the request in the bytes of an entry."""
        queued = decode(body)
        if queued.kind not in self._classes:
            raise _unreadable(f"class '{queued.kind}' is not allowed, only {self._allowed}")
        for field, name in (("callback", queued.callback), ("errback", queued.errback)):
            if name is not None and name not in self._callbacks:
                raise _unreadable(f"{field} '{name}' is not a method of the spider")
        found = msgspec.structs.asdict(queued)
        found |= {"_class": self._classes[queued.kind], "headers": dict(queued.headers)}
        try:
            return request_from_dict(found, spider=self._spider)
        except (LookupError, TypeError, ValueError) as error:
            raise _unreadable(f"{error}") from None


def callbacks_of(spider_class: type[Spider]) -> dict[str, Any]:
    """Returns the functions that a queued request may name as its callbacks.

    These are the methods of the spider's class and of its base classes, private ones included, such as
    `_callback` of CrawlSpider, which finds the callback of a rule. Of Scrapy's `Spider` only `parse` and
    `_parse` are allowed: no request may name `start` or `__init__`.
    """
    callbacks: dict[str, Any] = {"parse": Spider.parse, "_parse": Spider._parse}
    for base in reversed(spider_class.__mro__):
        for name, value in vars(base).items() if base not in Spider.__mro__ else ():
            is_allowed = name in callbacks or not (hasattr(Spider, name) or name.startswith("__"))
            if is_allowed and inspect.isfunction(value):
                callbacks[name] = value
    return callbacks


def _unreadable(problem: str) -> CodecError:
    return CodecError(f"a queued request cannot be made: {problem}; nothing of it was run")
