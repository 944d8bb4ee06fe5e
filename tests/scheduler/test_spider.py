"""What a spider may tell its scheduler, and what stands for a spider that tells nothing."""

from __future__ import annotations

import asyncio

from scrapy import Request, Spider

from tileharvest.scheduler.spider import HeldSpider, as_held
from tileharvest.spiders.tiles import TileSpider


class Held(Spider, HeldSpider):
    name = "held"


def test_a_spider_that_may_tell_something_is_asked_itself() -> None:
    spider = Held()
    assert as_held(spider) is spider


def test_the_tile_spiders_may_tell_something_and_hold_the_scheduler() -> None:
    assert issubclass(TileSpider, HeldSpider)
    assert TileSpider.holds_scheduler


def test_for_any_other_spider_requests_are_made_at_once_and_as_they_are() -> None:
    stand_in = as_held(Spider("other"))
    request = Request("http://map.example.net/a")
    assert not stand_in.holds_scheduler
    assert stand_in.prepared(request, "2026-11-21") is request
    assert stand_in.again(request) is request
    asyncio.run(stand_in.settled())
