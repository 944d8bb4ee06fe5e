"""Spiders and pipelines of scrapy-redis on our scheduler, over a real Redis; and what it leaves behind."""

import json
from pathlib import Path

from tests.end_to_end.project import Project, await_condition
from tests.servers.nginx import nginx as nginx_server
from tests.servers.published import published
from tests.servers.redis import RedisServer


def settings_of(redis: RedisServer, **more: object) -> list[str]:
    """Returns the words of the command line that let our spiders run, and keep items in Redis."""
    settings = {
        "SPIDER_MODULES": "tests.end_to_end.user_spiders",
        "REDIS_URL": redis.url,
        "ITEM_PIPELINES": json.dumps({"scrapy_redis.pipelines.RedisPipeline": 300}),
        **more,
    }
    return [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]


def served(redis: RedisServer, spider: str) -> list[str]:
    return [json.loads(item)["url"] for item in redis.ask("LRANGE", f"{spider}:items", 0, -1)]


def test_pipelines_and_feeds_behind_ours_get_each_result(
    project: Project, shared_maps: Path, tmp_path: Path, redis: RedisServer
) -> None:
    pipelines = {"tileharvest.pipelines.HistoryPipeline": 300, "scrapy_redis.pipelines.RedisPipeline": 400}
    feed = tmp_path / "results.jsonl"
    with nginx_server(published(shared_maps, "alexjj", 1, tmp_path / "site")) as running:
        project.add_map("small", running.url)
        settings = ("-s", f"ITEM_PIPELINES={json.dumps(pipelines)}", "-s", f"REDIS_URL={redis.url}")
        project.scrapy("crawl", "overviewer", "-a", "map=small", "-o", str(feed), *settings)
    in_redis = [json.loads(item) for item in redis.ask("LRANGE", "overviewer:items", 0, -1)]
    in_feed = [json.loads(line) for line in feed.read_text().splitlines()]
    for results in (in_redis, in_feed):
        added = {image["sha1"] for result in results for image in result["found"]["images"].values()}
        assert added == {version.sha1 for version in project.versions()}


def test_both_lpush_and_our_push_feed_a_running_spider(
    project: Project, redis: RedisServer, tmp_path: Path
) -> None:
    words = settings_of(redis)
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
