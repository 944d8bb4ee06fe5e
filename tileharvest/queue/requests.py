"""Between Scrapy's requests and what a queue keeps of them. Knows their shape, not Scrapy itself."""

from __future__ import annotations

import inspect
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from tileharvest.maps.rates import Gap
from tileharvest.queue.codec import (
    QueuedRequest,
    UnreadableRequestError,
    UnwritableRequestError,
    check_names,
    decode,
    encode,
    headers_as_bytes,
    headers_as_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

ATTEMPT: Final = "attempt"
"""In a request's meta while it is leased: which attempt this is."""
NOT_BEFORE: Final = "not_before"
"""In a request's meta when it is enqueued: seconds since 1970 before which it is not offered."""
FAILURE: Final = "failure"
"""In a request's meta when it is through: why it goes to the failure list."""
ASIDE: Final = "aside"
"""In the meta of a request that no queue offers, as those that probe a site."""
DELAY: Final = "delay"
"""In a request's meta: seconds, or from how many to how many, after the start of the one before it."""
RECEIVED_BYTES: Final = "received_bytes"
"""In a request's meta when it is through: how long its answer was."""
LATE: Final = "late"
"""In a tile's meta: what lies below it may have been asked before it."""
IN_FULL: Final = "in_full"
"""In a tile's meta: nothing below it is to be skipped."""
AUDITED: Final = "audited"
"""In a tile's meta: it was skipped, and is looked at without what lies below it."""
NOT_SENT: Final = "not_sent"
"""In a request's meta when it is through: true where it was never sent, and so has cost nothing."""
ONCE_MORE: Final = "once_more"
"""In a request's meta: it was given up unanswered, and is tried once more before its harvest ends."""

PUSHED: Final = ""
"""The segment of requests that a person has pushed: of none, so that they wait until they are made."""

_OF_THE_MOMENT: Final = frozenset(
    {ATTEMPT, NOT_BEFORE, FAILURE, RECEIVED_BYTES, NOT_SENT, "download_latency", "download_timeout"}
)
"""Keys of meta that say something of one attempt, or are kept in the entry itself."""


class RequestWriter:
    """Writes the requests of one spider, and reads them back: classes and callbacks from lists of its own.

    A callback is a public method that the spider's class defines, written by its name. Raises
    UnwritableRequestError and UnreadableRequestError as `codec` does.
    """

    def __init__(self, spider: Any, kinds: Mapping[str, type[Any]]) -> None:
        self._spider = spider
        self._kinds = dict(kinds)
        self._names = {kind: name for name, kind in kinds.items()}
        self._callbacks = frozenset(
            name
            for name, value in inspect.getmembers(type(spider), inspect.isroutine)
            if not name.startswith("_")
        )

    def write(self, request: Any) -> bytes:
        """The request as bytes, without what is of the moment."""
        kind = self._names.get(type(request))
        if kind is None:
            raise UnwritableRequestError(
                f"a request of class {type(request).__name__} cannot be kept: use one of"
                f" {', '.join(sorted(self._kinds))}; nothing was queued"
            )
        _check_order(request)
        headers = request._headers
        return encode(
            QueuedRequest(
                version=1,
                kind=kind,  # type: ignore[arg-type]
                url=request.url,
                method=request.method,
                headers=headers_as_text(headers.items()) if headers else (),
                body=request.body,
                cookies=request.cookies if request._cookies else {},
                meta={key: value for key, value in request.meta.items() if key not in _OF_THE_MOMENT},
                cb_kwargs=request.cb_kwargs if request._cb_kwargs else {},
                callback=self._name_of(request.callback, "callback"),
                errback=self._name_of(request.errback, "errback"),
                priority=request.priority,
                dont_filter=request.dont_filter,
                encoding=request.encoding,
                flags=tuple(request.flags) if request._flags else (),
            )
        )

    def read(self, body: bytes, attempt: int) -> Any:
        """The request of an entry's bytes, for that attempt."""
        queued = decode(body)
        check_names(queued, self._kinds, self._callbacks)
        try:
            return self._made(queued, attempt)
        except (LookupError, TypeError, ValueError) as error:
            raise UnreadableRequestError(
                f"a queued request cannot be made: {error}; nothing of it was run"
            ) from None

    def _made(self, queued: QueuedRequest, attempt: int) -> Any:
        return self._kinds[queued.kind](
            queued.url,
            method=queued.method,
            headers=headers_as_bytes(queued.headers) or None,
            body=queued.body,
            cookies=queued.cookies or None,
            meta={**queued.meta, ATTEMPT: attempt},
            cb_kwargs=queued.cb_kwargs or None,
            callback=self._method(queued.callback),
            errback=self._method(queued.errback),
            priority=queued.priority,
            dont_filter=queued.dont_filter,
            encoding=queued.encoding,
            flags=list(queued.flags) or None,
        )

    def _name_of(self, callback: Any, field: str) -> str | None:
        if callback is None:
            return None
        name = getattr(callback, "__name__", "")
        if name not in self._callbacks or getattr(callback, "__self__", None) is not self._spider:
            raise UnwritableRequestError(
                f"{field} {callback!r} cannot be kept: give a public method of the spider; nothing was queued"
            )
        return name

    def _method(self, name: str | None) -> Any:
        return None if name is None else getattr(self._spider, name)


def _check_order(request: Any) -> None:
    """Refuse what would make a queue fail, or the scheduler when it comes to it."""
    due = request.meta.get(NOT_BEFORE)
    if due is not None and (type(due) not in (int, float) or not isfinite(due)):
        raise UnwritableRequestError(f"meta['{NOT_BEFORE}'] {due!r} is no time: give seconds since 1970")
    if DELAY in request.meta:
        try:
            Gap.of(request.meta[DELAY])
        except (TypeError, ValueError) as error:
            raise UnwritableRequestError(f"meta['{DELAY}'] cannot be: {error}") from None
    if not -(2**63) <= request.priority < 2**63:
        raise UnwritableRequestError(f"priority {request.priority} cannot be kept: it has more than 64 bits")
