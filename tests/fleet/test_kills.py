"""Workers that are killed, all or one after the other: nothing is lost, nothing doubled."""

from __future__ import annotations

import json
import signal
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final

from tests.end_to_end.project import answered
from tests.fleet.gate import Slow, tiles_only
from tests.fleet.records import assert_harvested
from tests.fleet.workers import MAP
from tileharvest.queue.codec import decode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.rendering import Rendering
    from tests.fleet.workers import Fleet, Worker
    from tests.servers.misbehaving import Misbehaving
    from tests.servers.nginx import LogLine, Nginx
    from tests.servers.redis import RedisServer

"""Kills come at random moments. `tests/crash` kills a single worker at every step of what it writes to
SQLite. In Redis a script is one step, and in PostgreSQL a transaction."""
LEASE: Final = 3
"""Seconds for which the leases of a killed worker last. They are three times the heartbeat, so that a busy
machine is not taken for a frozen one."""
QUEUE: Final = f"tileharvest:{{{MAP}}}:"
"""The prefix of the keys in Redis."""


def repeats(log: list[LogLine]) -> int:
    """Requests for tiles beyond the first of each kind."""
    asked = Counter((line.method, line.path) for line in log if line.path.endswith(".png"))
    return asked.total() - len(asked)


def kill(fleet: Fleet, redis: RedisServer, worker: Worker) -> int:
    """Returns the number of tiles in the blocks that it had leased."""
    # What it says to Redis from here on would not be counted.
    worker.freeze()
    facts = redis.ask("HGETALL", f"{QUEUE}facts")
    names = [name.decode() for name, fact in facts.items() if json.loads(fact)["pid"] == worker.process.pid]
    leased = [one for name in names for one in redis.ask("SMEMBERS", f"{QUEUE}leases:{name}")]
    bodies = [redis.ask("HGET", f"{QUEUE}entry:{one.decode()}", "body") for one in leased]
    worker.kill()
    return sum(decode(body).meta["block"][-1].bit_count() for body in bodies)


def test_one_of_three_workers_is_killed_again_and_again(
    fleet_on: Callable[..., Fleet],
    redis: RedisServer,
    postgresql: str,
    large: Rendering,
    nginx: Callable[..., Nginx],
    kills: int,
) -> None:
    """Kills workers at random points. Each time another one takes the place. The workers that are left end by
    themselves."""
    random = Random(5)
    fleet, server = fleet_on(redis.url, postgresql), nginx(large.folder)
    fleet.describe(server.url, concurrency=64, requests_per_second=100)
    # It may be the same request that is lost each time.
    fleet.settings |= {"LEASE_SECONDS": LEASE, "MAX_ATTEMPTS": kills + 1}
    workers, lost = fleet.start_several(3), 0
    for moment in sorted(random.sample(range(1, 650), kills)):
        fleet.await_until(lambda moment=moment: answered(server) >= moment)  # type: ignore[misc]
        lost += kill(fleet, redis, workers.pop(random.randrange(3)))
        workers.append(fleet.start())
    fleet.assert_ended_together(*workers)
    assert_harvested(fleet, large)
    assert repeats(list(server.log())) <= lost


def test_what_a_worker_that_is_told_to_end_has_not_started_is_the_others_at_once(
    fleet: Fleet, small: Rendering, misbehaving: Callable[[Path], Misbehaving]
) -> None:
    """SIGTERM, as from `docker stop` or a scrapyd cancel. Its leases would last for half a minute."""
    site = misbehaving(small.folder)
    fleet.describe(site.url)
    worker, others = fleet.start(), []
    fleet.await_until(lambda: len(site.received) > 50)
    site.rule_for_all = tiles_only(Slow(0.2))
    fleet.await_until(lambda: fleet.leased_by(worker) > 0)
    worker.send(signal.SIGTERM)
    fleet.await_ends(worker)
    # The harvest is not finished.
    assert worker.status == 1
    counts = fleet.counts()
    assert (counts.leased, counts.left > 0) == (0, True)
    site.rule_for_all = None
    others = fleet.start_several(2)
    fleet.assert_ended_together(*others)
    assert_harvested(fleet, small)
    asked = Counter((request.method, request.path) for request in site.received)
    # Each of the three workers finds out what the site allows, and what it has.
    assert {one for one, times in asked.items() if times > 1} == {
        ("GET", "/robots.txt"),
        ("GET", "/overviewerConfig.js"),
    }
