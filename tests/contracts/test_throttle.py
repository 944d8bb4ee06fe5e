"""What every throttle must keep: in memory, in a file of one computer, and in a fleet's Redis."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pytest
from scrapy.settings import Settings

from tests.contracts.throttles import Link, opened
from tests.end_to_end.forking import ROOT
from tests.servers.redis import redis_server
from tileharvest.errors import QueueError
from tileharvest.politeness.redis import RedisThrottle, key_of
from tileharvest.politeness.throttle import Limit, Places, Share, Spent
from tileharvest.queue.settings import shared_throttle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from tests.servers.redis import RedisServer
    from tileharvest.politeness.throttle import Throttle

NOW: Final = 1_000.0


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running


@pytest.fixture(params=["memory", "file", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path, server: RedisServer) -> str:
    server.ask("FLUSHALL")
    return {"memory": "memory", "file": str(tmp_path / "hosts"), "redis": str(server.socket)}[request.param]


def run(place: str, test: Callable[..., Awaitable[None]], number: int = 1) -> None:
    """Runs the test with throttles of so many processes. In memory there is one process."""

    async def running() -> None:
        async with AsyncExitStack() as stack:
            several = 1 if place == "memory" else number
            throttles = [await stack.enter_async_context(opened(place)) for _ in range(several)]
            await test(*(throttles * number)[:number])

    asyncio.run(running())


def processes(number: int) -> Callable[[Callable[..., Awaitable[None]]], Callable[[str], None]]:
    """Runs a test with the throttles of so many processes, at each of the places."""

    def decorated(test: Callable[..., Awaitable[None]]) -> Callable[[str], None]:
        return lambda place: run(place, test, number)

    return decorated


def limit(spacing: float, name: str = "host") -> Limit:
    return Limit(name, spacing)


def share(
    throttle: Any, number: int = 0, places: int = 0, wanted: int = 9, name: str = "m", ends: float = 60
) -> Share:
    return Share(f"{throttle.process}:{number}", name, places, wanted, NOW + ends)


@processes(2)
async def test_starts_of_several_processes_are_one_row(one: Throttle, other: Throttle) -> None:
    first = await one.reserve("h", 3, [limit(0.05)], NOW)
    second = await other.reserve("h", 9, [limit(0.05)], NOW + 0.01)
    assert (first.start, first.number) == (NOW, 3)
    assert (second.start, second.number) == (pytest.approx(NOW + 0.15), 3)
    assert (await one.reserve("h", 1, [limit(0.05)], NOW + 0.02)).number == 0
    assert (await one.reserve("g", 1, [limit(0.05)], NOW)).start == NOW


@processes(2)
async def test_a_map_keeps_its_own_limit_and_the_hosts(one: Throttle, other: Throttle) -> None:
    both = [limit(0.1), limit(1.0, "map a")]
    assert await one.reserve("h", 5, both, NOW) == (NOW, 1.0, 1)
    later = await other.reserve("h", 5, [limit(0.1), limit(1.0, "map b")], NOW)
    assert (later.start, later.number) == (pytest.approx(NOW + 0.1), 1)
    assert await one.reserve("h", 5, both, NOW + 0.5) == (pytest.approx(NOW + 1.0), 1.0, 0)


@processes(1)
async def test_the_gap_is_read_when_the_next_start_is_reserved(one: Throttle) -> None:
    await one.reserve("h", 1, [limit(60.0)], NOW)
    assert (await one.reserve("h", 1, [limit(0.3)], NOW + 0.2)).start == pytest.approx(NOW + 0.3)


@processes(1)
async def test_a_clock_that_was_set_back_costs_one_gap(one: Throttle) -> None:
    await one.reserve("h", 1, [limit(2.0)], NOW + 3_600)
    for now, number in ((NOW, 0), (NOW + 2, 1)):
        found = await one.reserve("h", 1, [limit(2.0)], now)
        assert (found.start, found.number) == (pytest.approx(NOW + 2), number)


@processes(2)
async def test_a_rest_is_for_everybody_and_the_last_one_to_end_counts(one: Throttle, other: Throttle) -> None:
    await one.rest("h", 60, NOW)
    await one.rest("h", 5, NOW)
    assert await other.reserve("h", 1, [], NOW) == (NOW + 60, 0, 0)
    assert (await other.reserve("h", 0, [], NOW + 60)).start == NOW + 60
    assert (await other.reserve("g", 1, [], NOW)).number == 1


@processes(2)
async def test_one_worker_at_a_time_may_probe(one: Throttle, other: Throttle) -> None:
    probe = [limit(5.0, "probe")]
    assert [(await each.reserve("h", 1, probe, NOW, 0.0)).number for each in (one, other)] == [1, 0]
    assert (await other.reserve("h", 1, probe, NOW + 5, 0.0)).number == 1


@processes(2)
async def test_shares_of_all_workers_are_no_more_than_the_places(one: Throttle, other: Throttle) -> None:
    places = Places(4, 5)
    assert await one.share("h", share(one), places, NOW) == 4
    # The first one still has four on the way.
    assert await other.share("h", share(other, 1), places, NOW) == 0
    assert await one.share("h", share(one, places=3), places, NOW + 1) == 2
    assert await other.share("h", share(other, 1), places, NOW + 1) == 1
    assert await one.share("h", share(one, places=2), places, NOW + 2) == 2
    assert await other.share("h", share(other, 1), places, NOW + 2) == 2
    # Another map has what is left of the host's.
    assert await other.share("h", share(other, 2, name="another"), places, NOW + 2) == 1


@processes(2)
async def test_a_share_ends_when_its_worker_leaves_or_is_silent(one: Throttle, other: Throttle) -> None:
    await one.share("h", share(one), Places(4), NOW)
    await one.leave("h", share(one).worker)
    assert await other.share("h", share(other, 1, ends=10), Places(4), NOW) == 4
    assert await one.share("h", share(one), Places(4), NOW + 10) == 4


@processes(2)
async def test_all_workers_of_a_map_spend_one_budget(one: Throttle, other: Throttle) -> None:
    for throttle, number in ((one, 0), (other, 1)):
        await throttle.share("h", share(throttle, number), Places(4), NOW)
    await one.spend("h", "m", Spent(10, 500, 1.5))
    assert await other.spend("h", "m", Spent(-2, 100, 0.5)) == (8, 600, 1.5)
    assert await other.spend("h", "another", Spent()) == (0, 0, 0.0)


@processes(2)
async def test_a_budget_begins_anew_when_no_worker_of_the_map_is_left(one: Throttle, other: Throttle) -> None:
    await one.share("h", share(one), Places(4), NOW)
    await one.spend("h", "m", Spent(10, 500, 1.5))
    await other.share("h", share(other, 1), Places(4), NOW)
    await one.leave("h", share(one).worker)
    await other.share("h", share(other, 1), Places(4), NOW)
    assert (await other.spend("h", "m", Spent())).requests == 10
    await other.leave("h", share(other, 1).worker)
    await one.share("h", share(one), Places(4), NOW)
    assert await one.spend("h", "m", Spent()) == (0, 0, 0.0)


def program(*words: str) -> list[str]:
    return [sys.executable, "-m", "tests.contracts.throttles", *words]


@pytest.mark.parametrize("place", ["file", "redis"], indirect=True)
@pytest.mark.parametrize("spacings", [("0.01",), ("0.01", "0.03")])
def test_starts_of_processes_that_take_them_side_by_side_keep_the_limit(
    place: str, spacings: tuple[str, ...]
) -> None:
    """Each takes them as fast as it gets them, whatever the time."""

    def taken(_: int) -> list[float]:
        done = subprocess.run(
            program("take", place, "100", *spacings), cwd=ROOT, capture_output=True, check=True
        )
        return list(json.loads(done.stdout))

    with ThreadPoolExecutor(2) as pool:
        starts = sorted(start for some in pool.map(taken, range(2)) for start in some)
    assert len(starts) == 200
    assert min(later - earlier for earlier, later in pairwise(starts)) >= float(spacings[-1]) - 1e-5


def test_the_share_of_a_killed_process_is_free_at_once_on_one_computer(tmp_path: Path) -> None:
    with subprocess.Popen(program("hold", str(tmp_path)), cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()

        async def test(one: Throttle) -> None:
            assert await one.share("h", share(one), Places(4), NOW) == 0
            process.kill()
            process.wait()
            assert await one.share("h", share(one), Places(4), NOW) == 4

        run(str(tmp_path), test)


def test_crawls_of_one_process_share_a_throttle_until_the_last_one_closes_it(tmp_path: Path) -> None:
    async def test() -> None:
        settings = Settings({"TILEHARVEST_DATA": str(tmp_path)})
        (one, _), (other, _) = shared_throttle(settings), shared_throttle(settings, is_kept=False)
        for throttle in (one, other):
            await throttle.open()
        await one.close()
        assert (await other.reserve("h", 1, [limit(1.0)], NOW)).number == 1
        await other.close()
        with pytest.raises(RuntimeError, match="not open"):
            await other.reserve("h", 1, [limit(1.0)], NOW)

    asyncio.run(test())
    assert {file.name for file in (tmp_path / "throttle").iterdir()} == {"throttle.sqlite", "locks"}


def test_a_file_that_cannot_be_read_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "throttle.sqlite").write_bytes(b"something else" * 100)

    async def test(one: Throttle) -> None:
        assert (await one.reserve("h", 1, [limit(1.0)], NOW)).number == 1

    run(str(tmp_path), test)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("a file")
    with pytest.raises(QueueError, match=r"hosts, in which .* cannot be written .*; make it writable"):
        run(str(tmp_path / "hosts"), lambda one: asyncio.sleep(0))


def test_redis_counts_by_its_own_clock(server: RedisServer) -> None:
    """Callers whose clocks are wrong reserve by the same one."""
    server.ask("FLUSHALL")

    async def test() -> None:
        link = Link(str(server.socket))
        throttle = RedisThrottle(link)
        first = await throttle.reserve("h", 1, [limit(3_600.0)], NOW)
        second = await throttle.reserve("h", 1, [limit(3_600.0)], 5 * NOW)
        await link.client.aclose()
        assert (first.number, second.number) == (1, 0)
        assert NOW <= first.start < NOW + 60
        assert 5 * NOW + 3_500 < second.start < 5 * NOW + 3_700

    asyncio.run(test())


def test_a_host_with_a_brace_in_its_name_has_a_key_of_its_own_slot() -> None:
    assert key_of("a}b:8000") == b"tileharvest:throttle:{a%7Db:8000}"
