"""The port of renderers, over maps that they have drawn. The guide's example is tried as well."""

import asyncio
import gzip
import re
import struct
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.renderers.sites import PAGE, VERSIONS, PublishedSite, of_map
from tests.renderers.test_unmined import bitmap, properties
from tests.servers.minedmap import example, install, published_as_minedmap
from tests.servers.published import truth
from tileharvest.errors import SiteError
from tileharvest.maps.description import MapDescription
from tileharvest.renderers.overviewer import parse_config
from tileharvest.renderers.registry import RENDERERS, installed, probe, with_indexes
from tileharvest.renderers.site import Fetched, ForbiddenError, Site, UnrecognisedError
from tileharvest.renderers.unmined import PROPERTIES_FILE, REGIONS_FILE
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.layers import Layer
from tileharvest.walk.change_index import ChangedGround

MOST_ASKED = 6
"""The most small files that a probe may read."""

MAPS = [(renderer, *one) for renderer, maps in VERSIONS.items() for one in maps]


class Drawn:
    """A published map and what its renderer says of it."""

    def __init__(self, renderer: str, site: PublishedSite) -> None:
        self.name = renderer
        self.site = site
        self.layers = site.probed(renderer).layers

    def tiles(self, layer: Layer) -> dict[Tile, str]:
        """The published tiles of a layer, each with its address."""
        found = {url: layer.addresses.tile_of(url) for url in self.site.images()}
        return {tile: url for url, tile in found.items() if tile is not None}


@pytest.fixture(autouse=True)
def _with_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RENDERERS, "minedmap", example())


@pytest.fixture(params=MAPS, ids=lambda one: f"{one[0]}-{one[1]}")
def drawn(request: pytest.FixtureRequest, shared_maps: Path, tmp_path: Path) -> Drawn:
    renderer, name, version = request.param
    if renderer == "minedmap":
        folder = published_as_minedmap(shared_maps, name, version, tmp_path / "s")
        return Drawn(renderer, PublishedSite(folder))
    return Drawn(renderer, of_map(shared_maps, name, version, tmp_path))


def test_every_renderer_is_held_to_this() -> None:
    assert VERSIONS.keys() == RENDERERS.keys()
    assert all(name == renderer.name for name, renderer in RENDERERS.items())
    assert all(re.fullmatch("[a-z0-9]+", name) for name in RENDERERS)


def test_a_look_at_a_site_costs_a_few_small_files_and_no_tile_and_says_the_same_again(drawn: Drawn) -> None:
    assert len(drawn.site.asked) <= MOST_ASKED
    tiles = {url for layer in drawn.layers for url in drawn.tiles(layer).values()}
    assert not tiles & {one.split()[1] for one in drawn.site.asked}
    assert drawn.site.probed(drawn.name).layers == drawn.layers


def test_every_published_tile_has_one_name_and_every_name_one_address(drawn: Drawn) -> None:
    for layer in drawn.layers:
        for tile, url in drawn.tiles(layer).items():
            address = layer.addresses.url_of(tile)
            assert address.partition("?")[0] == url
            assert layer.addresses.tile_of(address) == tile


@pytest.mark.parametrize("name", VERSIONS)
def test_where_nothing_of_a_renderer_is_another_one_can_be_tried(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnrecognisedError):
        PublishedSite(tmp_path).probed(name)


@pytest.mark.parametrize("name", VERSIONS)
def test_a_server_that_fails_is_no_site_of_another_renderer(name: str) -> None:
    async def fails(method: str, url: str):
        return type("Answer", (), {"status": 503, "body": b"", "url": url, "text": ""})()

    with pytest.raises(SiteError, match="503") as raised:
        asyncio.run(RENDERERS[name].probe(MapDescription(name="m", url=PAGE), fails))
    assert not isinstance(raised.value, UnrecognisedError)


def test_a_map_whose_renderer_nobody_has_named_is_found_by_its_configuration(drawn: Drawn) -> None:
    page = drawn.site.folder / "index.html"
    if not page.exists():  # That of Mapcrafter 1 is its configuration.
        page.write_text("<title>My server</title>", encoding="utf-8")
    site = asyncio.run(probe(MapDescription(name="m", url=PAGE), drawn.site))
    assert (site.renderer, site.layers) == (drawn.name, drawn.layers)


def test_a_page_of_no_renderer_is_told_what_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<title>My garden</title>", encoding="utf-8")
    site = PublishedSite(tmp_path)
    with pytest.raises(SiteError) as raised:
        asyncio.run(probe(MapDescription(name="m", url=PAGE), site))
    for renderer in RENDERERS.values():
        assert f"{renderer.sign} ({renderer.title})" in str(raised.value)
    assert {line.removeprefix(f"GET {PAGE}") for line in site.asked} >= {
        "overviewerConfig.js",
        "config.js",
        "unmined.map.properties.js",
        "up/configuration",
        "standalone/config.js",
        "settings.json",
    }


def test_another_programs_file_is_told_where_nothing_is_found(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"maps"', encoding="utf-8")
    with pytest.raises(UnrecognisedError, match=r"could not be read: .*settings\.json is cut off or damaged"):
        asyncio.run(probe(MapDescription(name="m", url=PAGE), PublishedSite(tmp_path)))


@pytest.mark.parametrize("is_there", [True, False])
def test_what_robots_txt_forbids_is_said_where_no_other_configuration_is_found(
    shared_maps: Path, tmp_path: Path, is_there: bool
) -> None:
    """Such as the folder of squaremap's tiles, at which a map of BlueMap has nothing."""
    site = of_map(shared_maps, "labyrinthmc", 5, tmp_path) if is_there else PublishedSite(tmp_path)

    async def fetch(method: str, url: str) -> Fetched:
        if url.startswith(f"{PAGE}tiles/"):
            raise ForbiddenError("robots.txt forbids it")
        return await site(method, url)

    probing = probe(MapDescription(name="m", url=PAGE), fetch)
    if is_there:
        assert asyncio.run(probing).renderer == "bluemap"
    else:
        with pytest.raises(ForbiddenError):
            asyncio.run(probing)


# -- renderers of other packages, as pip installs them


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which Python looks for packages."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "minedmap", raising=False)
    return tmp_path


def test_a_renderer_of_another_package_is_there_as_soon_as_it_is_installed(packages: Path) -> None:
    assert not list(installed(()))
    install(packages)
    (found,) = installed(())
    assert (found.name, found.title) == ("minedmap", "MinedMap")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("minedmap", "minedmap:Missing", "has no attribute 'Missing'"),
        ("minedmap", "no_such_module:MinedMap", "No module named 'no_such_module'"),
        ("minedmap", "minedmap:Info", "not a class that inherits tileharvest.renderers.port.Renderer"),
        ("mined", "minedmap:MinedMap", "its name is 'minedmap'; write that of the entry point"),
    ],
)
def test_what_is_no_renderer_is_told_and_left_out(
    packages: Path, caplog: pytest.LogCaptureFixture, name: str, value: str, said: str
) -> None:
    install(packages, name, value)
    assert not list(installed(()))
    assert f"renderer '{name}' of tileharvest-minedmap cannot be used" in caplog.text
    assert said in caplog.text


def test_a_taken_name_stays_with_its_renderer(packages: Path, caplog: pytest.LogCaptureFixture) -> None:
    install(packages)
    assert not list(installed({"minedmap"}))
    assert "there is one of this name" in caplog.text


def found_at(url: str, files: dict[str, str]) -> str:
    """The renderer of a site that sends its page for every address that it does not know."""

    async def fetch(method: str, asked: str) -> Fetched:
        return Fetched(200, files.get(asked, files["page"]).encode(), asked)

    return asyncio.run(probe(MapDescription(name="m", url=url), fetch)).renderer


def test_a_page_in_place_of_a_configuration_is_not_taken_for_one() -> None:
    squaremap = {
        "page": '<!doctype html><meta property="og:title" content="squaremap" />',
        f"{PAGE}tiles/settings.json": '{"worlds": [{"name": "w"}]}',
        f"{PAGE}tiles/w/settings.json": '{"zoom": {"max": 3}}',
    }
    unmined = {
        "page": "<!doctype html><title>Isles</title>",
        f"{PAGE}{PROPERTIES_FILE}": properties(-2, 0),
        f"{PAGE}{REGIONS_FILE}": bitmap([(0, 0)]),
    }
    assert found_at(f"{PAGE}index.php", squaremap) == "squaremap"
    assert found_at(PAGE, unmined) == "unmined"


# -- change indexes


def read(site: PublishedSite, renderer: str) -> Site:
    return asyncio.run(with_indexes(site.probed(renderer), site))


def test_regions_of_bluemap_tell_of_every_image_that_changed(shared_maps: Path, tmp_path: Path) -> None:
    name = "labyrinthmc"
    sites = [read(of_map(shared_maps, name, version, tmp_path), "bluemap") for version in range(2, 6)]
    (world,) = (one for one in sites[0].layers if one.name == "world")
    indexes = [one.indexes for one in sites]
    # That of the other map has not been drawn by a version that writes them.
    assert {tuple(one) for one in indexes} == {("world",)}
    told = 0
    for (before, now), step in zip(pairwise(indexes), truth(shared_maps, name)[1:], strict=True):
        changed = now["world"].changed_since(before["world"])
        assert changed is not None
        ground = ChangedGround(changed, world.pyramid)
        urls = [f"{PAGE}{path}" for path in step.changed | step.added]
        tiles = [tile for tile in map(world.addresses.tile_of, urls) if tile is not None]
        assert tiles
        assert all((tile.zoom, tile.x, tile.y) in ground for tile in tiles)
        told += len(changed)
    # Of 135 tiles of the finest zoom it has told of 113 in three steps.
    assert told < len(now["world"].tiles)


@pytest.mark.parametrize(
    ("name", "renderer", "renders"),
    [
        ("antworld", "overviewer", [True, True, True]),
        # The fourth version is not a render, but tiles that the third had forgotten.
        ("jgore43", "mapcrafter", [True, True, False]),
    ],
)
def test_a_stamp_is_another_one_after_each_render(
    name: str, renderer: str, renders: list[bool], shared_maps: Path, tmp_path: Path
) -> None:
    stamps = []
    for version in range(1, 5):
        (index,) = read(of_map(shared_maps, name, version, tmp_path), renderer).indexes.values()
        stamps.append(index)
    assert [one != other for one, other in pairwise(stamps)] == renders


def test_what_cannot_be_read_is_noted_and_the_harvest_goes_on(shared_maps: Path, tmp_path: Path) -> None:
    site = of_map(shared_maps, "labyrinthmc", 5, tmp_path)
    (site.folder / "maps/world/rstate/regions/x0/z0.regions.dat").write_bytes(b"no gzip")
    probed = read(site, "bluemap")
    assert probed.indexes == {}
    assert "layer world: its change index cannot be read: " in probed.notes[-1]
    assert "x0/z0.regions.dat is cut off, damaged or of another form" in probed.notes[-1]


@pytest.mark.parametrize(("column", "is_told"), [(62, True), (63, False)])
def test_a_world_that_may_go_on_beyond_the_four_files_has_no_index(
    shared_maps: Path, tmp_path: Path, column: int, *, is_told: bool
) -> None:
    site = of_map(shared_maps, "labyrinthmc", 5, tmp_path)
    file = site.folder / "maps/world/rstate/regions/x0/z0.regions.dat"
    times = [0] * 4096
    times[column] = 1_700_000_000
    file.unlink()
    file.write_bytes(
        gzip.compress(b"\x0b\x00\x11last-update-times\x00\x00\x10\x00" + struct.pack(">4096i", *times))
    )
    assert ("world" in read(site, "bluemap").indexes) is is_told


def test_the_tag_of_the_site_stands_in_for_the_time_of_a_tileset() -> None:
    def stamps(more: str, tag: str = '"cacheTag": "17"') -> list[str | None]:
        tileset = f'{{"path": "a", "zoomLevels": 3, "imgextension": "png"{more}}}'
        text = f'var overviewerConfig = {{"map": {{{tag}}}, "tilesets": [{tileset}]}};'
        return [layer.stamp for layer in parse_config(text, PAGE)]

    assert stamps(', "last_rendertime": 1613218216.5') == ["last_rendertime 1613218216.5"]
    assert stamps("") == stamps(', "last_rendertime": 0') == ["cacheTag 17"]
    assert stamps("", tag="") == [None]
    assert stamps(', "last_rendertime": 16, "render_in_progress": true') == [None]
