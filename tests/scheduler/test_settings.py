"""Where requests wait, and at which pace they are made, as the settings and the map's description say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from scrapy.spiders import Spider

from tileharvest.errors import ConfigurationError
from tileharvest.harvest.settings import harvest_for
from tileharvest.politeness.settings import rules_for
from tileharvest.queue.settings import QueueKind, queue_kind
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.scheduler.settings import arguments_of, queue_name, scheduling_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tileharvest.scheduler.settings import Scheduling

REDIS = "redis://127.0.0.1:1/0"
MAP = '[m]\nurl = "http://maps.example.net:8080/world/"\nconcurrency = 6\nrequests_per_second = 2.5\n'


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "maps.toml").write_text(MAP)
    found = Settings()
    found.setmodule("tileharvest.settings")
    for name, value in {
        "TILEHARVEST_MAPS": str(tmp_path / "maps.toml"),
        "TILEHARVEST_DATA": str(tmp_path / "data"),
        **dict.fromkeys(("DATABASE_URL", "REDIS_URL", "REDIS_HOST", "REDIS_PORT"), ""),
    }.items():
        found.set(name, value)
    return found


def scheduling(settings: Settings, *, harvests: bool = True, **arguments: str) -> Scheduling:
    crawler = Crawler(Spider, settings)
    crawler.crawling = True
    crawler.spider = Spider("stub", **arguments)
    crawl = crawl_of(crawler)
    if harvests:
        crawl.harvest = harvest_for(settings, {"map": "m", **arguments})
        crawl.rules = rules_for(settings, crawl.harvest.description)
    return scheduling_for(crawler)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({}, "sqlite"),
        ({"REDIS_HOST": "redis"}, "redis"),
        ({"REDIS_URL": REDIS, "SCHEDULER_QUEUE": "sqlite"}, "sqlite"),
    ],
)
def test_requests_wait_in_redis_where_one_is_named(
    settings: Settings, given: dict[str, Any], kind: QueueKind
) -> None:
    for name, value in given.items():
        settings.set(name, value)
    assert queue_kind(settings) == kind


def test_a_queue_that_is_none_is_refused_before_anything_is_touched(
    settings: Settings, tmp_path: Path
) -> None:
    settings.set("SCHEDULER_QUEUE", "rabbit")
    with pytest.raises(ConfigurationError, match="'rabbit' is none of: memory, sqlite, redis"):
        scheduling(settings)
    assert not (tmp_path / "data").exists()


def test_a_dry_run_leaves_redis_alone(settings: Settings) -> None:
    settings.set("REDIS_URL", REDIS)
    assert scheduling(settings, dry="1").queue._file is None


def test_a_tool_of_scrapys_leaves_the_queue_alone(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.set("REDIS_URL", REDIS)
    assert not scheduling(settings, harvests=False).is_tool

    async def start(spider: Spider) -> AsyncIterator[Any]:
        for request in ():
            yield request

    # As `scrapy parse` does with any spider.
    start.__module__ = "scrapy.commands.parse"
    monkeypatch.setattr(Spider, "start", start)
    found = scheduling(settings, harvests=False)
    assert (found.is_tool, found.queue._file) == (True, None)


class ForeignSpider(Spider):
    """Has for its own purposes what means something to the scheduler as an argument."""

    name = "stub"
    segment = "sports"
    stay = "forever"
    fresh = "fish"
    dry = True


def test_a_spiders_own_attributes_are_no_arguments(settings: Settings) -> None:
    crawler = Crawler(ForeignSpider, settings)
    crawler.spider, crawler.crawling = ForeignSpider(), True
    found = scheduling_for(crawler)
    assert (found.stay, found.fresh) == (False, False)
    assert found.queue._file is not None


def named(settings: Settings, spider: Spider) -> str:
    return queue_name(settings, spider.name, arguments_of(spider))


def test_a_queue_is_named_by_project_spider_and_arguments(settings: Settings) -> None:
    settings.set("BOT_NAME", "tutorial")
    plain = named(settings, Spider("quotes"))
    tagged, again, other = (named(settings, Spider("quotes", tag=tag)) for tag in ("humor", "humor", "life"))
    assert plain == "tutorial:quotes"
    assert re.fullmatch("tutorial:quotes:[0-9a-f]{8}", tagged)
    assert tagged == again != other


def test_what_says_how_to_crawl_does_not_name_the_queue(settings: Settings) -> None:
    how = Spider("quotes", fresh="1", stay="1", segment="run", _job="2026", started=1.5)
    assert named(settings, how) == "tileharvest:quotes"
    assert named(settings, ForeignSpider()) == "tileharvest:stub"


def test_addresses_that_a_spider_makes_of_its_arguments_name_the_queue(settings: Settings) -> None:
    one, other = Spider("quotes"), Spider("quotes")
    one.start_urls, other.start_urls = ["http://a.example/1"], ["http://a.example/2"]
    assert len({named(settings, spider) for spider in (one, other, Spider("quotes"))}) == 3


def test_a_name_of_the_projects_own_is_taken_as_it_is(settings: Settings) -> None:
    settings.set("QUEUE_NAME", "shared by {bot}")
    assert named(settings, Spider("quotes", tag="humor")) == "shared by tileharvest"
