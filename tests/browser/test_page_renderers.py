"""Maps of other renderers than Overviewer: their tiles, places, and the links of their own pages.

Their histories are made here, with a picture of its own for each tile, so that they can have what the shared
maps seldom show: tiles of any size, zooms between two levels, heat, and renderers that nobody knows. Those
maps themselves are looked at in `test_page_published.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Final, cast

import pytest
from playwright.sync_api import expect

from tests.browser.screen import Screen
from tests.browser.viewed_maps import Viewer
from tests.browser.windows import DESK
from tests.end_to_end.project import Project
from tests.viewer.asking import serving
from tests.viewer.building import World, name_of, picture
from tileharvest.renderers.overviewer import projection_of
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.projection import Projection
from tileharvest.tiles.pyramid import Pyramid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Page

    from tests.browser.screen import Square

DAY: Final = date(2026, 7, 20)
LATER: Final = date(2026, 7, 23)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A map with one branch of tiles, from one of the coarsest zoom to one of the deepest that is drawn."""

    name: str
    layer: Layer
    tiles: tuple[Tile, ...]
    """The deepest first."""
    renderer: str = ""
    """Its name, where that is not the map's."""

    @property
    def url(self) -> str:
        return f"https://{self.name}.example.net/map/"

    def image(self, tile: Tile, day: date = LATER) -> bytes:
        level = self.tiles.index(tile)
        return picture((40 * level, 200 if day == LATER else 90, 60, 255), *self.layer.tile_size)

    def source(self, tile: Tile) -> str:
        """The end of the address of its picture."""
        return name_of(self.image(tile))


def branch(layer: Layer, column: int, row: int, zoom: int = 0) -> tuple[Tile, ...]:
    """The deepest tile and all that cover it."""
    tile, factor = Tile.at(zoom, column, row), layer.pyramid.factor
    return tuple(tile.ancestor(levels, factor) for levels in range(zoom + layer.depth))


def from_above(blocks: float) -> Projection:
    """North is up, and block 0 begins at the origin; so many blocks are the width of a tile of zoom 0."""
    return Projection((2 / blocks, 0, 0, 0), (0, 0, -2 / blocks, 0))


WORLD: Final = "minecraft_overworld"
SQUAREMAP_LAYER: Final = Layer(
    WORLD,
    Pyramid(4),
    "png",
    tile_size=(512, 512),
    world=WORLD,
    projection=from_above(512),
    spawn=(-5000, 64, 9000),
)
BLUEMAP_LAYER: Final = Layer(
    "hub", Pyramid.kept(3, 5), "png", tile_size=(500, 500), world="Hub", projection=from_above(500)
)
UNMINED_LAYER: Final = Layer("tiles", Pyramid(11), "png", tile_size=(256, 256), projection=from_above(16))
XYZ_LAYER: Final = Layer(
    "zoom10",
    Pyramid(8),
    "png",
    tile_size=(256, 256),
    projection=Projection((1024 / 180, 0, 0, 1024), (0, 0, -1024 / 180, -1024), height=0),
)
SMALL_TILES: Final = Layer("day", Pyramid(3), "png", tile_size=(100, 100), projection=projection_of(100, 0))
LARGE_TILES: Final = Layer(
    "day", Pyramid(3), "png", tile_size=(1024, 1024), projection=projection_of(1024, 0)
)
WIDE_TILES: Final = Layer("day", Pyramid(3), "png", tile_size=(300, 200), projection=from_above(25))
NOWHERE: Final = Layer("zoom5", Pyramid(3), "png", tile_size=(256, 256))
"""Nothing is known of what it shows."""

SQUAREMAP: Final = Drawn("squaremap", SQUAREMAP_LAYER, branch(SQUAREMAP_LAYER, -10, 17))
"""Three tiles of the coarsest zoom to the left of the origin and three below it, with its spawn."""
BLUEMAP: Final = Drawn("bluemap", BLUEMAP_LAYER, branch(BLUEMAP_LAYER, -1, 1))
UNMINED: Final = Drawn("unmined", UNMINED_LAYER, branch(UNMINED_LAYER, -1, 2, zoom=-4))
"""Its deepest tiles are of zoom -4, at which a pixel is a block."""
XYZ: Final = Drawn("xyz", XYZ_LAYER, branch(XYZ_LAYER, 536, 358))
"""The tile of Zurich, and what covers it."""
SMALL: Final = Drawn("small", SMALL_TILES, branch(SMALL_TILES, 1, -1), "overviewer")
LARGE: Final = Drawn("large", LARGE_TILES, branch(LARGE_TILES, 1, -1), "overviewer")
WIDE: Final = Drawn("wide", WIDE_TILES, branch(WIDE_TILES, 1, -1), "mapcrafter")
TILES: Final = Drawn("unknown", NOWHERE, branch(NOWHERE, 12, 7), "of-another-package")
ALL: Final = (SQUAREMAP, BLUEMAP, UNMINED, XYZ, SMALL, LARGE, WIDE, TILES)


@pytest.fixture(scope="module")
def drawn_maps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    world = World(tmp_path_factory.mktemp("drawn"))
    for drawn in ALL:
        world.describe(drawn.name, url=drawn.url)
        for day in (DAY, LATER):
            images = {tile: drawn.image(tile, day) for tile in drawn.tiles}
            world.harvest(
                day,
                cast("dict[Tile, bytes | None]", images),
                name=drawn.name,
                layer=drawn.layer.name,
                described=drawn.layer,
                renderer=drawn.renderer or drawn.name,
            )
    with serving(world) as client:
        yield Viewer(f"http://127.0.0.1:{client.port}", Project(world.folder))


@pytest.fixture
def shown(open_page: Callable[..., Page], drawn_maps: Viewer) -> Screen:
    return Screen(open_page(**DESK), drawn_maps)


def middle_of(screen: Screen) -> tuple[float, float]:
    """Of the map, in pixels of the page."""
    box = screen.part("map").bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def with_picture(screen: Screen, drawn: Drawn, tile: Tile) -> Square:
    """The only square that has the tile's picture."""
    (found,) = [square for square in screen.squares() if square.source.endswith(drawn.source(tile))]
    return found


def expect_at(screen: Screen, square: Square, left: float, top: float, width: float) -> None:
    """The square lies so many pixels to the left of the map's middle, and above it."""
    x, y = middle_of(screen)
    found = (x - square.left, y - square.top, square.width)
    assert found == pytest.approx((left, top, width), abs=2)


def go_to(screen: Screen, typed: str) -> None:
    screen.part("go-to-place").fill(typed)
    screen.part("go-to-place").press("Enter")


# Of each map a place, at some zooms: where its tile then begins, and how wide it is. The place is the middle
# of a block, half a block further right and down than its edge.
@pytest.mark.parametrize(
    ("drawn", "x", "z", "zoom", "level", "left", "top", "width"),
    [
        (SQUAREMAP, -5000, 9000, 0, 0, 120.5, 296.5, 512),
        (SQUAREMAP, -5000, 9000, -3, 3, (8192 - 4999.5) / 8, (9000.5 - 8192) / 8, 512),
        (SQUAREMAP, -5000, 9000, 1, 0, 241, 593, 1024),
        (BLUEMAP, -300, 620, 0, 0, 200.5, 120.5, 500),
        (BLUEMAP, -300, 620, -1, 1, 2200.5 / 5, 620.5 / 5, 500),
        (BLUEMAP, -300, 620, -2, 2, 12200.5 / 25, 620.5 / 25, 500),
        (BLUEMAP, -300, 620, -0.5, 0, 200.5 / 5**0.5, 120.5 / 5**0.5, 500 / 5**0.5),
        (BLUEMAP, -300, 620, 1, 0, 1002.5, 602.5, 2500),
        (UNMINED, -100, 700, -4, 0, 156.5, 188.5, 256),
        (UNMINED, -100, 700, -6, 2, (1024 - 99.5) / 4, 700.5 / 4, 256),
        (UNMINED, -100, 700, -2, 0, 626, 754, 1024),
    ],
)
def test_a_tile_is_drawn_at_its_place_of_the_world(
    shown: Screen,
    drawn: Drawn,
    x: float,
    z: float,
    zoom: float,
    level: int,
    left: float,
    top: float,
    width: float,
) -> None:
    shown.open_hash(f"#map={drawn.name}&x={x}&z={z}&zoom={zoom:g}")
    shown.await_map()
    expect_at(shown, with_picture(shown, drawn, drawn.tiles[level]), left, top, width)
    assert float(shown.await_place()["zoom"]) == zoom


def test_tiles_that_are_no_squares_keep_their_shape_everywhere(shown: Screen) -> None:
    """The tile is 25 blocks wide and long, which are drawn 12 pixels wide and 8 high."""
    shown.open_hash(f"#map={WIDE.name}&x=37&z=-13&zoom=0&heat={DAY}..{LATER}")
    shown.await_map()
    square = with_picture(shown, WIDE, WIDE.tiles[0])
    expect_at(shown, square, 150, 100, 300)
    assert square.height == pytest.approx(200, abs=1)
    x, y = middle_of(shown)
    places = [(0, 0), (140, 90), (-140, -90), (0, 110), (0, -110), (160, 0), (-160, 0)]
    heated = [bool(shown.page.evaluate(_IS_HEATED, [x + right, y + down])) for right, down in places]
    assert heated == [True] * 3 + [False] * 4
    shown.part("map").press("Enter")
    versions = shown.part("panel").get_by_role("listitem")
    expect(versions.first).to_contain_text("100 % changed")
    thumbnail = versions.first.get_by_role("img").bounding_box()
    assert thumbnail is not None
    assert (thumbnail["width"], thumbnail["height"]) == pytest.approx((96, 64), abs=2)
    shown.open_hash(f"#map={WIDE.name}&x=37&z=-13&zoom=0&mode=difference&with={DAY}")
    shown.await_map()
    sizes = shown.page.locator("#map .leaflet-drawing-pane canvas").evaluate_all(
        "canvases => canvases.map(({ width, height }) => [width, height])"
    )
    assert {tuple(size) for size in sizes} == {(300, 200)}


def test_plain_tiles_are_told_in_degrees_and_found_by_them(shown: Screen) -> None:
    shown.open_hash(f"#map={XYZ.name}")
    shown.await_place()
    expect(shown.part("go-to-place")).to_have_attribute("placeholder", "Lat lon, or a map link")
    go_to(shown, "47.37 8.54")
    # The screen moves by whole pixels, and one of zoom 0 is 360 degrees / 2^18 wide.
    expect(shown.part("coordinates")).to_have_text(re.compile(r"^47\.3[67]\d{3}\u00b0, 8\.5[34]\d{3}\u00b0$"))
    expect(shown.part("region")).to_be_hidden()
    expect(shown.part("live")).to_be_hidden()
    go_to(shown, "https://elsewhere.example/#map=10/47.37/8.54")
    shown.await_look(zoom="0")
    # Its column is 536.29156 and its row 358.61910, by the formula of "Slippy map tilenames".
    expect_at(shown, with_picture(shown, XYZ, XYZ.tiles[0]), 0.29156 * 256, 0.61910 * 256, 256)
    go_to(shown, "north")
    message = shown.part("go-to-place").evaluate("(field) => field.validationMessage")
    assert message.startswith("Write latitude and longitude")


def test_where_tiles_nest_by_five_heat_has_five_by_five_cells_and_a_tile_its_story(shown: Screen) -> None:
    shown.open_hash(f"#map={BLUEMAP.name}&x=-1250&z=1250&zoom=-1&heat={DAY}..{LATER}")
    shown.await_map()
    x, y = middle_of(shown)
    # Around the middle lies the tile of zoom -1. Its fifth column and second row are the deepest tile.
    cells = {
        (column, row): bool(shown.page.evaluate(_IS_HEATED, [x + 100 * column, y + 100 * row]))
        for column in (-2, -1, 0, 1, 2)
        for row in (-2, -1, 0, 1)
    }
    assert {cell for cell, is_heated in cells.items() if is_heated} == {(2, -1)}
    shown.part("map").press("Enter")
    expect(shown.part("panel")).to_contain_text(f"Tile {BLUEMAP.tiles[1]}")
    expect(shown.part("panel").locator("li")).to_have_count(2)


_IS_HEATED: Final = """([x, y]) => {
  for (const canvas of document.querySelectorAll("#map .leaflet-heat-pane canvas")) {
    const { left, top, width, height } = canvas.getBoundingClientRect();
    if (x < left || y < top || x >= left + width || y >= top + height) continue;
    return canvas.getContext("2d").getImageData(x - left, y - top, 1, 1).data[3] > 0;
  }
  return false;
}"""
