"""Connections to Redis, made from the settings of scrapy-redis."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

import redis.retry
from redis.asyncio import Redis, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from scrapy_redis import connection, defaults

from tileharvest.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

_OURS: Final = frozenset(
    {"decode_responses", "retry", "retry_on_error", "retry_on_timeout", "protocol", "redis_cls"}
)
"""Parameters of clients that a person cannot set: answers are bytes, and `RedisLink` decides which calls are
repeated."""

_SECRETS: Final = ("password", "ssl_password")

_EXAMPLE: Final = "write REDIS_URL = 'redis://user:password@redis.example.net:6379/0', or rediss:// for TLS"


def connection_parameters(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters for `connect`: the defaults of scrapy-redis, overridden by REDIS_PARAMS, and
    both overridden by the other settings of scrapy-redis, such as REDIS_URL or REDIS_HOST.

    A URL overrides all other parameters. On the command line REDIS_PARAMS is JSON. Parameters of answers and
    of retries are left out. Raises ConfigurationError for REDIS_PARAMS that are not a dict.
    """
    own = settings.get("REDIS_PARAMS") or {}
    try:
        own = dict(json.loads(own) if isinstance(own, str) else own)
    except (TypeError, ValueError):
        # The value may hold a password, so it is not shown.
        example = "REDIS_PARAMS='{\"socket_timeout\": 5}'"
        raise ConfigurationError(f"REDIS_PARAMS is not a dict; write for example -s {example}") from None
    parameters = {**defaults.REDIS_PARAMS, **own}
    for setting, name in connection.SETTINGS_PARAMS_MAP.items():
        if value := settings.get(setting):
            parameters[name] = value
    return {name: value for name, value in parameters.items() if name not in _OURS}


Client: TypeAlias = Any
"""A `redis.asyncio.Redis`, whose types say that answers may be texts."""


def connect(parameters: Mapping[str, Any], *, is_async: bool = True) -> Client:
    """Returns a client that connects when it is first used, and again when it has lost its connection. It
    repeats no call. Unless it `is_async`, it blocks, and is for a thread.

    Raises ConfigurationError, without any password in it, for parameters that cannot be used.
    """
    options = dict(parameters)
    url = options.pop("url", None)
    retry = Retry(NoBackoff(), 0) if is_async else redis.retry.Retry(NoBackoff(), 0)
    options |= {"retry": retry, "protocol": 2}
    kind: Any = Redis if is_async else redis.Redis
    try:
        if url is None:
            return _checked(kind(**options))
        if urlsplit(url).scheme == "unix":
            # These are defaults for another server, and a socket does not accept them.
            for name in ("host", "port", "socket_connect_timeout"):
                options.pop(name, None)
        return _checked(kind.from_url(url, **options))
    except (TypeError, ValueError, AttributeError, RedisError) as error:
        # `from None`: the error about a URL that cannot be read may have its password.
        said = masked(" ".join(str(error).split()), {**options, "url": url})
        raise ConfigurationError(f"the settings for Redis cannot be ({said}): {_EXAMPLE}") from None


def parameters_of(client: Client) -> dict[str, Any]:
    """Returns the parameters of a client's connections. The password is among them."""
    parameters: dict[str, Any] = client.connection_pool.connection_kwargs
    return parameters


def place(client: Client) -> str:
    """Returns the address of a client's server for messages, without name and password."""
    options = parameters_of(client)
    if "path" in options:
        return f"unix://{options['path']}"
    is_encrypted = issubclass(client.connection_pool.connection_class, SSLConnection)
    host, port = options.get("host", "localhost"), options.get("port", 6379)
    return f"redis{'s' if is_encrypted else ''}://{host}:{port}/{options.get('db') or 0}"


def masked(said: str, parameters: Mapping[str, Any]) -> str:
    """Returns the text with `***` in place of every password that is among the parameters."""
    secrets = [str(parameters[name]) for name in _SECRETS if parameters.get(name)]
    url = str(parameters.get("url") or "")
    login, at, _ = url.rpartition("@")
    if at:
        # Pieces, too: a password with characters that are not escaped is read as another part of the URL.
        secrets += [login, login.partition("://")[2], *login.partition("://")[2].split(":", 1)[1:]]
        secrets += [piece for secret in secrets for piece in secret.split("/") if len(piece) > 2]
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        said = said.replace(secret, "***")
    return said


def _checked(client: Client) -> Client:
    """Returns the client. Makes a connection that is never used, because only that finds unknown
    parameters."""
    pool = client.connection_pool
    pool.connection_class(**pool.connection_kwargs)
    return client
