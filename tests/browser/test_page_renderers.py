"""What the shared maps seldom show: tiles that are not squares, that nest by five, or are of the earth."""

import re
from collections.abc import Iterator
from datetime import date
from typing import Final

import pytest
from playwright.sync_api import Page, expect

from tests.browser.screen import Screen, await_refusal, eventually
from tests.viewer.asking import serving
from tests.viewer.building import World, picture
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.ground import Projection
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid

DAY: Final = date(2026, 7, 20)
LATER: Final = date(2026, 7, 23)


def from_above(blocks: float) -> Projection:
    """North is up, and block 0 begins at the origin; so many blocks are the width of a tile of zoom 0."""
    return Projection((2 / blocks, 0, 0, 0), (0, 0, -2 / blocks, 0))


MERCATOR: Final = Projection((1024 / 180, 0, 0, 1024), (0, 0, -1024 / 180, -1024), height=0)
# A layer of each map, and the column and row of its only deepest tile.
DRAWN: Final = {
    "mapcrafter": (Layer("day", Pyramid(3), "png", tile_size=(300, 200), projection=from_above(25)), 1, -1),
    "bluemap": (
        Layer("hub", Pyramid.kept(3, 5), "png", tile_size=(500, 500), projection=from_above(500)),
        -1,
        1,
    ),
    "xyz": (Layer("zoom10", Pyramid(8), "png", tile_size=(256, 256), projection=MERCATOR), 536, 358),
}


@pytest.fixture(scope="module")
def drawn_maps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A map of each renderer with a branch of tiles, which all changed on the later day."""
    world = World(tmp_path_factory.mktemp("drawn"))
    for name, (layer, column, row) in DRAWN.items():
        world.describe(name, url=f"https://{name}.example.net/")
        tile, factor = Tile.at(0, column, row), layer.pyramid.factor
        for day, green in ((DAY, 90), (LATER, 200)):
            images: dict[Tile, bytes | None] = {
                tile.ancestor(level, factor): picture((40 * level, green, 60, 255), *layer.tile_size)
                for level in range(layer.depth)
            }
            world.harvest(day, images, name=name, layer=layer.name, described=layer, renderer=name)
    with serving(world) as client:
        yield client.url


@pytest.fixture
def shown(page: Page, drawn_maps: str) -> Screen:
    return Screen(page, drawn_maps)


def heated(screen: Screen, places: list[tuple[int, int]]) -> list[bool]:
    """Whether heat is drawn so many pixels to the right of the map's middle, and below it."""
    # The panel takes some room from the map.
    expect(screen.panel.get_by_role("link")).not_to_have_count(0)
    screen.await_map()
    left, top, width, height = screen.box("map")
    x, y = left + width / 2, top + height / 2
    return [screen.heat_at(x + right, y + down) != "" for right, down in places]


def test_tiles_that_are_no_squares_keep_their_shape_everywhere(shown: Screen) -> None:
    """The tile is 25 blocks wide and long, which are drawn 12 pixels wide and 8 high."""
    shown.open_hash(f"#map=mapcrafter&x=37&z=-13&zoom=0&heat={DAY}..{LATER}")
    shown.await_map()
    (square,) = [square for square in shown.squares() if square.source]
    assert (square.width, square.height) == pytest.approx((300, 200), abs=1)
    inside, outside = [(0, 0), (140, 90), (-140, -90)], [(0, 110), (0, -110), (160, 0), (-160, 0)]
    assert heated(shown, inside + outside) == [True] * 3 + [False] * 4
    shown.part("map").press("Enter")
    first = shown.panel.get_by_role("listitem").first
    expect(first).to_contain_text("100 % changed")
    expect(first.get_by_role("img")).not_to_have_js_property("naturalWidth", 0)

    def is_shaped() -> bool:
        box = first.get_by_role("img").bounding_box() or {"width": 0, "height": 0}
        return (box["width"], box["height"]) == pytest.approx((96, 64), abs=2)

    eventually(is_shaped)
    shown.open_hash(f"#map=mapcrafter&x=37&z=-13&zoom=0&mode=difference&with={DAY}")
    shown.await_map()
    canvases = shown.page.locator("#map .leaflet-drawing-pane canvas")
    sizes = canvases.evaluate_all("all => all.map(({ width, height }) => [width, height])")
    assert {tuple(size) for size in sizes} == {(300, 200)}


def test_where_tiles_nest_by_five_heat_has_five_by_five_cells_and_a_tile_its_story(shown: Screen) -> None:
    shown.open_hash(f"#map=bluemap&x=-1250&z=1250&zoom=-1&heat={DAY}..{LATER}")
    shown.await_map()
    # Around the middle lies the tile of zoom -1. Its fifth column and second row are the deepest tile.
    cells = [(100 * column, 100 * row) for column in (-2, -1, 0, 1, 2) for row in (-2, -1, 0, 1)]
    assert [cell for cell, is_hot in zip(cells, heated(shown, cells), strict=True) if is_hot] == [(200, -100)]
    shown.part("map").press("Enter")
    expect(shown.panel).to_contain_text(f"Tile {Tile.at(0, -1, 1).ancestor(1, 5)}")
    expect(shown.panel.locator("li")).to_have_count(2)


def test_tiles_of_the_earth_are_told_in_degrees_and_found_by_them(shown: Screen) -> None:
    shown.open_hash("#map=xyz")
    shown.await_look("layer", "x")
    field = shown.part("go-to-place")
    expect(field).to_have_attribute("placeholder", "Lat lon, or a map link")
    field.fill("47.37 8.54")
    field.press("Enter")
    # The screen moves by whole pixels, and one of zoom 0 is 360 degrees / 2^18 wide.
    expect(shown.part("coordinates")).to_have_text(re.compile(r"^47\.3[67]\d{3}\u00b0, 8\.5[34]\d{3}\u00b0$"))
    expect(shown.page.locator("#region, #live").filter(visible=True)).to_have_count(0)
    field.fill("north")
    field.press("Enter")
    await_refusal(shown, "Write latitude and longitude")
