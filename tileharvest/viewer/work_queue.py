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
    """Runs calls in threads, in the order in which they came, and refuses a new call if too many wait.

    Without a bound the last of many visitors would wait for minutes for pictures that nobody looks at any
    more. May be used from one event loop.
    """

    def __init__(self, name: str, threads: int, most_waiting: int) -> None:
        self._threads = ThreadPoolExecutor(threads, name)
        self._most = threads + most_waiting
        self._count = 0
        self._lock = threading.Lock()

    async def run(self, call: Callable[[], _Result]) -> _Result:
        """Returns what the call returns, and raises what it raises.

        Raises RefusedError, with status 503 and Retry-After, if too many calls wait.
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
        # The place is free when the thread ends, not this coroutine: a call goes on when its client has gone.
        future.add_done_callback(self._done)
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Lets no waiting call begin. Calls under way come to their end."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _done(self, _: Future[_Result]) -> None:
        with self._lock:
            self._count -= 1
