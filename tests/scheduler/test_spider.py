"""What a spider may tell its scheduler, and what stands for a spider that tells nothing."""

from __future__ import annotations

import asyncio

import pytest
from scrapy import Request, Spider

from tileharvest.errors import BudgetError, QueueError, TileHarvestError
from tileharvest.scheduler.spider import HeldSpider, as_held, harvest_of, keeps_results
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
    asyncio.run(stand_in.begin_no_more())
    asyncio.run(stand_in.settled())


def test_a_failure_that_no_spider_takes_is_told(caplog: pytest.LogCaptureFixture) -> None:
    assert as_held(Spider("other")).give_up(QueueError("disk full"))
    assert caplog.messages == ["disk full"]


def test_a_spider_without_a_harvest_has_none() -> None:
    assert harvest_of(Spider("other")) is None


@pytest.mark.parametrize(
    ("ending", "are_kept"),
    [
        (None, True),
        (BudgetError("as many requests as allowed", "budget"), True),
        (BudgetError("too little room", "room", is_all_kept=False), False),
        (QueueError("disk full"), False),
    ],
    ids=["none", "budget", "no room", "queue"],
)
def test_results_are_surely_kept_unless_what_ended_the_crawl_may_drop_them(
    ending: TileHarvestError | None, are_kept: bool
) -> None:
    spider = Held()
    spider.ending = ending
    assert keeps_results(spider) is are_kept
