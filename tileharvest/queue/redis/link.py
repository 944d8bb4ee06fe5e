"""The link to Redis: one client, and the rule which of its calls are repeated."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ConnectionError,  # noqa: A004 - these are the library's own, and no others are meant here
    NoPermissionError,
    ReadOnlyError,
    RedisError,
    TimeoutError,  # noqa: A004
)

from tileharvest.errors import QueueError
from tileharvest.queue.redis.connection import connect, masked, parameters_of, place
from tileharvest.queue.sentences import sentence

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from tileharvest.queue.redis.connection import Client

    Result = TypeVar("Result")

_logger = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0
"""Seconds between two attempts. Each pause is twice as long as the one before, up to the longest."""

_TO_OPEN: Final = 5.0
"""The most seconds of patience at the start, so that a wrong address is reported soon."""

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
    if isinstance(error, (ConnectionError, TimeoutError, OSError)):
        return "AWAY"
    return str(error).partition(" ")[0]


def may_pass(error: BaseException) -> bool:
    """Returns whether the same call may succeed a moment later."""
    if isinstance(error, (AuthenticationError, AuthorizationError)):
        return False
    if isinstance(error, (ConnectionError, TimeoutError)):
        return "certificate" not in str(error).lower()
    return case_of(error) in _PASSING


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

    @property
    def queue(self) -> str:
        """The purpose of the link and the address of the server, for messages."""
        return f"{self._what} at {place(self._open_client)}"

    async def open(self) -> None:
        """Connects. Raises ConfigurationError for parameters that cannot be used. Raises QueueError if no
        Redis accepts the login, and for a Redis that may throw requests away."""
        if self._client is not None:
            raise RuntimeError("the queue is open already")
        self._client = connect(self._parameters)
        try:
            about = await self.attempt(_memory_rules, min(self._patience, _TO_OPEN))
            policy = str(about.get("maxmemory_policy", ""))
            if about.get("maxmemory") and policy.startswith("allkeys"):
                raise QueueError(sentence("evicting", self.queue, policy))
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
        end = time.monotonic() + (self._patience if patience is None else patience)
        pause = _FIRST_PAUSE
        while True:
            client = self._open_client
            try:
                return await work(client)
            except (RedisError, OSError) as error:
                if not may_pass(error) or time.monotonic() + pause > end:
                    raise QueueError(self._sentence(error)) from error
                if pause == _FIRST_PAUSE:
                    _logger.warning("%s; trying again", self._sentence(error))
                if isinstance(error, ReadOnlyError):
                    # The server has become a replica: its name may lead to the new primary by now.
                    await client.connection_pool.disconnect(inuse_connections=False)
            except RuntimeError as error:
                # uvloop says so if the server has closed the connection since the last call.
                if "the handler is closed" not in str(error):
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    @property
    def _open_client(self) -> Client:
        if self._client is None:
            raise QueueError(sentence("closed", self._what, ""))
        return self._client

    def _sentence(self, error: BaseException) -> str:
        said = (" ".join(str(error).split()) or type(error).__name__).rstrip(".")
        return sentence(case_of(error), self.queue, masked(said, parameters_of(self._open_client)))


async def _memory_rules(client: Client) -> dict[str, Any]:
    """Returns what the server says of its memory, or nothing if its user may not ask that."""
    try:
        about: dict[str, Any] = await client.info("memory")
    except NoPermissionError:
        return {}
    return about
