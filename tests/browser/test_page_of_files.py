"""A published folder in Chromium: served by nginx as it is, and opened by a double click."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlencode, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.screen import Screen, Spot, apart
from tests.browser.viewed_maps import COAST, DAYS, LIVE, around, viewed_project
from tests.end_to_end.real_maps import ANTWORLD
from tests.end_to_end.rendering import LAYER
from tests.servers.nginx import nginx

FIRST, SECOND, THIRD, LAST = DAYS
MIDDLE: Final = Spot.middle_of(COAST)
MOST_LISTED: Final = 250_000
"""Bytes of lists that a page may load to show what is in view."""


def file_of(image: str | None) -> str | None:
    """The name of an image's file in a published folder."""
    return image and f"{image[:16]}.{image.partition('.')[2]}"


@pytest.fixture(scope="module")
def folder(shared_maps: Path, common_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """antworld, published."""
    made = tmp_path_factory.mktemp("published")
    viewed_project(shared_maps, common_folder).scrapy("publish", ANTWORLD, str(made))
    return made


@pytest.fixture(scope="module", params=["nginx", "file"])
def place(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """The address of the published page's index."""
    if request.param == "file":
        yield f"{folder.as_uri()}/index.html"
        return
    with nginx(folder) as server:
        yield f"{server.url}/index.html"


@pytest.fixture
def files(page: Page, place: str) -> Screen:
    """The published page, not opened yet."""
    return Screen(page, place)


def test_a_difference_and_what_is_new_are_those_of_the_viewer(
    files: Screen, new_screen: Callable[..., Screen]
) -> None:
    """Without a server a browser lets no page see pixels, so the difference has no lines."""
    look = {"map": ANTWORLD, "day": LAST, "with": SECOND, "mode": "difference"}
    pictures, told = [], []
    for screen in (files, new_screen()):
        screen.open(MIDDLE, **look)
        # The viewer has more tools, and so less room for the map.
        square = screen.square(COAST, MIDDLE, "drawing")
        pictures.append(screen.pixels(square.left, square.top + 100, square.width, 200))
        screen.part("events-switch").click()
        items = screen.page.locator("#panel .events strong")
        expect(items.first).to_be_visible()
        told.append(items.all_inner_texts())
    assert told[0] == told[1] != []
    expect(files.page.locator("#panel .events img")).to_have_count(0)
    expect(files.page.locator("#panel .feeds")).to_be_hidden()
    published, viewed = pictures
    if not files.url.startswith("file:"):
        assert apart(published, viewed) <= 2
        return
    pixels = zip(published.get_flattened_data(), viewed.get_flattened_data(), strict=True)
    other = sum(max(abs(a - b) for a, b in zip(*both, strict=True)) > 24 for both in pixels)
    assert other / (published.width * published.height) < 0.03


def test_what_needs_a_server_is_not_offered(files: Screen) -> None:
    files.open(MIDDLE, map=ANTWORLD, heat=f"{FIRST}..{LAST}")
    for part in ("heat-switch", "pixels-switch", "to-harvests", "to-areas", "panel"):
        expect(files.part(part)).to_be_hidden()
    assert "heat" not in files.await_look()
    files.part("calendar-switch").click()
    expect(files.part("calendar")).to_be_visible()
    expect(files.part("live")).to_have_attribute("href", re.compile(f"^{re.escape(LIVE)}"))


def test_it_answers_as_the_server_does(files: Screen, viewer: str) -> None:
    """The views of each zoom and day, the changes of each zoom, and the story of a tile."""

    def served(question: str, **values: object) -> Any:
        query = urlencode({"layer": LAYER, **values})
        return files.page.request.get(f"{viewer}api/v1/maps/{ANTWORLD}/{question}?{query}").json()

    def published(question: str, *values: object) -> Any:
        """What the page's own module answers; a Map becomes a dict."""
        return files.page.evaluate(
            """async ([question, values]) => {
              const found = await (await given("published/api.js"))[question](...values);
              return found instanceof Map ? Object.fromEntries(found) : found;
            }""",
            [question, [ANTWORLD, LAYER, *values]],
        )

    files.open(MIDDLE, map=ANTWORLD)
    for zoom in range(-6, 1):
        unit = 2**-zoom
        for left, bottom in ((-32, -32), (0, -32), (-32, 0), (0, 0)):
            edges = [(2 * corner + 1) * unit for corner in (left, left + 31, bottom, bottom + 31)]
            part = [edges[0], edges[0] + 8 * unit, edges[2], edges[2] + 4 * unit]
            # A part that is no whole block, and all of it.
            for west, east, south, north in (part, edges):
                asked = {"zoom": zoom, "x_from": west, "x_to": east, "y_from": south, "y_to": north}
                area = {"zoom": zoom, "xFrom": west, "xTo": east, "yFrom": south, "yTo": north}
                assert published("changes", area) == served("changes", **asked)["days"]
            for day in DAYS:
                names = served("view", day=day, **asked)["tiles"]
                files_of = {at: one and f"images/{one[:2]}/{file_of(one)}" for at, one in names.items()}
                assert published("view", day, area) == files_of
    for tile in around(COAST):
        name = f"0_{tile.x}_{tile.y}"
        versions = served(f"tiles/{name}")["versions"]
        told = [(one["day"], one["image"]) for one in published("story", name)]
        assert told == [(one["day"], file_of(one["image"])) for one in versions]


def test_a_view_loads_few_lists(files: Screen, folder: Path) -> None:
    asked: list[str] = []
    files.page.set_viewport_size({"width": 2560, "height": 1440})
    files.page.on("request", lambda request: asked.append(unquote(urlsplit(request.url).path)))
    files.open(MIDDLE, map=ANTWORLD, day=SECOND)
    files.page.wait_for_load_state("networkidle")
    # As large as they are on the disk: of what the browser has kept already the answer has no body.
    lists = [folder / path[path.index("lists/") :] for path in asked if "/lists/" in path]
    assert 0 < sum(file.stat().st_size for file in lists) < MOST_LISTED
