"""What every kind of map leases promises."""

from __future__ import annotations

import asyncio
import resource
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from redis.exceptions import ConnectionError  # noqa: A004 - the library's own
from scrapy import Request

from tests.scheduler.driving import Driven
from tests.servers.redis import redis_cluster, redis_server
from tileharvest.errors import QueueError
from tileharvest.queue import map_leases
from tileharvest.queue.cancellation import cancel
from tileharvest.queue.locks import locks_in
from tileharvest.queue.map_leases import NAME, MapLeases
from tileharvest.queue.map_table import MapLease
from tileharvest.queue.port import SILENT
from tileharvest.queue.redis import shared_states
from tileharvest.queue.redis.link import RedisLink
from tileharvest.queue.redis.shared_states import RedisStates, key_of
from tileharvest.queue.shared_states import StateFile
from tileharvest.queue.sqlite.queue import SqliteQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.servers.redis import RedisCluster, RedisServer

KEY = key_of(NAME).decode()


def local(folder: Path) -> MapLeases:
    (folder / "queues").mkdir(exist_ok=True)
    return MapLeases(StateFile(folder / "hosts"), queues=locks_in(folder / "queues"))


def in_redis(url: str, *, server_clock: bool = False) -> MapLeases:
    link = RedisLink({"url": url}, "the list of map leases", SILENT)
    return MapLeases(RedisStates(link, silent=SILENT, server_clock=server_clock), link=link)


class Worker:
    """A worker, at the time of the workers' clock."""

    def __init__(self, leases: MapLeases, box: Box) -> None:
        self.leases, self._box = leases, box
        box.runner.run(leases.open())

    def acquire(self, *names: str) -> MapLease | None:
        return self._box.runner.run(self.leases.acquire(names, self._box.now))

    def acquired(self, *names: str) -> str | None:
        lease = self.acquire(*names)
        return lease and lease.map

    def taken(self, *names: str) -> Sequence[str]:
        return self._box.runner.run(self.leases.taken(names, self._box.now))

    def join(self, name: str) -> MapLease | None:
        return self._box.runner.run(self.leases.join(name, self._box.now))

    def extend(self) -> None:
        self._box.runner.run(self.leases.extend(self._box.now))

    def release(self, name: str) -> None:
        self._box.runner.run(self.leases.release(name, self._box.now))

    def fail(self, name: str, seconds: float) -> None:
        self._box.runner.run(self.leases.fail(name, self._box.now + seconds, self._box.now))

    def close(self) -> None:
        self._box.runner.run(self.leases.close(self._box.now))


@dataclass
class Box:
    """The workers that share their maps."""

    make: Callable[[], MapLeases]
    runner: asyncio.Runner
    is_shared: bool
    now: float = 1000.0
    workers: list[Worker] = field(default_factory=list)

    def worker(self) -> Worker:
        self.workers.append(Worker(self.make(), self))
        return self.workers[-1]

    def kill(self, worker: Worker) -> None:
        """Nothing is heard of it any more, and others know that now."""
        self.workers.remove(worker)
        # The system releases the locks of a process that ends, and closes its connections.
        worker.leases._states.close()
        if worker.leases._link is not None:
            self.runner.run(worker.leases._link.close())
        self.now += SILENT
        for one in self.workers:
            one.extend()


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    with redis_cluster() as cluster:
        yield cluster


@pytest.fixture(params=["local", "redis", "cluster"])
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Box]:
    is_shared = request.param != "local"
    make: Callable[[], MapLeases] = partial(local, tmp_path)
    if request.param == "redis":
        server = request.getfixturevalue("server")
        server.ask("DEL", KEY)
        make = partial(in_redis, server.socket_url)
    elif request.param == "cluster":
        cluster = request.getfixturevalue("cluster")
        cluster.masters[cluster.part(KEY)].ask("DEL", KEY)
        make = partial(in_redis, cluster.url)
    with asyncio.Runner() as runner:
        box = Box(make, runner, is_shared)
        yield box
        for worker in box.workers:
            worker.close()


def test_a_map_is_one_workers(box: Box) -> None:
    one, two = box.worker(), box.worker()
    assert one.acquire("a", "b") == MapLease("a", 0)
    assert two.acquired("a", "b") == "b"
    assert one.acquired("a", "b") is None
    assert two.acquired("a", "b", "c") == "c"


def test_the_first_that_is_free_is_acquired(box: Box) -> None:
    assert [box.worker().acquired("c", "a", "b") for _ in range(4)] == ["c", "a", "b", None]


def test_of_no_maps_none_is_acquired(box: Box) -> None:
    assert box.worker().acquired() is None


def test_a_released_map_is_free_at_once(box: Box) -> None:
    one, two = box.worker(), box.worker()
    one.acquire("a")
    one.release("a")
    assert two.acquired("a") == "a"


def test_a_closed_worker_has_released_all(box: Box) -> None:
    one, two = box.worker(), box.worker()
    one.acquire("a")
    one.acquire("b")
    one.close()
    one.close()
    assert (two.acquired("a"), two.acquired("b")) == ("a", "b")


def test_the_maps_of_a_killed_worker_are_free_after_its_silence(box: Box) -> None:
    one, two = box.worker(), box.worker()
    one.acquire("a")
    two.acquire("b")
    assert two.acquired("a") is None
    box.kill(one)
    assert two.acquired("a", "b") == "a"


def test_a_living_worker_keeps_its_maps_for_as_long_as_it_likes(box: Box) -> None:
    one, two = box.worker(), box.worker()
    one.acquire("a")
    for _ in range(20):
        box.now += SILENT / 6
        one.extend()
    assert two.acquired("a") is None


def test_a_map_that_failed_is_free_when_its_time_has_come(box: Box) -> None:
    one, two = box.worker(), box.worker()
    one.acquire("a")
    one.fail("a", 300.0)
    assert (one.acquired("a"), two.acquired("a", "b")) == (None, "b")
    box.now += 299.0
    one.extend(), two.extend()
    assert one.acquired("a") is None
    box.now += 1.0
    assert one.acquire("a") == MapLease("a", 1)


def test_failures_in_a_row_are_counted_whoever_had_them(box: Box) -> None:
    for number in range(3):
        worker = box.worker()
        assert worker.acquire("a") == MapLease("a", number)
        worker.fail("a", 10.0)
        box.now += 10.0


def test_failures_of_a_day_ago_are_forgotten(box: Box) -> None:
    one = box.worker()
    one.acquire("a")
    one.fail("a", 10.0)
    box.now += 10.0 + 24 * 3600 - 1.0
    assert one.acquire("a") == MapLease("a", 1)
    one.fail("a", 10.0)
    box.now += 10.0 + 24 * 3600
    assert one.acquire("a") == MapLease("a", 0)
    one.fail("a", 10.0)
    box.now += 10.0
    assert one.acquire("a") == MapLease("a", 1)


def test_a_clock_that_was_set_back_keeps_nobody_away_for_as_long(box: Box) -> None:
    """No pause after a failure is as long as a day."""
    one = box.worker()
    box.now += 365 * 24 * 3600
    one.acquire("a")
    one.fail("a", 300.0)
    box.now -= 364 * 24 * 3600
    assert one.acquire("a") == MapLease("a", 0)


def test_what_succeeded_has_failed_no_more(box: Box) -> None:
    one = box.worker()
    one.acquire("a")
    one.fail("a", 10.0)
    box.now += 10.0
    one.acquire("a")
    one.release("a")
    assert one.acquire("a") == MapLease("a", 0)


def test_a_kill_counts_as_no_failure(box: Box) -> None:
    one, two = box.worker(), box.worker()
    one.acquire("a")
    one.fail("a", 10.0)
    box.now += 10.0
    one.acquire("a")
    box.kill(one)
    assert two.acquire("a") == MapLease("a", 1)


def test_what_others_are_at_is_told(box: Box) -> None:
    one, two = box.worker(), box.worker()
    for name in ("a", "b"):
        one.acquire(name)
    two.acquire("c")
    two.acquire("d")
    two.fail("d", 100.0)
    assert list(two.taken("d", "c", "b", "a")) == (["b", "a"] if box.is_shared else [])
    box.kill(one)
    assert list(two.taken("a", "b", "c")) == []


def test_others_join_where_a_queue_is_shared(box: Box) -> None:
    one, two, three = box.worker(), box.worker(), box.worker()
    assert two.join("a") is None
    one.acquire("a")
    assert (two.join("a") is not None) is box.is_shared
    if box.is_shared:
        one.release("a")
        assert three.acquired("a") is None
        two.release("a")
        assert three.acquired("a") == "a"


@pytest.mark.parametrize("box", ["redis"], indirect=True)
def test_a_map_released_amid_a_sign_of_life_is_free(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sign of life has told that the worker is at the map before the release begins."""
    one, two = box.worker(), box.worker()
    one.acquire("a")
    one.acquire("b")
    swap = shared_states.swap
    releases: list[asyncio.Task[None]] = []

    async def overtaken(*arguments: Any, **options: Any) -> Any:
        if not releases:
            releases.append(asyncio.ensure_future(one.leases.release("a", box.now)))
            await asyncio.sleep(0)
        return await swap(*arguments, **options)

    async def live_and_release() -> None:
        await one.leases.extend(box.now)
        await asyncio.gather(*releases)

    monkeypatch.setattr(shared_states, "swap", overtaken)
    box.runner.run(live_and_release())
    assert releases
    assert two.acquired("b", "a") == "a"


def test_a_lease_whose_release_was_not_heard_ends_though_its_worker_lives(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = box.worker(), box.worker()
    one.acquire("a")
    one.acquire("b")
    with monkeypatch.context() as patched:
        patched.setattr(one.leases._states, "change", refused)
        with pytest.raises(QueueError):
            one.release("a")
    for _ in range(6):
        box.now += SILENT / 6
        one.extend()
    assert two.acquired("b", "a") == "a"
    one.close()
    assert two.acquired("b") == "b"


def test_a_lease_of_which_its_worker_was_not_told_ends_though_the_worker_lives(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the answer was lost."""
    one, two = box.worker(), box.worker()
    change = one.leases._states.change

    async def unanswered(*arguments: Any, **options: Any) -> None:
        await change(*arguments, **options)
        raise QueueError("Redis is away")

    with monkeypatch.context() as patched:
        patched.setattr(one.leases._states, "change", unanswered)
        with pytest.raises(QueueError):
            one.acquire("a")
    assert two.acquired("a") is None
    one.extend()
    assert two.acquired("a") == "a"


@pytest.mark.parametrize("box", ["redis"], indirect=True)
def test_a_worker_that_ends_asks_a_redis_that_is_away_once(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def unanswered(*_: object, **_options: object) -> None:
        asked.append("swap")
        raise ConnectionError("Redis is away")

    one = box.worker()
    one.acquire("a")
    monkeypatch.setattr(shared_states, "swap", unanswered)
    with pytest.raises(QueueError, match="does not answer"):
        one.close()
    assert asked == ["swap"]


@pytest.mark.parametrize("box", ["redis"], indirect=True)
def test_a_worker_that_ends_does_not_wait_for_what_a_redis_that_is_away_does_not_answer(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unanswered(*_: object, **_options: object) -> None:
        await asyncio.Event().wait()

    async def end() -> None:
        releases = [asyncio.ensure_future(one.leases.release(name, box.now)) for name in ("a", "b")]
        await asyncio.sleep(0)
        monkeypatch.setattr(one.leases._states, "change", refused)
        with pytest.raises(QueueError):
            await asyncio.wait_for(one.leases.close(box.now), timeout=60.0)
        for release in releases:
            await cancel(release)

    one = box.worker()
    one.acquire("a")
    one.acquire("b")
    monkeypatch.setattr(map_leases, "GRACE", 0.0)
    monkeypatch.setattr(shared_states, "swap", unanswered)
    box.runner.run(end())


def test_a_release_that_is_under_way_counts_when_its_worker_ends(box: Box) -> None:
    async def end() -> None:
        release = asyncio.ensure_future(one.leases.release("a", box.now))
        await asyncio.sleep(0)
        await one.leases.close(box.now)
        await release

    one, two = box.worker(), box.worker()
    one.acquire("a")
    one.fail("a", 10.0)
    box.now += 10.0
    one.acquire("a")
    box.runner.run(end())
    assert two.acquire("a") == MapLease("a", 0)


def test_of_maps_that_fail_at_once_none_is_free_before_its_time(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = box.worker(), box.worker()
    change = one.leases._states.change
    acquired = []

    async def followed(*arguments: Any, **options: Any) -> Any:
        result = await change(*arguments, **options)
        acquired.append(await two.leases.acquire(["a", "b", "c"], box.now))
        return result

    async def fail_all() -> None:
        failing = (one.leases.fail(name, box.now + 10.0, box.now) for name in ("a", "b", "c"))
        await asyncio.gather(*failing)

    for name in ("a", "b", "c"):
        one.acquire(name)
    with monkeypatch.context() as patched:
        patched.setattr(one.leases._states, "change", followed)
        box.runner.run(fail_all())
    assert acquired == [None, None, None]
    box.now += 10.0
    assert two.acquire("c") == MapLease("c", 1)


def test_no_host_of_an_address_has_the_name_of_the_leases() -> None:
    """Else a site that redirects there would make a host's state of all leases and failures."""
    assert urlsplit(Request(f"http://{NAME}/").url).hostname != NAME


async def refused(*_: object, **_options: object) -> None:
    raise QueueError("Redis is away")


@pytest.mark.parametrize("box", ["redis"], indirect=True)
def test_who_fails_where_others_go_on_keeps_nobody_away(box: Box) -> None:
    one, two = box.worker(), box.worker()
    one.acquire("a")
    two.join("a")
    one.fail("a", 1000.0)
    two.release("a")
    assert one.acquire("a") == MapLease("a", 0)


def test_of_many_that_ask_at_once_one_gets_it(box: Box) -> None:
    async def ask() -> list[MapLease | None]:
        asking = (one.leases.acquire(["a"], box.now) for one in workers)
        return await asyncio.gather(*asking)

    workers = [box.worker() for _ in range(8)]
    assert sum(lease is not None for lease in box.runner.run(ask())) == 1


def test_a_map_that_is_harvested_without_a_lease_is_taken_on_one_machine(tmp_path: Path) -> None:
    async def acquired() -> MapLease | None:
        leases = local(tmp_path)
        await leases.open()
        try:
            return await leases.acquire(["a", "b"], 0.0)
        finally:
            await leases.close(0.0)

    with Driven(lambda: SqliteQueue(tmp_path / "queues" / "a.sqlite")).open():
        assert asyncio.run(acquired()) == MapLease("b", 0)
    assert asyncio.run(acquired()) == MapLease("a", 0)


def test_on_a_full_disk_the_failures_so_far_are_kept(tmp_path: Path) -> None:
    async def test() -> None:
        leases = local(tmp_path)
        await leases.open()
        await leases.acquire(["a"], 0.0)
        await leases.fail("a", 1.0, 0.0)
        await leases.acquire(["a"], 1.0)
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
        try:
            with pytest.raises(QueueError, match="nothing was lost"):
                await leases.fail("a", 2.0, 1.0)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert await leases.acquire(["a"], 2.0) == MapLease("a", 1)
        await leases.close(2.0)

    asyncio.run(test())


def test_what_redis_has_in_their_place_is_begun_anew(server: RedisServer) -> None:
    server.ask("SET", KEY, "\udcff".encode(errors="surrogateescape"))

    async def acquired() -> MapLease | None:
        leases = in_redis(server.socket_url, server_clock=True)
        await leases.open()
        try:
            return await leases.acquire(["a"], time.time())
        finally:
            await leases.close(time.time())

    assert asyncio.run(acquired()) == MapLease("a", 0)
