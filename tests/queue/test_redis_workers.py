"""Several workers on one queue in Redis: processes that are killed among them."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.scheduler.driving import LEASE, entry
from tests.servers.redis import queue_on
from tileharvest.queue.port import Changes

if TYPE_CHECKING:
    from tests.queue.redis_maps import RedisMap
    from tests.servers.redis import RedisServer
    from tileharvest.queue.redis.queue import RedisQueue

PROJECT = Path(__file__).parents[2]

WALKING = """
import asyncio, sys
from tileharvest.queue.port import Changes, Entry
from tileharvest.queue.redis.queue import RedisQueue

async def walk(url, last, most):
    queue = RedisQueue({"url": url}, "walk", lease_seconds=0.3, max_attempts=1000)
    await queue.open(0.0)
    changes = Changes(pushed=[entry(1)])
    while True:
        sys.stdin.readline()
        answer = await queue.exchange(changes, most, 0.0)
        print("leased", flush=True)
        numbers = [int(lease.body) for lease in answer.leases]
        children = [child for n in numbers for child in (2 * n, 2 * n + 1) if child <= last]
        changes = Changes(pushed=[entry(child) for child in children], finished=answer.leases)
        if not (answer.leases or answer.leased_elsewhere):
            return await queue.close()

def entry(number):
    return Entry(b"%d" % number, "day", b"%d" % number, number % 3 - 1)

asyncio.run(walk(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""
"""A worker whose requests are the numbers from 1 to the last; the children of n are 2n and 2n + 1. It makes
as many steps as there are lines to read, and when there are no more to come, all."""


def walking(server: RedisServer, last: int = 2500, most: int = 7) -> subprocess.Popen[str]:
    program = [sys.executable, "-c", WALKING, server.url, str(last), str(most)]
    pipe = subprocess.PIPE
    return subprocess.Popen(program, cwd=PROJECT, stdin=pipe, stdout=pipe, text=True)


def go(process: subprocess.Popen[str], steps: int) -> None:
    assert process.stdin is not None
    process.stdin.write("\n" * steps)
    process.stdin.flush()


def await_steps(process: subprocess.Popen[str], steps: int) -> None:
    assert process.stdout is not None
    for _ in range(steps):
        assert process.stdout.readline() == "leased\n"


# Leases


@pytest.mark.parametrize("workers", [2, 3])
def test_no_request_is_leased_twice(world: RedisMap, workers: int) -> None:
    async def work(queue: RedisQueue, taken: list[bytes]) -> None:
        changes = Changes()
        while leases := (await queue.exchange(changes, 7, 0.0)).leases:
            taken += [lease.body for lease in leases]
            changes = Changes(finished=leases)

    async def all_work() -> list[list[bytes]]:
        async with AsyncExitStack() as stack:
            queues = [queue_on(world.server, world.name) for _ in range(workers)]
            for queue in queues:
                await queue.open(0.0)
                stack.push_async_callback(queue.close)
            await queues[0].exchange(Changes(pushed=[entry(str(n)) for n in range(500)]), 0, 0.0)
            taken: list[list[bytes]] = [[] for _ in queues]
            await asyncio.gather(*map(work, queues, taken))
            return taken

    taken = asyncio.run(all_work())
    assert all(taken)
    assert sorted(int(body) for bodies in taken for body in bodies) == list(range(500))


def test_a_new_worker_leaves_the_leases_of_others_to_them(world: RedisMap) -> None:
    first = world.worker()
    leases = first.exchange(2, pushed=[entry("1"), entry("2")]).leases
    answer = world.worker().exchange(9)
    assert (answer.leases, answer.leased_elsewhere) == ([], 2)
    assert first.exchange(finished=leases).refused == 0


def test_expired_leases_go_to_others_and_are_refused_here(world: RedisMap) -> None:
    slow, other = world.worker(), world.worker()
    (lease,) = slow.exchange(1, pushed=[entry("1")]).leases
    (again,) = other.lease(now=LEASE)
    assert (again.id, again.attempt) == (lease.id, 2)
    assert slow.exchange(finished=[lease], now=LEASE).refused == 1
    assert other.exchange(finished=[again], now=LEASE).refused == 0


@pytest.mark.parametrize("way", ["finished", "returned"])
def test_a_lease_of_the_same_attempt_belongs_to_one_worker_only(world: RedisMap, way: str) -> None:
    first, second = world.worker(), world.worker()
    (lease,) = first.exchange(1, pushed=[entry("1")]).leases
    first.exchange(returned=[lease])
    (again,) = second.lease()
    assert (again.id, again.attempt) == (lease.id, lease.attempt)
    assert first.exchange(**{way: [lease]}).refused == 1
    assert first.extend(lease) == 0
    assert second.exchange(finished=[again]).refused == 0


def test_requests_that_a_worker_gave_back_go_to_others_in_their_place(world: RedisMap) -> None:
    first = world.worker()
    first.push(*(entry(body) for body in "1234"))
    one, _, three = first.lease(3)
    first.exchange(returned=[three, one])
    first.stop()
    assert world.worker().bodies(9) == ["1", "3", "4"]


def test_the_turn_of_minus_comes_round_for_all_workers_together(world: RedisMap) -> None:
    workers = [world.worker(minus_share=4) for _ in range(2)]
    workers[0].push(*(entry(f"n{n}") for n in range(6)), *(entry(f"m{n}", -1) for n in range(2)))
    assert [workers[n % 2].bodies(1)[0][0] for n in range(8)] == list("nnnmnnnm")


# Clocks


def test_times_are_those_of_the_callers_clock_whatever_it_shows(world: RedisMap) -> None:
    fast, slow = world.worker(server_clock=True), world.worker(server_clock=True)
    answer = fast.exchange(1, 5e9, pushed=[entry("1"), entry("later", due=5e9 + 60)])
    assert answer.next_due == pytest.approx(5e9 + 60, abs=0.001)
    assert slow.exchange(now=1000.0).next_due == pytest.approx(1060, abs=5)
    answer = slow.exchange(9, 1000.0, pushed=[entry("sooner", due=1030.0)])
    assert answer.leases == []
    assert answer.next_due == pytest.approx(1030, abs=5)


def test_the_clock_of_redis_says_when_a_lease_has_expired(world: RedisMap) -> None:
    assert world.worker(server_clock=True).exchange(1, pushed=[entry("1")]).leases
    assert world.worker(server_clock=True).lease(now=9e9) == []


def test_times_in_redis_are_its_own(world: RedisMap) -> None:
    worker = world.worker(server_clock=True)
    worker.exchange(failed=[(worker.exchange(1, pushed=[entry("1")]).leases[0], "no")])
    (failure,) = worker.failures()
    assert failure.failed == pytest.approx(time.time(), abs=60)


# Killed


def test_the_leases_of_a_killed_worker_come_back_after_their_time(server: RedisServer) -> None:
    server.ask("FLUSHALL")
    with walking(server, last=1) as killed:
        go(killed, 1)
        await_steps(killed, 1)
        killed.kill()

    async def taken() -> int:
        queue = queue_on(server, "walk", server_clock=True)
        await queue.open(0.0)
        while not (leases := (await queue.exchange(Changes(), 1, 0.0)).leases):
            pass
        await queue.close()
        return leases[0].attempt

    assert asyncio.run(taken()) == 2


def test_killed_workers_lose_nothing_and_repeat_nothing_finished(server: RedisServer) -> None:
    server.ask("FLUSHALL")
    for most in (3, 11, 20, 5):
        with walking(server, most=most) as first, walking(server, most=most) as second:
            # They are killed somewhere in the other half of their steps.
            for process in (first, second):
                go(process, 2 * most)
            for process in (first, second):
                await_steps(process, most)
            first.kill()
            second.kill()
    assert server.ask("ZCARD", "tileharvest:{walk}:leases") > 0
    with walking(server) as survivor:
        survivor.communicate(timeout=240)
    assert survivor.returncode == 0
    assert server.ask("HGET", "tileharvest:{walk}:segment:day", "done") == b"2500"
    assert server.ask("HLEN", "tileharvest:{walk}:requests") == 0
    assert server.ask("ZCARD", "tileharvest:{walk}:leases") == 0
    assert server.ask("EXISTS", "tileharvest:{walk}:held", "tileharvest:{walk}:failures") == 0


# Who works


def workers(driven: Any) -> list[Any]:
    return list(driven.run(driven.queue.workers()))


def test_workers_are_listed_with_what_they_hold(world: RedisMap) -> None:
    first, second = world.worker(), world.worker()
    first.exchange(3, 5.0, pushed=[entry(body) for body in "12345"])
    second.exchange(1, 6.0)
    found = [(w.host, w.pid, w.started, w.heartbeat, w.leased) for w in workers(first)]
    me = (socket.gethostname(), os.getpid(), 0.0)
    assert sorted(found) == [(*me, 5.0, 3), (*me, 6.0, 1)]


def test_extending_tells_that_a_worker_is_alive(world: RedisMap) -> None:
    worker = world.worker()
    worker.extend(now=42.0)
    assert [one.heartbeat for one in workers(worker)] == [42.0]


def test_a_worker_that_ends_is_listed_no_more(world: RedisMap) -> None:
    first, second = world.worker(), world.worker()
    first.stop()
    assert len(workers(second)) == 1


def test_a_worker_is_listed_while_it_may_hold_leases(world: RedisMap) -> None:
    world.worker().exchange(1, pushed=[entry("1")])
    second = world.worker()
    second.extend(now=LEASE - 1.0)
    assert len(workers(second)) == 2
    second.extend(now=LEASE)
    assert len(workers(second)) == 1


def test_who_was_last_heard_of_long_ago_is_gone_though_nobody_came_since(world: RedisMap) -> None:
    killed, beside = world.worker(server_clock=True), world.beside(server_clock=True)
    assert len(workers(beside)) == 1
    world.ask("ZADD", "workers", time.time() - LEASE - 1, killed.queue._client)
    assert workers(beside) == []


def test_a_forgotten_worker_that_goes_on_is_listed_again(world: RedisMap) -> None:
    first, second = world.worker(), world.worker()
    second.extend(now=700.0)
    first.extend(now=701.0)
    assert len(workers(second)) == 2
