"""uNmINeD's files as its own exports write them, and where its own page looks for tiles."""

from collections.abc import Collection
from pathlib import Path

import pytest

from tests.renderers.sites import PAGE, PublishedSite
from tests.renderers.unmined_exports import bitmap, exported, properties
from tileharvest.errors import SiteError
from tileharvest.renderers.site import Fetched
from tileharvest.renderers.unmined import parse_regions
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.layers import Layer
from tileharvest.walk.walk import Walk

URL = f"{PAGE}unmined.map.regions.js"

REGIONS = {(0, 0), (1, 0), (-1, -1), (33, 5), (-33, -40)}


def drawn(folder: Path, zooms: range, regions: Collection[tuple[int, int]], said: str) -> PublishedSite:
    return PublishedSite(exported(folder, zooms, regions, said))


def layer_of(site: PublishedSite) -> Layer:
    (layer,) = site.probed("unmined").layers
    return layer


def named(layer: Layer) -> set[str]:
    """The addresses of all tiles that a walk asks for where each of them is there."""
    walk, found = Walk(layer.pyramid), set()
    coming = list(walk.start())
    while coming:
        tile = coming.pop()
        found.add(layer.addresses.url_of(tile))
        coming += walk.below(tile)
    return found


@pytest.mark.parametrize("image_format", ["png", "jpeg", "webp"])
@pytest.mark.parametrize(("min_zoom", "max_zoom"), [(-6, 0), (-1, 0), (0, 0), (-4, -2)])
def test_a_walk_names_the_tiles_that_the_sites_own_page_asks_for(
    tmp_path: Path, image_format: str, min_zoom: int, max_zoom: int
) -> None:
    zooms = range(min_zoom, max_zoom + 1)
    site = drawn(tmp_path, zooms, REGIONS, properties(min_zoom, max_zoom, image_format=image_format))
    assert named(layer_of(site)) == site.images()


@pytest.mark.parametrize("deepest", [1, 2, 4])
def test_tiles_of_a_zoom_above_0_are_found_however_deep_the_page_enlarges_them(
    tmp_path: Path, deepest: int
) -> None:
    site = drawn(tmp_path, range(-2, deepest + 1), REGIONS, properties(-2, 9))
    layer = layer_of(site)
    assert named(layer) == site.images()
    # Each deeper zoom that is there, and the first one that is not: twice, as HEAD may be refused.
    assert len(site.asked) == 2 + min(4, deepest + 2)


def test_a_tile_keeps_its_name_whatever_zooms_an_export_has(tmp_path: Path) -> None:
    flat = layer_of(drawn(tmp_path / "flat", range(-2, 1), REGIONS, properties(-2, 0)))
    deep = layer_of(drawn(tmp_path / "deep", range(-6, 4), REGIONS, properties(-6, 3)))
    url = f"{PAGE}tiles/zoom.-1/3/0/tile.33.5.png"
    assert flat.addresses.tile_of(url) == deep.addresses.tile_of(url) == Tile.at(-5, 33, 5)
    assert flat.projection == deep.projection
    assert flat.depth < deep.depth


def test_an_old_export_lists_its_regions_one_by_one() -> None:
    text = "var UnminedMapRegions = [{x:0,z:0},{x:-3,z:12}];"
    assert parse_regions(text, URL) == {(0, 0), (-3, 12)}


def test_arrays_that_begin_and_never_end_are_refused() -> None:
    """If each was looked for to the end of the file, that would take hours."""
    text = "UnminedRegions = " + "new Uint32Array([}" * 900_000
    with pytest.raises(SiteError, match=r"it has [\d,]+ values, and at most 500,000 are read"):
        parse_regions(text, URL)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!doctype html><title>Not found</title>", "does not set UnminedRegions"),
        (bitmap(REGIONS)[:900], "cut off or damaged"),
        (bitmap(()), "has no region"),
        ('var UnminedRegions = [{ x: "one", z: 0 }];', "not as uNmINeD writes it"),
        ("var UnminedRegions = [{ x: 131073, z: 0 }];", "131,073 regions from the origin"),
    ],
)
def test_damaged_regions_are_refused_with_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(SiteError, match=message):
        parse_regions(text, URL)


def test_a_host_that_refuses_head_is_asked_for_the_tile_itself(tmp_path: Path) -> None:
    class WithoutHead(PublishedSite):
        async def __call__(self, method: str, url: str) -> Fetched:
            answer = await super().__call__(method, url)
            return Fetched(405, b"", url) if method == "HEAD" else answer

    drawn(tmp_path, range(-1, 2), REGIONS, properties(-1, 1))
    site = WithoutHead(tmp_path)
    assert named(layer_of(site)) == site.images()
