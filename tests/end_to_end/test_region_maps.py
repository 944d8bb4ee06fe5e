"""The shared maps of squaremap and Pl3xMap, served by nginx and by their own server, and harvested."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.project import LayerTile, Project
from tests.end_to_end.pruned_stage import RARELY, counts, walked
from tests.end_to_end.real_maps import as_of, days, harvested_versions
from tests.end_to_end.region_maps import DUCKMAP, DUCKMAP_ANEW, SBATSERVER, RegionRendering
from tests.servers import rules
from tests.servers.misbehaving import Answer
from tests.servers.nginx import nginx
from tests.servers.published import published
from tests.servers.undertow import undertow

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.real_maps import Harvested
    from tests.end_to_end.region_maps import RegionMap
    from tests.servers.misbehaving import Exchange, Misbehaving

DAY, NEXT_DAY = "2025-05-14", "2025-05-15"
OVERWORLD = "minecraft_overworld"


@pytest.fixture(
    scope="module",
    params=[DUCKMAP, DUCKMAP_ANEW, SBATSERVER],
    ids=lambda drawn: f"{drawn.name} {drawn.versions[0]}",
)
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
    """Two settings files aside: of a world, and of all."""
    for harvested in harvests:
        asked = Counter((line.method, line.path) for line in harvested.log)
        assert set(asked.values()) == {1}
        tiles = [path for method, path in asked if method == harvested.question and path.endswith(".png")]
        assert len(tiles) == len(harvested.images) + len(harvested.missing)


def test_the_history_tells_the_renderer_and_the_depth_of_each_world(harvests: list[Harvested]) -> None:
    for harvested in harvests:
        assert harvested.summary["renderer"] in ("squaremap", "pl3xmap")
        assert set(harvested.summary["depth"].values()) == {4}
        assert len(harvested.summary["depth"]) == 3


def test_a_map_that_is_begun_anew_has_moved_and_none_of_it_is_gone(
    shared_maps: Path, common_folder: Path, project: Project, tmp_path: Path
) -> None:
    """The owner has deleted all tiles, which nobody can tell from another map at the old address."""
    before = harvested_versions(shared_maps, common_folder, DUCKMAP)[-1]
    project.adopt(before.data)
    with nginx(published(shared_maps, "duckmap", 3, tmp_path / "site")) as server:
        project.add_map("duckmap", server.url)
        done = project.crawl("duckmap", days(shared_maps, "duckmap")[2], spider="squaremap", check=False)
    assert done.returncode != 0
    assert "the map has moved rather than vanished" in done.stderr
    assert project.versions() == before.versions


@pytest.mark.parametrize(
    "drawn",
    [DUCKMAP_ANEW, pytest.param(SBATSERVER, marks=pytest.mark.repetition)],
    ids=lambda drawn: drawn.name,
)
def test_pruned_walks_leave_the_history_of_full_ones(
    shared_maps: Path, common_folder: Path, drawn: RegionMap, project: Project, tmp_path: Path
) -> None:
    """They may be pruned from the third version on: before that all tiles of a world were drawn at once, or
    were when the last harvest saw them. A world without tiles proves nothing."""
    full = harvested_versions(shared_maps, common_folder, drawn)
    site, busiest = published(shared_maps, drawn.name, drawn.versions[0], tmp_path / "site"), drawn.layers[0]
    reasons = []
    with nginx(site) as server:
        project.add_map(drawn.name, server.url, audit=0, full_every=RARELY)
        for one in full:
            published(shared_maps, drawn.name, one.version, site)
            ways = walked(project.crawl(drawn.name, one.day, spider=drawn.renderer).stderr)
            assert (project.versions(), project.stored()) == (one.versions, one.stored)
            reasons.append(ways[busiest].reason)
            assert ways[busiest].is_pruned == (len(reasons) > 2)
            assert not ways[drawn.layers[1]].is_pruned
    assert counts(project)["skip"] > 0
    assert reasons[:2] == [
        "no full harvest is finished so far",
        "all tiles changed within 0 seconds, as in one upload",
    ]
    assert "changed after the one above it" in reasons[2]


@pytest.mark.parametrize("drawn", [DUCKMAP_ANEW, SBATSERVER], ids=lambda drawn: drawn.name)
def test_an_added_map_is_harvested_by_the_spider_of_its_renderer(
    drawn: RegionMap, project: Project, shared_maps: Path, tmp_path: Path
) -> None:
    """Nobody has named its renderer: `scrapy add` finds it on the page, and writes it down."""
    site = published(shared_maps, drawn.name, 6, tmp_path / "site")
    title = {"squaremap": "squaremap", "pl3xmap": "Pl3xMap"}[drawn.renderer]
    (site / "index.html").write_text(f'<meta property="og:title" content="{title}"/>', encoding="utf-8")
    with nginx(site) as server:
        done = project.scrapy("add", "mine", server.url)
        assert f"a map of {title}" in done.stdout
        report = project.harvest("mine", DAY)
    assert report["counts"]["add"] == len(drawn.rendering(site).files())
    assert project.harvests("mine")[0]["renderer"] == drawn.renderer


@pytest.fixture
def own(shared_maps: Path, tmp_path: Path, misbehaving: Callable[[Path], Misbehaving]) -> Misbehaving:
    """The last version of duckmap, on squaremap's own server."""
    server = misbehaving(published(shared_maps, "duckmap", 6, tmp_path / "site"))
    server.rule_for_all = undertow(server.folder)
    return server


def test_on_their_own_server_an_empty_answer_is_a_missing_tile(
    own: Misbehaving, project: Project, shared_maps: Path, common_folder: Path
) -> None:
    rendering = DUCKMAP_ANEW.rendering(own.folder)
    project.add_map("duckmap", own.url, walk="full")
    project.crawl("duckmap", DAY, spider="squaremap")
    fetched = {one.path for one in own.received if one.method == "GET" and one.path.endswith(".png")}
    assert len(fetched) == len(rendering.images()) + len(rendering.missing_tiles())
    first = harvested_versions(shared_maps, common_folder, DUCKMAP_ANEW)[-1]
    assert project.outcomes() == dict.fromkeys(rendering.missing_tiles(), "404") | dict.fromkeys(
        rendering.images(), "add"
    )
    assert project.stored().keys() <= first.stored.keys()
    project.crawl("duckmap", NEXT_DAY, spider="squaremap")
    assert counts(project)["ign"] == len(rendering.images())


def test_a_plan_takes_an_empty_answer_for_a_missing_tile_too(own: Misbehaving, project: Project) -> None:
    project.add_map("duckmap", own.url, renderer="squaremap", layers=[OVERWORLD])
    plan = json.loads(project.scrapy("plan", "duckmap", "--json", "--requests", "400").stdout)
    rendering = RegionRendering(own.folder, (OVERWORLD,))
    assert plan["expected"]["tiles"] == len(rendering.images())
    asked = {one.path for one in own.received if one.method == "HEAD"}
    assert len(asked) == len(rendering.images()) + len(rendering.missing_tiles())


def test_a_tile_that_is_taken_away_is_gone(own: Misbehaving, project: Project) -> None:
    project.add_map("duckmap", own.url, walk="full")
    project.crawl("duckmap", DAY, spider="squaremap")
    (own.folder / "tiles" / OVERWORLD / "3/-9_4.png").unlink()
    project.crawl("duckmap", NEXT_DAY, spider="squaremap")
    assert project.outcomes()[LayerTile(OVERWORLD, 0, -17, -9)] == "gone"


def test_a_tile_of_no_bytes_has_failed_and_is_not_missing(own: Misbehaving, project: Project) -> None:
    """Its server's disk was full, say: there is a file, and so there is an ETag."""
    (own.folder / "tiles" / OVERWORLD / "3/-9_4.png").write_bytes(b"")
    project.add_map("duckmap", own.url)
    project.crawl("duckmap", DAY, spider="squaremap", check=False)
    assert project.outcomes()[LayerTile(OVERWORLD, 0, -17, -9)] == "fail"


def test_known_tiles_are_asked_under_a_condition_where_that_is_wanted(
    own: Misbehaving, project: Project
) -> None:
    rendering = DUCKMAP_ANEW.rendering(own.folder)
    project.add_map("duckmap", own.url, check="conditional", walk="full")
    project.crawl("duckmap", DAY, spider="squaremap")
    own.received.clear()
    project.crawl("duckmap", NEXT_DAY, spider="squaremap")
    gets = [one for one in own.received if one.method == "GET" and one.path.endswith(".png")]
    assert len(gets) == len(rendering.images()) == counts(project)["ign"]


def test_settings_that_are_just_being_written_are_read_again(
    shared_maps: Path, project: Project, tmp_path: Path, misbehaving: Callable[[Path], Misbehaving]
) -> None:
    """Pl3xMap writes them anew each second, and in place."""
    server = misbehaving(published(shared_maps, "sbatserver", 1, tmp_path / "site"))
    whole = undertow(server.folder)
    server.rule_for_all = whole

    async def half(exchange: Exchange):
        return await exchange.send(Answer(200, {"ETag": '"1"'}, exchange.proper.body[:100]))

    server.rules["/tiles/settings.json"] = rules.first(1, half)
    project.add_map("server", server.url)
    project.crawl("server", DAY, spider="pl3xmap")
    assert counts(project)["add"] == len(SBATSERVER.rendering(server.folder).files())


def lay(site: Path, *places: tuple[int, int]) -> None:
    """Let there be land, of squaremap, at these coarsest tiles: an image of each level in its upper left."""
    image = site / "image.png"
    for level in range(4):
        folder = site / "tiles" / OVERWORLD / str(level)
        folder.mkdir(exist_ok=True)
        for x, z in places:
            shutil.copy2(image, folder / f"{x << level}_{z << level}.png")


@pytest.fixture
def islands(shared_maps: Path, tmp_path: Path) -> Path:
    """A published folder of squaremap without land; `lay` makes some."""
    site = published(shared_maps, "duckmap", 6, tmp_path / "site")
    tiles = site / "tiles" / OVERWORLD
    (tiles / "0/-2_0.png").rename(site / "image.png")
    for level in "01235":
        shutil.rmtree(tiles / level)
    return site


def coarsest(project: Project, *outcomes: str) -> set[tuple[int, int]]:
    """Column and row of the overworld's coarsest tiles with one of these outcomes."""
    found = project.outcomes().items()
    return {
        (tile.x >> 4, ~(tile.y >> 4))
        for tile, outcome in found
        if (tile.layer, tile.zoom) == (OVERWORLD, -3) and outcome in outcomes
    }


def test_new_land_is_found_beyond_the_known_edge_and_what_is_known_stays_a_part_of_the_walk(
    islands: Path, project: Project
) -> None:
    """A bridge of tiles leads to the far island, and is taken away afterwards."""
    lay(islands, (0, 0), (2, 1), (4, 2), (6, 2))
    with nginx(islands) as server:
        project.add_map("islands", server.url, layers=[OVERWORLD], audit=0, full_every=RARELY)
        project.crawl("islands", DAY, spider="squaremap")
        assert coarsest(project, "add") == {(0, 0), (2, 1), (4, 2), (6, 2)}
        for level in range(4):
            for x, z in ((2, 1), (4, 2)):
                (islands / "tiles" / OVERWORLD / str(level) / f"{x << level}_{z << level}.png").unlink()
        lay(islands, (8, 1), (11, 1))
        server.clear_log()
        project.crawl("islands", NEXT_DAY, spider="squaremap")
        assert coarsest(project, "gone") == {(2, 1), (4, 2)}
        assert coarsest(project, "add") == {(8, 1)}
        assert coarsest(project, "ign") == {(0, 0), (6, 2)}
        heads = Counter(line.path for line in server.log() if line.method == "HEAD")
    assert set(heads.values()) == {1}


def test_a_square_of_land_costs_what_the_decision_says(islands: Path, project: Project) -> None:
    """n x n coarsest tiles around the origin cost n² + 8n + 16 questions at their zoom."""
    lay(islands, *[(x, z) for x in range(-3, 3) for z in range(-3, 3)])
    with nginx(islands) as server:
        project.add_map("islands", server.url, layers=[OVERWORLD], zooms=[-3, -3])
        project.crawl("islands", DAY, spider="squaremap")
        asked = {line.path for line in server.log() if line.path.endswith(".png")}
    assert len(asked) == 6**2 + 8 * 6 + 16


def test_a_map_keeps_its_history_when_the_owner_adds_zooms(islands: Path, project: Project) -> None:
    """Then all levels have another number, and the tiles other addresses, under the same names."""
    lay(islands, (0, 0))
    tiles, settings = islands / "tiles" / OVERWORLD, islands / "tiles" / OVERWORLD / "settings.json"
    with nginx(islands) as server:
        project.add_map("islands", server.url, layers=[OVERWORLD])
        project.crawl("islands", DAY, spider="squaremap")
        for level in (3, 2, 1, 0):
            (tiles / str(level)).rename(tiles / str(level + 1))
        (tiles / "0").mkdir()
        shutil.copy2(tiles / "1/0_0.png", tiles / "0/0_0.png")
        text = settings.read_text(encoding="utf-8").replace('"max":3', '"max":4')
        settings.write_text(text, encoding="utf-8")
        os.utime(settings)
        project.crawl("islands", NEXT_DAY, spider="squaremap")
    found = {tile.zoom: outcome for tile, outcome in project.outcomes().items() if outcome != "404"}
    assert found == {-4: "add", -3: "ign", -2: "ign", -1: "ign", 0: "ign"}


def test_leftovers_of_other_zooms_are_no_tiles(shared_maps: Path, tmp_path: Path) -> None:
    site = published(shared_maps, "duckmap", 6, tmp_path / "site")
    assert (site / "tiles" / OVERWORLD / "5/-1_0.png").exists()
    assert len(RegionRendering(site, DUCKMAP.layers).files()) == 77
