"""What a spider of any project may expect of a scheduler, in real crawls by stub spiders."""

import asyncio
import json
import os
import re
import sqlite3
import subprocess
import sys
import time
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import BaseSettings

from tests.end_to_end.forking import ROOT
from tests.end_to_end.project import answered, await_condition
from tests.scheduler.crawling import Crawled, Crawls, run
from tests.servers.redis import RedisServer
from tileharvest.queue.settings import workers_of_all


def test_a_worker_gives_signs_of_life_while_a_callback_blocks(
    crawls: Crawls, redis: RedisServer, tmp_path: Path
) -> None:
    """For longer than a lease lasts. The tests of the queue say that it keeps its leases by them."""
    page, until = crawls.write_page("0"), tmp_path / "until"
    shared = {"LEASE_SECONDS": 1, "REDIS_URL": redis.url}

    def heard() -> float:
        workers = asyncio.run(workers_of_all(BaseSettings(shared), ["stub"]))["stub"]
        return max((one.heartbeat for one in workers if one.leased), default=0.0)

    with crawls.running(run(page, spider="BlockingSpider", BLOCKS_UNTIL=str(until), **shared)) as process:
        assert await_condition(lambda: answered(crawls.server) == 1 and heard() > 0, process)
        began = heard()
        assert await_condition(lambda: heard() > began + 1, process)
        until.touch()
        blocked = Crawled(**json.loads(process.communicate(timeout=240)[0]))
    assert (crawls.asked(), blocked.stats["item_scraped_count"]) == (["/0"], 1)


def test_the_segment_is_fixed_when_the_crawl_starts(crawls: Crawls) -> None:
    first, second = crawls.write_page("1", "/2"), crawls.write_page("2", "/1")
    (crawled,) = crawls.crawl(
        run(first, second, SEGMENT_RESOLVER="tests.scheduler.stub_spiders.OtherSegments")
    )
    assert sorted(crawls.asked()) == ["/1", "/2"]
    assert crawled.reason == "finished"


def test_a_request_waits_by_its_download_slot(crawls: Crawls) -> None:
    """The tests of the queues say in which order slots are taken."""
    later, page = {"not_before": time.time() + 3600}, crawls.write_page("page")
    slots = [{"url": f"{page}?{slot}", "meta": {"download_slot": slot, **later}} for slot in "ab"]
    crawls.crawl(run(*slots, {"url": page, "meta": later}, CLOSE_WHEN_WAITING=0))
    with closing(sqlite3.connect(crawls.file())) as queue:
        assert queue.execute("SELECT slot FROM requests ORDER BY id").fetchall() == [
            ("a",),
            ("b",),
            ("127.0.0.1",),
        ]


def test_a_priority_holds_over_all_that_waits_as_depth_priority_sets_it(crawls: Crawls) -> None:
    names = [""]
    for _ in range(3):
        for name in names:
            crawls.write_page(name or "root", *(f"/{name}{letter}" for letter in "abc"))
        names = [f"{name}{letter}" for name in names for letter in "abc"]
    for name in names:
        crawls.write_page(name)
    crawls.crawl(run(f"{crawls.server.url}/root", CONCURRENT_REQUESTS=1, DEPTH_PRIORITY=-1))
    depths = [len(path) - 1 for path in crawls.asked()[1:]]
    # The engine asks for the next request before it has what came of the last one.
    assert depths.index(3) <= 4
    assert depths[-1] == 3


def test_scrapy_is_told_what_is_enqueued_and_dropped(crawls: Crawls) -> None:
    pages = [crawls.write_page(name) for name in ("1", "2", "1", "forbidden")]
    extension = {"tests.scheduler.stub_spiders.DropsCounted": 1}
    (crawled,) = crawls.crawl(run(*pages, EXTENSIONS=extension))
    assert (crawled.counted("enqueued"), crawled.counted("dequeued")) == (2, 2)
    assert crawled.stats["dupefilter/filtered"] == 1
    assert crawled.stats["told/dropped//1"] == 1
    assert crawled.reason == "finished"


def test_a_redirect_to_a_page_that_was_seen_ends_there(crawls: Crawls) -> None:
    here, moved = crawls.write_page("here"), f"{crawls.server.url}/moved"
    (crawled,) = crawls.crawl(run(here, moved, CONCURRENT_REQUESTS=1))
    assert crawls.asked() == ["/here", "/moved"]
    assert (crawled.counted("done"), crawled.counted("left")) == (2, 0)


def test_a_request_that_a_middleware_has_replaced_keeps_no_crawl_from_its_end(crawls: Crawls) -> None:
    page, _ = crawls.write_page("1"), crawls.write_page("2")
    middlewares = {"tests.scheduler.stub_spiders.ForgetfulMiddleware": 1}
    (crawled,) = crawls.crawl(run(page, DOWNLOADER_MIDDLEWARES=middlewares))
    assert (crawls.asked(), crawled.counted("left")) == (["/1", "/2"], 0)


def test_without_a_dupefilter_nothing_is_dropped(crawls: Crawls) -> None:
    page = crawls.write_page("1")
    crawls.crawl(run(page, page, DUPEFILTER_CLASS="scrapy.dupefilters.BaseDupeFilter"))
    assert crawls.asked() == ["/1", "/1"]


def test_a_page_whose_callback_was_renamed_is_asked_anew_when_the_spider_comes_to_it(crawls: Crawls) -> None:
    page = crawls.write_page("page")
    renamed = {"url": page, "callback": "parse_item"}
    first, again = crawls.crawl(run(renamed, spider="RenamedSpider"), run(page))
    (line,) = first.said("ERROR")
    assert "callback 'parse_item' is not a method of the spider" in line
    assert (first.counted("left"), first.counted("failed"), first.counted("seen")) == (0, 1, 0)
    assert crawls.asked() == ["/page"]
    assert again.counted("done") == 1


PLAIN: dict[str, Any] = {
    "SCHEDULER": "tileharvest.scheduler.Scheduler",
    "SPIDER_MIDDLEWARES": {"tileharvest.scheduler.LeaseMiddleware": 10},
}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"TWISTED_REACTOR": "twisted.internet.selectreactor.SelectReactor"}, "needs the asyncio reactor"),
        ({"SPIDER_MIDDLEWARES": {}}, "needs its spider middleware: write ADDONS"),
    ],
    ids=["reactor", "middleware"],
)
def test_a_project_that_cannot_use_the_scheduler_is_told_in_one_line(
    tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    ours = {**PLAIN, "TILEHARVEST_DATA": str(tmp_path), **settings}
    program = (
        "import sys, json; from scrapy import Spider; from scrapy.crawler import CrawlerProcess\n"
        "process = CrawlerProcess(json.loads(sys.argv[1]))\n"
        "process.crawl(type('S', (Spider,), {'name': 's'}))\n"
        "process.start(); sys.exit(process.bootstrap_failed)"
    )
    ended = _run(program, json.dumps(ours))
    assert ended.returncode == 1
    assert sum(said in line for line in ended.stderr.splitlines()) == 1


def test_the_scheduler_works_without_what_only_maps_need(tmp_path: Path) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["maps"]
    names = {"pillow": "PIL", "prometheus-client": "prometheus_client"}
    # Scrapy itself needs aiohttp.
    plain = {re.split(r"[\[<>=]", one)[0] for one in extras} - {"aiohttp"}
    settings = {"ADDONS": {"tileharvest.TileHarvest": 300}, "TILEHARVEST_DATA": str(tmp_path)}
    program = f"""
import sys
sys.modules |= dict.fromkeys({[names.get(one, one) for one in plain]!r})
from scrapy import Spider
from scrapy.crawler import AsyncCrawlerProcess
class Pages(Spider):
    name = "pages"
    start_urls = ["data:,1"]
    def parse(self, response):
        yield {{"url": response.url}}
process = AsyncCrawlerProcess({settings!r})
crawler = process.create_crawler(Pages)
process.crawl(crawler)
process.start()
print(crawler.stats.get_value("item_scraped_count"), crawler.stats.get_value("scheduler/done"))
"""
    ended = _run(program)
    assert ended.stdout.split() == ["1", "1"], ended.stderr[-3000:]


def _run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_crawls_of_one_process_leave_no_crawler_alive(tmp_path: Path) -> None:
    program = """
import asyncio, gc, weakref
from scrapy import Spider
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.utils.reactor import install_reactor
install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")

class Pages(Spider):
    name = "pages"
    start_urls = ["data:,1"]

async def crawl():
    runner, alive = AsyncCrawlerRunner(SETTINGS), []
    for number in range(15):
        crawler = runner.create_crawler(Pages)
        alive.append(weakref.ref(crawler))
        await runner.crawl(crawler, number=str(number))
        assert crawler.stats.get_value("response_received_count") == 1
    del crawler
    await asyncio.sleep(0)
    gc.collect()
    print(sum(one() is not None for one in alive))

from twisted.internet import reactor
task = asyncio.get_event_loop().create_task(crawl())
task.add_done_callback(lambda _: reactor.stop())
reactor.run()
"""
    quiet = {"TELNETCONSOLE_ENABLED": False, "LOG_ENABLED": False}
    settings = {**PLAIN, **quiet, "TILEHARVEST_DATA": str(tmp_path)}
    ended = _run(f"SETTINGS = {settings!r}\n{program}")
    assert ended.stdout.strip() == "0", ended.stderr[-2000:]
