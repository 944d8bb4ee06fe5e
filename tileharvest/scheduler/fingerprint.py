"""The fingerprint of a request, by which two requests are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scrapy.utils.request import fingerprint
from w3lib.url import url_query_cleaner

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
