from __future__ import annotations

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest

from tileharvest.middlewares.robots import RobotsMiddleware
from tileharvest.politeness.robots import Robots
from tileharvest.queue.requests import state_of
from tileharvest.scheduler.crawl import Crawl, crawl_of

SITE = "http://map.example.net"
RULES = Robots.of(SITE, b"User-agent: *\nDisallow: /world-day/3/")


def crawl(robots: Robots | None = None) -> Crawl:
    made = Crawl(Crawler(Spider))
    made.robots = robots or made.robots
    return made


def test_what_is_forbidden_ends_before_it_is_sent() -> None:
    middleware = RobotsMiddleware(crawl(RULES))
    forbidden, allowed = Request(f"{SITE}/world-day/3/0.png"), Request(f"{SITE}/world-day/0/0.png")
    with pytest.raises(IgnoreRequest, match=r"^robots.txt forbids it$"):
        middleware.process_request(forbidden)
    middleware.process_request(allowed)
    assert (state_of(forbidden).was_sent, state_of(allowed).was_sent) == (False, True)


def test_a_spider_that_has_no_rules_may_ask_for_anything() -> None:
    RobotsMiddleware(crawl()).process_request(Request(f"{SITE}/world-day/3/0.png"))


def test_rules_that_come_while_it_runs_hold() -> None:
    crawler = Crawler(Spider)
    crawler.spider = Spider("any")
    middleware = RobotsMiddleware.from_crawler(crawler)
    request = Request(f"{SITE}/world-day/3/0.png")
    middleware.process_request(request)
    crawl_of(crawler).robots = RULES
    with pytest.raises(IgnoreRequest):
        middleware.process_request(request)
