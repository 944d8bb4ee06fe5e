"""Spiders and pipelines of scrapy-redis on our scheduler, over a real Redis; and what it leaves behind."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from tests.end_to_end.fed_spider import BATCH
from tests.end_to_end.project import await_condition
from tests.servers.nginx import nginx as nginx_server
from tests.servers.published import published
from tests.servers.redis import redis_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.end_to_end.project import Project
    from tests.servers.redis import RedisServer

PAGES: Final = 340
PROGRAM: Final = Path(__file__).parent / "fed_spider.py"
OURS: Final = "tileharvest.scheduler.Scheduler"
THEIRS: Final = "scrapy_redis.scheduler.Scheduler"


class Fed(NamedTuple):
    """What came of start URLs whose spider was killed again and again."""

    wanted: set[str]
    served: list[str]
    left: list[bytes]
    """Keys that are still there and hold start URLs."""


def run(server: RedisServer, spider: str, scheduler: str, left: int, *moments: str) -> list[str]:
    """Crawls as `fed_spider.py` says, and returns the addresses of all items."""
    done = subprocess.run(
        [sys.executable, PROGRAM, spider, scheduler, server.url, str(left), *moments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout
    return [json.loads(item)["url"] for item in server.ask("LRANGE", f"{spider}:items", 0, -1)]


def fed(server: RedisServer, site: str, scheduler: str, *moments: str, pages: int, left: int) -> Fed:
    urls = [f"{site}/page{number}.html" for number in range(pages)]
    server.ask("FLUSHALL")
    server.ask("RPUSH", "fed:start_urls", *(json.dumps({"url": url}) for url in urls))
    served = run(server, "fed", scheduler, left, *moments)
    return Fed(set(urls), served, server.ask("KEYS", "fed:start_urls*"))


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("pages")
    for number in range(PAGES):
        (folder / f"page{number}.html").write_text(f"<title>{number}</title>")
    with nginx_server(folder) as running:
        yield running.url


@pytest.fixture(scope="module")
def moments(kills: int) -> list[str]:
    chance = random.Random(3)
    return [f"{chance.choice(['made', 'pushed'])}:{chance.randint(1, BATCH)}" for _ in range(kills)]


def test_no_start_url_is_lost_by_kills_between_its_pop_and_its_push(
    server: RedisServer, site: str, moments: list[str], kills: int
) -> None:
    found = fed(server, site, OURS, *moments, pages=PAGES, left=20)
    assert set(found.served) == found.wanted
    assert found.left == []
    # One that was killed has served at most its own batch.
    assert len(found.served) <= PAGES + kills * BATCH


def test_scrapy_redis_alone_loses_start_urls_by_the_same_kills(
    server: RedisServer, site: str, moments: list[str]
) -> None:
    moments = moments[:5]
    found = fed(server, site, THEIRS, *moments, pages=100, left=1)
    lost = found.wanted - set(found.served)
    assert found.left == []
    # Of each batch at least what had not become a request.
    made = [int(moment.removeprefix("made:")) for moment in moments if moment.startswith("made:")]
    assert len(lost) >= sum(BATCH - number + 1 for number in made)


def test_a_crawl_spider_that_is_fed_follows_its_rules(server: RedisServer, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<a href=one.html>1</a> <a href=two.html>2</a>")
    (tmp_path / "one.html").write_text("<a href=two.html>2</a> <a href=three.html>3</a>")
    for name in ("two", "three"):
        (tmp_path / f"{name}.html").write_text("<a href=index.html>back</a>")
    server.ask("FLUSHALL")
    with nginx_server(tmp_path) as running:
        server.ask("RPUSH", "links:start_urls", json.dumps({"url": f"{running.url}/index.html"}))
        found = run(server, "links", OURS, 1)
        wanted = {f"{running.url}/{name}.html" for name in ("one", "two", "three", "index")}
    assert (set(found), len(found)) == (wanted, len(wanted))


def test_pipelines_and_feeds_behind_ours_get_each_result(
    project: Project, shared_maps: Path, tmp_path: Path, server: RedisServer
) -> None:
    server.ask("FLUSHALL")
    pipelines = {"tileharvest.pipelines.HistoryPipeline": 300, "scrapy_redis.pipelines.RedisPipeline": 400}
    feed = tmp_path / "results.jsonl"
    with nginx_server(published(shared_maps, "alexjj", 1, tmp_path / "site")) as running:
        project.add_map("small", running.url)
        settings = ("-s", f"ITEM_PIPELINES={json.dumps(pipelines)}", "-s", f"REDIS_URL={server.url}")
        project.scrapy("crawl", "overviewer", "-a", "map=small", "-o", str(feed), *settings)
    in_redis = [json.loads(item) for item in server.ask("LRANGE", "overviewer:items", 0, -1)]
    in_feed = [json.loads(line) for line in feed.read_text().splitlines()]
    for results in (in_redis, in_feed):
        added = {result["image"]["sha1"] for result in results if result["outcome"] == "add"}
        assert added == {version.sha1 for version in project.versions()}


def test_a_queue_of_scrapy_redis_is_found_before_anything_is_taken(server: RedisServer, site: str) -> None:
    server.ask("FLUSHALL")
    server.ask("ZADD", "fed:requests", 1, "pickled")
    server.ask("RPUSH", "fed:start_urls", json.dumps({"url": f"{site}/page0.html"}))
    run(server, "fed", OURS, 1)
    assert server.ask("LLEN", "fed:start_urls") == 1
    assert server.ask("EXISTS", "fed:items") == 0


def test_both_lpush_and_our_push_feed_a_running_spider(
    project: Project, server: RedisServer, site: str
) -> None:
    server.ask("FLUSHALL")
    pipelines = {"scrapy_redis.pipelines.RedisPipeline": 300}
    settings = {
        "SPIDER_MODULES": "tests.end_to_end.fed_spider",
        "REDIS_URL": server.url,
        "ITEM_PIPELINES": json.dumps(pipelines),
    }
    words = [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]

    def served() -> set[str]:
        return {json.loads(item)["url"] for item in server.ask("LRANGE", "fed:items", 0, -1)}

    with project.running("crawl", "fed", *words) as crawl:
        for number, feed in enumerate((server_push, project_push)):
            url = f"{site}/page{number}.html"
            feed(project, server, url, words)
            assert await_condition(lambda url=url: url in served(), crawl), crawl.communicate()
        project.scrapy("stop", "fed", *words)
        crawl.wait(60)
    assert served() == {f"{site}/page0.html", f"{site}/page1.html"}


def server_push(_project: Project, server: RedisServer, url: str, _words: list[str]) -> None:
    server.ask("LPUSH", "fed:start_urls", json.dumps({"url": url}))


def project_push(project: Project, _server: RedisServer, url: str, words: list[str]) -> None:
    project.scrapy("push", "fed", url, *words)
