"""All versions of the shared map of BlueMap, on a file server and on a server like BlueMap's own."""

from __future__ import annotations

import http.client
import os
import re
from collections import Counter
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Final

import pytest

from tests.end_to_end.project import LayerTile, Project
from tests.end_to_end.pruned_stage import RARELY, Walked, walked
from tests.end_to_end.real_maps import as_of, days
from tests.renderers.sites import PAGES
from tests.servers.bluemap import own_server
from tests.servers.nginx import nginx
from tests.servers.published import published, truth
from tileharvest.renderers.bluemap import LEFT_ALONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from tests.end_to_end.project import RecordedVersion
    from tests.servers.nginx import Nginx

MAP: Final = "labyrinthmc"
LAYERS: Final = ("world", "hub_rainbow")
LEVELS: Final = 3
FACTOR: Final = 5
_TILE: Final = re.compile(r"maps/([^/]+)/tiles/(\d)/x(-?[\d/]+)/z(-?[\d/]+)\.png")

Cell = tuple[int, int, int]
"""Level of detail, x and z, as BlueMap counts them."""


def named(layer: str, cell: Cell) -> LayerTile:
    """The grid's name: of column c and row r at zoom -n it is (2c + 1) 2^n and -(2r + 1) 2^n."""
    level, x, z = cell
    unit = 2 ** (level - 1)
    return LayerTile(layer, 1 - level, (2 * x + 1) * unit, -(2 * z + 1) * unit)


def cells(paths: Iterable[str]) -> dict[str, set[Cell]]:
    """The tiles among names of files, by layer."""
    found: dict[str, set[Cell]] = {layer: set() for layer in LAYERS}
    for path in paths:
        if match := _TILE.fullmatch(path):
            layer, *numbers = match.groups()
            level, x, z = (int(number.replace("/", "")) for number in numbers)
            found[layer].add((level, x, z))
    return found


def tiles_of(paths: Iterable[str]) -> set[LayerTile]:
    return {named(layer, cell) for layer, its in cells(paths).items() for cell in its}


def images_in(folder: Path) -> dict[LayerTile, bytes]:
    files = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*.png")}
    return {next(iter(tiles_of([path]))): file.read_bytes() for path, file in files.items()}


def missing_in(folder: Path) -> set[LayerTile]:
    """What is asked for in vain: around the origin and the coarsest tiles, and below tiles that are there."""
    found = set()
    paths = (file.relative_to(folder).as_posix() for file in folder.rglob("*.png"))
    for layer, there in cells(paths).items():
        tops = [(x, z) for level, x, z in there if level == LEVELS] + [(0, 0)]
        near = product((-1, 0, 1), repeat=2)
        asked = {(LEVELS, x + right, z + down) for (x, z), (right, down) in product(tops, near)}
        for level, x, z in there:
            below = product(range(FACTOR), repeat=2) if level > 1 else ()
            asked |= {(level - 1, FACTOR * x + right, FACTOR * z + down) for right, down in below}
        found |= {named(layer, cell) for cell in asked - there}
    return found


@dataclass(frozen=True, slots=True)
class Step:
    """A version, and what its harvest left behind."""

    day: str
    images: dict[LayerTile, bytes]
    expected: dict[LayerTile, str]
    """The outcomes, from the map's own record alone."""
    outcomes: dict[LayerTile, str]
    asked: list[tuple[str, str, int]]
    """Method, path and status of each request, as the server saw it."""
    walks: dict[str, Walked]
    log: str
    versions: set[RecordedVersion]
    stored: dict[str, bytes]


def harvested(shared_maps: Path, folder: Path, walk: str) -> Iterator[Step]:
    """Each version on its day, from nginx."""
    site, project = folder / "site", Project(folder)
    published(shared_maps, MAP, 1, site)
    with nginx(site) as server:
        project.add_map(MAP, server.url, walk=walk, audit=0, full_every=RARELY, change_index=False)
        for version in range(1, 6):
            published(shared_maps, MAP, version, site)
            server.clear_log()
            yield step(shared_maps, project, site, version, lambda: asked_of(server))


def asked_of(server: Nginx) -> list[tuple[str, str, int]]:
    return [(line.method, line.path, line.status) for line in server.log()]


def step(
    shared_maps: Path,
    project: Project,
    site: Path,
    version: int,
    asked: Callable[[], list[tuple[str, str, int]]],
    unchanged: str = "ign",
) -> Step:
    day = days(shared_maps, MAP)[version - 1]
    log = project.crawl(MAP, day, spider="bluemap").stderr
    images = images_in(site)
    expected = dict.fromkeys(missing_in(site), "404")
    if version == 1:
        expected |= dict.fromkeys(images, "add")
    else:
        happened = truth(shared_maps, MAP)[version - 2]
        assert not tiles_of(happened.added | happened.removed | happened.redated)
        expected |= dict.fromkeys(images, unchanged)
        expected |= dict.fromkeys(tiles_of(happened.changed), "upd")
    return Step(
        day,
        images,
        expected,
        project.outcomes(),
        asked(),
        walked(log),
        log,
        project.versions(),
        project.stored(),
    )


@pytest.fixture(scope="module")
def full(shared_maps: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Step]:
    return list(harvested(shared_maps, tmp_path_factory.mktemp("full"), "full"))


@pytest.fixture(scope="module")
def pruned(shared_maps: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Step]:
    return list(harvested(shared_maps, tmp_path_factory.mktemp("pruned"), "auto"))


def test_every_tile_has_the_outcome_that_the_maps_own_record_gives_it(full: list[Step]) -> None:
    assert [len(one.images) for one in full] == [64] * 5
    for one in full:
        assert one.outcomes == one.expected


def test_the_history_of_each_day_is_what_was_published_on_it(full: list[Step]) -> None:
    """The images are kept as they are, with light and heights."""
    last = full[-1]
    for one in full:
        recorded = as_of(last.versions, one.day)
        rebuilt = {tile: last.stored[f"{digest[:2]}/{digest}.png"] for tile, digest in recorded.items()}
        assert rebuilt == one.images


def test_each_tile_is_asked_once_by_get_and_what_is_known_under_conditions(full: list[Step]) -> None:
    for one in full:
        counted = Counter(path for _, path, _ in one.asked)
        assert set(counted.values()) == {1}
        assert {method for method, *_ in one.asked} == {"GET"}
        assert sum("/tiles/" in path for path in counted) == len(one.expected)
    assert sum(status == 304 for *_, status in full[-1].asked) == 61


def test_that_high_resolution_is_left_alone_is_said_once(full: list[Step]) -> None:
    for one in full:
        assert one.log.count(LEFT_ALONE) == 1
        assert not any("/tiles/0/" in path for _, path, _ in one.asked)


def test_a_pruned_walk_leaves_the_history_of_a_full_one(full: list[Step], pruned: list[Step]) -> None:
    """All tiles of the first version are of one moment, which proves nothing."""
    for one, other in zip(full, pruned, strict=True):
        assert other.versions == one.versions
        assert other.stored == one.stored
    assert [one.walks["world"].is_pruned for one in pruned] == [False, False, True, True, True]
    assert "none of 28 tiles changed after the one above it" in pruned[-1].walks["world"].reason
    assert {one.walks["hub_rainbow"].is_pruned for one in pruned} == {False}
    assert "as in one upload" in pruned[-1].walks["hub_rainbow"].reason
    for one, other in zip(full[2:], pruned[2:], strict=True):
        mine, others = (sum("maps/world/tiles" in path for _, path, _ in step.asked) for step in (one, other))
        assert others < mine


def test_a_host_that_leaves_unchanged_bytes_alone_is_walked_in_full_and_the_log_says_why(
    shared_maps: Path, project: Project, tmp_path: Path, nginx: Callable[..., Nginx]
) -> None:
    """As after an upload that compares contents: a parent that looks the same keeps its time."""
    site = published(shared_maps, MAP, 1, tmp_path / "site")
    top = site / "maps/world/tiles/3/x-1/z-1.png"
    body, seconds = top.read_bytes(), top.stat().st_mtime
    project.add_map(MAP, nginx(site).url, audit=0, full_every=RARELY, change_index=False)
    first, second, third = days(shared_maps, MAP)[:3]
    project.crawl(MAP, first, spider="bluemap")
    published(shared_maps, MAP, 2, site)
    top.write_bytes(body)
    os.utime(top, (seconds, seconds))
    project.crawl(MAP, second, spider="bluemap")
    walk = walked(project.crawl(MAP, third, spider="bluemap").stderr)["world"]
    assert not walk.is_pruned
    assert "2 changed after that one" in walk.reason


# -- BlueMap's own server


@pytest.mark.parametrize(("version", "unchanged"), [(5, "nMod"), (4, "ign")])
def test_its_own_server_is_asked_by_get_alone(
    shared_maps: Path, project: Project, tmp_path: Path, version: int, unchanged: str
) -> None:
    """That of version 5 does not tell what has changed: each image is fetched, and compared by its bytes."""
    site = published(shared_maps, MAP, 1, tmp_path / "site")
    with own_server(site, version=version) as server:
        project.add_map(MAP, server.url, walk="auto" if version == 5 else "full", full_every=RARELY)

        def asked() -> list[tuple[str, str, int]]:
            found = [(method, path, status) for method, path, status in server.asked]
            server.asked.clear()
            return found

        for number in (1, 2, 3):
            published(shared_maps, MAP, number, site)
            one = step(shared_maps, project, site, number, asked, unchanged)
            assert one.outcomes == one.expected
            assert {method for method, *_ in one.asked} == {"GET"}
            assert {status for _, path, status in one.asked if "/tiles/" in path} <= {200, 204, 304}
            recorded = as_of(one.versions, one.day)
            rebuilt = {tile: one.stored[f"{digest[:2]}/{digest}.png"] for tile, digest in recorded.items()}
            assert rebuilt == one.images
    assert not one.walks["world"].is_pruned
    if version == 5:
        assert one.walks["world"].reason == "the site does not say when 29 tiles changed"


def test_a_head_would_break_the_connection(shared_maps: Path, tmp_path: Path) -> None:
    """That the server answers as BlueMap's does: it is why none is sent."""
    with own_server(published(shared_maps, MAP, 1, tmp_path)) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=240)
        connection.request("HEAD", "/maps/world/tiles/3/x-1/z-1.png")
        connection.getresponse().read()
        connection.request("GET", "/maps/world/settings.json")
        with pytest.raises(http.client.HTTPException):
            connection.getresponse()
        connection.close()


def test_its_own_server_is_not_sampled(shared_maps: Path, project: Project, tmp_path: Path) -> None:
    with own_server(published(shared_maps, MAP, 1, tmp_path / "site")) as server:
        project.add_map(MAP, server.url, renderer="bluemap")
        done = project.scrapy("plan", MAP, check=False)
        assert done.returncode == 1
        assert "does not answer HEAD as it should" in done.stderr
        assert {method for method, *_ in server.asked} == {"GET"}
        assert not any("/tiles/" in path for _, path, _ in server.asked)


def test_an_added_map_is_recognised_by_its_page(shared_maps: Path, project: Project, tmp_path: Path) -> None:
    """Before anything is asked by HEAD, as the layers of a map without a configuration are."""
    site = published(shared_maps, MAP, 1, tmp_path / "site")
    (site / "index.html").write_text(PAGES["bluemap"], encoding="utf-8")
    with own_server(site) as server:
        done = project.scrapy("add", "mine", server.url, "--contact", "me@example.net", "--layer", "world")
        assert {method for method, *_ in server.asked} == {"GET"}
    assert "a map of BlueMap" in done.stdout
    assert done.stdout.count(LEFT_ALONE) == 1
    assert 'renderer = "bluemap"' in project.maps_file.read_text(encoding="utf-8")
