"""The fingerprint of a request, by which two requests are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scrapy import Spider
from scrapy.utils.request import fingerprint
from w3lib.url import url_query_cleaner

from tileharvest.scheduler.leases import LEASE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request
    from scrapy.crawler import Crawler


class SegmentFingerprinter:
    """The fingerprinter for Scrapy's REQUEST_FINGERPRINTER_CLASS that leaves out of the query the keys of the
    setting DEDUP_IGNORE_QUERY, such as cache busters and names of JSONP callbacks, which change with every
    request though the answer does not. All else is as with Scrapy's: method, canonical address without
    fragment, and body count.
    """

    def __init__(self, ignored: Iterable[str] = ()) -> None:
        self._ignored = tuple(ignored)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler.settings.getlist("DEDUP_IGNORE_QUERY"))

    def fingerprint(self, request: Request) -> bytes:
        """Returns the fingerprint of a request, 20 bytes."""
        if self._ignored:
            url = url_query_cleaner(
                request.url, self._ignored, remove=True, unique=False, keep_fragments=True
            )
            if url != request.url:
                request = request.replace(url=url, callback=None, errback=None)
        return fingerprint(request)


def filtered_by(request: Request, crawler: Crawler) -> bytes | None:
    """Returns the fingerprint by which a request is filtered, or None for one that is never dropped as seen.

    Scrapy does not filter the requests that it makes of `start_urls`; here a segment has each of them once. A
    repeat or a redirect of one is not meant.
    """
    has_usual_start = crawler.spidercls.start is Spider.start
    is_of_start_urls = has_usual_start and "is_start_request" in request.meta and LEASE not in request.meta
    if request.dont_filter and not is_of_start_urls:
        return None
    assert crawler.request_fingerprinter is not None
    return crawler.request_fingerprinter.fingerprint(request)
