"""How a queue in Redis speaks to it: calls that are cut off, the keys they name, and how many are needed."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.scheduler.driving import DAY, LEASE, entry
from tests.servers.redis import queue_on
from tileharvest.errors import QueueError
from tileharvest.queue.port import Changes
from tileharvest.queue.redis import calls
from tileharvest.scheduler.worker import QueueWorker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.queue.redis_maps import RedisMap
    from tests.servers.redis import RedisServer
    from tileharvest.queue.port import Exchange
    from tileharvest.queue.redis.queue import RedisQueue

NEXT_DAY = "2021-02-14"
SCRIPTS = Path(calls.__file__).parent / "scripts"


# Calls that are cut off


class Proxy:
    """Stands before a server, and cuts connections on which a script is called."""

    def __init__(self, socket: Path) -> None:
        self.server = socket
        self.socket = socket.with_suffix(".proxy")
        self.cuts: list[str] = []
        """What is lost next: `request` or `answer`."""
        self.passed = asyncio.Event()
        """Set when a script's call was passed on."""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, before = await asyncio.open_unix_connection(self.server)
        losing: list[str] = []
        ways = [self.relay(reader, before, losing), self.answer(behind, writer, losing)]
        tasks = [asyncio.ensure_future(way) for way in ways]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for one in (before, writer):
            one.close()

    async def relay(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, losing: list[str]
    ) -> None:
        while content := await reader.read(2**20):
            if b"EVAL" in content and self.cuts:
                losing.append(self.cuts.pop(0))
                if losing == ["request"]:
                    return
            writer.write(content)
            if b"EVAL" in content:
                self.passed.set()

    async def answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, losing: list[str]
    ) -> None:
        while (content := await reader.read(2**20)) and not losing:
            writer.write(content)


@asynccontextmanager
async def behind_proxy(server: RedisServer, **options: Any) -> AsyncIterator[tuple[Proxy, RedisQueue]]:
    """An open queue that is reached through a proxy."""
    proxy = Proxy(server.socket)
    async with await asyncio.start_unix_server(proxy.handle, proxy.socket):
        queue = queue_on(server, parameters={"url": f"unix://{proxy.socket}"}, **options)
        await queue.open(0.0)
        proxy.passed.clear()
        try:
            yield proxy, queue
        finally:
            await queue.close()


CUTS = [["request"], ["answer"], ["answer", "answer", "request"]]


@pytest.mark.parametrize("cuts", CUTS)
def test_an_exchange_that_was_cut_off_takes_effect_once(world: RedisMap, cuts: list[str]) -> None:
    async def exchange() -> tuple[Exchange, Exchange]:
        async with behind_proxy(world.server, map_name=world.name) as (proxy, queue):
            entries = [entry(str(number), fingerprint=None) for number in range(4)]
            first = await queue.exchange(Changes(pushed=entries), 3, 0.0)
            proxy.cuts = list(cuts)
            one, two, three = first.leases
            changes = Changes([entry("5", fingerprint=None)], (), [one], [(two, "no")], [three])
            second = await queue.exchange(changes, 2, 0.0)
            assert proxy.cuts == []
            return second, await queue.exchange(Changes(finished=second.leases), 0, 0.0)

    second, third = asyncio.run(exchange())
    assert [lease.body for lease in second.leases] == [b"2", b"3"]
    assert (second.refused, third.refused) == (0, 0)
    counts = world.worker().counts()
    assert (counts.done, counts.failed, counts.left) == (3, 1, 1)


def test_a_call_that_is_repeated_is_only_answered_again(world: RedisMap) -> None:
    worker = world.worker()
    worker.push(entry("1"), entry("2"), entry("3"))
    leases = worker.lease(2)
    worker.queue._number -= 1
    assert worker.lease(2, now=1.0) == leases
    assert worker.counts().leased == 2


def test_a_lease_that_was_lost_since_is_not_answered_again(world: RedisMap) -> None:
    worker = world.worker()
    worker.push(entry("1"), entry("2"))
    first, second = worker.lease(2)
    worker.extend(second, now=50.0)
    (taken,) = world.worker().lease(now=LEASE)
    worker.queue._number -= 1
    assert taken.id == first.id
    assert [lease.id for lease in worker.lease(2, now=LEASE)] == [second.id]


@pytest.mark.parametrize("cuts", CUTS)
def test_other_calls_that_were_cut_off_answer_as_if_they_were_not(world: RedisMap, cuts: list[str]) -> None:
    async def call() -> list[Any]:
        async with behind_proxy(world.server, map_name=world.name) as (proxy, queue):
            pushed = [entry("1"), entry("2"), entry("3", segment=NEXT_DAY)]
            leases = (await queue.exchange(Changes(pushed=pushed), 3, 0.0)).leases
            await queue.exchange(Changes(failed=[(leases[0], "no")]), 0, 0.0)
            (failed,) = await queue.failures()
            answers: list[Any] = []
            await queue.exchange(Changes(taken_up=[failed.id]), 0, 0.0)
            for work in (
                lambda: queue.extend(leases, 1.0),
                lambda: queue.forget_others(1, NEXT_DAY),
            ):
                proxy.cuts = list(cuts)
                answers.append(await work())
                assert proxy.cuts == []
            return answers

    assert asyncio.run(call()) == [2, [DAY]]


def test_a_cancelled_exchange_mixes_nothing_up(world: RedisMap) -> None:
    async def exchange() -> tuple[list[bytes], list[bytes]]:
        async with behind_proxy(world.server, map_name=world.name) as (proxy, queue):
            await queue.exchange(Changes(pushed=[entry("1"), entry("2")]), 0, 0.0)
            proxy.passed.clear()
            world.server.pause()
            try:
                cancelled = asyncio.ensure_future(queue.exchange(Changes(), 1, 0.0))
                await proxy.passed.wait()
                cancelled.cancel()
                await asyncio.wait([cancelled])
            finally:
                world.server.resume()
            now = (await queue.exchange(Changes(), 1, 0.0)).leases
            later = (await queue.exchange(Changes(finished=now), 1, LEASE)).leases
            return [lease.body for lease in now], [lease.body for lease in later]

    now, later = asyncio.run(exchange())
    # Whether the cancelled call was made, the server may say; then its lease is offered when it expires.
    assert (now, later) in [([b"2"], [b"1"]), ([b"1"], [b"2"])]


def test_a_call_that_comes_after_its_successor_does_nothing(world: RedisMap) -> None:
    worker = world.worker()
    worker.push(entry("1"))
    worker.push(entry("2"))
    worker.queue._number = 0
    with pytest.raises(QueueError, match="a call came after its successor"):
        worker.push(entry("3"))
    assert worker.counts().seen == 2


def test_a_server_that_has_forgotten_the_scripts_is_told_them(world: RedisMap) -> None:
    worker = world.worker()
    worker.push(entry("1"))
    world.server.ask("SCRIPT", "FLUSH")
    assert worker.bodies() == ["1"]
    before = calls_of(world.server, "eval")
    assert worker.push(entry("1")).duplicates == 1
    assert calls_of(world.server, "eval") == before


# How many are needed


def calls_of(server: RedisServer, command: str) -> int:
    found = server.ask("INFO", "commandstats").get(f"cmdstat_{command}", {"calls": 0})
    return int(found["calls"])


async def crawl(queue: RedisQueue, tiles: int, at_once: int) -> None:
    """Works like the engine: so many requests are under way, and each finished one has four children."""
    told = asyncio.Event()
    failed: list[QueueError] = []
    listener: Any = SimpleNamespace(
        in_flight=0,
        taken=0,
        may_start=True,
        exchanged=lambda _: told.set(),
        wake=told.set,
        end=failed.append,
    )
    worker = QueueWorker(queue, listener, ahead=512, lease_seconds=60.0, clock=time.time)
    await queue.open(time.time())
    worker.push(entry("0"))
    worker.start()
    pushed, finished = 1, 0
    while finished < tiles and not failed:
        leases = worker.next_leases(at_once)
        worker.lease_more()
        if not leases:
            told.clear()
            await asyncio.wait_for(told.wait(), 240)
        for lease in leases:
            for _ in range(min(4, tiles - pushed)):
                worker.push(entry(str(pushed)))
                pushed += 1
            worker.finish(lease)
            await asyncio.sleep(0)
        finished += len(leases)
    await worker.close()
    assert not failed


def test_a_tile_needs_a_small_part_of_a_call(world: RedisMap) -> None:
    before = calls_of(world.server, "evalsha")
    queue = queue_on(world.server, world.name, server_clock=True, expected=5000)
    asyncio.run(crawl(queue, tiles=4000, at_once=16))
    assert world.worker().counts().done == 4000
    assert (calls_of(world.server, "evalsha") - before) / 4000 < 0.1
