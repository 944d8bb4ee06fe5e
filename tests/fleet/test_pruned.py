"""Three workers walk a map pruned: the history is that of a full walk, and nothing is asked twice."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.end_to_end.pruned_stage import RARELY, walked
from tests.end_to_end.real_maps import ANTWORLD
from tests.fleet.records import records
from tests.servers.published import published

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.real_maps import Harvested
    from tests.fleet.workers import Fleet
    from tests.servers.nginx import LogLine, Nginx

NEXT_DAY = "2021-05-13"
AUDITED = 20


def of_tiles(log: list[LogLine]) -> Counter[tuple[str, str]]:
    return Counter((line.method, line.path) for line in log if line.path.endswith(".png"))


def ways(fleet: Fleet, workers: int) -> set[bool]:
    """Whether the last workers said that they walk pruned."""
    return {way.is_pruned for worker in fleet.workers[-workers:] for way in walked(worker.log).values()}


def test_three_workers_record_what_a_full_walk_does(
    fleet: Fleet,
    antworld: list[Harvested],
    shared_maps: Path,
    tmp_path: Path,
    nginx: Callable[..., Nginx],
) -> None:
    site = published(shared_maps, ANTWORLD, 1, tmp_path / "site")
    server = nginx(site)
    # Else the first of three that start on two cores would be done before the last has come.
    fleet.describe(server.url, walk="pruned", full_every=RARELY, requests_per_second=150)
    fleet.assert_ended_together(fleet.start(day=antworld[0].day))
    for expected in antworld[1:3]:
        published(shared_maps, ANTWORLD, expected.version, site)
        server.clear_log()
        fleet.assert_ended_together(*fleet.start_several(3, day=expected.day))
        assert ways(fleet, 3) == {True}
        log = list(server.log())
        assert set(of_tiles(log).values()) == {1}
        assert of_tiles(log).total() < of_tiles(expected.log).total() / 2
        found = records(fleet)
        assert found.versions == expected.versions
        assert found.stored == expected.stored
        counts = found.harvests[-1].counts
        assert counts["ign"] + counts["skip"] == expected.summary["counts"]["ign"]
    server.clear_log()
    fleet.assert_ended_together(*fleet.start_several(3, day=NEXT_DAY))
    asked = of_tiles(list(server.log()))
    assert (asked.total(), set(asked.values())) == (4 + AUDITED, {1})
    assert records(fleet).versions == antworld[2].versions
