"""Threads for work that takes long, and a bounded number of calls that wait for them."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeVar

from tileharvest.viewer.replies import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

_Result = TypeVar("_Result")

RETRY_AFTER: Final = 5
"""Seconds after which a refused client may ask again."""


class WorkQueue:
    """Calls run in threads, in the order in which they came. When too many wait, a new one is refused.

    Without a bound the last of many visitors would wait for minutes for what they have long stopped looking
    at. May be used from one event loop.
    """

    def __init__(self, name: str, threads: int, most_waiting: int) -> None:
        self._threads = ThreadPoolExecutor(threads, name)
        self._most = threads + most_waiting
        self._count = 0
        self._lock = threading.Lock()

    async def run(self, call: Callable[[], _Result]) -> _Result:
        """Returns what the call returns, and raises what it raises.

        Raises RefusedError, with status 503 and Retry-After, while as many calls wait as may wait.
        """
        with self._lock:
            if self._count >= self._most:
                raise RefusedError(
                    HTTPStatus.SERVICE_UNAVAILABLE,
                    f"too many ask for such work at once: ask again in {RETRY_AFTER} seconds",
                    {"Retry-After": str(RETRY_AFTER)},
                )
            self._count += 1
        future = self._threads.submit(call)
        # Not when this coroutine ends: a call goes on in its thread when its client has gone.
        future.add_done_callback(self._done)
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Lets no waiting call begin. What is under way comes to its end."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _done(self, _: Future[_Result]) -> None:
        with self._lock:
            self._count -= 1
