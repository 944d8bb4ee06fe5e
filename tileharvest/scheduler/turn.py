"""Whether the next request may start now: the part of it that each worker decides for itself."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tileharvest.maps.rates import Gap
from tileharvest.queue.requests import DELAY, question_of, state_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileharvest.queue.allowance import Allowance


class Turn:
    """Keeps each request's own delay, and the allowance where there is one."""

    def __init__(
        self, *, clock: Callable[[], float], random: Callable[[], float], wake: Callable[[], None]
    ) -> None:
        """`clock` never goes back; `wake` is called when a request that had to wait may start."""
        self._clock = clock
        self._random = random
        self._wake = wake
        self.allowance: Allowance | None = None
        self._last = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: tuple[Any, float] | None = None

    def comes(self, request: Any) -> bool:
        """Whether it may start now; if so it is taken for started. Ask again for the same request else."""
        left = self._due(request) - self._clock()
        if left > 0:
            self._wait(left)
            return False
        if self.allowance is not None and not self.allowance.may_start(request, _expected(request)):
            return False
        self._last = self._clock()
        self._waiting = None
        return True

    def over(self, request: Any) -> None:
        """The request has ended, however."""
        if self.allowance is not None:
            state = state_of(request)
            self.allowance.ended(request, state.received_bytes, was_sent=state.was_sent)

    def stop(self) -> None:
        """Nothing is waited for any more."""
        if self._timer is not None:
            self._timer.cancel()
        if self.allowance is not None:
            self.allowance.stop()

    def _due(self, request: Any) -> float:
        """Drawn once for each request."""
        delay = request.meta.get(DELAY)
        if delay is None:
            return self._last
        if self._waiting is None or self._waiting[0] is not request:
            self._waiting = (request, Gap.of(delay).draw(self._random()))
        return self._last + self._waiting[1]

    def _wait(self, seconds: float) -> None:
        if self._timer is None:

            def passed() -> None:
                self._timer = None
                self._wake()

            self._timer = asyncio.get_running_loop().call_later(seconds, passed)


async def wait(seconds: float, over: asyncio.Event) -> None:
    """Returns when the seconds have passed, at once for less than none, or as soon as it is over."""
    if seconds > 0:
        with suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), seconds)


def _expected(request: Any) -> int | None:
    if request.method == "HEAD":
        return 0
    question = question_of(request)
    return None if question is None else question.expected_bytes
