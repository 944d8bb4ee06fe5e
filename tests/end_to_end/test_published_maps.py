"""Published maps of every renderer, served and harvested on their days, and what servers of their own say."""

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from hashlib import sha1
from pathlib import Path
from random import Random
from typing import Final

import pytest
from PIL import Image as Pillow

from tests.end_to_end.forking import ROOT
from tests.end_to_end.project import LayerTile, Project, answered, await_condition
from tests.end_to_end.pruned_stage import RARELY, counts
from tests.end_to_end.real_maps import (
    ANTWORLD_MAP,
    DUCKMAP,
    DUCKMAP_ANEW,
    HELMETGREEN,
    LABYRINTH,
    MAPCRAFTERS,
    MROZBARRY,
    PLAIN_ANTS,
    SBATSERVER,
    Harvested,
    PublishedMap,
    as_of,
    harvested_versions,
)
from tests.end_to_end.rendering import Rendering
from tests.servers.minedmap import install, published_as_minedmap
from tests.servers.misbehaving import Misbehaving
from tests.servers.nginx import nginx
from tests.servers.published import published
from tests.servers.undertow import undertow
from tests.viewer.building import picture

MAPS: Final[tuple[PublishedMap, ...]] = (
    ANTWORLD_MAP,
    *MAPCRAFTERS,
    DUCKMAP,
    DUCKMAP_ANEW,
    SBATSERVER,
    LABYRINTH,
    MROZBARRY,
    HELMETGREEN,
    PLAIN_ANTS,
)
DAY, NEXT_DAY, LATER = "2026-11-20", "2026-11-21", "2026-11-22"
OVERWORLD: Final = "minecraft_overworld"


def label(drawn: PublishedMap) -> str:
    return f"{drawn.name} {drawn.versions[0] if drawn.versions else ''}".strip()


@pytest.fixture(scope="module", params=MAPS, ids=label)
def drawn(request: pytest.FixtureRequest) -> PublishedMap:
    found: PublishedMap = request.param
    return found


@pytest.fixture(scope="module")
def harvests(drawn: PublishedMap, shared_maps: Path, common_folder: Path) -> list[Harvested]:
    """All versions in turn, each harvested on its day."""
    return harvested_versions(shared_maps, common_folder, drawn)


def test_every_tile_has_the_outcome_that_the_maps_own_record_gives_it(harvests: list[Harvested]) -> None:
    for harvested in harvests:
        assert harvested.outcomes == harvested.expected


def test_the_history_of_each_day_is_what_was_published_on_it(harvests: list[Harvested]) -> None:
    last = harvests[-1]
    for harvested in harvests:
        recorded = as_of(last.versions, harvested.day)
        stored = {name.partition(".")[0]: body for name, body in last.stored.items()}
        assert {tile: stored[f"{one[:2]}/{one}"] for tile, one in recorded.items()} == harvested.images
    published_images = {body for harvested in harvests for body in harvested.images.values()}
    assert sorted(last.stored.values()) == sorted(published_images)
    assert all(sha1(body).hexdigest() in name for name, body in last.stored.items())


def test_no_tile_is_asked_for_twice(drawn: PublishedMap, harvests: list[Harvested]) -> None:
    for harvested in harvests:
        asked = Counter((line.method, line.path) for line in harvested.log)
        assert set(asked.values()) == {1}
        # BlueMap's own server answers HEAD with a body.
        assert not drawn.asks_by_get or {method for method, _ in asked} == {"GET"}
        tiles = {path.lstrip("/") for method, path in asked if method == harvested.question}
        wanted = harvested.images.keys() | harvested.missing
        found = harvested.rendering.tiles_of_files(tiles)
        gone = harvested.rendering.tiles_of_files(harvested.step.removed) if harvested.step else set()
        assert wanted | gone <= found
        # Two versions name a deeper zoom than is drawn, which one tile tells.
        probed = drawn is HELMETGREEN and harvested.version in (2, 4)
        assert len(found - wanted - gone) == probed
        assert all(re.fullmatch(r"TileHarvest/\d+\.\d+.*", line.agent) for line in harvested.log)


def test_the_history_tells_the_renderer_the_depth_the_counts_and_the_cost(
    drawn: PublishedMap, harvests: list[Harvested]
) -> None:
    for harvested in harvests:
        summary = harvested.summary
        assert (summary["renderer"], summary["reason"]) == (drawn.renderer, "finished")
        assert summary["day"] == harvested.day
        assert set(summary["depth"].values()) == {harvested.rendering.depth}
        assert summary["counts"] == Counter(harvested.expected.values())
        assert summary["requests"] == len(harvested.log)
        gets = sum(line.size for line in harvested.log if line.method == "GET")
        assert summary["received_bytes"] == gets


@pytest.mark.parametrize(
    "drawn",
    [
        MAPCRAFTERS[0],
        DUCKMAP_ANEW,
        LABYRINTH,
        MROZBARRY,
        pytest.param(HELMETGREEN, marks=pytest.mark.repetition),
        pytest.param(SBATSERVER, marks=pytest.mark.repetition),
    ],
    ids=label,
)
def test_pruned_walks_leave_the_history_of_full_ones(
    drawn: PublishedMap, shared_maps: Path, common_folder: Path, project: Project, tmp_path: Path
) -> None:
    full, site = harvested_versions(shared_maps, common_folder, drawn), tmp_path / "site"
    drawn.publish(shared_maps, full[0].version, site)
    keys = {**drawn.keys, "walk": "pruned", "audit": 0, "full_every": RARELY}
    skipped = 0
    with nginx(site) as server:
        project.add_map(drawn.name, server.url, **keys)
        for one in full:
            drawn.publish(shared_maps, one.version, site)
            server.clear_log()
            project.crawl(drawn.name, one.day, spider=drawn.renderer)
            assert (project.versions(), project.stored()) == (one.versions, one.stored)
            assert len(list(server.log())) <= len(one.log)
            skipped += counts(project).get("skip", 0)
    assert skipped > 0


def test_a_spider_of_another_renderer_harvests_the_map_and_says_what_it_is_of(
    project: Project, shared_maps: Path, tmp_path: Path
) -> None:
    site = published(shared_maps, MAPCRAFTERS[0].name, 1, tmp_path / "site")
    with nginx(site) as server:
        project.add_map("unnamed", server.url)
        unnamed = project.crawl("unnamed", DAY)
        assert "write renderer = \"mapcrafter\" for map 'unnamed' into maps.toml" in unnamed.stderr
        project.add_map("named", server.url, renderer="mapcrafter")
        assert "into maps.toml" not in project.crawl("named", DAY).stderr


BEFORE, AFTER = "2016-10-06", "2016-10-07"
"""Both versions of alexjj were published on one day; here the second is harvested on the next."""
MOVES: Final = {"0": "0/3", "1": "1/2", "2": "2/1", "3": "3/0"}
"""Where Overviewer moves the first-level tiles when a map grows by a level, and with each all below."""


def test_a_grown_map_is_compared_under_the_names_that_growth_leaves_alone(
    project: Project, shared_maps: Path, tmp_path: Path
) -> None:
    site = published(shared_maps, "alexjj", 1, tmp_path / "site")
    before = Rendering(site, depth=5)
    moved = {f"/{MOVES[path[1]]}{path[2:]}": before.file(path) for path in before.paths()}
    images = {path: file.read_bytes() for path, file in moved.items()}
    times = {path: file.stat().st_mtime for path, file in moved.items()}
    with nginx(site) as server:
        project.add_map("growing", server.url)
        project.crawl("growing", BEFORE)
        published(shared_maps, "alexjj", 2, site)
        project.crawl("growing", AFTER)
    after = Rendering(site, depth=6)
    there = after.paths()
    kept = {path for path in there & images.keys() if after.file(path).read_bytes() == images[path]}
    same_time = {path for path in kept if after.file(path).stat().st_mtime == times[path]}

    def with_outcome(outcome: str) -> set[LayerTile]:
        return {tile for tile, found in project.outcomes().items() if found == outcome}

    assert kept
    assert with_outcome("ign") == after.tiles(same_time)
    assert with_outcome("nMod") == after.tiles(kept - same_time)
    assert with_outcome("upd") == after.tiles(there & images.keys() - kept)
    assert with_outcome("add") == after.tiles(there - images.keys())
    assert with_outcome("gone") == after.tiles(images.keys() - there)
    assert project.query("SELECT depth FROM harvest_layers ORDER BY harvest") == [(5,), (6,)]
    days = [(version.tile, version.day) for version in project.versions()]
    for tile in after.tiles(kept):
        assert [day for other, day in days if other == tile] == [BEFORE]


def test_a_map_of_a_renderer_of_another_package_is_added_and_harvested_as_any_other_map(
    project: Project, shared_maps: Path, tmp_path: Path
) -> None:
    """The guide's example, installed as pip installs it."""
    packages = f"{ROOT}{os.pathsep}{install(tmp_path / 'packages')}"

    def scrapy(*words: str) -> str:
        done = project.scrapy_from_nothing(*words, PYTHONPATH=packages)
        assert done.returncode == 0, done.stderr
        return f"{done.stdout}{done.stderr}"

    site = published_as_minedmap(shared_maps, "duckmap", 6, tmp_path / "site")
    with nginx(site) as server:
        assert "a map of MinedMap" in scrapy("add", "mine", server.url)
        said = scrapy("crawl", "minedmap", "-a", "map=mine", "-a", "day=2025-05-15")
        # The site names its tiles: nothing is asked that is not there.
        assert not [line for line in server.log() if line.status == 404 and line.path.endswith(".png")]
    assert "it leaves the time of a parent whose bytes stay as it was" in said
    images = {file.read_bytes() for file in site.glob("data/map/*/r.*.png")}
    assert set(project.stored().values()) == images
    (summary,) = json.loads(project.scrapy("harvests", "mine", "--json").stdout)
    assert (summary["renderer"], summary["walk"]) == ("minedmap", "full")


# -- servers of their own


def test_on_squaremaps_own_server_an_empty_answer_is_a_missing_tile(
    project: Project, shared_maps: Path, tmp_path: Path, misbehaving: Callable[[Path], Misbehaving]
) -> None:
    own = misbehaving(published(shared_maps, "duckmap", 6, tmp_path / "site"))
    own.rule_for_all = undertow
    rendering = DUCKMAP_ANEW.rendering(own.folder)
    images, missing = rendering.images(), rendering.missing_tiles()
    # A tile of no bytes has an ETag: its server's disk was full, say.
    (own.folder / "tiles" / OVERWORLD / "3/-9_4.png").write_bytes(b"")
    failed = LayerTile(OVERWORLD, 0, -17, -9)
    project.add_map("duckmap", own.url, walk="full")
    project.crawl("duckmap", DAY, spider="squaremap", check=False)
    found = dict.fromkeys(missing, "404") | dict.fromkeys(images, "add") | {failed: "fail"}
    assert project.outcomes() == found


def test_with_the_owners_permission_a_map_is_added_whose_configuration_is_forbidden(
    shared_maps: Path, project: Project, tmp_path: Path
) -> None:
    site = MROZBARRY.publish(shared_maps, 1, tmp_path / "site")
    (site / "up" / "configuration").unlink()
    with nginx(site) as server:
        arguments = ("add", "mine", server.url, "--renderer", "dynmap", "--contact", "me@example.net")
        refused = project.scrapy(*arguments, check=False)
        assert refused.returncode == 5
        assert "/standalone/config.js" in refused.stderr
        assert refused.stderr.endswith("scrapy add --permitted does; nothing was added\n")
        project.scrapy(*arguments, "--permitted")
    assert "robots = false" in project.maps_file.read_text(encoding="utf-8").splitlines()


# -- plain tiles


def plain_site(folder: Path, paths: Iterable[str]) -> Path:
    """Plain tiles, each of another colour; and what a server may show where there is none."""
    for place, path in enumerate([*paths, "blank.png"], start=1):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(picture((place, 0, 0, 255), 64))
    return folder


def test_a_template_is_added_with_its_bounds_and_refused_without(project: Project, tmp_path: Path) -> None:
    with nginx(plain_site(tmp_path / "site", ["0/0/0.png", "1/1/1.png"])) as server:
        url = f"{server.url}/{{z}}/{{x}}/{{y}}.png"
        refused = project.scrapy("add", "snow", url, check=False)
        assert not project.maps_file.exists()
        project.scrapy("add", "snow", url, "--bounds=-180,-85,180,85", "--site-zooms=0,1")
        report = project.harvest("snow", DAY)
    assert refused.returncode == 2
    assert "nobody says which zooms the tiles of map 'snow' have" in refused.stderr
    assert report["counts"]["add"] == 2


def test_a_region_of_a_canvas_is_kept_and_most_of_it_is_empty(project: Project, tmp_path: Path) -> None:
    """Of one zoom, which its addresses do not name. Its tiles have 64 pixels, as the first image tells."""
    site = plain_site(tmp_path / "site", ["1024/1024.png", "1029/1029.png", "5/5.png"])
    with nginx(site) as server:
        url, link = f"{server.url}/{{x}}/{{y}}.png", "https://h/?lat=-0.01&lng=0.01&zoom=11"
        size = ("--canvas", "2048x2048", "--around", link, "--size", "12x12")
        project.scrapy("add", "canvas", url, *size, "--contact", "me@example.net")
        first = project.harvest("canvas", DAY)["counts"]
        (site / "1029/1029.png").write_bytes(picture((77, 0, 0, 255), 64))
        second = project.harvest("canvas", NEXT_DAY)["counts"]
    assert (first["add"], first["404"]) == (2, 142)
    assert (second["upd"], second["ign"]) == (1, 1)
    assert project.query("SELECT DISTINCT description ->> '$.tile_size[0]' FROM harvest_layers") == [(64,)]
    told = json.loads(project.scrapy("diff", "canvas", DAY, NEXT_DAY, "--json").stdout)
    left = top = 1029 * 64
    assert (told["pixels"], told["box"]) == (64 * 64, [left, top, left + 64, top + 64])


SIDE: Final = 2048
"""Tiles along the edge of a canvas, of which 1,000 exist, all of them in the region that is kept."""
REGION: Final = range(928, 1120)


def paint(site: Path, place: tuple[int, int], number: int) -> None:
    """No two of these images are alike."""
    file = site / f"{place[0]}/{place[1]}.png"
    file.parent.mkdir(parents=True, exist_ok=True)
    Pillow.new("RGB", (16, 16), f"#{number:06x}").save(file)
    # By nginx's ETag, files of one second and one size are the same.
    os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def canvas_of(site: Path) -> dict[LayerTile, bytes]:
    return {
        LayerTile("zoom11", 0, 2 * int(file.parent.name) + 1, -2 * int(file.stem) - 1): file.read_bytes()
        for file in site.glob("*/*.png")
    }


def test_a_canvas_of_four_million_places_is_kept_for_three_days_with_a_kill_on_each(
    project: Project, tmp_path: Path
) -> None:
    """On the second day what exists is asked, and a share of what was empty; on the third, a week after the
    first, the rest of it."""
    site, side = tmp_path / "site", len(REGION)
    corners = Random(40).sample([(x, y) for x in REGION[::8] for y in REGION[::8]], 40)
    tiles = [(x + i, y + j) for x, y in corners for i in range(5) for j in range(5)]
    for number, place in enumerate(tiles):
        paint(site, place, number)
    zone = {
        "center": [2 * REGION[side // 2], -2 * REGION[side // 2]],
        "zoom": 0,
        "width": side,
        "height": side,
    }
    published_on, requests = {}, []
    with nginx(site) as server:
        url = f"{server.url}/{{x}}/{{y}}.png"
        project.add_map("canvas", url, canvas={"tiles": [SIDE, SIDE]}, zones=[zone], concurrency=16)
        for day in ("2026-11-13", "2026-11-14", "2026-11-20"):
            server.clear_log()
            with project.running("crawl", "xyz", "-a", "map=canvas", "-a", f"day={day}") as process:
                assert await_condition(lambda: answered(server) >= 3_000, process)
                process.kill()
            project.crawl("canvas", day, spider="xyz")
            published_on[day] = canvas_of(site)
            requests.append(len({line.path for line in server.log() if line.path.endswith(".png")}))
            if len(requests) == 1:
                beside = corners[0][0] + 7, corners[0][1]
                for number, place in enumerate((*tiles[10:60], beside), start=5_000):
                    paint(site, place, number)
                for x, y in tiles[60:70]:
                    (site / f"{x}/{y}.png").unlink()
    stored = {name.partition("/")[2].partition(".")[0]: body for name, body in project.stored().items()}
    for day, published_then in published_on.items():
        recorded = as_of(project.versions(), day)
        assert {tile: stored[sha1] for tile, sha1 in recorded.items()} == published_then
    assert requests[0] == side**2
    assert requests[1] < side**2 / 2
