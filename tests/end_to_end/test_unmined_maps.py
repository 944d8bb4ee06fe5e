"""The shared map of uNmINeD and an export that grows, served by nginx and harvested on their days."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from shutil import copytree
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.end_to_end.bad_input.small_site import drawn
from tests.end_to_end.project import LayerTile, Project
from tests.end_to_end.pruned_stage import RARELY, latest, the_walk
from tests.end_to_end.real_maps import days, made_once
from tests.renderers.unmined_exports import exported, properties, tiles_of
from tests.servers.nginx import nginx
from tests.servers.published import published, truth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tests.end_to_end.project import RecordedVersion
    from tests.servers.nginx import LogLine, Nginx
    from tests.servers.published import Step

NAME: Final = "helmetgreen"
TOP: Final = -6
"""The coarsest zoom of all its versions."""
FIRST_PRUNED: Final = 3
"""The first version that was rendered so long after the one before that the times tell of two renders."""

_TILE: Final = re.compile(r"/?tiles/zoom\.(-?\d+)/-?\d+/-?\d+/tile\.(-?\d+)\.(-?\d+)\.\w+")
_GROUP: Final = re.compile(r"x: (-?\d+), z: (-?\d+), m: new Uint32Array\(\[([\d,]+)\]")


@dataclass(frozen=True, slots=True)
class Export:
    """A version of the map, and what its harvest left behind."""

    day: str
    step: Step | None
    """What changed since the version before; None for the first."""
    images: dict[LayerTile, bytes]
    """What was published."""
    missing: set[LayerTile]
    """What the bitmap names and was not published: the map is a cut."""
    outcomes: dict[LayerTile, str]
    present: dict[LayerTile, bytes]
    """What the history took for present then."""
    log: list[LogLine]
    data: Path
    """A copy of the data folder as it was then."""
    versions: set[RecordedVersion]
    summary: dict[str, Any]

    @property
    def expected(self) -> dict[LayerTile, str]:
        """The outcomes, from the map's own record alone."""
        expected = dict.fromkeys(self.missing, "404")
        if self.step is None:
            return expected | dict.fromkeys(self.images, "add")
        return (
            expected
            | dict.fromkeys(self.images, "ign")
            | dict.fromkeys(tiles_among(self.step.added), "add")
            | dict.fromkeys(tiles_among(self.step.changed), "upd")
            | dict.fromkeys(tiles_among(self.step.redated), "nMod")
            | dict.fromkeys(tiles_among(self.step.removed), "gone")
        )


def tile(zoom: int, x: int, y: int) -> LayerTile:
    """The name of a tile of uNmINeD, whose zoom 4 is the history's 0: its centre, in grid units."""
    reach = 2 ** (4 - zoom)
    return LayerTile("tiles", zoom - 4, (2 * x + 1) * reach, -(2 * y + 1) * reach)


def tiles_among(paths: Iterable[str]) -> set[LayerTile]:
    """The tiles among the paths of files or requests."""
    found = filter(None, map(_TILE.fullmatch, paths))
    return {tile(*map(int, match.groups())) for match in found}


def images_of(site: Path) -> dict[LayerTile, bytes]:
    files = [file for file in site.rglob("tile.*") if file.is_file()]
    named = {file: tiles_among([file.relative_to(site).as_posix()]) for file in files}
    return {name: file.read_bytes() for file, names in named.items() for name in names}


def tops_of(site: Path) -> set[LayerTile]:
    """The coarsest tiles that the bitmap names."""
    groups = _GROUP.findall((site / "unmined.map.regions.js").read_text(encoding="utf-8"))
    regions = {
        (32 * int(x) + i, 32 * int(z) + j)
        for x, z, words in groups
        for j, word in enumerate(words.split(",")[:32])
        for i in range(32)
        if int(word) & 1 << i
    }
    return {tile(TOP, *place) for place in tiles_of(TOP, regions)}


@pytest.fixture(scope="module")
def exports(shared_maps: Path, common_folder: Path) -> list[Export]:
    """All versions in turn, each harvested in full: they lie more than seven days apart."""

    def harvest(folder: Path) -> list[Export]:
        project, site, found = Project(folder), folder / "site", []
        steps = [None, *truth(shared_maps, NAME)]
        published(shared_maps, NAME, 1, site)
        with nginx(site) as server:
            project.add_map(NAME, server.url)
            for version, (day, step) in enumerate(zip(days(shared_maps, NAME), steps, strict=True), start=1):
                published(shared_maps, NAME, version, site)
                server.clear_log()
                project.crawl(NAME, day, spider="unmined")
                log, images, data = list(server.log()), images_of(site), folder / f"data-{version}"
                copytree(project.data, data)
                missing = tops_of(site) - images.keys()
                state = (project.outcomes(), latest(project), log, data, project.versions(), {})
                found.append(Export(day, step, images, missing, *state))
        summaries = project.harvests(NAME)
        return [replace(one, summary=summary) for one, summary in zip(found, summaries, strict=True)]

    return made_once(common_folder / NAME, harvest)


def test_every_tile_has_the_outcome_that_the_maps_own_record_gives_it(exports: list[Export]) -> None:
    latest_outcomes: dict[LayerTile, str] = {}
    for export in exports:
        # A tile that was gone is not asked for again.
        latest_outcomes |= export.expected
        assert export.outcomes == latest_outcomes


def test_the_history_of_each_day_is_what_was_published_on_it(exports: list[Export]) -> None:
    for export in exports:
        assert export.present == export.images


def test_nothing_is_asked_in_vain_but_what_was_cut_away_or_removed(exports: list[Export]) -> None:
    for export in exports:
        removed = tiles_among(export.step.removed) if export.step else set()
        in_vain = {line.path for line in export.log if line.status == 404 and _TILE.fullmatch(line.path)}
        deeper = {path for path in in_vain if "/zoom.1/" in path}
        assert tiles_among(in_vain - deeper) == export.missing | removed
        # `maxZoom` is 9 in the second and the fourth version, and the deepest tiles are of zoom 0.
        assert len(deeper) == exports.index(export) % 2


def test_the_history_tells_the_renderer_and_the_depth(exports: list[Export]) -> None:
    for export in exports:
        assert export.summary["renderer"] == "unmined"
        assert export.summary["depth"] == {"tiles": 11}


def test_pruned_walks_find_what_full_ones_do(
    exports: list[Export], shared_maps: Path, tmp_path: Path
) -> None:
    """The times of two renders are known, and prove that parents are never older than their children."""
    project, site = Project(tmp_path), tmp_path / "site"
    project.adopt(exports[FIRST_PRUNED - 2].data)
    published(shared_maps, NAME, FIRST_PRUNED - 1, site)
    with nginx(site) as server:
        project.add_map(NAME, server.url, renderer="unmined", audit=0, full_every=RARELY)
        for version, full in enumerate(exports[FIRST_PRUNED - 1 :], start=FIRST_PRUNED):
            published(shared_maps, NAME, version, site)
            server.clear_log()
            way = the_walk(project.crawl(NAME, full.day, spider="unmined").stderr)
            assert way.is_pruned, way.reason
            assert project.versions() == full.versions
            assert len(list(server.log())) < len(full.log)


def test_a_map_whose_files_were_uploaded_anew_is_walked_in_full_and_the_log_says_why(
    exports: list[Export], shared_maps: Path, tmp_path: Path
) -> None:
    project, site = Project(tmp_path), tmp_path / "site"
    project.adopt(exports[0].data)
    published(shared_maps, NAME, 2, site, deploy=True)
    with nginx(site) as server:
        project.add_map(NAME, server.url, renderer="unmined", full_every=RARELY)
        way = the_walk(project.crawl(NAME, exports[1].day, spider="unmined").stderr)
    assert not way.is_pruned
    assert "as in one upload" in way.reason
    assert latest(project) == exports[1].images


REGIONS: Final = {(0, 0), (1, 0), (-1, -1), (4, 4)}
GROWN: Final = REGIONS - {(1, 0)} | {(-33, -40)}


def written_on(site: Path, day: int) -> None:
    """Gives the site's lists the time of a day in November 2026: by nginx's ETag two that were written in one
    second, with the same size, are the same."""
    time = datetime(2026, 11, day, tzinfo=UTC).timestamp()
    for file in site.glob("*.js"):
        os.utime(file, (time, time))


def test_an_export_that_grows_is_asked_for_what_it_has_and_nothing_else(
    project: Project, tmp_path: Path, nginx: Callable[..., Nginx]
) -> None:
    """Its regions, its zooms and what it leaves behind change from day to day."""
    site = exported(
        tmp_path / "site", range(-2, 1), REGIONS, properties(-2, 0, "webp"), partial(drawn, pixels=64)
    )
    server = nginx(site)
    page = '<script type="text/javascript" src="unmined.map.properties.js"></script>'
    (site / "unmined.index.html").write_text(page, encoding="utf-8")
    done = project.scrapy("add", "isles", f"{server.url}/unmined.index.html")
    assert "a map of uNmINeD" in done.stdout
    assert "webp" in done.stdout

    first = images_of(site)
    server.clear_log()
    project.harvest("isles", "2026-11-20")
    assert not [line.path for line in server.log() if line.status == 404 and "/tiles/" in line.path]
    assert latest(project) == first

    # Region (1, 0) has gone from the bitmap, and its tile of zoom -1 is still served.
    for path in ("0/0/tile.2.0", "0/0/tile.2.1", "0/0/tile.3.0", "0/0/tile.3.1"):
        (site / f"tiles/zoom.0/{path}.webp").unlink()
    exported(site, range(-3, 1), GROWN, properties(-3, 9, "webp"), partial(drawn, pixels=64))
    written_on(site, 21)
    server.clear_log()
    second = project.harvest("isles", "2026-11-21")["counts"]
    added = sum(len(tiles_of(zoom, {(-33, -40)})) for zoom in range(-2, 1)) + len(tiles_of(-3, GROWN))
    assert {name: n for name, n in second.items() if n} == {"add": added, "gone": 4, "ign": len(first) - 4}
    assert latest(project) == images_of(site)

    # One day it is drawn deeper. What was there keeps its names.
    exported(site, range(-3, 2), GROWN, properties(-3, 1, "webp"), partial(drawn, pixels=64))
    written_on(site, 22)
    third = project.harvest("isles", "2026-11-22")["counts"]
    assert third["add"] == len(tiles_of(1, GROWN))
    assert third["ign"] == added + len(first) - 4
    assert latest(project) == images_of(site)

    # The owner lets the page end at zoom 0 again. The deeper tiles are still served, and most of the map.
    deepest = images_of(site)
    exported(site, range(-3, 1), GROWN, properties(-3, 0, "webp"), partial(drawn, pixels=64))
    written_on(site, 23)
    fourth = project.harvest("isles", "2026-11-23")["counts"]
    assert {name: n for name, n in fourth.items() if n} == {"ign": len(deepest)}
    assert latest(project) == deepest
