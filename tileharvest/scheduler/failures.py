"""The failures of requests, of which Scrapy tells: each is noted in the request's meta."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import IgnoreRequest

from tileharvest.queue.requests import FAILURE

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.python.failure import Failure as TwistedFailure


def note_failures(crawler: Crawler) -> None:
    """Notes from now on why a request fails whose callback or items raise.

    Scrapy has no signal for a request that could not be downloaded: `not_downloaded` notes that.
    """
    crawler.signals.connect(_callback_raised, signals.spider_error)
    crawler.signals.connect(_item_raised, signals.item_error)


def not_downloaded(failure: TwistedFailure) -> TwistedFailure:
    """The errback of a request that has none of its own, while the request is on the way. Notes the failure,
    and returns it, so that Scrapy goes on as if there was no errback."""
    # IgnoreRequest is no failure: the request is offsite, robots.txt forbids it, or its status is unwanted.
    if not isinstance(failure.value, IgnoreRequest):
        request: Request = failure.request  # type: ignore[attr-defined]
        request.meta.setdefault(FAILURE, str(failure.value) or type(failure.value).__name__)
    return failure


def _callback_raised(failure: TwistedFailure, response: Response) -> None:
    _note(response, f"callback raised {failure.value!r}")


def _item_raised(item: Any, response: Response | None, failure: TwistedFailure) -> None:
    _note(response, f"an item's pipeline raised {failure.value!r}")


def _note(response: Response | None, why: str) -> None:
    request = getattr(response, "request", None)
    if request is not None:
        request.meta.setdefault(FAILURE, why)
