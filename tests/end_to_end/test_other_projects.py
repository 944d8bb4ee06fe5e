"""What Scrapy and scrapy-redis have works here, and ours works in other projects and for other spiders."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.bad_input.small_site import FIRST_DAY, Stage
from tests.end_to_end.forking import ROOT
from tests.end_to_end.project import Project, await_condition
from tests.servers.nginx import Nginx
from tests.servers.nginx import nginx as nginx_server
from tests.servers.redis import RedisServer
from tileharvest.demo.publication import publish

MINE: Final = ("-s", "SPIDER_MODULES=tests.end_to_end.user_spiders")
PAGES: Final = 6


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    """A page with a link to each of the others, which have none."""
    folder = tmp_path_factory.mktemp("site")
    links = "".join(f'<a href="{number}.html">' for number in range(1, PAGES))
    (folder / "index.html").write_text(f"<html><title>Index</title>{links}</html>", encoding="utf-8")
    for number in range(1, PAGES):
        (folder / f"{number}.html").write_text(f"<title>Page {number}</title>", encoding="utf-8")
    with nginx_server(folder) as server:
        yield server


def asked(site: Nginx) -> list[str]:
    return [line.path for line in site.log() if line.path != "/robots.txt"]


def test_shell_asks_as_the_spider_of_maps_would(project: Project, site: Nginx) -> None:
    site.clear_log()
    code = "response.css('title::text').get(), spider.name"
    done = project.scrapy("shell", "--nolog", "--spider", "overviewer", "-c", code, f"{site.url}/1.html")
    assert done.stdout == "('Page 1', 'overviewer')\n"
    assert [line.agent for line in site.log()] == ["TileHarvest/0.1"]
    assert not project.data.exists()


def test_parse_leaves_alone_what_waits_for_the_spider(project: Project, site: Nginx) -> None:
    site.clear_log()
    crawl = ("crawl", "pages", *MINE, "-a", f"url={site.url}/index.html", "-s", "CONCURRENT_REQUESTS=1")
    # robots.txt is one of them.
    project.scrapy(*crawl, "-s", "CLOSESPIDER_PAGECOUNT=3")
    before = asked(site)
    assert 1 < len(before) < PAGES
    site.clear_log()
    project.scrapy("parse", *MINE, "--spider=pages", f"{site.url}/index.html")
    assert asked(site) == ["/index.html"]
    site.clear_log()
    project.scrapy(*crawl)
    assert sorted([*before, *asked(site)]) == sorted(
        ["/index.html", *(f"/{number}.html" for number in range(1, PAGES))]
    )


def test_a_spider_is_steered_as_a_map_is(
    project: Project, tmp_path: Path, nginx: Callable[..., Nginx]
) -> None:
    site, log = tmp_path / "site", tmp_path / "log"
    site.mkdir()
    for page in ("first", "second", "bad", "third"):
        (site / page).write_text(page)
    server = nginx(site)
    project.add_map("small", server.url)

    def tell(*words: str, status: int = 0) -> str:
        done = project.scrapy(*words, *MINE, check=False)
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    def asked() -> list[str]:
        return [line.path.strip("/") for line in server.log() if line.path != "/robots.txt"]

    def push(page: str) -> str:
        return tell("push", "pages", f"{server.url}/{page}")

    assert tell("queue", "pages").startswith("no crawl is running\n")
    options = ("-a", f"url={server.url}/first", "-a", "stay=1", "-s", f"LOG_FILE={log}", *MINE)
    with project.running("crawl", "pages", *options) as process:
        assert await_condition(lambda: "first" in asked(), process)
        assert push("second").startswith("1 pushed into the queue of spider 'pages': a running crawl takes")
        assert await_condition(lambda: "second" in asked(), process)
        push("bad")
        assert await_condition(lambda: bool(json.loads(tell("failures", "pages", "--json"))), process)
        running = tell("queue", "pages")
        assert running.startswith("crawl: running\n")
        assert ["failed", "1"] in [line.split() for line in running.splitlines()]
        assert "callback raised ValueError('a bad page')" in tell("failures", "pages")
        assert "1 request of spider 'pages' put back: a running" in tell("failures", "pages", "--retry")
        assert await_condition(lambda: asked().count("bad") == 2, process)
        assert tell("pause", "pages").startswith("spider 'pages' is paused: requests on the way finish")
        assert await_condition(lambda: "spider 'pages' is paused since" in log.read_text(), process)
        push("third")
        assert json.loads(tell("queue", "pages", "--json"))["pending/plus"] == 1
        assert tell("queue", "pages").startswith("crawl: paused, since")
        assert "third" not in asked()
        assert tell("resume", "pages") == "spider 'pages' goes on\n"
        assert await_condition(lambda: "third" in asked(), process)
        rate = tell("rate", "pages", "20/s", status=2)
        assert "spider 'pages' harvests no map: its rate is Scrapy's DOWNLOAD_DELAY" in rate
        assert tell("stop", "pages").startswith("spider 'pages' is stopping")
        assert process.wait(240) == 1
    assert "a person has stopped spider 'pages'" in log.read_text()
    assert "Spider closed (stopped)" in log.read_text()


def served(redis: RedisServer, spider: str) -> list[str]:
    return [json.loads(item)["url"] for item in redis.ask("LRANGE", f"{spider}:items", 0, -1)]


def test_pipelines_and_feeds_behind_ours_get_each_result(
    stage: Stage, tmp_path: Path, redis: RedisServer
) -> None:
    pipelines = {"tileharvest.pipelines.HistoryPipeline": 300, "scrapy_redis.pipelines.RedisPipeline": 400}
    feed = tmp_path / "results.jsonl"
    settings = ("-s", f"ITEM_PIPELINES={json.dumps(pipelines)}", "-s", f"REDIS_URL={redis.url}")
    stage.project.crawl("small", FIRST_DAY, "-o", str(feed), *settings)
    in_redis = [json.loads(item) for item in redis.ask("LRANGE", "overviewer:items", 0, -1)]
    in_feed = [json.loads(line) for line in feed.read_text().splitlines()]
    for results in (in_redis, in_feed):
        added = {image["sha1"] for result in results for image in result["found"]["images"].values()}
        assert added == {version.sha1 for version in stage.project.versions()}


def test_both_lpush_and_our_push_feed_a_running_spider(
    project: Project, redis: RedisServer, tmp_path: Path
) -> None:
    pipelines = json.dumps({"scrapy_redis.pipelines.RedisPipeline": 300})
    words = (*MINE, "-s", f"REDIS_URL={redis.url}", "-s", f"ITEM_PIPELINES={pipelines}")
    for number in range(2):
        (tmp_path / f"page{number}.html").write_text(f"<title>{number}</title>")
    with nginx_server(tmp_path) as running, project.running("crawl", "fed", *words) as crawl:
        urls = [f"{running.url}/page{number}.html" for number in range(2)]
        redis.ask("LPUSH", "fed:start_urls", json.dumps({"url": urls[0]}))
        assert await_condition(lambda: urls[0] in served(redis, "fed"), crawl), crawl.communicate()
        project.scrapy("push", "fed", urls[1], *words)
        assert await_condition(lambda: urls[1] in served(redis, "fed"), crawl), crawl.communicate()
        project.scrapy("stop", "fed", *words)
        crawl.wait(60)
    assert set(served(redis, "fed")) == set(urls)


def test_a_map_is_harvested_with_the_settings_of_the_project(
    tmp_path: Path, nginx: Callable[..., Nginx]
) -> None:
    publish(1, date(2026, 11, 18), tmp_path / "site")
    server = nginx(tmp_path / "site")
    project = tmp_path / "project"
    shutil.copytree(
        ROOT / "examples" / "quotes", project, ignore=shutil.ignore_patterns("data", "__pycache__")
    )
    with (project / "quotes" / "settings.py").open("a", encoding="utf-8") as settings:
        settings.write('CONCURRENT_REQUESTS = 3\nUSER_AGENT = "quotes (+http://quotes.example.net)"\n')
    (project / "maps.toml").write_text(f'[m]\nurl = "{server.url}/"\ncontact = "me@example.net"\n')
    ended = run(project, "crawl", "overviewer", "-a", "map=m")
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "'CONCURRENT_REQUESTS': 3" in ended.stderr
    agents = {line.agent for line in server.log()}
    assert agents == {"quotes (+http://quotes.example.net) (+me@example.net)"}
    # The commands know the spiders of maps, whether or not the project has the add-on.
    assert "map 'm' is already harvested" in run(project, "harvest", "m", "-s", "ADDONS={}").stdout


def run(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scrapy", *words],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT), "SCRAPY_SETTINGS_MODULE": "quotes.settings"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
