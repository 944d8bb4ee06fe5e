"""The failures of requests, as Scrapy tells them: each is noted in the request's meta."""

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


class Failures:
    """Notes why a request fails: its callback or its items raise, or it could not be downloaded.

    Scrapy has no signal for the last, so requests without an errback get `errback` while they are under way.
    """

    def __init__(self, crawler: Crawler) -> None:
        self.errback = self._not_downloaded
        """One object, by which it is known again."""
        crawler.signals.connect(self._callback_raised, signals.spider_error)
        crawler.signals.connect(self._item_raised, signals.item_error)

    def _not_downloaded(self, failure: TwistedFailure) -> TwistedFailure:
        """Scrapy goes on as if there was no errback."""
        # IgnoreRequest is none: the request is offsite, robots.txt forbids it, or its status is unwanted.
        if not isinstance(failure.value, IgnoreRequest):
            request: Request = failure.request  # type: ignore[attr-defined]
            request.meta.setdefault(FAILURE, str(failure.value) or type(failure.value).__name__)
        return failure

    def _callback_raised(self, failure: TwistedFailure, response: Response) -> None:
        self._note(response, f"callback raised {failure.value!r}")

    def _item_raised(self, item: Any, response: Response | None, failure: TwistedFailure) -> None:
        self._note(response, f"an item's pipeline raised {failure.value!r}")

    @staticmethod
    def _note(response: Response | None, why: str) -> None:
        request = getattr(response, "request", None)
        if request is not None:
            request.meta.setdefault(FAILURE, why)
