"""What scrapy-redis keeps in Redis: start URLs are taken and lost by no kill, its own queues are refused."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
import redis
from scrapy import Spider
from scrapy.utils.test import get_crawler
from scrapy_redis.spiders import RedisMixin, RedisSpider

from tests.servers.redis import redis_server
from tileharvest.errors import QueueError
from tileharvest.queue.redis.start_urls import StartUrls, refuse_pickled
from tileharvest.scheduler.settings import start_urls_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.redis import RedisServer

LONG = 1000.0
KEY = "fed:start_urls"
KINDS = {
    "list": ({}, "RPUSH", lambda urls: urls),
    "set": ({"REDIS_START_URLS_AS_SET": True}, "SADD", lambda urls: urls),
    "zset": (
        {"REDIS_START_URLS_AS_ZSET": True},
        "ZADD",
        # The first has the highest score, and comes first.
        lambda urls: [word for place, url in enumerate(urls) for word in (100.5 - place, url)],
    ),
}
URLS = [f"http://site.example/{number}" for number in range(6)]


class FedSpider(RedisSpider):  # type: ignore[misc]  # it ships no types
    name = "fed"
    redis_batch_size = 4

    def make_request_from_data(self, data: bytes) -> Any:
        if data == b"nothing":
            raise ValueError("no URL")
        return super().make_request_from_data(data)


class MixedSpider(RedisMixin, Spider):  # type: ignore[misc]
    name = "fed"


@pytest.fixture(scope="module")
def running() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture
def server(running: RedisServer) -> RedisServer:
    running.ask("FLUSHALL")
    return running


def spider_on(server: RedisServer, kind: str = "list") -> FedSpider:
    settings = {"REDIS_URL": server.url, **KINDS[kind][0]}
    spider: FedSpider = FedSpider.from_crawler(get_crawler(FedSpider, settings))
    return spider


def put(server: RedisServer, kind: str = "list", urls: list[str] = URLS) -> None:
    _, command, words = KINDS[kind]
    server.ask(command, KEY, *words(urls))


def pushed(spider: FedSpider) -> list[str]:
    return [request.url for request in spider.next_requests()]


@pytest.mark.parametrize("kind", KINDS)
def test_all_are_taken_in_their_order_a_batch_at_a_time(server: RedisServer, kind: str) -> None:
    put(server, kind)
    spider = spider_on(server, kind)
    taken = StartUrls(spider, silent=LONG)
    first, second, third = pushed(spider), pushed(spider), pushed(spider)
    assert [len(first), len(second), third] == [4, 2, []]
    assert sorted(first + second) == URLS
    if kind != "set":
        assert first + second == URLS
    taken.settle()
    assert server.ask("KEYS", "*") == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_silent_process_had_taken_goes_back_where_it_was(server: RedisServer, kind: str) -> None:
    put(server, kind)
    before = server.ask("SORT", KEY, "BY", "nosort", "ALPHA") if kind == "set" else None
    killed = spider_on(server, kind)
    StartUrls(killed, silent=LONG)
    pushed(killed)
    heir = spider_on(server, kind)
    heir.redis_batch_size = 10
    StartUrls(heir, silent=0.0)
    found = pushed(heir)
    assert sorted(found) == URLS
    if before is None:
        assert found == URLS


def test_what_a_live_process_has_taken_is_left_to_it(server: RedisServer) -> None:
    put(server)
    one, other = spider_on(server), spider_on(server)
    StartUrls(one, silent=LONG)
    StartUrls(other, silent=LONG)
    assert pushed(one) == URLS[:4]
    assert pushed(other) == URLS[4:]
    assert pushed(other) == []


def test_nothing_is_forgotten_before_all_of_a_batch_was_pushed(server: RedisServer) -> None:
    put(server)
    spider = spider_on(server)
    taken = StartUrls(spider, silent=LONG)
    requests = spider.next_requests()
    next(requests)
    taken.settle()
    (own,) = server.ask("KEYS", f"{KEY}:taken:*")
    assert server.ask("LLEN", own) == 4
    for _ in requests:
        pass
    taken.settle()
    assert server.ask("KEYS", f"{KEY}:taken*") == []


def test_what_cannot_become_a_request_costs_only_itself(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    put(server, urls=[URLS[0], "nothing", URLS[1]])
    spider = spider_on(server)
    StartUrls(spider, silent=LONG)
    assert pushed(spider) == URLS[:2]
    assert f"b'nothing' of '{KEY}' makes no request and is dropped: no URL" in caplog.messages


def test_a_spider_that_takes_by_a_method_of_its_own_is_left_alone(server: RedisServer) -> None:
    put(server)
    spider = spider_on(server)
    spider.fetch_data = lambda key, number: [URLS[5].encode()]
    StartUrls(spider, silent=LONG)
    assert pushed(spider) == [URLS[5]]


def test_a_spider_with_the_mixin_is_fed_once_it_is_set_up(server: RedisServer) -> None:
    put(server)
    spider = MixedSpider.from_crawler(get_crawler(MixedSpider, {"REDIS_URL": server.url}))
    assert start_urls_of(spider, LONG) is None
    spider.setup_redis(spider.crawler)
    assert start_urls_of(spider, LONG) is not None
    assert pushed(spider) == URLS
    (own,) = server.ask("KEYS", f"{KEY}:taken:*")
    assert server.ask("LLEN", own) == len(URLS)


def test_a_redis_that_is_away_is_told_later() -> None:
    with redis_server() as server:
        put(server)
        spider = spider_on(server)
        taken = StartUrls(spider, silent=LONG)
        pushed(spider)
        server.kill()
        taken.check()
        taken.settle()
        with pytest.raises(redis.ConnectionError):
            pushed(spider)


@pytest.mark.parametrize(("command", "words"), [("ZADD", (1, "pickled", 2, "too")), ("LPUSH", ("a", "b"))])
def test_what_scrapy_redis_has_queued_is_refused_with_what_to_do(
    server: RedisServer, command: str, words: tuple[Any, ...]
) -> None:
    server.ask(command, "shop:requests", *words)
    with pytest.raises(QueueError, match=r"'shop:requests' .* requests wait \(2\), .* first crawl 'shop'"):
        asyncio.run(refuse_pickled({"REDIS_URL": server.url}, "shop"))


def test_the_key_of_its_queue_may_have_another_name(server: RedisServer) -> None:
    server.ask("LPUSH", "queue-shop", "pickled")
    settings = {"REDIS_URL": server.url, "SCHEDULER_QUEUE_KEY": "queue-%(spider)s"}
    with pytest.raises(QueueError, match="'queue-shop'"):
        asyncio.run(refuse_pickled(settings, "shop"))


def test_without_a_queue_of_scrapy_redis_nothing_is_refused(server: RedisServer) -> None:
    server.ask("SET", "shop:requests", "no queue")
    asyncio.run(refuse_pickled({"REDIS_URL": server.url}, "shop"))
    asyncio.run(refuse_pickled({"REDIS_URL": server.url}, "other"))


def test_where_redis_does_not_answer_it_is_one_line_without_a_password() -> None:
    with pytest.raises(
        QueueError, match=r"the queue 'shop:requests' of scrapy-redis at .* does not answer"
    ) as caught:
        asyncio.run(refuse_pickled({"REDIS_URL": "redis://worker:horse@127.0.0.1:1/0"}, "shop", 0.0))
    assert "horse" not in str(caught.value)
    assert "\n" not in str(caught.value)
