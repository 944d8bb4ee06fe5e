"""Where requests wait, and at which pace they are made, as the settings and the map's description say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from scrapy.spiders import Spider

from tileharvest.errors import ConfigurationError
from tileharvest.harvest.settings import harvest_for
from tileharvest.politeness.settings import rules_for
from tileharvest.queue.redis.queue import RedisQueue
from tileharvest.queue.settings import QueueKind, has_queue, local_queue, queue_kind
from tileharvest.queue.sqlite.queue import SqliteQueue
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.scheduler.settings import scheduling_for

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


def of_this_worker(found: Scheduling) -> Any:
    """The queue inside of that which keeps the pace."""
    return found.queue._queue


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({}, "sqlite"),
        ({"REDIS_URL": REDIS}, "redis"),
        ({"REDIS_HOST": "redis"}, "redis"),
        ({"REDIS_PARAMS": {"unix_socket_path": "/run/redis.sock"}}, "redis"),
        ({"REDIS_URL": REDIS, "SCHEDULER_QUEUE": "sqlite"}, "sqlite"),
        ({"SCHEDULER_QUEUE": "memory"}, "memory"),
        ({"SCHEDULER_QUEUE": "redis"}, "redis"),
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
        harvest_for(settings, {"map": "m"})
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("given", "kind"),
    [({}, SqliteQueue), ({"REDIS_URL": REDIS}, RedisQueue)],
)
def test_the_queue_is_of_the_kind_that_the_settings_name(
    settings: Settings, given: dict[str, Any], kind: type
) -> None:
    for name, value in given.items():
        settings.set(name, value)
    found = scheduling(settings)
    assert isinstance(of_this_worker(found), kind)
    assert (found.shared is of_this_worker(found)) is (kind is RedisQueue)


def test_a_dry_run_leaves_redis_alone(settings: Settings) -> None:
    settings.set("REDIS_URL", REDIS)
    found = scheduling(settings, dry="1")
    assert of_this_worker(found)._file is None
    assert found.shared is None


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
    assert (found.is_tool, found.shared, of_this_worker(found)._file) == (True, None, None)


def test_nothing_is_filtered_where_scrapys_setting_says_so(settings: Settings) -> None:
    assert scheduling(settings).filters
    settings.set("DUPEFILTER_CLASS", "scrapy.dupefilters.BaseDupeFilter")
    assert not scheduling(settings).filters


def test_a_queue_in_memory_has_no_file(settings: Settings) -> None:
    settings.set("SCHEDULER_QUEUE", "memory")
    assert of_this_worker(scheduling(settings))._file is None


@pytest.mark.parametrize("redis", ["", REDIS])
def test_the_setting_says_how_many_are_leased_ahead_at_most(settings: Settings, redis: str) -> None:
    settings.set("REDIS_URL", redis)
    settings.set("LEASE_AHEAD", 100)
    assert scheduling(settings).ahead == 100


def test_a_history_in_a_file_is_known_to_be_of_one_machine(settings: Settings) -> None:
    assert scheduling(settings).is_history_local
    settings.set("DATABASE_URL", "postgresql+psycopg://user:password@db.example.net/maps")
    assert not scheduling(settings).is_history_local


def test_a_map_without_a_queue_file_has_no_queue(settings: Settings) -> None:
    assert not has_queue(settings, "m")
    file = local_queue(settings, "m")._file
    file.parent.mkdir(parents=True)
    file.touch()
    assert has_queue(settings, "m")


def test_a_project_without_our_settings_has_their_defaults(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ours, foreign = scheduling(settings, harvests=False), scheduling(Settings(), harvests=False)
    for name in (
        "ahead",
        "lease_seconds",
        "linger",
        "segments_kept",
        "close_when_waiting",
    ):
        assert getattr(foreign, name) == getattr(ours, name), name
    assert isinstance(of_this_worker(foreign), SqliteQueue)
    assert of_this_worker(foreign)._file == tmp_path / "data" / "queues" / "stub.sqlite"


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
    assert of_this_worker(found)._file is not None
