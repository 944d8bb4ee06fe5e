"""Every throttle keeps the rules of `HostState`: in memory, in a file of one computer, in a fleet's Redis."""

import asyncio
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from itertools import count, pairwise
from pathlib import Path
from threading import Barrier
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from redis.asyncio import Redis

from tests.end_to_end.forking import ROOT
from tests.servers.redis import RedisServer
from tileharvest.errors import QueueError
from tileharvest.politeness.redis import RedisThrottle
from tileharvest.politeness.sqlite import SqliteThrottle
from tileharvest.politeness.throttle import HORIZON, TURN, HostState, Share, Spent, Throttle

NOW: Final = 1e9


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


class Link:
    """A plain connection to Redis."""

    def __init__(self, socket: str) -> None:
        self.client: Any = Redis(unix_socket_path=socket, protocol=2)

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        await self.client.aclose()

    async def attempt(self, work: Callable[[Any], Awaitable[Any]], patience: float | None = None) -> Any:
        return await work(self.client)


@asynccontextmanager
async def opened(place: str, clock: Clock) -> AsyncIterator[Throttle]:
    """A throttle of its own on this place: a folder, the socket of a Redis, or `memory`."""
    throttle: Throttle
    if place.endswith(".sock"):
        throttle = RedisThrottle(Link(place))
    else:
        throttle = SqliteThrottle(None if place == "memory" else Path(place))
    throttle.clock = clock
    await throttle.open()
    try:
        yield throttle
    finally:
        await throttle.close()


async def take_starts(place: str, number: int, limits: dict[str, float]) -> list[float]:
    """The starts that a process takes which is never late."""
    starts: list[float] = []
    clock = Clock()
    async with opened(place, clock) as throttle:
        while len(starts) < number:
            start, is_granted = await throttle.reserve("h", limits)
            starts += [start] if is_granted else []
            clock.now = max(clock.now, start - HORIZON)
    return starts


async def hold_share(place: str) -> None:
    """Takes all four places of a host, says so, and waits to be killed."""
    async with opened(place, Clock()) as throttle:
        await throttle.share("h", Share(f"{throttle.process}:0", "m", 0), 4, 4, 1_000.0)
        sys.stdout.write("held\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


_HOSTS: Final = count()
_PAUSES: Final = st.one_of(st.floats(0, 1), st.sampled_from([TURN, 60.0, -200_000.0]))
_SPENT: Final = st.builds(Spent, st.integers(0, 9), st.integers(0, 9), st.floats(0, 9))
_SHARES: Final = st.builds(
    Share, st.sampled_from("1234"), st.sampled_from("aab"), st.integers(0, 2), st.booleans(), _SPENT
)
_LIMITS: Final = st.dictionaries(st.sampled_from(["host", "map a", "map b"]), st.floats(0.01, 100))
_ACTS: Final = st.one_of(
    st.tuples(st.just("reserve"), _LIMITS),
    st.tuples(st.just("rest"), st.floats(0, 100)),
    st.tuples(st.just("share"), _SHARES, st.integers(1, 9), st.integers(1, 9), st.sampled_from([0, 9, 60])),
)


@pytest.fixture(params=["memory", "file", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path, redis: RedisServer) -> str:
    return {"memory": "memory", "file": str(tmp_path / "hosts"), "redis": str(redis.socket)}[request.param]


@given(st.lists(st.tuples(_PAUSES, st.booleans(), _ACTS), min_size=30, max_size=40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
def test_a_throttle_does_what_the_rules_say_whichever_process_asks(
    place: str, calls: list[tuple[float, bool, tuple[Any, ...]]]
) -> None:
    """In memory there is one process."""

    async def test() -> None:
        clock, rules, host = Clock(), HostState(), f"h{next(_HOSTS)}"
        async with opened(place, clock) as one, opened(place, clock) as another:
            other = one if place == "memory" else another
            for pause, is_other, (act, *given) in calls:
                clock.now += pause
                if act == "share":
                    given[0] = replace(given[0], worker=f"{one.process}:{given[0].worker}")
                expected = getattr(rules, act)(clock.now, *given)
                if act == "reserve":
                    expected = clock.now + expected[0], expected[1]
                elif act == "share":
                    expected = expected[0], clock.now + expected[1], expected[2]
                assert await getattr(other if is_other else one, act)(host, *given) == expected

    asyncio.run(test())


def program(*words: str) -> list[str]:
    return [sys.executable, "-m", "tests.contracts.test_throttle", *words]


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
                own = Share(f"{one.process}:0", "m", 0)
                assert (await one.share("h", own, 4, 4, 60))[0] == 0
                process.kill()
                process.wait()
                assert (await one.share("h", own, 4, 4, 60))[0] == 4

        asyncio.run(test())


async def test_a_file_that_cannot_be_read_is_begun_anew_as_a_whole_or_for_one_host(tmp_path: Path) -> None:
    file = tmp_path / "throttle.sqlite"
    file.write_bytes(b"something else" * 100)
    async with opened(str(tmp_path), Clock()) as one:
        assert (await one.reserve("h", {"host": 1.0}))[1]
        with sqlite3.connect(file) as connection:
            connection.execute("UPDATE hosts SET state = x'c1ff'")
        taken = [await one.reserve("h", {"host": 1.0}) for _ in range(2)]
        assert taken == [(NOW, True), (NOW + 1, False)]


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("a file")
    with pytest.raises(QueueError, match=r"hosts, in which .* cannot be written .*; make it writable"):
        asyncio.run(SqliteThrottle(tmp_path / "hosts").open())


async def test_redis_counts_by_its_own_clock_and_answers_by_the_callers(redis: RedisServer) -> None:
    link = Link(str(redis.socket))
    first, second = [await RedisThrottle(link).reserve("h", {"host": 3_600.0}) for _ in range(2)]
    await link.close()
    assert (first[1], second[1]) == (True, False)
    assert abs(first[0] - time.time()) < 300
    assert 3_300 < second[0] - time.time() < 3_900


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    if what == "hold":
        asyncio.run(hold_share(words[0]))
    else:
        place, number, *spacings = words
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        limits = {one: float(one) for one in spacings}
        json.dump(asyncio.run(take_starts(place, int(number), limits)), sys.stdout)
