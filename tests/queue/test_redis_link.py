"""Connections to Redis: the settings are those of scrapy-redis, and nobody hears a password."""

from typing import Any
from unittest.mock import AsyncMock

import pytest
from redis.exceptions import BusyLoadingError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from scrapy.settings import BaseSettings

from tests.servers.redis import RedisServer
from tileharvest.errors import ConfigurationError, QueueError
from tileharvest.queue.redis.link import RedisLink, connect, may_pass, place

PASSWORD = "wonderful/horse@battery:staple"


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, "redis://localhost:6379/0"),
        ({"REDIS_HOST": "redis.example.net", "REDIS_PORT": 6380}, "redis://redis.example.net:6380/0"),
        ({"REDIS_URL": "redis://worker:secret@redis.example.net:6380/3"}, "redis://redis.example.net:6380/3"),
        ({"REDIS_URL": "rediss://:secret@redis.example.net"}, "rediss://redis.example.net:6379/0"),
        ({"REDIS_URL": "unix://worker:secret@/run/redis.sock?db=2"}, "unix:///run/redis.sock"),
        ({"REDIS_PARAMS": '{"host": "redis.example.net", "db": 2}'}, "redis://redis.example.net:6379/2"),
    ],
)
def test_a_place_is_named_without_its_login(settings: dict[str, Any], wanted: str) -> None:
    assert place(connect(BaseSettings(settings))) == wanted


@pytest.mark.parametrize("is_async", [True, False])
def test_what_a_queue_decides_itself_is_no_setting(is_async: bool) -> None:
    unwanted = {"decode_responses": True, "retry_on_timeout": True, "retry": object(), "protocol": 3}
    settings = BaseSettings({"REDIS_PARAMS": unwanted, "REDIS_DECODE_RESPONSES": True})
    connection = connect(settings, is_async=is_async).connection_pool.make_connection()
    assert (connection.encoder.decode_responses, connection.protocol) == (False, 2)
    assert connection.retry.get_retries() == 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"REDIS_URL": f"http://worker:{PASSWORD}@redis.example.net"}, "REDIS_URL or REDIS_PARAMS cannot"),
        ({"REDIS_URL": f"redis://worker:{PASSWORD}@redis.example.net"}, "REDIS_URL or REDIS_PARAMS cannot"),
        ({"REDIS_URL": "redis://:wonderful@[horse/0"}, "REDIS_URL or REDIS_PARAMS cannot"),
        ({"REDIS_PARAMS": {"password": PASSWORD, "unknown": 1}}, "REDIS_URL or REDIS_PARAMS cannot"),
        ({"REDIS_PARAMS": "horse"}, "REDIS_PARAMS is not a dict"),
    ],
)
def test_settings_that_cannot_be_are_told_in_one_line_without_the_password(
    settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        connect(BaseSettings(settings))
    told = str(refused.value)
    assert told.startswith(f"the settings for Redis cannot be ({said}")
    assert "REDIS_URL = 'redis://user:password@redis.example.net:6379/0'" in told
    assert refused.value.__cause__ is None
    assert not any(secret in told for secret in ("\n", "wonderful", "horse"))


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (RedisConnectionError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"), False),
        (BusyLoadingError("Redis is loading the dataset in memory"), True),
        (ResponseError("unknown command"), False),
    ],
)
def test_only_what_may_pass_is_tried_again(error: Exception, passes: bool) -> None:
    assert may_pass(error) is passes


async def test_an_outage_is_logged_once_and_one_at_the_start_is_the_error_alone(
    redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    def link(url: str) -> RedisLink:
        return RedisLink(BaseSettings({"REDIS_URL": url}), "the queue", 0.1)

    with pytest.raises(QueueError, match="does not answer"):
        await link("redis://127.0.0.1:1").open()
    assert caplog.messages == []
    async with link(redis.url) as opened:
        for _ in range(2):
            with pytest.raises(QueueError, match="does not answer"):
                await opened.attempt(AsyncMock(side_effect=RedisConnectionError))
    assert ["trying again" in message for message in caplog.messages] == [True]
