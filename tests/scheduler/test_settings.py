"""Where requests wait, as the settings and the spider say, and beside whom a worker must not work."""

import os
import re
import socket
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from scrapy.spiders import Spider

from tileharvest.errors import QueueError
from tileharvest.harvest.settings import harvest_for
from tileharvest.politeness.settings import rules_for
from tileharvest.queue.port import PUSHED, Entry, Worker
from tileharvest.queue.settings import QueueKind, queue_kind
from tileharvest.queue.sqlite.queue import SqliteQueue
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.scheduler.settings import (
    arguments_of,
    open_queue,
    queue_for,
    queue_name,
    refuse_company,
    without_effect,
)

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


def queue_file(settings: Settings, *, harvests: bool = True, **arguments: str) -> Path | None:
    """Returns the file of the queue of a crawl, or None if it is in memory."""
    crawler = Crawler(Spider, settings)
    crawler.crawling = True
    crawler.spider = Spider("stub", **arguments)
    crawl = crawl_of(crawler)
    if harvests:
        crawl.harvest = harvest_for(settings, {"map": "m", **arguments})
        crawl.rules = rules_for(settings, crawl.harvest.description)
    found: Path | None = queue_for(crawler)[0]._file  # type: ignore[attr-defined]
    return found


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


class ForeignSpider(Spider):
    """Has for its own purposes what means something to the scheduler as an argument."""

    name = "stub"
    segment = "sports"
    dry = "1"


def test_what_a_spiders_class_has_is_not_an_argument(settings: Settings) -> None:
    crawler = Crawler(ForeignSpider, settings)
    crawler.spider, crawler.crawling = ForeignSpider(), True
    queue: Any = queue_for(crawler)[0]
    assert queue._file is not None


def test_settings_without_effect_are_named(settings: Settings) -> None:
    settings.set("JOBDIR", "job", priority="cmdline")
    settings.set("DUPEFILTER_CLASS", Spider)
    assert without_effect(settings) == ["JOBDIR", "DUPEFILTER_CLASS"]


def test_a_queue_is_named_by_project_spider_and_arguments(settings: Settings) -> None:
    def named(spider: Spider) -> str:
        return queue_name(settings, spider.name, arguments_of(spider))

    settings.set("BOT_NAME", "tutorial")
    how = Spider("quotes", fresh="1", stay="1", segment="run", _job="2026", started=1.5)
    by_address = Spider("quotes")
    by_address.start_urls = ["http://a.example/1"]
    plain, same = named(Spider("quotes")), named(how)
    tagged, again, other = (named(Spider("quotes", tag=tag)) for tag in ("humor", "humor", "life"))
    assert plain == same == "tutorial:quotes"
    assert re.fullmatch("tutorial:quotes:[0-9a-f]{8}", tagged)
    assert tagged == again
    assert len({plain, tagged, other, named(by_address)}) == 4
    settings.set("QUEUE_NAME", "shared by {bot}")
    assert named(Spider("quotes", tag="humor")) == "shared by tutorial"


async def test_a_spider_forgets_all_segments_but_its_own_and_the_one_before(settings: Settings) -> None:
    queue, crawler = SqliteQueue(), Crawler(Spider, settings)
    crawler.spider = Spider("stub")
    pushed = [Entry(day.encode(), day, None) for day in ("17", "18", PUSHED, "19")]
    await queue.open("20", 0.0)
    await queue.exchange(pushed, (), 0, (), 0.0)
    await open_queue(queue, "20", crawler)
    assert set(await queue.segments()) == {"19", PUSHED, "20"}
    leases = (await queue.exchange((), (), 9, (), 0.0)).leases
    assert [lease.body for lease in leases] == [PUSHED.encode(), b"19"]


OWN = Worker(socket.gethostname(), "here", os.getpid(), "2026-11-20", 0.0)
BESIDE = Worker("box-1", "here", 7, "2026-11-20", 0.0)
ELSEWHERE = Worker("box-2", "there", 8, "2026-11-20", 0.0)
EARLIER = Worker("box-1", "here", 9, "2026-11-19", 0.0)


@pytest.mark.parametrize(
    ("others", "is_fresh", "is_history_local", "said"),
    [
        ([EARLIER], False, False, r"2026-11-19 is still under way at box-1 \(pid 9\); nothing was asked"),
        ([BESIDE], True, False, r"cannot start afresh while others work on it: box-1 \(pid 7\)"),
        ([ELSEWHERE], False, True, r"box-2 \(pid 8\) on another one works.*DATABASE_URL=postgresql\+"),
        ([BESIDE, ELSEWHERE], False, False, ""),
        ([BESIDE], False, True, ""),
        ([], True, True, ""),
    ],
)
def test_a_worker_that_must_not_join_is_refused(
    others: list[Worker], is_fresh: bool, is_history_local: bool, said: str
) -> None:
    with pytest.raises(QueueError, match=said) if said else nullcontext():
        refuse_company([OWN, *others], "2026-11-20", is_fresh=is_fresh, is_history_local=is_history_local)
