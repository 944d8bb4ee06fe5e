"""Three workers walk a map pruned: the history is that of a full walk, and nothing is asked twice."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.end_to_end.pruned_stage import DAYS, NOON, RARELY, drawn_site, walked
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


def test_three_workers_repair_a_harvest_together(
    fleet: Fleet, tmp_path: Path, nginx: Callable[..., Nginx]
) -> None:
    """Whoever has found the breach, all of them ask everything from then on; so do those of the next day."""
    leaves = [f"{number // 16}{number // 4 % 4}{number % 4}" for number in range(64)]
    files = drawn_site(tmp_path / "site", leaves)
    server = nginx(files.folder)
    fleet.describe(server.url, requests_per_second=60)
    fleet.settings["LEASE_AHEAD"] = 4
    fleet.assert_ended_together(fleet.start(day=DAYS[0]))
    for leaf in leaves:
        files.draw_alone(leaf, NOON - 3600)
        files.draw_alone(leaf[:2], NOON - 3600)
    server.clear_log()
    fleet.assert_ended_together(*fleet.start_several(3, day=DAYS[1]))
    assert ways(fleet, 3) == {True}
    found, images = records(fleet), files.rendering.images()
    assert {version.tile for version in found.versions if version.day == DAYS[1]} == {
        tile for tile in images if tile.zoom > -2
    }
    assert set(images.values()) <= set(found.stored.values())
    # The tops, and what was audited, are asked a second time.
    heads = [path for method, path in of_tiles(list(server.log())).elements() if method == "HEAD"]
    assert len(heads) <= 84 + 4 + AUDITED
    assert set(Counter(heads).values()) == {1, 2}
    fleet.assert_ended_together(*fleet.start_several(2, day=DAYS[2]))
    assert ways(fleet, 2) == {False}


def test_three_workers_find_out_a_change_index_that_is_wrong(
    fleet: Fleet, tmp_path: Path, nginx: Callable[..., Nginx]
) -> None:
    """All keep to what the first has read; whoever has found the breach, all of them ask everything then."""
    leaves = [f"{number // 16}{number // 4 % 4}{number % 4}" for number in range(64)]
    files = drawn_site(tmp_path / "site", leaves)
    files.configure(last_rendertime=NOON)
    server = nginx(files.folder)
    fleet.describe(server.url, requests_per_second=60, audit=0.3)
    fleet.settings["LEASE_AHEAD"] = 4
    fleet.assert_ended_together(fleet.start(day=DAYS[0]))
    for leaf in leaves:
        files.draw(leaf, NOON + 3600)
    server.clear_log()
    fleet.assert_ended_together(*fleet.start_several(3, day=DAYS[1]))
    assert ways(fleet, 3) == {True}
    found, images = records(fleet), files.rendering.images()
    assert {version.tile for version in found.versions if version.day == DAYS[1]} == set(images)
    assert set(images.values()) <= set(found.stored.values())
