"""A queue that a test drives step by step, at times of its own choice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, Self

import pytest

from tileharvest.queue.port import Counts, End, Entry, Exchanged, Failure, Lease, RequestQueue

DAY = "2026-11-20"
NEXT_DAY = "2026-11-21"


def entry(body: str, priority: int = 0, *, segment: str = DAY, **fields: Any) -> Entry:
    """Returns a request whose fingerprint is its body, unless told otherwise."""
    fields = {"fingerprint": body.encode(), **fields}
    return Entry(body.encode(), segment, priority=priority, **fields)


class Driven:
    """A queue, its event loop, and the leases that its worker has."""

    def __init__(self, make: Callable[[], RequestQueue]) -> None:
        self.make = make
        self._runner = asyncio.Runner()
        self.queue: Any = self.run(self._made())
        self.held: dict[int, Lease] = {}

    async def _made(self) -> RequestQueue:
        return self.make()

    def run(self, work: Awaitable[Any]) -> Any:
        async def wait() -> Any:
            return await work

        return self._runner.run(wait())

    def open(self, segment: str = DAY, now: float = 0.0) -> Self:
        self.run(self.queue.open(segment, now))
        self.held.clear()
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self.queue.close())
        self._runner.close()

    def tell(self, *pushed: Entry, ends: list[End] | None = None, now: float = 0.0) -> Exchanged:
        """Tells the queue without leasing anything."""
        return self.run(self.queue.exchange(pushed, ends or (), 0, list(self.held.values()), now))

    def lease(self, number: int = 100, now: float = 0.0) -> list[Lease]:
        held = list(self.held.values())
        leases = list(self.run(self.queue.exchange((), (), number, held, now)).leases)
        self.held.update((one.id, one) for one in leases)
        return leases

    def bodies(self, number: int = 100, now: float = 0.0) -> list[str]:
        """Leases, and returns the bodies of the leases."""
        return [one.body.decode() for one in self.lease(number, now)]

    def end(self, lease: Lease, how: Any = "finish", reason: str = "", now: float = 0.0) -> None:
        self.held.pop(lease.id, None)
        self.tell(ends=[End(lease.id, lease.attempt, how, reason)], now=now)

    def counts(self, segment: str = DAY) -> Counts:
        return self.run(self.queue.counts(segment))

    @property
    def failed(self) -> list[tuple[str, str]]:
        """The bodies and reasons in the failure list."""
        failures: list[Failure] = self.run(self.queue.failures())
        return [(one.body.decode(), one.reason) for one in failures]

    def beside(self) -> AbstractContextManager[Driven]:
        """Returns the same queue as another program has it, open as a command opens it."""
        if self.make() is self.queue:
            pytest.skip("nobody else has a queue in memory")
        other = Driven(self.make)
        other.run(other.queue.open_beside())
        return other
