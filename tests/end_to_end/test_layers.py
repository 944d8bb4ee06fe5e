"""A site with two layers: two pyramids whose tiles have the same names."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.end_to_end.project import Project
from tests.end_to_end.rendering import LAYER, Rendering, read_config, write_config
from tests.servers.nginx import nginx
from tests.servers.published import published

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NIGHT = "world-night"


class Harvested(NamedTuple):
    project: Project
    day: Rendering
    night: Rendering
    url: str


@pytest.fixture(scope="module")
def harvested(shared_maps: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harvested]:
    """A real map whose layer is there twice; by night one tile looks otherwise and one is not there."""
    folder = tmp_path_factory.mktemp("layers")
    project = Project(folder)
    site = published(shared_maps, "alexjj", 1, folder / "site")
    shutil.copytree(site / LAYER, site / NIGHT)
    day, night = Rendering(site, 5), Rendering(site, 5, NIGHT)
    first, *_, last = sorted(night.paths(), key=lambda path: (path.count("/"), path))
    night.replace(first, night.file(last).read_bytes(), 1_475_800_000)
    night.file(last).unlink()
    config = read_config(site)
    (tileset,) = config["tilesets"]
    config["tilesets"].append(tileset | {"path": NIGHT, "name": "Night"})
    write_config(site, config)
    with nginx(site) as server:
        project.add_map("twofold", server.url)
        project.crawl("twofold", "2016-10-06")
        yield Harvested(project, day, night, server.url)


def test_each_layer_is_harvested_with_its_own_images(harvested: Harvested) -> None:
    expected = harvested.day.images() | harvested.night.images()
    stored = harvested.project.stored()
    recorded = {
        version.tile: stored[f"{version.sha1[:2]}/{version.sha1}.png"]
        for version in harvested.project.versions()
        if version.sha1
    }
    assert recorded == expected


def test_a_map_can_keep_one_layer_only(harvested: Harvested, project: Project) -> None:
    project.add_map("dark", harvested.url, layers=[NIGHT])
    report = project.harvest("dark", "2016-10-06")
    assert report["counts"]["add"] == len(harvested.night.paths())
    assert {version.layer for version in project.versions()} == {NIGHT}


def test_two_maps_in_one_history_do_not_meet(harvested: Harvested, project: Project) -> None:
    """Their tiles have the same names, and here the same layers and bytes."""
    project.adopt(harvested.project.data)
    project.add_map("another", harvested.url)
    report = project.harvest("another", "2016-10-05")
    assert report["counts"]["add"] == len(harvested.day.paths()) + len(harvested.night.paths())
    assert project.stored() == harvested.project.stored()
    days = project.query("SELECT name, day FROM harvests JOIN maps ON maps.id = map")
    assert days == [("twofold", "2016-10-06"), ("another", "2016-10-05")]
