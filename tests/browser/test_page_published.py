"""Published maps of all renderers on the page, beside what their files show by the renderer's own formula.

What the files show is composed with Pillow alone. The formulas are those of the renderers' own pages, in
pixels of the deepest images, to the right and downwards; they know nothing of the grid.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from math import asinh, ceil, floor, pi, radians, tan
from typing import TYPE_CHECKING, Any, Final

import pytest
from PIL import Image, ImageChops, ImageStat

from tests.browser.screen import Screen, as_image
from tests.browser.viewed_maps import Viewer, serving
from tests.end_to_end.project import Project
from tests.servers.nginx import nginx
from tests.servers.plain_tiles import plain_tiles, tile_json
from tests.servers.published import published
from tests.servers.side_view import SIDE_VIEW
from tileharvest.demo.publication import publish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.browser.windows import Window

LOOKED_AT: Final = 240
"""Pixels around the middle of the map, along each edge: nothing of the page lies there."""
ASIDE: Final = 16
"""Pixels by which a picture may not lie elsewhere."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A layer of a published map, how its renderer has drawn it, and places of it that were published."""

    name: str
    """The map's, among the shared ones."""
    version: int
    renderer: str
    layer: str
    size: tuple[int, int]
    """An image's width and height in pixels, as far as it is the picture."""
    point: Callable[[float, float], tuple[float, float]]
    """Where a place is drawn: east and south in blocks, or in degrees."""
    file: Callable[[int, int, int], str]
    """The image of a level, column and row; level 0 is the deepest."""
    places: dict[int, tuple[float, float]]
    """By the levels out from the deepest images."""
    factor: int = 2
    deepest: int = 0
    """The grid's zoom of the deepest images."""

    def around(
        self, site: Path, place: tuple[float, float], level: int, edge: int, behind: Any
    ) -> Image.Image:
        """Returns a square of what the published files show around a place, on a ground of that colour."""
        scale, (width, height) = self.factor**level, self.size
        left, top = (at / scale - edge / 2 for at in self.point(*place))
        canvas = Image.new("RGBA", (edge, edge), (*behind, 255))
        for column in range(floor(left / width), ceil((left + edge) / width)):
            for row in range(floor(top / height), ceil((top + edge) / height)):
                file = site / self.file(level, column, row)
                if file.exists():
                    picture = Image.open(file).convert("RGBA").crop((0, 0, width, height))
                    canvas.paste(picture, (round(column * width - left), round(row * height - top)), picture)
        return canvas.convert("RGB")


def digits(zoom: int, column: int, row: int) -> str:
    """`getTileUrl` of `mapcrafterui.js`: 1 + x + 2 y of each zoom, from the coarsest."""
    return "/".join(str(1 + (column >> step & 1) + 2 * (row >> step & 1)) for step in reversed(range(zoom)))


def bluemap_file(level: int, column: int, row: int) -> str:
    """`pathFromCoords` of `Utils.js`: each digit but the last is a folder."""
    x, z = (("-" if number < 0 else "") + "/".join(str(abs(number))) for number in (column, row))
    return f"maps/world/tiles/{level + 1}/x{x}/z{z}.png"


def dynmap_file(level: int, column: int, row: int) -> str:
    """X and Y are always counted in deepest tiles, and Y grows upwards (`dynmaputils.js`)."""
    x, y = column << level, -(row << level)
    letters = f"{'z' * level}_" if level else ""
    return f"tiles/world_nether/flat/{x >> 5}_{y >> 5}/{letters}{x}_{y}.png"


def on_earth(longitude: float, latitude: float) -> tuple[float, float]:
    """The formula of "Slippy map tilenames", for zoom 7 and images of 384 pixels."""
    width = 384 * 2**7
    return (longitude + 180) / 360 * width, (1 - asinh(tan(radians(latitude))) / pi) / 2 * width


ANTS: Final = Shown(
    "ants", 4, "xyz", "zoom7", (384, 384), on_earth,
    lambda level, column, row: f"{7 - level}/{column}/{row}.png",
    {0: (116.7, -28.0), 4: (116.7, -28.0)},
)  # fmt: skip
"""antworld as plain tiles."""
SIDEWAYS: Final = Shown(
    "sideways", 1, "mapcrafter", "map_island/tl", (576, 384),
    # `SideRenderView.mcToLatLng` at height 64: 3 x 16 blocks are 576 pixels, moved by four tiles.
    lambda east, south: (12 * east + 576 * 4, 8 * (south - 1) + 8 * (255 - 64) + 384 * 4 - 4 * 384),
    lambda level, column, row: f"map_island/tl/{digits(3 - level, column, row)}.png",
    {0: (-20, 40), 2: (-20, 40)},
)  # fmt: skip
"""The demo's island, seen from the south: no published side view is among the shared maps."""
ALL: Final = (
    Shown(
        "duckmap", 6, "squaremap", "minecraft_overworld", (512, 512), lambda east, south: (east, south),
        lambda level, column, row: f"tiles/minecraft_overworld/{3 - level}/{column}_{row}.png",
        {0: (-4416, 1892), 1: (-4416, 1892), 3: (-4416, 1892)},
    ),
    Shown(
        "sbatserver", 6, "pl3xmap", "minecraft-the_end/basic", (512, 512), lambda east, south: (east, south),
        lambda level, column, row: f"tiles/minecraft-the_end/{level}/basic/{column}_{row}.png",
        {0: (200, 1000), 3: (200, 1000)},
    ),
    Shown(
        "labyrinthmc", 5, "bluemap", "world", (500, 500), lambda east, south: (east, south), bluemap_file,
        {0: (-5150, -400), 1: (-5150, -400), 2: (-5000, -1375)}, factor=5,
    ),
    Shown(
        "helmetgreen", 4, "unmined", "tiles", (256, 256), lambda east, south: (east, south),
        lambda level, x, z: f"tiles/zoom.{-level}/{x // 10}/{z // 10}/tile.{x}.{z}.jpeg",
        {0: (21876, 6136), 6: (21876, 6136)}, deepest=-4,
    ),
    Shown(
        # The first rows of `worldtomap` lead to pixels to the right and upwards. Row 0 ends at the origin.
        "mrozbarry", 4, "dynmap", "world_nether/flat", (128, 128),
        lambda east, south: (2 * east, 128 + 2 * south),
        dynmap_file, {0: (-300, -200), 4: (-300, -200)},
    ),
    Shown(
        "jgore43", 4, "mapcrafter", "map_myworld_topdown_day/tl", (288, 288),
        # `TopdownRenderView` of `mapcrafterui.js`: 3 x 16 blocks are 288 pixels.
        lambda east, south: (6 * east + 288 * 2**5, 6 * south + 288 * 2**5),
        lambda level, x, z: f"map_myworld_topdown_day/tl/{digits(6 - level, x, z)}.png",
        {0: (-72, -936), 5: (0, 0)},
    ),
    Shown(
        "richhall", 1, "mapcrafter", "map_backs_DSM/tl", (384, 384),
        # `mcToLatLng` of version 1's page, at height 64: textures have 12 pixels.
        lambda east, south: (
            12 * (east + south) - 16 * 12 + 384 * 2**7, 6 * (south - east + 2 * (256 - 64)) + 384 * 2**7
        ),
        lambda level, x, z: f"map_backs_DSM/tl/{digits(8 - level, x, z)}.png",
        {0: (-16, 80), 5: (-16, 80)},
    ),
    SIDEWAYS,
    ANTS,
)  # fmt: skip


@pytest.fixture(scope="module")
def sites(shared_maps: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each map, with the files that its site has."""
    folder = tmp_path_factory.mktemp("sites")
    for shown in ALL:
        if shown is ANTS:
            plain_tiles(shared_maps, shown.version, folder / shown.name)
        elif shown is SIDEWAYS:
            publish(shown.version, date(2026, 11, 18), folder / shown.name, SIDE_VIEW)
        else:
            published(shared_maps, shown.name, shown.version, folder / shown.name)
    return folder


@pytest.fixture(scope="module")
def published_maps(sites: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """All of them, harvested, in one viewer that takes them for those of other hosts."""
    project = Project(tmp_path_factory.mktemp("published"))
    with nginx(sites) as server:
        described = json.loads(tile_json(f"{server.url}/{ANTS.name}/{{z}}/{{x}}/{{y}}.png"))
        tiles = sites / ANTS.name / "tiles.json"
        tiles.write_text(json.dumps({**described, "tileSize": 384}), encoding="utf-8")
        for shown in ALL:
            url = f"{server.url}/{shown.name}/" + ("tiles.json" if shown is ANTS else "")
            project.add_map(shown.name, url, renderer=shown.renderer, layers=[shown.layer])
        project.scrapy("harvest", "--all", "-a", "day=2026-11-20")
    project.maps_file.unlink()
    for shown in ALL:
        project.add_map(shown.name, f"https://{shown.name}.example.net/map/", renderer=shown.renderer)
    with serving(project) as viewer:
        yield viewer


def open_at(screen: Screen, shown: Shown, x: float, z: float, zoom: float) -> None:
    """Opens the page with a place in the middle: of a block, which is its middle, or of the earth."""
    if shown is not ANTS:
        screen.open_hash(f"#map={shown.name}&layer={shown.layer}&x={x}&z={z}&zoom={zoom:g}")
        screen.await_map()
        return
    screen.open_hash(f"#map={shown.name}")
    screen.await_place()
    screen.part("go-to-place").fill(f"#{7 + zoom:g}/{z}/{x}")
    screen.part("go-to-place").press("Enter")
    screen.await_look(zoom=f"{zoom:g}")


def seen_around_the_middle(screen: Screen) -> Image.Image:
    """What is to be seen there, but for pins."""
    screen.page.locator(".pin-place").evaluate_all(
        "all => { for (const pin of all) pin.style.display = 'none'; }"
    )
    box = screen.part("map").bounding_box()
    assert box is not None
    x, y = (
        int(box[corner] + box[edge] / 2) - LOOKED_AT // 2
        for corner, edge in (("x", "width"), ("y", "height"))
    )
    return as_image(screen.page.screenshot(clip={"x": x, "y": y, "width": LOOKED_AT, "height": LOOKED_AT}))


def difference(seen: Image.Image, there: Image.Image, right: int, down: int) -> float:
    """By how much a picture differs on average, of 255, from a part of a larger one beside its middle."""
    part = there.crop((ASIDE + right, ASIDE + down, ASIDE + right + LOOKED_AT, ASIDE + down + LOOKED_AT))
    return sum(ImageStat.Stat(ImageChops.difference(seen, part)).mean) / 3


@pytest.mark.parametrize("shown", ALL, ids=lambda shown: shown.name)
def test_the_page_shows_at_a_place_what_the_renderer_has_drawn_there(
    request: pytest.FixtureRequest,
    desk: Window,
    published_maps: Viewer,
    tmp_path_factory: pytest.TempPathFactory,
    sites: Path,
    shown: Shown,
) -> None:
    with desk.lent_to(request.node, tmp_path_factory) as page:
        screen = Screen(page, published_maps)
        for level, (x, z) in shown.places.items():
            open_at(screen, shown, x, z, shown.deepest - level)
            place = (x, z) if shown is ANTS else (x + 0.5, z + 0.5)
            colour = "(map) => getComputedStyle(map).backgroundColor.match(/\\d+/g).map(Number)"
            behind = screen.part("map").evaluate(colour)
            there = shown.around(sites / shown.name, place, level, LOOKED_AT + 2 * ASIDE, behind)
            seen = seen_around_the_middle(screen)
            # Leaflet moves pictures by whole pixels.
            near, far = (-1, 0, 1), (-ASIDE, ASIDE)
            assert min(difference(seen, there, right, down) for right in near for down in near) < 0.5
            assert min(difference(seen, there, right, down) for right in far for down in far) > 2
