"""A map of a renderer of another package: the guide's example, installed as pip installs it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.forking import ROOT
from tests.end_to_end.project import LayerTile
from tests.end_to_end.real_maps import as_of
from tests.servers.minedmap import install, place_of, published_as_minedmap
from tests.servers.nginx import nginx
from tests.servers.published import truth

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.project import Project

MAP = "duckmap"
DAYS = {4: "2025-05-13", 5: "2025-05-14", 6: "2025-05-15"}
"""The versions that are harvested. All but the last are of one day, so days are made up."""


def tile_of(path: str) -> LayerTile | None:
    """The grid name of a file of the map of squaremap, computed by the grid's rule for columns and rows."""
    place = place_of(path)
    if place is None:
        return None
    level, x, z = place
    return LayerTile("map", -level, (2 * x + 1) << level, -((2 * z + 1) << level))


def published_tiles(site: Path) -> dict[LayerTile, bytes]:
    images = {}
    for file in site.glob("data/map/*/r.*.png"):
        level, (_, x, z, _) = int(file.parent.name), file.name.split(".")
        tile = tile_of(f"tiles/minecraft_overworld/{3 - level}/{x}_{z}.png")
        assert tile is not None
        images[tile] = file.read_bytes()
    return images


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"{ROOT}{os.pathsep}{install(tmp_path_factory.mktemp('packages'))}"


def test_its_versions_are_harvested_as_those_of_any_other_map(
    packages: str, project: Project, shared_maps: Path, tmp_path: Path
) -> None:
    def scrapy(*words: str) -> str:
        done = project.scrapy_from_nothing(*words, PYTHONPATH=packages)
        assert done.returncode == 0, done.stderr
        return f"{done.stdout}{done.stderr}"

    site, steps, images = tmp_path / "site", truth(shared_maps, MAP), {}
    with nginx(published_as_minedmap(shared_maps, MAP, 4, site)) as server:
        assert "a map of MinedMap" in scrapy("add", "mine", server.url)
        for version, day in DAYS.items():
            published_as_minedmap(shared_maps, MAP, version, site)
            images[day] = published_tiles(site)
            server.clear_log()
            said = scrapy("crawl", "minedmap", "-a", "map=mine", "-a", f"day={day}")
            assert "it leaves the time of a parent whose bytes stay as it was" in said
            # The site names its tiles: nothing is asked that is not there.
            assert not [line for line in server.log() if line.status == 404 and line.path != "/robots.txt"]
            step, outcomes = steps[version - 2], project.outcomes()
            if version > 4:
                expected = dict.fromkeys(images[day], "ign")
                for outcome, paths in (("add", step.added), ("upd", step.changed), ("nMod", step.redated)):
                    expected |= {tile: outcome for path in paths if (tile := tile_of(path))}
                assert outcomes == expected
    assert set(project.outcomes()) == set(images["2025-05-15"])
    stored, versions = project.stored(), project.versions()
    for day, there in images.items():
        recorded = as_of(versions, day)
        assert {tile: stored[f"{sha1[:2]}/{sha1}.png"] for tile, sha1 in recorded.items()} == there
    (summary, *_) = json.loads(project.scrapy("harvests", "mine", "--json").stdout)
    assert summary["renderer"] == "minedmap"
    assert summary["walk"] == "full"
