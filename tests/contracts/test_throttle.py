"""What every throttle must keep: in memory, in a file of one computer, and in a fleet's Redis."""

import asyncio
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from tests.contracts.throttles import NOW, Clock, Link, opened
from tests.end_to_end.forking import ROOT
from tests.servers.redis import RedisServer
from tileharvest.errors import QueueError
from tileharvest.politeness.redis import RedisThrottle, key_of
from tileharvest.politeness.sqlite import SqliteThrottle
from tileharvest.politeness.throttle import SET_BACK, TURN, Share, Spent, Throttle


@pytest.fixture(params=["memory", "file", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path, redis: RedisServer) -> str:
    return {"memory": "memory", "file": str(tmp_path / "hosts"), "redis": str(redis.socket)}[request.param]


def of_two_processes(test: Callable[..., Awaitable[None]]) -> Callable[[str], None]:
    """Runs a test with a clock and the throttles of two processes, at each of the places. In memory there is
    one process."""

    async def running(place: str) -> None:
        clock = Clock()
        async with opened(place, clock) as one, opened(place, clock) as other:
            await test(clock, one, one if place == "memory" else other)

    return lambda place: asyncio.run(running(place))


async def share(
    throttle: Any,
    number: int = 0,
    places: int = 0,
    name: str = "m",
    *,
    limits: tuple[int, int] = (4, 4),
    lasts: float = 60,
    is_busy: bool = True,
) -> int:
    """Returns how many requests this worker of a process may have on the way."""
    own = Share(f"{throttle.process}:{number}", name, places, is_busy)
    return (await throttle.share("h", own, *limits, lasts))[0]


@of_two_processes
async def test_starts_of_several_processes_are_one_row(clock: Clock, one: Throttle, other: Throttle) -> None:
    for start, process in enumerate((one, one, other)):
        assert await process.reserve("h", {"host": 0.1}) == (pytest.approx(NOW + start / 10), True)
    # Further ahead than the horizon.
    assert await one.reserve("h", {"host": 0.1}) == (pytest.approx(NOW + 0.3), False)
    assert await one.reserve("g", {"host": 0.1}) == (NOW, True)
    clock.now += 0.1
    assert await one.reserve("h", {"host": 0.1}) == (pytest.approx(NOW + 0.3), True)


@of_two_processes
async def test_a_map_keeps_its_own_limit_and_the_hosts(clock: Clock, one: Throttle, other: Throttle) -> None:
    both = {"host": 0.05, "map a": 0.1}
    assert await one.reserve("h", both) == (NOW, True)
    assert await other.reserve("h", {"host": 0.05, "map b": 0.1}) == (pytest.approx(NOW + 0.05), True)
    clock.now += 0.05
    assert await one.reserve("h", both) == (pytest.approx(NOW + 0.1), True)
    assert await one.reserve("h", {"host": 0.05, "map a": 1.0}) == (pytest.approx(NOW + 1.1), False)


@of_two_processes
async def test_the_gap_is_read_when_the_next_start_is_reserved(clock: Clock, one: Any, other: Any) -> None:
    await one.reserve("h", {"host": 60.0})
    clock.now += 0.2
    assert (await other.reserve("h", {"host": 0.3})).start == pytest.approx(NOW + 0.3)


@of_two_processes
async def test_a_clock_that_was_set_back_costs_a_minute(clock: Clock, one: Throttle, other: Throttle) -> None:
    clock.now += 3_600
    await one.reserve("h", {"host": 2.0})
    clock.now = NOW
    for later, is_granted in ((0, False), (SET_BACK, False), (SET_BACK + 2, True)):
        clock.now = NOW + later
        found = await one.reserve("h", {"host": 2.0})
        assert found == (pytest.approx(NOW + SET_BACK + 2), is_granted)


@of_two_processes
async def test_a_rest_is_for_everybody_and_the_last_one_to_end_counts(
    clock: Clock, one: Throttle, other: Throttle
) -> None:
    await one.rest("h", 60)
    await one.rest("h", 5)
    assert await other.reserve("h", {}) == (NOW + 60, False)
    assert await other.reserve("g", {}) == (NOW, True)
    clock.now += 60
    assert (await other.reserve("h", {})).start == NOW + 60


@of_two_processes
async def test_one_worker_at_a_time_may_probe(clock: Clock, one: Throttle, other: Throttle) -> None:
    probe = {"probe": 5.0}
    assert [(await each.reserve("h", probe, 0.0)).is_granted for each in (one, other)] == [True, False]
    clock.now += 5
    assert (await other.reserve("h", probe, 0.0)).is_granted


@of_two_processes
async def test_shares_of_all_workers_are_no_more_than_the_places(
    clock: Clock, one: Throttle, other: Throttle
) -> None:
    limits = (4, 5)
    assert await share(one, limits=limits) == 4
    # The first one still has four on the way.
    assert await share(other, 1, limits=limits) == 0
    assert await share(one, places=3, limits=limits) == 2
    assert await share(other, 1, limits=limits) == 1
    assert await share(one, places=2, limits=limits) == 2
    assert await share(other, 1, limits=limits) == 2
    # Another map has what is left of the host's.
    assert await share(other, 2, name="another", limits=limits) == 1


@of_two_processes
async def test_what_cannot_be_divided_goes_to_each_in_turn(clock: Clock, one: Any, other: Any) -> None:
    had = []
    for _ in range(2):
        for _ in range(2):
            shares = [await share(each, i, limits=(9, 3)) for i, each in enumerate((one, other))]
        had.append(shares)
        clock.now += TURN
    assert sorted(had) == [[1, 2], [2, 1]]


@of_two_processes
async def test_a_share_ends_when_its_worker_is_idle_or_leaves_or_is_silent(
    clock: Clock, one: Throttle, other: Throttle
) -> None:
    await share(one)
    assert await share(one, places=1, is_busy=False) == 0
    assert await share(other, 1, lasts=10) == 3
    await one.leave("h", f"{one.process}:0")
    assert await share(other, 1, lasts=10) == 4
    clock.now += 10
    assert await share(one) == 4


@of_two_processes
async def test_workers_of_a_map_spend_one_budget_until_none_is_left(
    clock: Clock, one: Throttle, other: Throttle
) -> None:
    async def spend(throttle: Throttle, number: int, *spent: Any, name: str = "m") -> Spent:
        own = Share(f"{throttle.process}:{number}", name, 0, spent=Spent(*spent))
        return (await throttle.share("h", own, 4, 4, 60))[1]

    await spend(one, 0, 10, 500, 1.5)
    assert await spend(other, 1, 2, 100, 0.5) == (10, 500, 1.5)
    assert await spend(other, 2, name="another") == (0, 0, 0)
    assert await spend(one, 0, 12, 500, 1.5) == (2, 100, 0.5)
    # What a worker has spent counts when it has ended.
    await one.leave("h", f"{one.process}:0")
    assert await spend(other, 3) == (14, 600, 1.5)
    for number in (1, 3):
        await other.leave("h", f"{other.process}:{number}")
    # The run ends with its last worker, and another map of the host makes no difference.
    await spend(other, 2, name="another")
    assert await spend(one, 0) == (0, 0, 0)
    assert await spend(one, 4) == (0, 0, 0)


def program(*words: str) -> list[str]:
    return [sys.executable, "-m", "tests.contracts.throttles", *words]


@pytest.mark.parametrize("place", ["file", "redis"], indirect=True)
@pytest.mark.parametrize("spacings", [("0.01",), ("0.01", "0.03")])
def test_starts_of_processes_that_take_them_side_by_side_keep_the_limit(
    place: str, spacings: tuple[str, ...]
) -> None:
    """Each takes them as fast as it gets them, whatever the time. Both make the file at the same moment."""
    both_wait = Barrier(2, timeout=240)

    def taken(_: int) -> list[float]:
        words = program("take", place, "100", *spacings)
        with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            both_wait.wait()
            return list(json.loads(process.communicate(b"\n")[0]))

    with ThreadPoolExecutor(2) as pool:
        starts = sorted(start for some in pool.map(taken, range(2)) for start in some)
    assert len(starts) == 200
    assert min(later - earlier for earlier, later in pairwise(starts)) >= float(spacings[-1]) - 1e-5


def test_the_share_of_a_killed_process_is_free_at_once_on_one_computer(tmp_path: Path) -> None:
    with subprocess.Popen(program("hold", str(tmp_path)), cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()

        async def test() -> None:
            async with opened(str(tmp_path), Clock()) as one:
                assert await share(one) == 0
                process.kill()
                process.wait()
                assert await share(one) == 4

        asyncio.run(test())


async def test_a_file_that_cannot_be_read_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "throttle.sqlite").write_bytes(b"something else" * 100)
    async with opened(str(tmp_path), Clock()) as one:
        assert (await one.reserve("h", {"host": 1.0})).is_granted


async def test_what_cannot_be_read_of_a_host_is_begun_anew(tmp_path: Path) -> None:
    async with opened(str(tmp_path), Clock()) as one:
        await one.reserve("h", {"host": 1.0})
        with sqlite3.connect(tmp_path / "throttle.sqlite") as file:
            file.execute("UPDATE hosts SET state = x'c1ff'")
        assert (await one.reserve("h", {"host": 1.0})).is_granted
        assert not (await one.reserve("h", {"host": 1.0})).is_granted


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("a file")
    with pytest.raises(QueueError, match=r"hosts, in which .* cannot be written .*; make it writable"):
        asyncio.run(SqliteThrottle(tmp_path / "hosts").open())


async def test_redis_counts_by_its_own_clock_and_answers_by_the_callers(redis: RedisServer) -> None:
    link = Link(str(redis.socket))
    first, second = [await RedisThrottle(link).reserve("h", {"host": 3_600.0}) for _ in range(2)]
    await link.close()
    assert (first.is_granted, second.is_granted) == (True, False)
    assert abs(first.start - time.time()) < 300
    assert 3_300 < second.start - time.time() < 3_900


def test_a_host_with_a_brace_in_its_name_has_a_key_of_its_own_slot() -> None:
    assert key_of("a}b:8000") == b"tileharvest:throttle:{a%7Db:8000}"
