"""The pages of named areas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from tests.browser.viewed_maps import Viewer
from tests.browser.windows import DESK
from tests.end_to_end.project import Project
from tests.viewer.asking import serving
from tests.viewer.building import BLUE, DAY_LAYER, FIRST, GREEN, MAP, SECOND, World, picture, square
from tileharvest.maps.named_areas import NamedArea, add_area
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.projection import Projection
from tileharvest.tiles.pyramid import Pyramid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Page

LAYER: Final = Layer(
    DAY_LAYER,
    Pyramid(5),
    "png",
    tile_size=(64, 64),
    projection=Projection((0.125, 0, 0, 0), (0, 0, -0.125, 0)),
)
"""A tile is 16 x 16 blocks."""


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """A map with an area whose upper left quarter turns blue, and one without areas."""
    world = World(tmp_path_factory.mktemp("named"))
    tiles = square(0, 8, bottom=-8)
    world.harvest(FIRST, dict.fromkeys(tiles, picture(GREEN, 64)), described=LAYER)
    world.harvest(SECOND, {tiles[7]: picture(BLUE, 64)}, described=LAYER)
    world.harvest(FIRST, dict.fromkeys(tiles, picture(GREEN, 64)), name="plain", described=LAYER)
    base = NamedArea(name="my base & 农场", layer=DAY_LAYER, corners=((0, 0), (31, 31)))
    add_area(world.data / "areas.toml", MAP, base)
    with serving(world) as client:
        yield Viewer(f"http://127.0.0.1:{client.port}", Project(world.folder))


def test_an_area_is_found_and_its_story_leads_to_the_map(
    open_page: Callable[..., Page], named: Viewer
) -> None:
    page = open_page(**DESK)
    page.goto(f"{named.url}/#map={MAP}&day={SECOND}")
    page.get_by_role("link", name="Areas").click()
    page.get_by_role("link", name="my base & 农场").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("my base & 农场")
    chapters = page.locator(".chapters li")
    assert [chapters.nth(n).get_attribute("data-day") for n in range(2)] == [str(SECOND), str(FIRST)]
    expect(chapters).to_have_count(2)
    expect(chapters.first).to_contain_text("Tiles that changed: 1")
    expect(chapters.last).to_contain_text("first version")
    pictures = page.locator(".chapters img")
    for number in range(2):
        pictures.nth(number).scroll_into_view_if_needed()
        pictures.nth(number).evaluate("image => image.decode()")
    expect(pictures.first).to_have_attribute("alt", "The area on February 13, 2021 and on February 16, 2021")
    feed = page.get_by_role("link", name="Feed of what is new here").get_attribute("href")
    assert page.request.get(f"{named.url}/{feed}").headers["content-type"] == "application/atom+xml"
    chapters.first.get_by_role("link").click()
    expect(page.locator("#left-day")).to_contain_text("Feb 13, 2021")
    expect(page.locator("#right-day")).to_contain_text("Feb 16, 2021")
    assert "x=15.5&z=15.5" in page.url


def test_an_area_that_is_not_there_is_said(open_page: Callable[..., Page], named: Viewer) -> None:
    page = open_page(**DESK)
    for link in (f"#area=barn&map={MAP}", "#area=barn&map=plain", "#area=barn&map=nowhere"):
        page.goto(f"{named.url}/{link}")
        expect(page.get_by_role("alert")).to_contain_text("There is no area")
        expect(page.get_by_role("link", name="my base")).to_be_visible()


def test_on_a_phone_in_chinese_and_in_the_dark_it_fits(open_page: Callable[..., Page], named: Viewer) -> None:
    page = open_page(
        viewport={"width": 390, "height": 844}, has_touch=True, locale="zh-CN", color_scheme="dark"
    )
    page.goto(f"{named.url}/#areas")
    page.get_by_role("link", name="my base").click()
    expect(page.get_by_role("link", name="在地图上查看")).to_be_visible()
    expect(page.locator(".chapters img").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
