"""Several workers harvest a map together: the history is that of one worker, and nothing is asked twice."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.soundness import images
from tests.end_to_end.real_maps import ANTWORLD, Harvested
from tests.fleet.workers import Fleet
from tests.servers.nginx import LogLine, Nginx
from tests.servers.published import published


def asked(log: list[LogLine]) -> Counter[tuple[str, str]]:
    """Returns the requests for tiles, without those for the configuration, which each worker reads."""
    return Counter((line.method, line.path) for line in log if line.path.endswith(".png"))


def test_three_workers_record_the_versions_of_a_map_as_one_worker_does(
    fleet: Fleet,
    antworld: list[Harvested],
    shared_maps: Path,
    tmp_path: Path,
    nginx: Callable[..., Nginx],
    request: pytest.FixtureRequest,
) -> None:
    versions = antworld if request.config.getoption("--all") else antworld[:2]
    project, site = fleet.project, published(shared_maps, ANTWORLD, 1, tmp_path / "site")
    server = nginx(site)
    # Else the first of three that start on two cores would be done before the last has come.
    fleet.describe(server.url, requests_per_second=400, first="get")
    for expected in versions:
        published(shared_maps, ANTWORLD, expected.version, site)
        server.clear_log()
        fleet.assert_ended_together(*fleet.start_several(3, day=expected.day))
        log = list(server.log())
        assert asked(log) == asked(expected.log)
        assert set(asked(log).values()) == {1}
        assert project.versions() == expected.versions
        assert project.outcomes() == expected.outcomes
        assert images(project) == expected.stored
        harvest = project.query(
            "SELECT id, day, reason, requests, received_bytes, stored_bytes FROM harvests ORDER BY id"
        )[-1]
        received = sum(line.size for line in log if line.method == "GET")
        costs = len(log), received, expected.summary["stored_bytes"]
        assert harvest[1:] == (expected.day, "finished", *costs)
        counts = project.query(
            "SELECT outcome, sum(tiles) FROM harvest_counts WHERE harvest = ? GROUP BY outcome", harvest[0]
        )
        assert dict(counts) == expected.summary["counts"]
