from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from tests.middlewares.making import harvesting
from tileharvest.history.costs import Traffic
from tileharvest.middlewares.traffic import TrafficMiddleware
from tileharvest.scheduler.crawl import crawl_of

if TYPE_CHECKING:
    from pathlib import Path

URL = "http://map.example.net/world-day/0.png"


def test_every_request_counts_a_probe_as_well() -> None:
    traffic = Traffic()
    tested = TrafficMiddleware(traffic)
    for request in (Request(URL), Request(URL, method="HEAD"), Request(URL, meta={"retry_times": 1})):
        assert tested.process_request(request) is None
    assert (traffic.requests, traffic.received_bytes) == (3, 0)


def test_bodies_count_whatever_their_status_and_pass_untouched() -> None:
    traffic = Traffic()
    tested = TrafficMiddleware(traffic)
    for response in (Response(URL, 200, body=b"12345"), Response(URL, 500, body=b"678"), Response(URL, 304)):
        assert tested.process_response(Request(URL), response) is response
    assert traffic.received_bytes == 8


def test_it_counts_for_the_spiders_harvest(tmp_path: Path) -> None:
    crawler = Crawler(Spider)
    crawl_of(crawler).harvest = harvest = harvesting(tmp_path)
    TrafficMiddleware.from_crawler(crawler).process_request(Request(URL))
    assert harvest.traffic.requests == 1


def test_a_spider_that_harvests_nothing_goes_without_it() -> None:
    crawler = Crawler(Spider)
    crawler.spider = Spider(name="probing")
    with pytest.raises(NotConfigured):
        TrafficMiddleware.from_crawler(crawler)
