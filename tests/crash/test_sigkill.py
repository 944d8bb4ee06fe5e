"""SIGKILL at any moment of a harvest of a real map: no finished work is lost, and no tile is skipped."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from tests.crash.soundness import assert_sound, images
from tests.end_to_end.project import LayerTile, Project, answered, await_condition
from tests.end_to_end.real_maps import ANTWORLD
from tests.history.outcomes import RESULTS
from tests.servers.nginx import nginx
from tests.servers.published import published
from tileharvest.queue.codec import decode
from tileharvest.tiles.block import Block

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.end_to_end.real_maps import Harvested
    from tests.servers.nginx import Nginx

_RANDOM: Final = Random(20260213)
_PARTS: Final = 4
MOMENTS: Final = [(part + _RANDOM.random()) / _PARTS * 0.9 for part in range(_PARTS)]
"""When the kills come, as shares of the harvest's requests: one in each quarter of the first 90 %. Later the
harvest would mostly end before its kill."""
_BETWEEN: Final = [pytest.param(share, marks=pytest.mark.repetition) for share in MOMENTS[1:-1]]


CONFIGURATION: Final = LayerTile("the site's configuration", 0, 0, 0)
"""Stands among the tiles for what each run asks for."""


class Stage(NamedTuple):
    """A harvest to be disturbed, with the data before it and the result undisturbed."""

    server: Nginx
    before: Path | None
    """The data folder of the harvests before. None for the first harvest."""
    undisturbed: Harvested

    @property
    def command(self) -> tuple[str, ...]:
        return ("crawl", "overviewer", "-a", f"map={ANTWORLD}", "-a", f"day={self.undisturbed.day}")

    def begin(self, project: Project) -> None:
        """Turns the project into what it is before the harvest."""
        shutil.rmtree(project.data, ignore_errors=True)
        project.maps_file.unlink(missing_ok=True)
        if self.before is not None:
            project.adopt(self.before)
        project.add_map(ANTWORLD, self.server.url)

    def kill(self, project: Project, moment: int) -> bool:
        """Runs the harvest and kills it when nginx has logged so many requests. Returns False if the run has
        ended before."""
        self.server.clear_log()
        with project.running(*self.command) as process:
            await_condition(lambda: answered(self.server) >= moment, process)
            process.kill()
            process.wait()
        assert_sound(project)
        return process.returncode == -signal.SIGKILL

    def begin_and_kill(self, project: Project, moment: int) -> None:
        """Begins and kills a harvest. On a busy machine the kill may come too late; then it begins anew."""
        for _ in range(5):
            self.begin(project)
            if self.kill(project, moment):
                return
        raise AssertionError("the kill came too late each time")

    def assert_as_undisturbed(self, project: Project) -> None:
        """Asserts that there is one harvest, finished, with the result of the undisturbed one."""
        expected = self.undisturbed
        assert_sound(project)
        assert project.versions() == expected.versions
        assert project.outcomes() == expected.outcomes
        assert images(project) == expected.stored
        ends = project.query("SELECT reason FROM harvests WHERE day = ?", expected.day)
        assert ends == [("finished",)]
        counts = project.query(
            "SELECT outcome, tiles FROM harvest_counts JOIN harvests ON harvests.id = harvest WHERE day = ?",
            expected.day,
        )
        assert dict(counts) == expected.summary["counts"]


@pytest.fixture(scope="module", params=[1, 4], ids=["first harvest", "harvest over three others"])
def stage(
    request: pytest.FixtureRequest,
    shared_maps: Path,
    antworld: list[Harvested],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stage]:
    version: int = request.param
    site = published(shared_maps, ANTWORLD, version, tmp_path_factory.mktemp("site"))
    before = antworld[version - 2].data if version > 1 else None
    with nginx(site) as server:
        yield Stage(server, before, antworld[version - 1])


def under_way(project: Project) -> Counter[LayerTile]:
    """Returns by tile the number of leased requests for it. A tile has two while the rest of a block that was
    cut short is asked, and the block is not recorded yet."""
    queue = project.data / "queues" / f"{ANTWORLD}.sqlite"
    with closing(sqlite3.connect(f"file:{queue}?mode=ro", uri=True)) as connection:
        bodies = [body for (body,) in connection.execute("SELECT body FROM requests WHERE state = 'leased'")]
    blocks = [Block(*decode(body).meta["block"]) for body in bodies]
    return Counter(
        LayerTile(block.layer, tile.zoom, tile.x, tile.y) for block in blocks for _, tile in block.tiles()
    )


def fetched_and_recorded(project: Project, day: str) -> set[LayerTile]:
    """Returns the tiles that the day's harvest has recorded with an outcome that only a GET can tell."""
    asked = project.query(
        RESULTS + "SELECT layers.name, zoom, x, y FROM results JOIN layers ON layers.id = layer"
        " JOIN harvests ON harvests.id = results.harvest WHERE day = ? AND outcome IN ('add', 'upd', 'nMod')",
        day,
    )
    return {LayerTile(*row) for row in asked}


@pytest.mark.parametrize("share", [MOMENTS[0], *_BETWEEN, MOMENTS[-1]], ids=lambda share: f"{share:.0%}")
def test_a_killed_harvest_run_again_ends_as_if_it_had_not_been_killed(
    stage: Stage, project: Project, share: float
) -> None:
    expected = stage.undisturbed
    stage.begin_and_kill(project, moment=max(2, round(share * len(expected.log))))
    recorded = fetched_and_recorded(project, expected.day)
    leased = under_way(project) + Counter([CONFIGURATION])
    before = list(stage.server.log())
    stage.server.clear_log()
    project.scrapy(*stage.command)
    stage.assert_as_undisturbed(project)
    after = list(stage.server.log())
    # Each request that was leased at the kill is made once more. If it had led to others already, and is now
    # cut short, it leads to a part of them, which the queue does not know.
    tiles = expected.rendering.tiles_of_files
    for (_, path), times in Counter((line.method, line.path) for line in (*before, *after)).items():
        name = path.removeprefix("/")
        again = tiles([name, f"{name.rpartition('/')[0]}.png"]) if tiles([name]) else {CONFIGURATION}
        assert times <= 1 + sum(leased[tile] for tile in again), path
    # A tile that was recorded before the kill is not fetched again, unless it was still leased.
    fetched = {tile for tile, found in expected.outcomes.items() if found in ("add", "upd", "nMod")}
    got = (line for line in after if (line.method, line.status) == ("GET", 200))
    fetched_again = tiles(line.path.removeprefix("/") for line in got)
    assert fetched_again - (leased.keys() & recorded) == fetched - recorded
