"""All versions of the shared map of Dynmap, served by nginx and by servers that answer as Dynmap's own do."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest

from tests.end_to_end.project import LayerTile
from tests.end_to_end.pruned_stage import RARELY, counts, latest, the_walk
from tests.end_to_end.real_maps import as_of, days, harvested_versions
from tests.servers.dynmap import BLANK_FILE, hash_of, own_server, scripts
from tests.servers.published import published

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from tests.end_to_end.project import Project
    from tests.end_to_end.real_maps import Harvested
    from tests.servers.misbehaving import Misbehaving
    from tests.servers.nginx import Nginx

NAME: Final = "mrozbarry"
LAYER: Final = "world_nether/flat"
OUT: Final = 4
"""Levels out, as the map's configuration says. There are tiles of a fifth level, which its page never shows.
"""
ALLOWED: Final = {"robots": False}
PRUNED: Final = {"walk": "pruned", "audit": 0, "full_every": RARELY}
LATER: Final = "2013-10-15"
LATEST: Final = "2013-10-16"

_TILE: Final = re.compile(r"/?tiles/world_nether/flat/-?\d+_-?\d+/(?:(z+)_)?(-?\d+)_(-?\d+)\.png")


def tiles_among(paths: Iterable[str]) -> set[LayerTile]:
    """The map's tiles among the paths of files or requests. Their names are computed without columns."""
    found = set()
    for match in filter(None, map(_TILE.fullmatch, paths)):
        out, x, y = len(match[1] or ""), int(match[2]), int(match[3])
        if out <= OUT:
            # Tile (X, Y) ends 2 Y grid units above the origin, and is 2^(out + 1) wide.
            found.add(LayerTile(LAYER, -out, 2 * x + 2**out, 2 * y - 2**out))
    return found


def images_of(site: Path) -> dict[LayerTile, bytes]:
    files = {file.relative_to(site).as_posix(): file for file in site.rglob("*.png")}
    return {tile: file.read_bytes() for path, file in files.items() for tile in tiles_among([path])}


@dataclass(frozen=True, slots=True)
class DynmapRendering:
    """A published folder, whatever is in there when it is asked."""

    folder: Path
    depth: int = OUT + 1

    def images(self) -> dict[LayerTile, bytes]:
        """The bytes of all tiles that are there."""
        return images_of(self.folder)

    def missing_tiles(self) -> set[LayerTile]:
        """What a walk asks for in vain: up to two places from the coarsest tiles, and below all others. The
        coarsest tiles lie around the origin and the centre, with which it begins."""
        there, asked = self.images().keys(), set()
        for layer, zoom, x, y in there:
            reach = 2**-zoom
            if zoom == -OUT:
                steps = range(-4 * reach, 4 * reach + 1, 2 * reach)
                asked |= {LayerTile(layer, zoom, x + right, y + up) for right in steps for up in steps}
            if zoom < 0:
                halves = (-reach // 2, reach // 2)
                asked |= {LayerTile(layer, zoom + 1, x + right, y + up) for right in halves for up in halves}
        return asked - there

    def tiles_of_files(self, names: Iterable[str]) -> set[LayerTile]:
        """The tiles among names of files below the folder."""
        return tiles_among(names)


@dataclass(frozen=True, slots=True)
class DynmapMap:
    """The shared map of Dynmap."""

    name: str = NAME
    renderer: str = "dynmap"
    versions: None = None
    keys: ClassVar[Mapping[str, Any]] = {"walk": "full", **ALLOWED}

    def rendering(self, site: Path) -> DynmapRendering:
        return DynmapRendering(site)


@pytest.fixture(scope="module")
def versions(shared_maps: Path, common_folder: Path) -> list[Harvested]:
    """All of them in turn, each harvested in full."""
    return harvested_versions(shared_maps, common_folder, DynmapMap())


def test_every_tile_has_the_outcome_that_the_maps_own_record_gives_it(versions: list[Harvested]) -> None:
    for version in versions:
        assert version.step is None or not tiles_among(version.step.removed)
        assert version.outcomes == version.expected


def test_the_history_of_each_day_is_what_was_published_on_it(versions: list[Harvested]) -> None:
    last = versions[-1]
    for version in versions:
        recorded = as_of(last.versions, version.day)
        rebuilt = {tile: last.stored[f"{digest[:2]}/{digest}.png"] for tile, digest in recorded.items()}
        assert rebuilt == version.images


def test_no_tile_is_asked_for_twice(versions: list[Harvested]) -> None:
    for version in versions:
        asked = Counter((line.method, line.path) for line in version.log)
        assert set(asked.values()) == {1}
        tiles = [path for method, path in asked if method == version.question and tiles_among([path])]
        assert len(tiles) == len(version.images) + len(version.missing)
        assert len(tiles_among(tiles)) == len(tiles)


def test_the_history_tells_the_renderer_and_the_depth(versions: list[Harvested]) -> None:
    for version in versions:
        assert version.summary["renderer"] == "dynmap"
        assert version.summary["depth"] == {LAYER: OUT + 1}


def test_a_pruned_harvest_finds_what_a_full_one_does(
    versions: list[Harvested],
    shared_maps: Path,
    project: Project,
    tmp_path: Path,
    nginx: Callable[..., Nginx],
) -> None:
    """Every parent is drawn anew with its children, and has the time of the newest."""
    site = published(shared_maps, NAME, 1, tmp_path / "site")
    server = nginx(site)
    project.add_map(NAME, server.url, **ALLOWED, **PRUNED)
    for number, version in enumerate(versions, start=1):
        published(shared_maps, NAME, number, site)
        server.clear_log()
        way = the_walk(project.crawl(NAME, version.day, spider="dynmap").stderr)
        assert way.is_pruned is (number > 1)
        assert (project.versions(), project.stored()) == (version.versions, version.stored)
    assert counts(project)["skip"] > 0
    asked = {line.path for line in server.log()}
    assert len(asked) < len(tiles_among(line.path for line in versions[-1].log)) / 3
    server.clear_log()
    project.crawl(NAME, LATER, spider="dynmap")
    unchanged = tiles_among(line.path for line in server.log())
    assert {tile.zoom for tile in unchanged} == {-OUT}
    assert len(unchanged) == 36  # 2 x 2 are there


def test_the_robots_txt_that_dynmap_brings_ends_the_harvest_and_tells_what_to_allow(
    shared_maps: Path, project: Project, tmp_path: Path, nginx: Callable[..., Nginx]
) -> None:
    server = nginx(published(shared_maps, NAME, 1, tmp_path / "site"))
    project.add_map(NAME, server.url, renderer="dynmap")
    refused = project.crawl(NAME, days(shared_maps, NAME)[0], spider="dynmap", check=False)
    assert refused.returncode == 5
    assert "robots.txt forbids layer 'world_nether/flat', and no tile was asked for" in refused.stderr
    assert "to allow /tiles/world_nether/flat/ to TileHarvest" in refused.stderr
    assert [line.path for line in server.log()] == ["/robots.txt", "/up/configuration"]


def test_a_map_whose_tiles_robots_txt_forbids_is_added_with_what_the_owner_must_allow(
    shared_maps: Path, project: Project, tmp_path: Path, nginx: Callable[..., Nginx]
) -> None:
    server = nginx(published(shared_maps, NAME, 1, tmp_path / "site"))
    added = project.scrapy("add", NAME, server.url, "--contact", "me@example.net")
    assert added.stdout.startswith(f"added map '{NAME}' to {project.maps_file}: a map of Dynmap\n")
    assert "next:" not in added.stdout
    assert "a harvest ends before its first tile: " in added.stderr
    assert "ask the owner to allow /tiles/world_nether/flat/ to TileHarvest" in added.stderr
    assert not tiles_among(line.path for line in server.log())


def test_with_the_owners_permission_a_map_is_added_whose_configuration_is_forbidden(
    shared_maps: Path, project: Project, tmp_path: Path, nginx: Callable[..., Nginx]
) -> None:
    site = published(shared_maps, NAME, 1, tmp_path / "site")
    (site / "up" / "configuration").unlink()
    server = nginx(site)
    arguments = ("add", NAME, server.url, "--renderer", "dynmap", "--contact", "me@example.net")
    refused = project.scrapy(*arguments, check=False)
    assert refused.returncode == 5
    assert "/standalone/config.js" in refused.stderr
    assert refused.stderr.endswith("scrapy add --permitted does; nothing was added\n")
    project.scrapy(*arguments, "--permitted")
    assert "robots = false" in project.maps_file.read_text(encoding="utf-8").splitlines()


def file_of(site: Path, name: str) -> Path:
    return site / "tiles" / LAYER / "0_0" / f"{name}.png"


@pytest.mark.parametrize(
    "keys",
    [
        {"walk": "full", "check": "conditional"},
        PRUNED,
        # The first two harvests of a pruned map are such ones.
        pytest.param({"walk": "full"}, marks=pytest.mark.repetition),
    ],
)
def test_on_dynmaps_own_server_dates_tell_what_hashes_do_not(
    versions: list[Harvested],
    shared_maps: Path,
    project: Project,
    tmp_path: Path,
    misbehaving: Callable[[Path], Misbehaving],
    keys: dict[str, Any],
) -> None:
    """One deepest tile is drawn anew, and those above it show the same as before.

    So the hash of the coarsest of them stays, which its server sends for all of these tiles.
    """
    site = published(shared_maps, NAME, 1, tmp_path / "site")
    server = misbehaving(site)
    server.rule_for_all = own_server(site)
    project.add_map(NAME, server.url, **ALLOWED, **keys)
    project.crawl(NAME, versions[0].day, spider="dynmap")
    assert project.outcomes() == versions[0].outcomes
    assert latest(project) == versions[0].images
    server.received.clear()
    project.crawl(NAME, LATER, spider="dynmap")
    assert {one.method for one in server.received if tiles_among([one.path])} == {"HEAD"}
    drawn, hash_before = file_of(site, "0_0"), hash_of(file_of(site, "0_0"))
    drawn.write_bytes(file_of(site, "1_0").read_bytes())
    above = [file_of(site, f"{'z' * out}_0_0") for out in range(1, OUT + 1)]
    for file in (drawn, *above):
        os.utime(file, (1_381_900_000, 1_381_900_000))
    assert hash_of(drawn) == hash_of(above[-1]) == hash_before
    project.crawl(NAME, LATEST, spider="dynmap")
    assert latest(project) == images_of(site)
    found = Counter(project.outcomes().values())
    assert (found["upd"], found["nMod"]) == (1, OUT)
    asked = [one for one in server.received if tiles_among([one.path])]
    assert not any("If-None-Match" in one.headers for one in asked)


def test_older_servers_of_dynmap_send_the_blank_image_without_an_etag(
    versions: list[Harvested],
    shared_maps: Path,
    project: Project,
    tmp_path: Path,
    misbehaving: Callable[[Path], Misbehaving],
) -> None:
    """Only its bytes tell it then. So it is for the tiles of coarse zooms that are not kept."""
    site = published(shared_maps, NAME, 1, tmp_path / "site")
    server = misbehaving(site)
    server.rule_for_all = own_server(site, sends_hashes=False)
    project.add_map(NAME, server.url, zooms=[-1, 0], **ALLOWED)
    project.crawl(NAME, versions[0].day, spider="dynmap")
    kept = {tile: image for tile, image in versions[0].images.items() if tile.zoom >= -1}
    assert latest(project) == kept
    asked = tiles_among(one.path for one in server.received)
    assert asked == versions[0].images.keys() | versions[0].missing


def test_a_script_that_leads_to_the_blank_image_is_not_followed(
    versions: list[Harvested],
    shared_maps: Path,
    project: Project,
    tmp_path: Path,
    misbehaving: Callable[[Path], Misbehaving],
) -> None:
    site = published(shared_maps, NAME, 1, tmp_path / "site")
    server = misbehaving(site)
    server.rule_for_all = scripts(site)
    project.add_map(NAME, server.url, **ALLOWED)
    project.crawl(NAME, versions[0].day, spider="dynmap")
    assert project.outcomes() == versions[0].outcomes
    assert latest(project) == versions[0].images
    server.received.clear()
    project.crawl(NAME, LATER, spider="dynmap")
    assert Counter(project.outcomes().values()).keys() == {"ign", "404"}
    assert {one.method for one in server.received if one.query} == {"HEAD"}
    assert BLANK_FILE not in {one.path for one in server.received}
