"""Published maps of all renderers on the page, beside what their files show by the renderer's own formula."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, timedelta
from shutil import copytree
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.browser.published_pictures import (
    BLUEMAP,
    DYNMAP,
    ISOMETRIC,
    PL3XMAP,
    PLAIN,
    SIDE,
    SQUAREMAP,
    TOP_DOWN,
    UNMINED,
    difference,
)
from tests.browser.screen import Screen, as_image
from tests.browser.viewed_maps import Viewer, serving
from tests.end_to_end.project import Project
from tests.servers.nginx import nginx
from tests.servers.plain_tiles import plain_tiles, tile_json
from tests.servers.published import published
from tests.servers.side_view import SIDE_VIEW
from tileharvest.demo.forms import FORMS
from tileharvest.demo.publication import publish
from tileharvest.demo.world import DAYS, World

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from PIL import Image

    from tests.browser.published_pictures import Drawing
    from tests.browser.windows import Window

DAY: Final = "2026-11-20"
FIRST_DAY: Final = date(2026, 11, 18)
"""Of the demo's."""
LOOKED_AT: Final = (240, 240)
"""Pixels around the middle of the map: nothing of the page lies there."""
ASIDE: Final = 16
"""Pixels by which a picture may not lie elsewhere."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A layer of a published map, and a place of it."""

    name: str
    """The map's, among the shared ones."""
    version: int
    renderer: str
    layer: str
    drawing: Drawing
    deepest: int = 0
    """The grid's zoom of the deepest images."""

    @property
    def live(self) -> str:
        return f"https://{self.name}.example.net/map/"

    def __str__(self) -> str:
        return self.renderer


DUCKMAP: Final = Shown("duckmap", 6, "squaremap", "minecraft_overworld", SQUAREMAP)
SBATSERVER: Final = Shown("sbatserver", 6, "pl3xmap", "minecraft-the_end/basic", PL3XMAP)
LABYRINTH: Final = Shown("labyrinthmc", 5, "bluemap", "world", BLUEMAP)
HELMETGREEN: Final = Shown("helmetgreen", 4, "unmined", "tiles", UNMINED, deepest=-4)
MROZBARRY: Final = Shown("mrozbarry", 4, "dynmap", "world_nether/flat", DYNMAP)
JGORE43: Final = Shown("jgore43", 4, "mapcrafter", "map_myworld_topdown_day/tl", TOP_DOWN)
RICHHALL: Final = Shown("richhall", 1, "mapcrafter", "map_backs_DSM/tl", ISOMETRIC)
ANTS: Final = Shown("ants", 4, "xyz", "zoom7", PLAIN)
"""antworld as plain tiles."""
SIDEWAYS: Final = Shown("sideways", 1, "mapcrafter", "map_island/tl", SIDE)
"""The demo's island, seen from the south: no published side view is among the shared maps."""
ALL: Final = (DUCKMAP, SBATSERVER, LABYRINTH, HELMETGREEN, MROZBARRY, JGORE43, RICHHALL, SIDEWAYS, ANTS)


@pytest.fixture(scope="module")
def sites(shared_maps: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each map, with the files that its site has."""
    folder = tmp_path_factory.mktemp("sites")
    for shown in ALL:
        if shown is ANTS:
            plain_tiles(shared_maps, shown.version, folder / shown.name)
        elif shown is SIDEWAYS:
            publish(World(), shown.version, FIRST_DAY, folder / shown.name, SIDE_VIEW)
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
            url = f"{server.url}/{shown.name}/"
            keys: dict[str, Any] = {"renderer": shown.renderer, "layers": [shown.layer]}
            project.add_map(shown.name, url + "tiles.json" if shown is ANTS else url, **keys)
        project.scrapy("harvest", "--all", "-a", f"day={DAY}")
    project.maps_file.unlink()
    for shown in ALL:
        project.add_map(shown.name, shown.live, renderer=shown.renderer)
    with serving(project) as viewer:
        yield viewer


@pytest.fixture
def screen(
    request: pytest.FixtureRequest,
    desk: Window,
    published_maps: Viewer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Screen]:
    with desk.lent_to(request.node, tmp_path_factory) as page:
        yield Screen(page, published_maps)


def open_at(screen: Screen, shown: Shown, x: float, z: float, zoom: float) -> None:
    """Opens the page with a place in the middle: of a block, which is its middle, or of the earth."""
    if shown is ANTS:
        screen.open_hash(f"#map={shown.name}")
        screen.await_place()
        go_to(screen, f"#{7 + zoom:g}/{z}/{x}")
        screen.await_look(zoom=f"{zoom:g}")
    else:
        screen.open_hash(f"#map={shown.name}&layer={shown.layer}&x={x}&z={z}&zoom={zoom:g}")
        screen.await_map()


def go_to(screen: Screen, typed: str) -> None:
    screen.part("go-to-place").fill(typed)
    screen.part("go-to-place").press("Enter")


def middle_of(screen: Screen) -> tuple[float, float]:
    """Of the map, in pixels of the page."""
    box = screen.part("map").bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def seen_around_the_middle(screen: Screen) -> Image.Image:
    """What is to be seen there, but for pins."""
    screen.page.evaluate(_WITHOUT_PINS)
    x, y = middle_of(screen)
    width, height = LOOKED_AT
    clip = {"x": int(x) - width // 2, "y": int(y) - height // 2, "width": width, "height": height}
    return as_image(screen.page.screenshot(clip=clip))  # type: ignore[arg-type]


_WITHOUT_PINS: Final = """() => {
  for (const pin of document.querySelectorAll(".pin-place")) pin.style.visibility = "hidden";
}"""

_BEHIND: Final = """() => {
  const colour = getComputedStyle(document.getElementById("map")).backgroundColor;
  return colour.match(/\\d+/g).map(Number);
}"""


# Of each map places at levels out from the deepest images. What shows them was published, or a part of it.
@pytest.mark.parametrize(
    ("shown", "places"),
    [
        (DUCKMAP, {0: (-4416, 1892), 1: (-4416, 1892), 3: (-4416, 1892)}),
        (SBATSERVER, {0: (200, 1000), 3: (200, 1000)}),
        (LABYRINTH, {0: (-5150, -400), 1: (-5150, -400), 2: (-5000, -1375)}),
        (HELMETGREEN, {0: (21876, 6136), 6: (21876, 6136)}),
        (MROZBARRY, {0: (-300, -200), 4: (-300, -200)}),
        (JGORE43, {0: (-72, -936), 5: (0, 0)}),
        (RICHHALL, {0: (-16, 80), 5: (-16, 80)}),
        (SIDEWAYS, {0: (-20, 40), 2: (-20, 40)}),
        (ANTS, {0: (116.7, -28.0), 4: (116.7, -28.0)}),
    ],
    ids=lambda value: value.name if isinstance(value, Shown) else None,
)
def test_the_page_shows_at_a_place_what_the_renderer_has_drawn_there(
    screen: Screen, sites: Path, shown: Shown, places: dict[int, tuple[float, float]]
) -> None:
    for level, (x, z) in places.items():
        open_at(screen, shown, x, z, shown.deepest - level)
        place = (x, z) if shown is ANTS else (x + 0.5, z + 0.5)
        size = (LOOKED_AT[0] + 2 * ASIDE, LOOKED_AT[1] + 2 * ASIDE)
        behind = tuple(screen.page.evaluate(_BEHIND))
        there = shown.drawing.around(sites / shown.name, place, level, size, behind)
        seen = seen_around_the_middle(screen)
        # Leaflet moves pictures by whole pixels.
        near, far = (-1, 0, 1), (-ASIDE, ASIDE)
        assert min(difference(seen, there, right, down) for right in near for down in near) < 0.5
        assert min(difference(seen, there, right, down) for right in far for down in far) > 2


@pytest.fixture(scope="module")
def island(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Viewer, dict[str, Path]]]:
    """The demo's three days in the form of Pl3xMap, harvested; and what was published on each."""
    folder = tmp_path_factory.mktemp("island")
    project, form, sites = Project(folder), FORMS["pl3xmap"], {}
    site = folder / "site"
    site.mkdir()
    with nginx(site) as server:
        project.add_map("island", server.url, renderer="pl3xmap", audit=0)
        for number in DAYS:
            day = FIRST_DAY + timedelta(days=number - 1)
            publish(World(), number, FIRST_DAY, site, form)
            project.crawl("island", str(day), spider="pl3xmap")
            sites[str(day)] = copytree(site, folder / f"site-{day}")
    with serving(project) as viewer:
        yield viewer, sites
