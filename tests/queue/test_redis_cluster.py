"""Queues in a cluster of three masters: maps on different nodes, and the hosts that they ask."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import pytest
from redis.asyncio import RedisCluster as Client

from tests.contracts.paces import Clock
from tests.queue.redis_maps import HOST, OF_HOST, RedisMap
from tests.queue.test_redis_keys import everything
from tests.scheduler.driving import entry
from tests.servers.redis import redis_cluster
from tileharvest.errors import QueueError
from tileharvest.maps.rates import Gap
from tileharvest.politeness.rate_limit import Host, Pace
from tileharvest.queue.redis.link import RedisLink
from tileharvest.queue.redis.queue import notes_of_maps, workers_of_maps
from tileharvest.queue.redis.shared_states import RedisStates
from tileharvest.queue.redis.start_urls import refuse_pickled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.redis import RedisCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    with redis_cluster() as running:
        yield running


@pytest.fixture
def maps(cluster: RedisCluster) -> Iterator[list[RedisMap]]:
    """One on each node."""
    found: dict[int, RedisMap] = {}
    while len(found) < len(cluster.masters):
        one = RedisMap(cluster.masters[0])
        part = cluster.part(one.key("plus"))
        one.server = cluster.masters[part]
        found.setdefault(part, one)
    with ExitStack() as opened:
        yield [opened.enter_context(one) for one in found.values()]


@pytest.mark.parametrize("parameters", [{}, {"redis_cls": "redis.asyncio.RedisCluster"}])
def test_each_map_is_whole_on_a_node(
    cluster: RedisCluster, maps: list[RedisMap], parameters: dict[str, str]
) -> None:
    options = {"parameters": {"url": cluster.url, **parameters}}
    for world in maps:
        first, second = (world.worker(expected=5, **options) for _ in range(2))
        assert isinstance(first.queue._link.client, Client)
        everything(first, second)
        clocked = world.worker(server_clock=True, **options)
        assert len(clocked.run(clocked.queue.workers())) == 1
        assert world.all_keys() != []
        world.close_workers()
        beside = world.beside(**options)
        beside.stop()
        beside.run(beside.queue.discard())
        assert world.all_keys() == []


def test_maps_on_different_nodes_keep_the_limit_of_their_host(
    cluster: RedisCluster, maps: list[RedisMap]
) -> None:
    cluster.masters[cluster.part(OF_HOST)].ask("DEL", OF_HOST)
    pace, clock = Pace(HOST, 100, host_gap=Gap.of(0.25)), Clock()
    workers = [one.polite(pace, clock=clock, parameters={"url": cluster.url}) for one in maps]
    starts: list[list[float]] = [[] for _ in workers]
    for worker in workers:
        worker.push(*(entry(str(number)) for number in range(30)), now=clock.now)
    for moment in range(80):
        clock.now += 0.125
        turn = moment % len(workers)
        starts[turn] += [lease.start for lease in workers[turn].exchange(2, clock.now).leases]
    in_order = sorted(chain(*starts))
    assert {later - sooner for sooner, later in pairwise(in_order)} == {0.25}
    assert len(in_order) >= 40
    assert all(starts)


def test_a_rest_holds_for_maps_on_all_nodes(cluster: RedisCluster, maps: list[RedisMap]) -> None:
    host, clock = "rest.example.net", Clock()
    workers = [one.polite(Pace(host, 9), clock=clock, parameters={"url": cluster.url}) for one in maps]
    workers[0].run(workers[0].queue.rest(host, 60.0))
    for worker in workers:
        worker.push(entry("one"), now=clock.now)
        assert worker.exchange(1, clock.now).rests_until == clock.now + 60


def test_the_clock_of_each_host_is_that_of_its_node() -> None:
    class Link(RedisLink):
        """To two nodes whose clocks differ by a minute."""

        async def attempt(self, work: object, patience: float | None = None) -> tuple[bool, bytes, float]:
            return True, b"", next(times)

    times = iter([1000, 1060, 1000])
    hosts = RedisStates(Link({}, "world", 0.0), silent=30.0)

    async def step(host: str) -> float:
        await hosts.change(Host, host, 1000.0, lambda known, now: None)
        return round(hosts.ahead(host))

    assert [asyncio.run(step(host)) for host in ("one", "two", "one")] == [0, 60, 0]


def test_each_master_must_keep_what_it_has(cluster: RedisCluster, maps: list[RedisMap]) -> None:
    changed = [("maxmemory", "100mb", "0"), ("maxmemory-policy", "allkeys-lru", "noeviction")]
    try:
        for name, value, _ in changed:
            cluster.masters[2].ask("CONFIG", "SET", name, value)
        with pytest.raises(QueueError, match="may throw requests away"):
            maps[0].worker(parameters={"url": cluster.url})
    finally:
        for name, _, value in changed:
            cluster.masters[2].ask("CONFIG", "SET", name, value)


def test_requests_of_scrapy_redis_are_found_on_any_node(cluster: RedisCluster) -> None:
    for number in range(9):
        cluster.masters[cluster.part(f"{number}:requests")].ask("LPUSH", f"{number}:requests", "pickled")
        with pytest.raises(QueueError, match="pickled requests wait"):
            asyncio.run(refuse_pickled({"REDIS_URL": cluster.url}, str(number)))


def test_maps_on_all_nodes_are_asked_at_once(cluster: RedisCluster, maps: list[RedisMap]) -> None:
    parameters, names = {"url": cluster.url}, [world.name for world in maps]
    maps[0].worker(parameters=parameters, server_clock=True).note("", "paused", "10:00")
    notes = asyncio.run(notes_of_maps(parameters, names, ""))
    assert notes == {name: {} for name in names} | {maps[0].name: {"paused": "10:00"}}
    found = asyncio.run(workers_of_maps(parameters, names, 30.0))
    assert {name: len(workers) for name, workers in found.items()} == {
        name: int(name == maps[0].name) for name in names
    }
