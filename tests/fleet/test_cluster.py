"""A node of a Redis Cluster is killed in the middle of a harvest, and its replica takes over."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.end_to_end.project import answered
from tests.fleet.records import assert_harvested
from tests.fleet.workers import MAP
from tests.servers.redis import redis_cluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.end_to_end.rendering import Rendering
    from tests.fleet.workers import Fleet
    from tests.servers.nginx import Nginx

TIMEOUT = ("--cluster-node-timeout", "2000")
"""Milliseconds of silence after which the others take a node for dead."""


def test_a_harvest_goes_on_where_a_replica_has_taken_over(
    fleet_on: Callable[..., Fleet], small: Rendering, nginx: Callable[..., Nginx]
) -> None:
    """Requests of which the replica had not heard are asked for again, and recorded once."""
    server = nginx(small.folder)
    with redis_cluster(*TIMEOUT, replicas=3) as cluster:
        fleet = fleet_on(cluster.url)
        fleet.describe(server.url, requests_per_second=60)
        fleet.settings["LEASE_SECONDS"] = 3
        workers = fleet.start_several(2)
        fleet.await_until(lambda: answered(server) >= 80)
        part = cluster.part(f"tileharvest:{{{MAP}}}:plus")
        # Whoever kills a node at random mostly finds that its replica knows all. This one knows less.
        cluster.replicas[part].ask("CONFIG", "SET", "masterauth", "a password that its master has not")
        cluster.masters[part].ask("CLIENT", "KILL", "TYPE", "replica")
        known = answered(server)
        fleet.await_until(lambda: answered(server) >= known + 30)
        cluster.masters[part].kill()
        fleet.await_ends(*workers)
        assert [worker.status for worker in workers] == [0, 0]
        assert cluster.replicas[part].ask("INFO")["role"] == "master"
        assert_harvested(fleet, small)
    assert [worker.errors for worker in workers] == [[], []]
    asked = Counter((line.method, line.path) for line in server.log() if line.path.endswith(".png"))
    assert asked.total() > len(asked)
