from __future__ import annotations

import asyncio
import threading
from itertools import count
from typing import TYPE_CHECKING

import pytest

from tests.history.making import EVERYWHERE, A, B, C, D, began, ended, found
from tileharvest.errors import HistoryError
from tileharvest.history import group_commit
from tileharvest.history.costs import Cost, Traffic
from tileharvest.history.errors import HarvestEndedError
from tileharvest.history.group_commit import GroupCommit
from tileharvest.history.harvests import HarvestRecord
from tileharvest.history.summaries import harvest_summaries
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection

    from tileharvest.history.database import History
    from tileharvest.tiles.results import TileResult

NEVER = 3600.0
"""A linger that no test waits for: only a full batch or a flush commits."""


class WatchedHarvest(HarvestRecord):
    """A real harvest that notes its batches and can be held in the middle of a commit."""

    def __init__(self, harvest: HarvestRecord) -> None:
        self.__dict__.update(harvest.__dict__)
        self.batches: list[int] = []
        self.threads: set[str] = set()
        self.let_go = threading.Event()
        self.let_go.set()

    def recording(self, results: Sequence[TileResult], cost: Cost) -> Callable[[Connection], None]:
        self.batches.append(len(results))
        record = super().recording(results, cost)

        def watched(connection: Connection) -> None:
            self.threads.add(threading.current_thread().name)
            assert self.let_go.wait(240)
            record(connection)

        return watched


@pytest.fixture
def history(sqlite_history: History) -> History:
    return sqlite_history


@pytest.fixture
def harvest(history: History) -> WatchedHarvest:
    return WatchedHarvest(began(history))


async def started(*calls: object) -> list[asyncio.Task[None]]:
    tasks = [asyncio.ensure_future(call) for call in calls]
    await asyncio.sleep(0)
    return tasks


async def recorded(commits: GroupCommit) -> None:
    """Without a flush, which would record what waits."""
    while commits.is_recording:  # noqa: ASYNC110 - nobody is told
        await asyncio.sleep(0.001)


def test_a_recorded_result_is_in_the_history(harvest: WatchedHarvest) -> None:
    async def run() -> None:
        commits = GroupCommit(harvest, Traffic(), linger=0)
        await commits.record(found("add"))
        assert harvest.known(EVERYWHERE) == 1
        await commits.close()

    asyncio.run(run())


def test_results_that_come_together_share_a_transaction(harvest: WatchedHarvest) -> None:
    async def run() -> None:
        commits = GroupCommit(harvest, Traffic(), linger=0)
        await asyncio.gather(*(commits.record(found("404", Tile(0, x, 1))) for x in range(1, 101, 2)))
        await commits.close()

    asyncio.run(run())
    assert harvest.batches == [50]
    assert harvest.counts() == {Outcome.NOTHING: 50}


def test_what_has_come_does_not_linger_where_nothing_else_comes(harvest: WatchedHarvest) -> None:
    async def run() -> None:
        commits = GroupCommit(harvest, Traffic(), linger=NEVER)
        commits.hurry()
        (waiting,) = await started(commits.record(found("add")))
        commits.hurry()
        await waiting
        await commits.close()

    asyncio.run(run())
    assert harvest.batches == [1]


def test_large_images_do_not_linger(harvest: WatchedHarvest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the site would not be asked for more until they are recorded."""
    monkeypatch.setattr(group_commit, "MOST_BYTES", 6)

    async def run() -> None:
        commits = GroupCommit(harvest, Traffic(), linger=NEVER)
        images = [found("add", A, b"sea"), found("add", B, b"ice")]
        await asyncio.gather(*map(commits.record, images))
        await commits.close()

    asyncio.run(run())
    assert harvest.batches == [2]


def test_a_full_batch_does_not_linger(harvest: WatchedHarvest) -> None:
    async def run() -> None:
        commits = GroupCommit(harvest, Traffic(), linger=NEVER, most=2)
        await asyncio.gather(commits.record(found("add", A)), commits.record(found("add", B)))
        await commits.close()

    asyncio.run(run())
    assert harvest.batches == [2]


def test_a_batch_that_is_not_full_waits(harvest: WatchedHarvest) -> None:
    async def run() -> None:
        commits = GroupCommit(harvest, Traffic(), linger=NEVER)
        (waiting,) = await started(commits.record(found("add")))
        assert not waiting.done()
        assert harvest.batches == []
        await commits.flush()
        await waiting
        await commits.close()

    asyncio.run(run())


def test_while_a_commit_runs_the_next_batch_gathers(harvest: WatchedHarvest) -> None:
    async def run() -> None:
        harvest.let_go.clear()
        commits = GroupCommit(harvest, Traffic(), linger=NEVER, most=2)
        first = await started(commits.record(found("add", A)), commits.record(found("add", B)))
        second = await started(commits.record(found("add", C)), commits.record(found("add", D)))
        assert not any(task.done() for task in first + second)
        harvest.let_go.set()
        await asyncio.gather(*first, *second)
        await commits.close()

    asyncio.run(run())
    assert harvest.batches == [2, 2]


def test_no_transaction_is_larger_than_asked_for(harvest: WatchedHarvest) -> None:
    async def run() -> None:
        commits = GroupCommit(harvest, Traffic(), linger=0, most=10)
        await asyncio.gather(*(commits.record(found("404", Tile(0, x, 1))) for x in range(1, 51, 2)))
        await commits.close()

    asyncio.run(run())
    assert harvest.batches == [10, 10, 5]


def test_all_commits_run_in_one_thread_of_their_own(harvest: WatchedHarvest) -> None:
    async def run() -> None:
        commits = GroupCommit(harvest, Traffic(), linger=0)
        for tile in (A, B, C):
            await commits.record(found("add", tile))
        await commits.close()

    asyncio.run(run())
    assert len(harvest.threads) == 1
    assert threading.current_thread().name not in harvest.threads


def test_each_cost_is_added_once(history: History, harvest: WatchedHarvest) -> None:
    traffic = Traffic()

    def spend(requests: int, received: int, stored: int, spared: int, seconds: float) -> None:
        traffic.requests += requests
        traffic.received_bytes += received
        traffic.stored_bytes += stored
        traffic.spared_bytes += spared
        traffic.seconds += seconds

    async def run() -> None:
        commits = GroupCommit(harvest, traffic, linger=0)
        spend(3, 100, 90, 800, 0.5)
        await commits.record(found("add"))
        spend(2, 50, 0, 0, 0.0)
        await commits.record(found("ign"))
        spend(1, 7, 5, 40, 2.25)
        await commits.close()

    asyncio.run(run())
    (summary,) = harvest_summaries(history, "world")
    assert summary.cost == Cost(6, 157, 95, 840, 2.75)


def test_time_alone_waits_for_results_or_the_end(history: History, harvest: WatchedHarvest) -> None:
    """Else each look at what is recorded would cost a flush of the disk."""
    traffic = Traffic(clock=count(0.0, 0.25).__next__)
    traffic.start()

    async def run() -> None:
        commits = GroupCommit(harvest, traffic, linger=0)
        await commits.flush()
        assert harvest.batches == []
        await commits.record(found("add"))
        await commits.flush()
        await commits.close()

    asyncio.run(run())
    assert harvest.batches == [1, 0]
    (summary,) = harvest_summaries(history, "world")
    assert summary.cost.seconds == 1.0


def test_what_comes_after_others_have_finished_the_harvest_stops_nothing(
    harvest: WatchedHarvest, history: History
) -> None:
    traffic = Traffic()

    async def run() -> None:
        commits = GroupCommit(harvest, traffic, linger=NEVER, most=1)
        ended(harvest)
        for _ in range(2):
            traffic.ask()
            with pytest.raises(HarvestEndedError):
                await commits.record(found("add", A))
        traffic.ask()
        await commits.close()

    asyncio.run(run())
    assert [one for one in harvest.batches if one] == [1, 1]
    (summary,) = harvest_summaries(history, "world")
    # What they have cost is added, though the harvest has ended.
    assert summary.cost.requests == 3


def test_what_a_late_worker_has_spent_is_recorded_before_it_may_be_killed(
    harvest: WatchedHarvest, history: History
) -> None:
    """The cost waits for no further result, so that a kill cannot take it."""
    traffic = Traffic()

    async def run() -> None:
        commits = GroupCommit(harvest, traffic, linger=NEVER, most=1)
        ended(harvest)
        traffic.requests += 2
        with pytest.raises(HarvestEndedError):
            await commits.record(found("add", A))
        await recorded(commits)

    asyncio.run(run())
    assert harvest.batches == [1, 0]
    (summary,) = harvest_summaries(history, "world")
    assert summary.cost.requests == 2


def test_closing_waits_until_what_late_results_have_cost_is_recorded(
    harvest: WatchedHarvest, history: History
) -> None:
    traffic = Traffic()

    async def run() -> None:
        commits = GroupCommit(harvest, traffic, linger=NEVER)
        ended(harvest)
        traffic.requests += 2
        (late,) = await started(commits.record(found("add", A)))
        with pytest.raises(HarvestEndedError):
            await commits.close()
        assert not commits.is_recording
        (summary,) = harvest_summaries(history, "world")
        assert summary.cost.requests == 2
        with pytest.raises(HarvestEndedError):
            await late

    asyncio.run(run())


def test_nothing_starts_that_a_kill_would_leave_uncounted(harvest: WatchedHarvest) -> None:
    """However long a transaction takes."""
    traffic, asked = Traffic(), []

    def ask() -> None:
        asked.append(0)
        while traffic.ask():
            asked[-1] += 1

    async def run() -> None:
        commits = GroupCommit(harvest, traffic, linger=NEVER)
        traffic.count_ahead(commits.record_cost)
        ask()
        await commits.flush()
        harvest.let_go.clear()
        ask()
        ask()
        harvest.let_go.set()
        await recorded(commits)
        ask()
        await commits.close()

    asyncio.run(run())
    assert asked == [0, 16, 0, 24]


def test_after_a_failure_a_request_may_start_that_learns_of_it(harvest: WatchedHarvest) -> None:
    """Else a crawl would wait for ever, where a transaction without results has failed."""
    traffic = Traffic()

    async def run() -> None:
        commits = GroupCommit(harvest, traffic, linger=NEVER, most=1)
        traffic.count_ahead(commits.record_cost)
        ended(harvest, reason="moved")
        with pytest.raises(HarvestEndedError):
            await commits.record(found("add", A))

    asyncio.run(run())
    assert traffic.ask()


def test_a_failure_reaches_all_who_wait(harvest: WatchedHarvest) -> None:
    async def run() -> list[BaseException | None]:
        commits = GroupCommit(harvest, Traffic(), linger=NEVER, most=2)
        ended(harvest, reason="moved")
        harvest.let_go.clear()
        tiles = (A, B, C, D, Tile(0, 5, 1))
        tasks = await started(*(commits.record(found("add", tile)) for tile in tiles))
        harvest.let_go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    errors = asyncio.run(run())
    assert [type(error) for error in errors] == [HarvestEndedError] * 5
    assert len({str(error) for error in errors}) == 1
    assert harvest.batches == [2]


def test_after_a_failure_every_call_fails_at_once(harvest: WatchedHarvest) -> None:
    async def run() -> None:
        commits = GroupCommit(harvest, Traffic(), linger=0)
        ended(harvest, reason="moved")
        first, second = commits.record(found("add")), commits.record(found("add"))
        for call in (first, second, commits.flush(), commits.close()):
            with pytest.raises(HistoryError, match="has ended already"):
                await call

    asyncio.run(run())
    assert harvest.batches == [1]


def test_a_cancelled_call_takes_nothing_from_the_others(harvest: WatchedHarvest) -> None:
    async def run() -> None:
        commits = GroupCommit(harvest, Traffic(), linger=NEVER)
        cancelled, waiting = await started(commits.record(found("add", A)), commits.record(found("add", B)))
        cancelled.cancel()
        await commits.flush()
        await waiting
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        await commits.close()

    asyncio.run(run())
    assert harvest.known(EVERYWHERE) == 2


def test_what_was_given_before_the_loop_ended_is_recorded(harvest: WatchedHarvest) -> None:
    async def run() -> None:
        await started(GroupCommit(harvest, Traffic(), linger=0).record(found("add")))

    asyncio.run(run())
    assert harvest.known(EVERYWHERE) == 1


def test_closing_records_what_is_left(harvest: WatchedHarvest) -> None:
    async def run() -> None:
        commits = GroupCommit(harvest, Traffic(), linger=NEVER)
        (waiting,) = await started(commits.record(found("add")))
        await commits.close()
        await commits.close()
        await waiting

    asyncio.run(run())
    assert harvest.known(EVERYWHERE) == 1


def test_after_closing_there_is_nothing_to_flush(harvest: WatchedHarvest) -> None:
    """An end that could not be written is told with the counts so far, which flush first."""

    async def run() -> None:
        commits = GroupCommit(harvest, Traffic())
        await commits.record(found("add"))
        await commits.close()
        await commits.flush()

    asyncio.run(run())


def test_nothing_can_be_recorded_after_closing(harvest: WatchedHarvest) -> None:
    async def run() -> None:
        commits = GroupCommit(harvest, Traffic())
        await commits.close()
        with pytest.raises(RuntimeError, match="after close"):
            await commits.record(found("add"))

    asyncio.run(run())


@pytest.mark.parametrize("limits", [{"linger": -1.0}, {"most": 0}])
def test_limits_that_make_no_batch_are_refused(harvest: WatchedHarvest, limits: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="make no batch"):
        GroupCommit(harvest, Traffic(), **limits)


def test_a_flush_of_nothing_begins_no_transaction(harvest: WatchedHarvest) -> None:
    async def run() -> None:
        commits = GroupCommit(harvest, Traffic(), linger=NEVER)
        await commits.flush()
        await commits.close()

    asyncio.run(run())
    assert harvest.batches == []


def test_a_cost_that_cannot_be_told_reaches_who_waits(harvest: WatchedHarvest) -> None:
    moments = iter((1.0, 0.0))
    traffic = Traffic(clock=lambda: 1 / next(moments))
    traffic.start()

    async def run() -> None:
        commits = GroupCommit(harvest, traffic, linger=0)
        with pytest.raises(ZeroDivisionError):
            await commits.record(found("add"))

    asyncio.run(run())
