"""The link to Redis: one client, and the rule which of its calls are repeated."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, TypeVar

from redis.asyncio import Redis, RedisCluster
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ConnectionError,  # noqa: A004 - these are the library's own, and no others are meant here
    NoPermissionError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
    TimeoutError,  # noqa: A004
)
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_before_delay, wait_exponential

from tileharvest.errors import QueueError
from tileharvest.queue.redis.connection import connect, fitting, masked, parameters_of, place
from tileharvest.queue.sentences import sentence

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from tileharvest.queue.redis.connection import Client

    Result = TypeVar("Result")

_logger = logging.getLogger(__name__)

_PAUSES: Final = wait_exponential(multiplier=0.05, max=2.0)
"""Seconds between two attempts. Each pause is twice as long as the one before, up to the longest."""

_TO_OPEN: Final = 5.0
"""The most seconds of patience at the start, so that a wrong address is reported soon."""

_OLDEST: Final = 6
"""The oldest version of Redis that works."""

_PASSING: Final = frozenset({"BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "TRYAGAIN"})
"""The cases in which the server may answer otherwise soon: another script runs, the server reads its data, or
a replica takes over."""


def case_of(error: BaseException) -> str:
    """Returns the case of the error, as `sentence` takes it: the first word of the server's answer, or
    AWAY."""
    if isinstance(error, (AuthenticationError, AuthorizationError)):
        return "WRONGPASS"
    if isinstance(error, RedisError) and error.status_code not in (None, "ERR"):
        # The library has removed the word from the answer.
        return str(error.status_code)
    if isinstance(error, (ConnectionError, TimeoutError, RedisClusterException, OSError)):
        return "AWAY"
    # Redis 6 and 7.0 leave the word out when a script is refused something.
    return "NOPERM" if "user executing the script" in str(error) else str(error).partition(" ")[0]


def may_pass(error: BaseException) -> bool:
    """Returns whether the same call may succeed a moment later."""
    if isinstance(error, (AuthenticationError, AuthorizationError)):
        return False
    if isinstance(error, (ConnectionError, TimeoutError, RedisClusterException)):
        return "certificate" not in str(error).lower()
    return isinstance(error, RedisError) and case_of(error) in _PASSING


class RedisLink:
    """A connection to Redis whose calls outlast the loss of a connection.

    A call is repeated until it is answered, or for `patience` seconds. It may therefore reach Redis more than
    once, and must bear that. The client itself repeats nothing. Its own time limits come on top of the
    patience.
    """

    def __init__(self, parameters: Mapping[str, Any], what: str, patience: float) -> None:
        """`parameters` are those of `connection.connect`. `what` says in messages what the link is for.
        Connects to nothing yet."""
        self._parameters = parameters
        self._what = what
        self._patience = patience
        self._client: Client | None = None
        self.failing_since: float | None = None
        """When the first call began that was not answered at once, on the monotonic clock. The user of the
        link sets this to None when calls are answered again."""

    @property
    def client(self) -> Client:
        """The client. Raises RuntimeError if the link is not open."""
        if self._client is None:
            raise RuntimeError("the queue is not open")
        return self._client

    @property
    def queue(self) -> str:
        """The purpose of the link and the address of the server, for messages."""
        return f"{self._what} at {place(self.client)}"

    async def open(self) -> None:
        """Connects. Raises ConfigurationError for parameters that cannot be used. Raises QueueError if no
        Redis accepts the login, and for a Redis that is too old or may throw requests away."""
        if self._client is not None:
            raise RuntimeError("the queue is open already")
        self._client = connect(self._parameters)
        patience = min(self._patience, _TO_OPEN)
        try:
            self._client = await self.attempt(lambda client: fitting(client, self._parameters), patience)
            for about in await self.attempt(_information, patience):
                self._check_server(about)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Closes the client. Closing twice is harmless."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def attempt(
        self, work: Callable[[Client], Awaitable[Result]], patience: float | None = None
    ) -> Result:
        """Returns the result of `work`, which may be done more than once. Raises QueueError."""
        retrying = AsyncRetrying(
            retry=retry_if_exception(may_pass),
            wait=_PAUSES,
            stop=stop_before_delay(self._patience if patience is None else patience),
            before_sleep=self._interrupted,
            reraise=True,
        )

        async def once() -> Result:
            try:
                return await work(self.client)
            except RuntimeError as error:
                # uvloop says so if the server has closed the connection since the last call.
                if "the handler is closed" not in str(error):
                    raise
                raise ConnectionError("the connection is closed") from error

        try:
            return await retrying(once)
        except (RedisError, RedisClusterException, OSError) as error:
            raise QueueError(self._sentence(error)) from error

    def _check_server(self, about: Mapping[str, Any]) -> None:
        version = str(about.get("redis_version", _OLDEST))
        major, _, _ = version.partition(".")
        if major.isdigit() and int(major) < _OLDEST:
            raise QueueError(self._sentence(ResponseError(f"its version is {version}")))
        policy = str(about.get("maxmemory_policy", ""))
        if about.get("maxmemory") and policy.startswith("allkeys"):
            raise QueueError(sentence("evicting", self.queue, policy))

    async def _interrupted(self, call: RetryCallState) -> None:
        assert call.outcome is not None
        error = call.outcome.exception()
        assert error is not None
        if self.failing_since is None:
            self.failing_since = call.start_time
        if call.attempt_number == 1:
            _logger.warning("%s; trying again", self._sentence(error))
        if isinstance(error, ReadOnlyError) and isinstance(self.client, Redis):
            # The server has become a replica: connect anew, as its name may lead to the new primary by now.
            await self.client.connection_pool.disconnect(inuse_connections=False)

    def _sentence(self, error: BaseException) -> str:
        said = (" ".join(str(error).split()) or type(error).__name__).rstrip(".")
        return sentence(case_of(error), self.queue, masked(said, parameters_of(self.client)))


async def _information(client: Client) -> list[dict[str, Any]]:
    """Returns what each primary tells of itself, or nothing if the user may not ask that."""
    try:
        if isinstance(client, RedisCluster):
            return list((await client.info(target_nodes=RedisCluster.PRIMARIES)).values())
        return [await client.info()]
    except NoPermissionError:
        return []
