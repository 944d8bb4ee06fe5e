"""The link to Redis: one client, made from the settings of scrapy-redis, and the rule which of its calls are
repeated."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

import redis.retry
from redis.asyncio import Redis, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ConnectionError,  # noqa: A004 - these are the library's own, and no others are meant here
    NoPermissionError,
    OutOfMemoryError,
    RedisError,
    TimeoutError,  # noqa: A004
)
from scrapy_redis import connection, defaults

from tileharvest.errors import ConfigurationError, QueueError
from tileharvest.queue.port import NOTHING_LOST, emptied

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Result = TypeVar("Result")

_logger = logging.getLogger(__name__)

_LOGIN: Final = (AuthenticationError, AuthorizationError)
"""The errors of a server that is there and refuses the login."""

_EXAMPLE: Final = (
    "write REDIS_URL = 'redis://user:password@redis.example.net:6379/0', or rediss:// for TLS, and other"
    " parameters as in -s REDIS_PARAMS='{\"socket_timeout\": 5}'"
)


Client: TypeAlias = Any
"""A `redis.asyncio.Redis`, whose types say that answers may be texts."""


def connect(settings: Any, *, is_async: bool = True) -> Client:
    """Returns a client by Scrapy's settings that scrapy-redis knows, such as REDIS_URL. It connects when
    it is first used, and again when it has lost its connection. It repeats no call, and its answers are
    bytes. Unless it `is_async`, it blocks, and is for a thread.

    Raises ConfigurationError, without any password in it, for settings that cannot be used.
    """
    ours: dict[str, Any] = {
        "redis_cls": Redis if is_async else redis.Redis,
        "retry": Retry(NoBackoff(), 0) if is_async else redis.retry.Retry(NoBackoff(), 0),
        "retry_on_error": [],
        "retry_on_timeout": False,
        "decode_responses": False,
        "protocol": 2,
    }
    named = {name: settings.get(setting) for setting, name in connection.SETTINGS_PARAMS_MAP.items()}
    given = {name: value for name, value in named.items() if value}
    said = "REDIS_PARAMS is not a dict"
    try:
        parameters = {**defaults.REDIS_PARAMS, **settings.getdict("REDIS_PARAMS"), **given, **ours}
        said = "REDIS_URL or REDIS_PARAMS cannot be read"
        # Only a client that is made of an address takes all of these parameters without a warning.
        client = connection.get_redis(**{"url": "redis://", **parameters})
        # Only a connection finds unknown parameters. This one is never used.
        pool = client.connection_pool
        pool.connection_class(**pool.connection_kwargs)
    except (TypeError, ValueError, AttributeError, RedisError):
        # The error may have the password.
        raise ConfigurationError(f"the settings for Redis cannot be ({said}): {_EXAMPLE}") from None
    return client


def place(client: Client) -> str:
    """Returns the address of a client's server for messages, without name and password."""
    options = client.connection_pool.connection_kwargs
    if "path" in options:
        return f"unix://{options['path']}"
    is_encrypted = issubclass(client.connection_pool.connection_class, SSLConnection)
    host, port = options.get("host", "localhost"), options.get("port", 6379)
    return f"redis{'s' if is_encrypted else ''}://{host}:{port}/{options.get('db') or 0}"


_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0
"""Seconds between two attempts. Each pause is twice as long as the one before, up to the longest."""

_TO_OPEN: Final = 5.0
"""The most seconds of patience at the start, so that a wrong address is reported soon."""


def may_pass(error: BaseException) -> bool:
    """Returns whether the same call may succeed a moment later: nothing answers, or the server reads its
    data."""
    is_away = isinstance(error, (ConnectionError, TimeoutError)) and not isinstance(error, _LOGIN)
    return is_away and "certificate" not in str(error).lower()


LOST: Final = "LOST"
"""The first word of a script's error about a queue that was emptied."""


class RedisLink:
    """A connection to Redis whose calls outlast the loss of a connection.

    A call is repeated until it is answered, or for `patience` seconds. It may therefore reach Redis more than
    once, and must bear that. The client itself repeats nothing. Its own time limits come on top of the
    patience.
    """

    def __init__(self, settings: Any, what: str, patience: float) -> None:
        """`settings` are those of `connect`. `what` says in messages what the link is for. Connects to
        nothing yet."""
        self.settings = settings
        self._what = what
        self._patience = patience
        self._client: Client | None = None
        self._is_missed = False
        """Whether the log says that no server answers."""
        self.queue = what
        """The purpose of the link and, once it was open, the address of the server, for messages."""

    async def open(self) -> None:
        """Connects. Raises ConfigurationError for settings that cannot be used. Raises QueueError if no
        Redis accepts the login, and for a Redis that may throw requests away."""
        self._client = connect(self.settings)
        self.queue = f"{self._what} at {place(self._client)}"
        try:
            about = await self.attempt(_memory_rules, min(self._patience, _TO_OPEN))
            policy = str(about.get("maxmemory_policy", ""))
            if about.get("maxmemory") and policy.startswith("allkeys"):
                raise QueueError(
                    f"{self.queue} may throw requests away when its memory is full (maxmemory-policy"
                    f" {policy}); nothing was changed; let an administrator set maxmemory-policy noeviction"
                )
        except BaseException:
            await self.close()
            raise

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the client. Closing twice is harmless."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def attempt(
        self, work: Callable[[Client], Awaitable[Result]], patience: float | None = None
    ) -> Result:
        """Returns the result of `work`, which may be done more than once. Raises QueueError."""
        end = time.monotonic() + (self._patience if patience is None else patience)
        pause = _FIRST_PAUSE
        while True:
            if self._client is None:
                raise QueueError(f"{self.queue} is not open; {NOTHING_LOST}; the program is about to end")
            try:
                answer = await work(self._client)
                self._is_missed = False
                return answer
            except (RedisError, OSError) as error:
                failure = self._failure(error)
                if not may_pass(error) or time.monotonic() + pause > end:
                    raise failure from error
                # With little patience, as at the start, the error itself comes soon enough.
                if patience is None and not self._is_missed:
                    self._is_missed = True
                    _logger.warning("%s; trying again", failure)
            except RuntimeError as error:
                # uvloop says so if the server has closed the connection since the last call.
                if "the handler is closed" not in str(error):
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _failure(self, error: BaseException) -> QueueError:
        said = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        problem, advice = "failed", "run again; Redis must be of version 6 or newer"
        if said.startswith(LOST):
            return emptied(self.queue)
        if isinstance(error, _LOGIN):
            problem, advice = "refuses the login", "correct name and password in REDIS_URL or REDIS_PARAMS"
        elif isinstance(error, NoPermissionError):
            advice = "let an administrator allow the user of REDIS_URL: ~tileharvest:* +@all -@admin"
        elif isinstance(error, OutOfMemoryError):
            problem, advice = "is out of memory", "give it more (maxmemory), and run again"
        elif isinstance(error, (ConnectionError, TimeoutError, OSError)):
            problem, advice = "does not answer", "see that it runs and can be reached, and run again"
        return QueueError(f"{self.queue} {problem} ({said}); {NOTHING_LOST}; {advice}")


async def _memory_rules(client: Client) -> dict[str, Any]:
    """Returns what the server says of its memory, or nothing if its user may not ask that."""
    try:
        about: dict[str, Any] = await client.info("memory")
    except NoPermissionError:
        return {}
    return about
