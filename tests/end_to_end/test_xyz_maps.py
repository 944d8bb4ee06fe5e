"""All versions of a shared map as plain tiles, served by nginx and harvested on their days."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from hashlib import sha1
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import pytest
from PIL import Image as Pillow

from tests.end_to_end.project import LayerTile, Project
from tests.end_to_end.real_maps import as_of, days, made_once
from tests.servers.nginx import nginx
from tests.servers.plain_tiles import DEEPEST, NAME, WORLD, plain_path, plain_tiles, tile_json
from tests.servers.published import truth

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.end_to_end.project import RecordedVersion
    from tests.servers.nginx import LogLine
    from tests.servers.published import Step

LAYER: Final = f"zoom{DEEPEST}"
TEMPLATE: Final = "{z}/{x}/{y}.png"
DAY: Final = "2026-11-20"


def named(path: str) -> LayerTile:
    """The grid name of a file such as `2/1/3.png`: the tile's middle, from the corner of the world."""
    z, x, y = (int(number) for number in path.removesuffix(".png").split("/"))
    width = 2 ** (DEEPEST - z + 1)
    return LayerTile(LAYER, z - DEEPEST, x * width + width // 2, -(y * width + width // 2))


def images(site: Path) -> dict[LayerTile, bytes]:
    return {named(file.relative_to(site).as_posix()): file.read_bytes() for file in site.rglob("*/*/*.png")}


def missing(site: Path) -> set[LayerTile]:
    """What a walk asks for in vain: the four below a tile that is there, as far as they are not."""
    there = {file.relative_to(site).as_posix() for file in site.rglob("*/*/*.png")}
    below = set()
    for path in there:
        z, x, y = (int(number) for number in path.removesuffix(".png").split("/"))
        if z < DEEPEST:
            below |= {f"{z + 1}/{2 * x + i}/{2 * y + j}.png" for i in (0, 1) for j in (0, 1)}
    return {named(path) for path in below - there}


@dataclass(frozen=True, slots=True)
class Plain:
    """A version, and what its harvest left behind."""

    day: str
    step: Step | None
    """What changed since the version before; None for the first."""
    images: dict[LayerTile, bytes]
    missing: set[LayerTile]
    outcomes: dict[LayerTile, str]
    log: list[LogLine]
    words: str
    """What the harvest said."""
    versions: set[RecordedVersion]
    stored: dict[str, bytes]

    @property
    def expected(self) -> dict[LayerTile, str]:
        """The outcomes, from the map's own record alone."""
        expected = dict.fromkeys(self.missing, "404")
        if self.step is None:
            return expected | dict.fromkeys(self.images, "add")
        expected |= dict.fromkeys(self.images, "ign")
        for paths, outcome in (
            (self.step.added, "add"),
            (self.step.changed, "upd"),
            (self.step.redated, "nMod"),
        ):
            found = (plain_path(path) for path in paths)
            expected |= {named(path): outcome for path in found if path is not None}
        return expected


@pytest.fixture(scope="module")
def harvests(shared_maps: Path, common_folder: Path) -> list[Plain]:
    """All versions in turn, at one of three hosts that are one."""

    def harvest(folder: Path) -> list[Plain]:
        project, site, found = Project(folder), folder / "site", []
        plain_tiles(shared_maps, 1, site)
        with nginx(site, address="0.0.0.0") as server:
            url = f"http://127.0.0.{{1-3}}:{server.port}/{TEMPLATE}"
            project.add_map("ants", url, bounds=list(WORLD), site_zooms=[0, DEEPEST])
            steps = [None, *truth(shared_maps, NAME)]
            for version, (day, step) in enumerate(zip(days(shared_maps, NAME), steps, strict=True), start=1):
                plain_tiles(shared_maps, version, site)
                server.clear_log()
                done = project.crawl("ants", day, spider="xyz")
                log, outcomes = list(server.log()), project.outcomes()
                found.append(
                    Plain(
                        day,
                        step,
                        images(site),
                        missing(site),
                        outcomes,
                        log,
                        done.stderr,
                        project.versions(),
                        project.stored(),
                    )
                )
        return found

    return made_once(common_folder / "plain-tiles", harvest)


def test_every_tile_has_the_outcome_that_the_maps_own_record_gives_it(harvests: list[Plain]) -> None:
    for harvested in harvests:
        assert harvested.outcomes == harvested.expected


def test_the_history_of_each_day_is_what_was_published_on_it(harvests: list[Plain]) -> None:
    last = harvests[-1]
    for harvested in harvests:
        recorded = as_of(last.versions, harvested.day)
        rebuilt = {tile: last.stored[f"{digest[:2]}/{digest}.png"] for tile, digest in recorded.items()}
        assert rebuilt == harvested.images


def test_no_tile_is_asked_for_twice_and_all_of_them_at_one_host(harvests: list[Plain]) -> None:
    for harvested in harvests:
        asked = Counter((line.method, line.path) for line in harvested.log)
        assert set(asked.values()) == {1}
        question = "GET" if harvested.step is None else "HEAD"
        tiles = [path for method, path in asked if method == question and path.endswith(".png")]
        assert len(tiles) == len(harvested.images) + len(harvested.missing)
        assert {line.host for line in harvested.log} == {"127.0.0.1"}


def test_beside_tiles_only_the_rules_for_robots_are_asked_for(harvests: list[Plain]) -> None:
    for harvested in harvests:
        assert {line.path for line in harvested.log if not line.path.endswith(".png")} == {"/robots.txt"}


def test_every_walk_is_full_and_the_log_says_why(harvests: list[Plain]) -> None:
    """An unchanged tile proves nothing of those below it."""
    why = "every tile is asked: nobody says of plain tiles that one changes whenever a tile below it does"
    for harvested in harvests:
        assert f"layer {LAYER}: {why}" in harvested.words


def a_site(folder: Path, images: Iterable[str], blank: bytes | None = None) -> Path:
    """Plain tiles, each of another colour; and what a server shows where there is none."""
    for place, path in enumerate(images):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(coloured(place + 1))
    if blank is not None:
        (folder / "blank.png").write_bytes(blank)
    return folder


def coloured(shade: int) -> bytes:
    buffer = BytesIO()
    Pillow.new("L", (64, 64), shade).save(buffer, "PNG")
    return buffer.getvalue()


def test_a_blank_image_is_a_missing_tile(project: Project, tmp_path: Path) -> None:
    """Many servers answer 200 for what is missing, with an image that shows nothing, as nginx's documentation
    does it: `try_files $uri /images/default.gif;` (`ngx_http_core_module`)."""
    paths = ("0/0/0.png", "1/0/0.png", "1/1/0.png")
    blank = coloured(0)
    site = a_site(tmp_path / "site", paths, blank)
    keys: dict[str, Any] = {"bounds": list(WORLD), "site_zooms": [0, 1], "blank": [sha1(blank).hexdigest()]}
    with nginx(site, location="try_files $uri /blank.png;") as server:
        project.add_map("games", f"{server.url}/{TEMPLATE}", **keys)
        first = project.harvest("games", DAY)["counts"]
        (site / paths[-1]).unlink()
        second = project.harvest("games", "2026-11-21")["counts"]
    assert (first["add"], first["404"]) == (3, 2)
    assert (second["ign"], second["404"], second["gone"]) == (2, 2, 1)


def test_tiles_outside_of_the_bounds_are_not_asked_for(project: Project, tmp_path: Path) -> None:
    """Maps of games have tiles left of their middle and above it. The rows of these are counted upwards."""
    site = a_site(tmp_path / "site", [f"{z}/{x}/{y}.png" for z in (3, 4) for x in (-1, 0) for y in (7, 8, 9)])
    bounds = {"zoom": 3, "x": [-1, 0], "y": [-2, 0]}
    with nginx(site) as server:
        url = f"{server.url}/{{z}}/{{x}}/{{-y}}.png"
        project.add_map("games", url, bounds=bounds, site_zooms=[3, 3])
        counts = project.harvest("games", DAY)["counts"]
        asked = {line.path for line in server.log() if line.path.endswith(".png")}
    assert counts["add"] == 6
    assert asked == {f"/3/{x}/{y}.png" for x in (-1, 0) for y in (7, 8, 9)}


def test_an_added_tile_json_is_harvested_by_its_spider(
    project: Project, shared_maps: Path, tmp_path: Path
) -> None:
    site = plain_tiles(shared_maps, 1, tmp_path / "site")
    (site / "tiles.json").write_text(tile_json(TEMPLATE), encoding="utf-8")
    with nginx(site) as server:
        done = project.scrapy("add", "ants", f"{server.url}/tiles.json")
        report = project.harvest("ants", DAY)
    assert "a map of plain XYZ tiles" in done.stdout
    assert f"layer {LAYER}: depth {DEEPEST + 1}, png" in done.stdout
    assert report["counts"]["add"] == len(images(site))
    assert project.harvests("ants")[0]["renderer"] == "xyz"


def test_a_template_is_added_with_its_bounds_and_refused_without(project: Project, tmp_path: Path) -> None:
    site = a_site(tmp_path / "site", ["0/0/0.png", "1/1/1.png"])
    with nginx(site) as server:
        url = f"{server.url}/{TEMPLATE}"
        refused = project.scrapy("add", "snow", url, check=False)
        assert not project.maps_file.exists()
        project.scrapy("add", "snow", url, "--bounds=-180,-85,180,85", "--site-zooms=0,1")
        report = project.harvest("snow", DAY)
    assert refused.returncode == 2
    assert "nobody says which zooms the tiles of map 'snow' have" in refused.stderr
    assert report["counts"]["add"] == 2


def test_a_service_that_forbids_it_is_refused_with_its_rule(project: Project) -> None:
    """It is asked for nothing, not even for its robots.txt."""
    url = "https://tile.openstreetmap.org/{z}/{x}/{y}.png"
    project.add_map("osm", url, bounds=list(WORLD), site_zooms=[0, 2])
    done = project.crawl("osm", DAY, spider="xyz", check=False)
    assert done.returncode == 2
    assert "Tile Usage Policy prohibits bulk downloading" in done.stderr
