"""What a worker may yet spend: never more than the purse grants, and nothing is left unused."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tests.middlewares.making import run_jumping
from tests.queue.paced_memory import HeldByOthers, comes_true, paced_memory
from tileharvest.errors import QueueError
from tileharvest.maps.budgets import Budget
from tileharvest.queue.allowance import AT_ONCE, BYTES_AT_ONCE, Allowance
from tileharvest.queue.pace import Amount, Granted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tileharvest.queue.pace import PacedQueue


class Worker:
    """An allowance, and what it told."""

    def __init__(self, purse: PacedQueue, budget: Budget) -> None:
        self.purse = purse
        self.mores = 0
        self.spent: list[str] = []
        self.errors: list[QueueError] = []
        self.allowance = Allowance(
            purse, budget, more=self._more, spent=self.spent.append, failed=self.errors.append
        )
        self._number = 0

    def _more(self) -> None:
        self.mores += 1

    async def start(self, size: int | None = 0) -> str | None:
        """Start the next request, of an answer of so many bytes, as the scheduler does: its name, or None
        when the budget is spent."""
        name = str(self._number)
        while not self.allowance.may_start(name, size):
            before = self.mores
            await comes_true(lambda: self.mores > before or bool(self.spent))  # noqa: B023
            if self.spent:
                return None
        self._number += 1
        return name


@asynccontextmanager
async def working(budget: Budget) -> AsyncIterator[Worker]:
    async with paced_memory() as purse:
        await purse.open_purse(budget)
        yield Worker(purse, budget)


def test_just_so_many_requests_start_as_the_budget_has() -> None:
    async def test() -> None:
        for number in (1, AT_ONCE - 1, AT_ONCE + 1, 3 * AT_ONCE):
            async with working(Budget(requests=number)) as worker:
                started = [await worker.start() for _ in range(number)]
                assert None not in started
                for name in started:
                    worker.allowance.ended(name, 0)
                assert await worker.start() is None
                assert worker.spent == ["requests"]

    run_jumping(test())


def test_bytes_that_were_set_aside_and_not_received_can_be_spent() -> None:
    async def test() -> None:
        async with working(Budget(received_bytes=1000)) as worker:
            first = await worker.start(900)
            worker.allowance.ended(first, 100)
            second = await worker.start(900)
            assert second is not None
            worker.allowance.ended(second, 900)
            assert await worker.start(1) is None
            assert worker.spent == ["bytes"]

    run_jumping(test())


def test_an_answer_of_unknown_size_is_taken_for_as_large_as_the_largest_so_far() -> None:
    async def test() -> None:
        async with working(Budget(received_bytes=1000)) as worker:
            worker.allowance.ended(await worker.start(None), 600)
            assert await worker.start(None) is None

    run_jumping(test())


def test_the_largest_so_far_stays_the_largest_after_smaller_ones() -> None:
    async def test() -> None:
        async with working(Budget(received_bytes=1200)) as worker:
            for size in (600, 100):
                worker.allowance.ended(await worker.start(0), size)
            assert await worker.start(None) is None

    run_jumping(test())


def test_a_request_that_waits_for_bytes_starts_when_one_on_the_way_has_cost_less() -> None:
    async def test() -> None:
        async with working(Budget(received_bytes=1000)) as worker:
            first = await worker.start(900)
            waiting = asyncio.ensure_future(worker.start(500))
            await asyncio.sleep(1)
            assert not waiting.done()
            worker.allowance.ended(first, 100)
            assert await waiting is not None

    run_jumping(test())


def test_what_answers_have_cost_beyond_what_was_granted_stays_owed_though_the_rest_is_given_back() -> None:
    async def test() -> None:
        async with working(Budget(received_bytes=1000)) as worker:
            for _ in range(2):
                worker.allowance.ended(await worker.start(100), 600)
                await worker.allowance.give_back()
            assert await worker.start() is None
            assert worker.spent == ["bytes"]

    run_jumping(test())


def test_a_request_that_was_not_sent_costs_nothing() -> None:
    async def test() -> None:
        async with working(Budget(requests=1)) as worker:
            worker.allowance.ended(await worker.start(), 0, was_sent=False)
            second = await worker.start()
            assert second is not None
            worker.allowance.ended(second, 0)
            assert await worker.start() is None

    run_jumping(test())


def test_what_is_given_back_is_for_the_others() -> None:
    async def test() -> None:
        async with working(Budget(requests=AT_ONCE)) as worker:
            await worker.start()
            assert not (await worker.purse.grant(Amount(1), Amount())).is_granted
            await worker.allowance.give_back()
            assert (await worker.purse.grant(Amount(AT_ONCE - 1), Amount())).is_granted
            assert not (await worker.purse.grant(Amount(1), Amount())).is_granted

    run_jumping(test())


def test_bytes_that_are_given_back_are_for_the_others() -> None:
    async def test() -> None:
        async with working(Budget(received_bytes=BYTES_AT_ONCE + 10)) as worker:
            assert await worker.start(10) is not None
            assert not (await worker.purse.grant(Amount(0, 1), Amount())).is_granted
            await worker.allowance.give_back()
            assert (await worker.purse.grant(Amount(0, BYTES_AT_ONCE), Amount())).is_granted

    run_jumping(test())


class Slow:
    """A purse that answers when it may."""

    def __init__(self, purse: PacedQueue) -> None:
        self.purse = purse
        self.may_answer = asyncio.Event()

    async def grant(self, wanted: Amount, returned: Amount) -> Granted:
        await self.may_answer.wait()
        return await self.purse.grant(wanted, returned)


def test_what_is_granted_while_a_worker_stops_is_given_back_too() -> None:
    async def test() -> None:
        async with working(Budget(requests=AT_ONCE)) as others:
            slow = Slow(others.purse)
            worker = Worker(slow, Budget(requests=AT_ONCE))  # type: ignore[arg-type]
            assert not worker.allowance.may_start("one", 0)
            giving = asyncio.ensure_future(worker.allowance.give_back())
            await asyncio.sleep(1)
            slow.may_answer.set()
            await giving
            # Also where the giving had not waited for the answer, it has come by now.
            await asyncio.sleep(1)
            assert (await others.purse.grant(Amount(AT_ONCE), Amount())).is_granted

    run_jumping(test())


def test_who_has_spent_all_that_was_granted_says_once_that_nothing_comes_back() -> None:
    async def test() -> None:
        async with working(Budget(requests=3)) as worker:
            told: list[Amount] = []
            ask = worker.purse.grant

            async def grant(wanted: Amount, returned: Amount) -> Granted:
                told.append(wanted)
                return await ask(wanted, returned)

            worker.purse.grant = grant  # type: ignore[method-assign]
            await worker.allowance.take(1)
            for spend in (None, worker.start, worker.start, None):
                if spend is not None:
                    await spend()
                told.clear()
                await worker.allowance.give_back()
                assert told == [Amount()] * (spend is not None or not worker.mores)

    run_jumping(test())


def test_a_worker_that_stops_does_not_wait_for_what_others_may_return() -> None:
    async def test() -> None:
        worker = Worker(HeldByOthers(), Budget(requests=1))  # type: ignore[arg-type]
        assert not worker.allowance.may_start("one", 0)
        await asyncio.sleep(60)
        assert worker.spent == []
        worker.allowance.stop()
        async with asyncio.timeout(2):
            await worker.allowance.give_back()
        assert worker.spent == []

    run_jumping(test())


def test_a_purse_that_cannot_be_asked_is_told_of() -> None:
    error = QueueError("gone")

    class Gone:
        async def grant(self, wanted: Amount, returned: Amount) -> Granted:
            raise error

    async def test() -> None:
        worker = Worker(Gone(), Budget(requests=1))  # type: ignore[arg-type]
        assert not worker.allowance.may_start("one", 0)
        await comes_true(lambda: bool(worker.errors))
        assert not worker.allowance.may_start("one", 0)
        await asyncio.sleep(1)
        assert worker.errors == [error]
        # Else the engine would ask it again and again.
        assert worker.mores == 0

    run_jumping(test())
