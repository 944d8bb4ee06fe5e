"""A Redis that writes everything to its disk, killed while workers are at it."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

from tests.scheduler.driving import Driven, entry
from tests.servers.redis import AOF, queue_on, redis_server
from tileharvest.queue.port import Changes

if TYPE_CHECKING:
    from tests.servers.redis import RedisServer


def test_what_was_answered_outlives_a_kill_of_the_server() -> None:
    with redis_server(*AOF) as server, Driven(lambda: queue_on(server)).open() as queue:
        for number in range(60):
            queue.push(entry(f"{number}"), entry(f"later {number}", due=9e9))
            leases = queue.lease()
            if number % 3 == 0:
                queue.exchange(finished=leases)
            if number % 3 == 1:
                queue.exchange(failed=[(leases[0], "no")])
            if number % 20 == 7:
                before = queue.counts()
                server.kill()
                server.start()
                assert queue.counts() == before
        counts = queue.counts()
        assert (counts.done, counts.failed, counts.leased, counts.delayed) == (20, 20, 20, 60)
        assert queue.push(*(entry(str(number)) for number in range(60))).duplicates == 60


def test_a_server_that_has_lost_everything_mixes_old_leases_up_with_no_new_ones() -> None:
    with redis_server() as server, Driven(lambda: queue_on(server, server_clock=True)).open() as queue:
        old = queue.exchange(1, pushed=[entry("old")]).leases
        server.kill()
        server.start()
        new = queue.exchange(1, pushed=[entry("new")]).leases
        assert queue.exchange(finished=old).refused == 1
        assert queue.exchange(finished=new).refused == 0


def test_a_kill_in_the_middle_of_the_work_loses_and_repeats_nothing() -> None:
    """The server is killed while a call is under way, and started again meanwhile."""
    random = Random(6)
    kills: list[int] = []

    async def work(server: RedisServer) -> list[bytes]:
        def strike() -> None:
            server.kill()
            server.start()
            kills.append(len(finished))

        queue = queue_on(server, patience=30.0, server_clock=True, expected=3000)
        await queue.open(0.0)
        finished: list[bytes] = []
        changes, pushed = Changes(pushed=[entry("0")]), 1
        while leases := (answer := await queue.exchange(changes, 5, 0.0)).leases:
            assert answer.refused == 0
            finished += [lease.body for lease in leases]
            number = min(3 * len(leases), 2000 - pushed)
            children = [entry(str(pushed + child), fingerprint=None) for child in range(number)]
            pushed += number
            changes = Changes(pushed=children, finished=leases)
            if len(finished) > 300 * (len(kills) + 1):
                asyncio.get_running_loop().call_later(random.uniform(0, 0.003), strike)
        await queue.close()
        return finished

    with redis_server(*AOF) as server:
        finished = asyncio.run(work(server))
        assert sorted(map(int, finished)) == list(range(2000))
        assert server.ask("HGET", "tileharvest:{world}:segment:2021-02-13", "done") == b"2000"
    assert len(kills) > 5
