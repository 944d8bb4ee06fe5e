"""Queues for tests that are no coroutines: each call runs the queue's loop until it is done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from tileharvest.queue.port import Changes, Entry, Lane
from tileharvest.queue.sqlite.queue import SqliteQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from types import TracebackType
    from typing import Self

    from tileharvest.queue.port import Counts, Exchange, Failure, Lease, RequestQueue

    Result = TypeVar("Result")

DAY = "2021-02-13"
LEASE = 100.0
"""Seconds that a lease lasts in tests."""

ATTEMPTS = 3
"""Allowed in tests."""


class QueueAtOnce(SqliteQueue):
    """Does its work in the thread of the loop, for loops whose clocks do not wait for other threads."""

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return work()


def entry(body: str | bytes, priority: int = 0, **others: Any) -> Entry:
    """An entry of the day whose body is its fingerprint too, unless told otherwise."""
    content = body.encode() if isinstance(body, str) else body
    others.setdefault("segment", DAY)
    others.setdefault("fingerprint", content)
    return Entry(content, priority=priority, **others)


def pending(queue: Driven, now: float = 0.0) -> tuple[int, int, int]:
    """Returns how many requests wait in plus, normal and minus."""
    lanes = queue.counts(now).pending
    return lanes[Lane.PLUS], lanes[Lane.NORMAL], lanes[Lane.MINUS]


class Driven:
    """A queue, opened and closed as often as the test says."""

    def __init__(self, make: Callable[[], RequestQueue]) -> None:
        self.make = make
        self._runner = asyncio.Runner()
        self.queue = make()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._runner.run(work)

    def open(self, now: float = 0.0) -> Self:
        self.run(self.queue.open(now))
        return self

    def restart(self, now: float = 0.0) -> None:
        """Opens the queue anew, like a program that ends and is started again."""
        self.stop()
        self.queue = self.make()
        self.open(now)

    def stop(self) -> None:
        self.run(self.queue.close())

    def close(self) -> None:
        self.stop()
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def exchange(self, wanted: int = 0, now: float = 0.0, **changes: Any) -> Exchange:
        return self.run(self.queue.exchange(Changes(**changes), wanted, now))

    def push(self, *entries: Entry, now: float = 0.0) -> Exchange:
        return self.exchange(pushed=entries, now=now)

    def lease(self, wanted: int = 1, now: float = 0.0) -> list[Lease]:
        return list(self.exchange(wanted, now).leases)

    def bodies(self, wanted: int = 100, now: float = 0.0) -> list[str]:
        """Returns the bodies of what is leased."""
        return [lease.body.decode() for lease in self.lease(wanted, now)]

    def extend(self, *leases: Lease, now: float = 0.0) -> int:
        return self.run(self.queue.extend(leases, now))

    def counts(self, now: float = 0.0) -> Counts:
        return self.run(self.queue.counts(now))

    def failures(self) -> Sequence[Failure]:
        return self.run(self.queue.failures())

    def reasons(self) -> list[tuple[str, str]]:
        """Body and reason of each failure."""
        return [(failure.body.decode(), failure.reason) for failure in self.failures()]

    def clear_failures(self) -> int:
        failures = self.failures()
        self.exchange(taken_up=[failure.id for failure in failures])
        return len(failures)

    def forget(self, segment: str) -> None:
        self.run(self.queue.forget(segment))

    def forget_others(self, kept: int, current: str) -> Sequence[str]:
        return self.run(self.queue.forget_others(kept, current))

    def note(self, segment: str, key: str, value: str) -> None:
        self.run(self.queue.note(segment, key, value))

    def noted(self, segment: str, key: str) -> str | None:
        """The remark of this key, or None if there is none."""
        return self.run(self.queue.notes(segment)).get(key)
