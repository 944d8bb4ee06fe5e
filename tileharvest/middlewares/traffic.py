"""Counts the requests to a site and the bytes of its answers, nearest to the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tileharvest.politeness.gate import HeldBackError
from tileharvest.queue.requests import state_of
from tileharvest.scheduler.crawl import harvesting_of

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from tileharvest.history.costs import Traffic


class TrafficMiddleware:
    """Adds up requests and received bytes: retries, redirects and probes cost the owner as well."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(harvesting_of(crawler).traffic)

    def process_request(self, request: Request) -> None:
        self._traffic.requests += 1

    def process_response(self, request: Request, response: Response) -> Response:
        received = len(response.body)
        if received:
            self._traffic.received_bytes += received
            state_of(request).received_bytes = received
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        if isinstance(exception, HeldBackError):
            self._traffic.requests -= 1
