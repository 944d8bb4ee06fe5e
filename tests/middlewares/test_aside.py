from __future__ import annotations

from scrapy import Request, Spider
from scrapy.crawler import Crawler

from tileharvest.history.costs import Traffic
from tileharvest.middlewares.aside import AsideMiddleware
from tileharvest.middlewares.traffic import TrafficMiddleware
from tileharvest.politeness.gate import HeldBackError
from tileharvest.queue.requests import state_of
from tileharvest.scheduler.crawl import Crawl

URL = "http://map.example.net/world-day/0.png"


def test_what_was_held_back_goes_back_as_it_was() -> None:
    request = Request(URL, method="HEAD", priority=1, meta={"tile": (0, 1, 1)})
    again = AsideMiddleware(Crawl(Crawler(Spider))).process_exception(request, HeldBackError())
    assert again is not None
    assert (again.url, again.method, again.priority) == (URL, "HEAD", 1)
    assert again.meta["tile"] == (0, 1, 1)
    assert again.dont_filter
    assert not state_of(request).was_sent


def test_what_was_held_back_has_cost_nothing() -> None:
    traffic = Traffic()
    counting = TrafficMiddleware(traffic)
    request = Request(URL)
    counting.process_request(request)
    counting.process_exception(request, OSError())
    assert traffic.requests == 1
    counting.process_exception(request, HeldBackError())
    assert traffic.requests == 0


def test_other_failures_are_not_its_matter() -> None:
    request = Request(URL)
    assert AsideMiddleware(Crawl(Crawler(Spider))).process_exception(request, OSError()) is None
    assert state_of(request).was_sent
