"""Several workers harvest a map together: the history is that of one worker, and nothing is asked twice."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.end_to_end.real_maps import ANTWORLD
from tests.fleet.records import records
from tests.servers.published import published

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from tests.end_to_end.real_maps import Harvested
    from tests.fleet.workers import Fleet
    from tests.servers.nginx import LogLine, Nginx
    from tests.servers.redis import RedisServer


def of_tiles(log: list[LogLine]) -> list[LogLine]:
    """Returns the requests for tiles, without those for the configuration, which each worker reads."""
    return [line for line in log if line.path.endswith(".png")]


def test_three_workers_record_the_versions_of_a_map_as_one_worker_does(
    fleet_on: Callable[..., Fleet],
    redis: RedisServer,
    postgresql: str,
    antworld: list[Harvested],
    shared_maps: Path,
    tmp_path: Path,
    nginx: Callable[..., Nginx],
    request: pytest.FixtureRequest,
) -> None:
    versions = antworld if request.config.getoption("--all") else antworld[:2]
    fleet = fleet_on(redis.url, postgresql)
    site = published(shared_maps, ANTWORLD, 1, tmp_path / "site")
    server = nginx(site)
    # Else the first of three that start on two cores would be done before the last has come.
    fleet.describe(server.url, requests_per_second=400, first="get")
    for expected in versions:
        published(shared_maps, ANTWORLD, expected.version, site)
        server.clear_log()
        workers = fleet.start_several(3, day=expected.day)
        fleet.assert_ended_together(*workers)
        log = list(server.log())
        assert asked(log) == asked(expected.log)
        assert set(asked(log).values()) == {1}
        found = records(fleet)
        assert found.versions == expected.versions
        assert found.outcomes == expected.outcomes
        assert found.stored == expected.stored
        harvest = found.harvests[-1]
        assert harvest.counts == expected.summary["counts"]
        assert harvest.requests == len(log)
        assert harvest.received_bytes == sum(line.size for line in log if line.method == "GET")
        assert harvest.stored_bytes == expected.summary["stored_bytes"]
    assert [harvest.day for harvest in found.harvests] == [expected.day for expected in versions]
    assert {harvest.reason for harvest in found.harvests} == {"finished"}


def asked(log: list[LogLine]) -> Counter[tuple[str, str]]:
    return Counter((line.method, line.path) for line in of_tiles(log))
