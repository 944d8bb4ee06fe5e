"""The fingerprint of a request, by which two requests are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self
from urllib.parse import unquote_plus

from scrapy.utils.request import fingerprint

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
        self._ignored = frozenset(ignored)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler.settings.getlist("DEDUP_IGNORE_QUERY"))

    def fingerprint(self, request: Request) -> bytes:
        """Returns the fingerprint of a request, 20 bytes."""
        address, mark, query = request.url.partition("#")[0].partition("?")
        if self._ignored and mark:
            fields = query.split("&")
            kept = [one for one in fields if unquote_plus(one.partition("=")[0]) not in self._ignored]
            if len(kept) < len(fields):
                url = f"{address}?{'&'.join(kept)}" if kept else address
                request = request.replace(url=url, callback=None, errback=None)
        return fingerprint(request)
