"""Connections to Redis: the settings mean what they mean to scrapy-redis, and nobody hears a password."""

from typing import Any

import pytest
from redis.asyncio import SSLConnection
from redis.exceptions import AuthenticationError, BusyLoadingError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from scrapy.settings import Settings
from scrapy_redis import connection as scrapy_redis_connection

from tileharvest.errors import ConfigurationError
from tileharvest.queue.redis.link import connect, connection_parameters, may_pass, place

PASSWORD = "wonderful/horse@battery:staple"

SETTINGS: list[dict[str, Any]] = [
    {},
    {"REDIS_HOST": "redis.example.net", "REDIS_PORT": 6380},
    {"REDIS_URL": "redis://worker:horse%40battery@redis.example.net"},
    {"REDIS_URL": "redis://redis.example.net/2?socket_timeout=7"},
    {"REDIS_URL": "rediss://redis.example.net", "REDIS_PARAMS": {"ssl_ca_certs": "ca.pem"}},
    {"REDIS_URL": "redis://one.example.net", "REDIS_HOST": "another.example.net", "REDIS_PORT": 1},
    {"REDIS_PARAMS": {"password": PASSWORD, "username": "worker", "socket_timeout": 5}},
    {"REDIS_ENCODING": "latin-1"},
    # As on the command line.
    {"REDIS_PARAMS": '{"socket_timeout": 9}'},
]
SAME = ("host", "port", "db", "username", "password", "socket_timeout", "socket_connect_timeout", "encoding")


@pytest.mark.filterwarnings("ignore:.*retry_on_timeout:DeprecationWarning")
@pytest.mark.parametrize("settings", SETTINGS)
def test_settings_mean_what_they_mean_to_scrapy_redis(settings: dict[str, Any]) -> None:
    theirs = scrapy_redis_connection.get_redis_from_settings(Settings(settings)).connection_pool
    ours = connect(connection_parameters(settings)).connection_pool
    wanted = {name: theirs.connection_kwargs.get(name) for name in SAME}
    assert {name: ours.connection_kwargs.get(name) for name in SAME} == wanted
    assert issubclass(ours.connection_class, SSLConnection) == ("SSL" in theirs.connection_class.__name__)


@pytest.mark.parametrize("wrong", ["horse", '["horse"]', "7", ["horse"]])
def test_parameters_that_are_no_dict_are_refused_without_being_shown(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="REDIS_PARAMS is not a dict") as caught:
        connection_parameters({"REDIS_PARAMS": wrong})
    assert "horse" not in str(caught.value)


def test_what_a_queue_decides_itself_is_left_out() -> None:
    unwanted = {"decode_responses": True, "retry_on_timeout": True, "retry": object(), "protocol": 3}
    parameters = connection_parameters({"REDIS_PARAMS": unwanted, "REDIS_DECODE_RESPONSES": True})
    assert not set(parameters) & set(unwanted)
    connection = connect(parameters).connection_pool.make_connection()
    assert (connection.encoder.decode_responses, connection.protocol) == (False, 2)
    assert connection.retry.get_retries() == 0


def test_a_socket_is_not_confused_by_a_host() -> None:
    client = connect(
        connection_parameters({"REDIS_URL": "unix:///run/redis.sock?db=2", "REDIS_HOST": "redis.example.net"})
    )
    assert place(client) == "unix:///run/redis.sock"
    assert client.connection_pool.connection_kwargs["db"] == 2


# What cannot be


WRONG: list[dict[str, Any]] = [
    {"REDIS_URL": f"http://worker:{PASSWORD}@redis.example.net"},
    {"REDIS_URL": f"redis://worker:{PASSWORD}@redis.example.net"},
    {"REDIS_URL": "redis://wonderful:horse@redis.example.net:staple/0"},
    {"REDIS_URL": "redis://:wonderful@[horse/0"},
    {"REDIS_PARAMS": {"password": PASSWORD, "unknown": 1}},
]


@pytest.mark.parametrize("settings", WRONG)
def test_settings_that_cannot_be_are_told_in_one_line(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        connect(connection_parameters(settings))
    told = str(refused.value)
    assert told.startswith("the settings for Redis cannot be (")
    assert "REDIS_URL = 'redis://user:password@redis.example.net:6379/0'" in told
    assert "\n" not in told
    assert refused.value.__cause__ is None
    for secret in ("wonderful", "horse"):
        assert secret not in told


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("redis://worker:secret@redis.example.net:6380/3", "redis://redis.example.net:6380/3"),
        ("rediss://:secret@redis.example.net", "rediss://redis.example.net:6379/0"),
        ("unix://worker:secret@/run/redis.sock", "unix:///run/redis.sock"),
        ("redis://", "redis://localhost:6379/0"),
    ],
)
def test_a_place_is_named_without_its_login(url: str, wanted: str) -> None:
    assert place(connect({"url": url})) == wanted


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (RedisConnectionError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"), False),
        (RedisConnectionError("Connection refused"), True),
        (AuthenticationError("invalid username-password pair"), False),
        (BusyLoadingError("Redis is loading the dataset in memory"), True),
        (ResponseError("unknown command"), False),
    ],
)
def test_only_what_may_pass_is_tried_again(error: Exception, passes: bool) -> None:
    assert may_pass(error) is passes
