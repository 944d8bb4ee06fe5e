"""A crawl that looks what a person has told it, and does that."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.middlewares.making import run_jumping
from tests.queue.paced_memory import comes_true, paced_memory
from tileharvest.errors import QueueError
from tileharvest.maps.rates import NO_GAP, Gap
from tileharvest.politeness.gate import Gate, Reason
from tileharvest.queue import directions
from tileharvest.scheduler.steering import Steering

if TYPE_CHECKING:
    import pytest

    from tileharvest.queue.pace import PacedQueue


class Crawl:
    """What is steered, with what it was told."""

    def __init__(self, queue: PacedQueue) -> None:
        self.gate = Gate(lambda: None)
        self.gaps: list[Gap] = []
        self.stops: list[str | None] = []
        self.changes: list[tuple[directions.Directions, directions.Directions]] = []
        self.errors: list[QueueError] = []
        self.quiets = self.checks = 0
        self.is_quiet = False
        self.disk: OSError | None = None
        self.steering = Steering(
            queue,
            self.gate,
            gap_at=self._gap_at,
            paced=self._paced,
            stopped=self.stops.append,
            said=lambda *change: self.changes.append(change),
            quiet=self._quiet,
            failed=self.errors.append,
            check=self._check,
        )

    def _gap_at(self, by_hand: Gap | None) -> Gap | None:
        return None if self.is_quiet else by_hand or NO_GAP

    async def _paced(self, gap: Gap) -> None:
        self.gaps.append(gap)

    def _quiet(self) -> None:
        self.quiets += 1

    async def _check(self) -> None:
        self.checks += 1
        if self.disk is not None:
            raise self.disk


def test_a_pause_shuts_the_gate_and_a_resume_opens_it() -> None:
    async def test() -> None:
        async with paced_memory() as queue:
            crawl = Crawl(queue)
            await directions.pause(queue, "10:00")
            await crawl.steering.look()
            assert crawl.gate.reasons == {Reason.PAUSED}
            await directions.resume(queue)
            await crawl.steering.look()
            assert crawl.gate.is_open
            assert [(before.paused, now.paused) for before, now in crawl.changes] == [
                (None, "10:00"),
                ("10:00", None),
            ]

    run_jumping(test())


def test_what_does_not_change_is_said_once() -> None:
    async def test() -> None:
        async with paced_memory() as queue:
            crawl = Crawl(queue)
            await directions.set_rate(queue, "2/s")
            for _ in range(3):
                await crawl.steering.look()
            assert crawl.gaps == [Gap(0.5, 0.5)]
            assert len(crawl.changes) == 1
            assert crawl.checks == 3

    run_jumping(test())


def test_an_order_to_stop_is_obeyed_once() -> None:
    async def test() -> None:
        async with paced_memory() as queue:
            crawl = Crawl(queue)
            await crawl.steering.look()
            await directions.stop(queue, "budget: 7 requests")
            for _ in range(2):
                await crawl.steering.look()
            assert crawl.stops == ["budget: 7 requests"]

    run_jumping(test())


def test_an_order_to_stop_from_before_it_began_is_not_for_it() -> None:
    async def test() -> None:
        async with paced_memory() as queue:
            await directions.stop(queue)
            crawl = Crawl(queue)
            for _ in range(2):
                await crawl.steering.look()
            assert crawl.stops == []
            await directions.stop(queue)
            await crawl.steering.look()
            assert crawl.stops == [None]

    run_jumping(test())


def test_quiet_hours_shut_the_gate_beside_a_pause() -> None:
    async def test() -> None:
        async with paced_memory() as queue:
            crawl = Crawl(queue)
            crawl.is_quiet = True
            await directions.pause(queue, "10:00")
            for _ in range(2):
                await crawl.steering.look()
            assert crawl.gate.reasons == {Reason.PAUSED, Reason.QUIET}
            assert crawl.steering.gap is None
            crawl.is_quiet = False
            await crawl.steering.look()
            assert crawl.gate.reasons == {Reason.PAUSED}
            assert crawl.quiets == 1

    run_jumping(test())


def test_it_goes_on_looking_until_it_ends() -> None:
    async def test() -> None:
        async with paced_memory() as queue:
            crawl = Crawl(queue)
            await crawl.steering.begin()
            await directions.pause(queue, "10:00")
            await comes_true(lambda: not crawl.gate.is_open)
            await crawl.steering.end()
            looks = crawl.checks
            await asyncio.sleep(60)
            assert crawl.checks == looks

    run_jumping(test())


def test_it_ends_although_the_queue_loses_a_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    """As redis-py does, which may take it for a timeout of its own, and try again."""
    notes: dict[str, str] = {}
    under_way = asyncio.Event()

    async def lose(segment: str) -> dict[str, str]:
        under_way.set()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3)
        return notes

    async def test() -> None:
        async with paced_memory() as queue:
            crawl = Crawl(queue)
            await crawl.steering.begin()
            monkeypatch.setattr(queue, "notes", lose)
            await under_way.wait()
            await asyncio.wait_for(crawl.steering.end(), 60)

    run_jumping(test())


def test_a_queue_that_cannot_be_asked_any_more_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    error = QueueError("disk full")

    async def fail(segment: str) -> None:
        raise error

    async def test() -> None:
        async with paced_memory() as queue:
            crawl = Crawl(queue)
            await crawl.steering.begin()
            monkeypatch.setattr(queue, "notes", fail)
            await comes_true(lambda: bool(crawl.errors))
            await asyncio.sleep(60)
            await crawl.steering.end()
            assert crawl.errors == [error]

    run_jumping(test())


def test_a_crawl_that_can_be_steered_no_more_ends() -> None:
    """Here because the disk cannot be looked at."""

    async def test() -> None:
        async with paced_memory() as queue:
            crawl = Crawl(queue)
            await crawl.steering.begin()
            crawl.disk = PermissionError(13, "Permission denied")
            await comes_true(lambda: bool(crawl.errors))
            await crawl.steering.end()
            assert "Permission denied" in str(crawl.errors[0])

    run_jumping(test())
