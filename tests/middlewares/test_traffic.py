"""What leaves for the network is allowed to, and is counted; what is held back goes back uncounted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response

from tests.middlewares.making import run_jumping, unopened
from tileharvest.middlewares.traffic import TrafficMiddleware
from tileharvest.politeness.reasons import HeldBackError
from tileharvest.politeness.robots import Robots
from tileharvest.queue.requests import STATE, RequestState, state_of
from tileharvest.scheduler.crawl import Crawl, crawl_of

if TYPE_CHECKING:
    from pathlib import Path

    from tileharvest.history.costs import Traffic

SITE = "http://map.example.net"
URL = f"{SITE}/world-day/0.png"
RULES = Robots.of(SITE, b"User-agent: *\nDisallow: /world-day/3/")


@pytest.fixture
def crawl(tmp_path: Path) -> Crawl:
    made = Crawl(Crawler(Spider))
    made.harvest = unopened(tmp_path)
    return made


@pytest.fixture
def tested(crawl: Crawl) -> TrafficMiddleware:
    return TrafficMiddleware(crawl)


@pytest.fixture
def traffic(crawl: Crawl) -> Traffic:
    assert crawl.harvest is not None
    return crawl.harvest.traffic


def test_every_request_counts_a_probe_as_well(tested: TrafficMiddleware, traffic: Traffic) -> None:
    for request in (Request(URL), Request(URL, method="HEAD"), Request(URL, meta={"retry_times": 1})):
        assert tested.process_request(request) is None
    assert (traffic.requests, traffic.received_bytes) == (3, 0)


class Politeness:
    """Hears of what came, and gives each request its turn."""

    def __init__(self) -> None:
        self.turns = self.answers = 0

    def received(self) -> None:
        self.answers += 1

    async def aside(self) -> None:
        self.turns += 1


@pytest.fixture
def politeness(crawl: Crawl) -> Politeness:
    made = Politeness()
    crawl.politeness = made  # type: ignore[assignment]
    return made


def test_where_politeness_counts_requests_they_are_not_counted_again(
    politeness: Politeness, tested: TrafficMiddleware, traffic: Traffic
) -> None:
    assert tested.process_request(Request(URL)) is None
    assert (traffic.requests, politeness.turns) == (0, 0)


def test_what_is_asked_aside_waits_for_its_turn(politeness: Politeness, tested: TrafficMiddleware) -> None:
    waiting = tested.process_request(Request(URL, meta={STATE: RequestState(is_aside=True)}))
    assert waiting is not None
    run_jumping(waiting)
    assert politeness.turns == 1


def test_politeness_hears_of_each_body(politeness: Politeness, tested: TrafficMiddleware) -> None:
    for response in (Response(URL, 200, body=b"12345"), Response(URL, 304)):
        tested.process_response(Request(URL), response)
    assert politeness.answers == 1


def test_bodies_count_whatever_their_status_and_pass_untouched(
    tested: TrafficMiddleware, traffic: Traffic
) -> None:
    for response in (Response(URL, 200, body=b"12345"), Response(URL, 500, body=b"678"), Response(URL, 304)):
        assert tested.process_response(Request(URL), response) is response
    assert traffic.received_bytes == 8


def test_a_spider_that_harvests_nothing_is_counted_nowhere() -> None:
    crawler = Crawler(Spider)
    crawler.spider = Spider(name="probing")
    assert TrafficMiddleware.from_crawler(crawler).process_request(Request(URL)) is None


def test_what_was_held_back_goes_back_as_it_was(tested: TrafficMiddleware) -> None:
    request = Request(URL, method="HEAD", priority=1, meta={"tile": (0, 1, 1)})
    again = tested.process_exception(request, HeldBackError())
    assert again is not None
    assert (again.url, again.method, again.priority) == (URL, "HEAD", 1)
    assert again.meta["tile"] == (0, 1, 1)
    assert again.dont_filter
    assert not state_of(request).was_sent


def test_other_failures_are_not_its_matter(tested: TrafficMiddleware) -> None:
    request = Request(URL)
    assert tested.process_exception(request, OSError()) is None
    assert state_of(request).was_sent


def test_what_is_forbidden_ends_before_it_is_sent(
    crawl: Crawl, tested: TrafficMiddleware, traffic: Traffic
) -> None:
    crawl.robots = RULES
    forbidden, allowed = Request(f"{SITE}/world-day/3/0.png"), Request(f"{SITE}/world-day/0/0.png")
    with pytest.raises(IgnoreRequest, match=r"^robots.txt forbids it$"):
        tested.process_request(forbidden)
    tested.process_request(allowed)
    assert (state_of(forbidden).was_sent, state_of(allowed).was_sent) == (False, True)
    assert traffic.requests == 1


def test_a_spider_that_has_no_rules_may_ask_for_anything(tested: TrafficMiddleware) -> None:
    assert tested.process_request(Request(f"{SITE}/world-day/3/0.png")) is None


def test_rules_that_come_while_it_runs_hold() -> None:
    crawler = Crawler(Spider)
    crawler.spider = Spider("any")
    middleware = TrafficMiddleware.from_crawler(crawler)
    request = Request(f"{SITE}/world-day/3/0.png")
    middleware.process_request(request)
    crawl_of(crawler).robots = RULES
    with pytest.raises(IgnoreRequest):
        middleware.process_request(request)
