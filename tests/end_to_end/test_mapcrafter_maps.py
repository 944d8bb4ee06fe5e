"""All versions of the shared maps of Mapcrafter, served by nginx and harvested on their days."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.pruned_stage import the_walk
from tests.end_to_end.real_maps import MAPCRAFTERS, DrawnMap, as_of, harvested_versions
from tests.servers.nginx import nginx
from tests.servers.published import published
from tileharvest.renderers.registry import RENDERERS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.project import Project
    from tests.end_to_end.real_maps import Harvested

DAY = "2018-01-26"


@pytest.fixture(scope="module", params=MAPCRAFTERS, ids=lambda drawn: drawn.name)
def harvests(request: pytest.FixtureRequest, shared_maps: Path, common_folder: Path) -> list[Harvested]:
    return harvested_versions(shared_maps, common_folder, request.param)


def test_every_tile_has_the_outcome_that_the_maps_own_record_gives_it(harvests: list[Harvested]) -> None:
    for harvested in harvests:
        assert harvested.outcomes == harvested.expected


def test_the_history_of_each_day_is_what_was_published_on_it(harvests: list[Harvested]) -> None:
    last = harvests[-1]
    for harvested in harvests:
        recorded = as_of(last.versions, harvested.day)
        rebuilt = {tile: last.stored[f"{digest[:2]}/{digest}.png"] for tile, digest in recorded.items()}
        assert rebuilt == harvested.images


def test_no_tile_is_asked_for_twice(harvests: list[Harvested]) -> None:
    for harvested in harvests:
        asked = Counter((line.method, line.path) for line in harvested.log)
        assert set(asked.values()) == {1}
        tiles = [path for method, path in asked if method == harvested.question and path.endswith(".png")]
        assert len(tiles) == len(harvested.images) + len(harvested.missing)


def test_the_history_tells_the_renderer_and_the_depth(harvests: list[Harvested]) -> None:
    for harvested in harvests:
        assert harvested.summary["renderer"] == "mapcrafter"
        assert set(harvested.summary["depth"].values()) == {harvested.rendering.depth}


@pytest.mark.parametrize("drawn", MAPCRAFTERS[:1], ids=lambda drawn: drawn.name)
def test_an_added_map_is_harvested_by_the_spider_of_its_renderer(
    drawn: DrawnMap, project: Project, shared_maps: Path, tmp_path: Path
) -> None:
    """Nobody has named its renderer: `scrapy add` finds it on the page, and writes it down."""
    site = published(shared_maps, drawn.name, 1, tmp_path / "site")
    (site / "index.html").write_text('<meta name="generator" content="Mapcrafter" />', encoding="utf-8")
    with nginx(site) as server:
        project.add_map("unnamed", f"{server.url}/")
        done = project.scrapy("add", "mine", server.url)
        assert f"a map of {RENDERERS[drawn.renderer].title}" in done.stdout
        report = project.harvest("mine", DAY)
        assert report["counts"]["add"] == 10
        assert project.harvests("mine")[0]["renderer"] == "mapcrafter"
        unnamed = project.crawl("unnamed", DAY)
        assert "write renderer = \"mapcrafter\" for map 'unnamed' into maps.toml" in unnamed.stderr
        refused = project.crawl("mine", DAY, check=False)
    assert refused.returncode == 2
    assert 'has renderer = "mapcrafter" in maps.toml' in refused.stderr


def test_a_pruned_walk_leaves_the_history_of_a_full_one(
    shared_maps: Path, common_folder: Path, project: Project, tmp_path: Path
) -> None:
    """The fourth version is no render, but its parents were written again: their times tell of its tiles."""
    drawn, site = MAPCRAFTERS[0], tmp_path / "site"
    full = harvested_versions(shared_maps, common_folder, drawn)
    published(shared_maps, drawn.name, 1, site)
    with nginx(site) as server:
        project.add_map(drawn.name, server.url, renderer="mapcrafter", walk="pruned", audit=0)
        for one in full:
            published(shared_maps, drawn.name, one.version, site)
            server.clear_log()
            log = project.crawl(drawn.name, one.day, spider=drawn.renderer).stderr
            assert the_walk(log).is_pruned == (one.version > 1)
            assert len(list(server.log())) <= len(one.log)
    assert project.versions() == full[-1].versions
    assert project.stored() == full[-1].stored
