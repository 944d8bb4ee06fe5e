"""What the queue in memory does beyond the contract."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest

from tests.scheduler.driving import Driven, entry
from tileharvest.errors import QueueError
from tileharvest.queue.memory import MemoryQueue


def test_what_is_finished_leaves_no_trace_in_memory() -> None:
    """At the same time again and again, so that no lease ever expires."""

    def work(rounds: int) -> None:
        for _ in range(rounds):
            answer = queue.exchange(10, pushed=[entry("1", fingerprint=None)] * 10)
            queue.extend(*answer.leases)
            queue.exchange(finished=answer.leases)

    with Driven(MemoryQueue).open() as queue:
        work(200)
        tracemalloc.start()
        work(1000)
        grown, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    # 20,000 ends of leases would take more than a megabyte.
    assert grown < 200_000


def test_a_queue_that_is_open_cannot_be_opened() -> None:
    async def open_twice() -> None:
        queue = MemoryQueue()
        await queue.open(0.0)
        with pytest.raises(QueueError, match="open already"):
            await queue.open(0.0)

    asyncio.run(open_twice())


@pytest.mark.parametrize("options", [{"max_attempts": 0}, {"lease_seconds": 0.0}, {"minus_share": 1}])
def test_options_that_would_offer_nothing_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"attempts|minus_share"):
        MemoryQueue(**options)
