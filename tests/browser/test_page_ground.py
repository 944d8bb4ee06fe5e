"""What the map shows of its ground: pictures without gaps, words where there are none, layers that ended."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.browser.screen import Screen, as_image
from tests.browser.viewed_maps import Viewer, viewing
from tests.browser.windows import DESK, PHONE
from tests.viewer.building import FIRST, GREEN, MAP, SECOND, THIRD, World, as_png, picture, square
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid

EDGE: Final = 256
OLD: Final = Layer("old", Pyramid(4), "png", tile_size=(EDGE, EDGE))
NEW: Final = Layer("new", Pyramid(4), "png", tile_size=(EDGE, EDGE))


def noise(random: Random) -> bytes:
    """Pixels without any green. Chromium would draw a picture of one colour in a way of its own."""
    red, blue = (Image.frombytes("L", (EDGE, EDGE), random.randbytes(EDGE * EDGE)) for _ in range(2))
    return as_png(Image.merge("RGB", (red, Image.new("L", (EDGE, EDGE)), blue)))


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """A map whose renderer was replaced before the third day, with a name of its own for the layer."""
    world, random = World(tmp_path_factory.mktemp("ground")), Random(1)
    world.describe(url="http://127.0.0.1:9/")
    tiles = square(0, 8, left=-4, bottom=-4)
    world.harvest(FIRST, dict.fromkeys(tiles, picture(GREEN, EDGE)), layer="old", described=OLD)
    for day in (SECOND, THIRD):
        found = {tile: noise(random) for tile in tiles if day == THIRD or tile.x < 0}
        world.harvest(day, dict(found), layer="new", described=NEW, renderer="unmined")
    with viewing(world) as viewer:
        yield viewer


@pytest.fixture
def opened(open_page: Callable[..., Page], ground: Viewer) -> Callable[..., Screen]:
    def opened(hash: str, **options: Any) -> Screen:  # noqa: A002 - its name in browsers
        screen = Screen(open_page(**(options or DESK)), ground)
        screen.open_hash(hash)
        screen.await_map()
        return screen

    return opened


def green_in_the_middle(screen: Screen) -> tuple[int, int]:
    """The least and the most green of the map's middle, on a ground that is green."""
    screen.page.evaluate(_ALONE_ON_GREEN)
    left, top, width, height = screen.box("map")
    middle = {"x": left + width // 2 - 80, "y": top + height // 2 - 80, "width": 160, "height": 160}
    seen = as_image(screen.page.screenshot(clip=middle))  # type: ignore[arg-type]
    least, most = seen.getchannel("G").getextrema()
    return int(least), int(most)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mode", "zoom", "options"),
    [
        ("one", -0.37, {**PHONE, "device_scale_factor": 3}),
        ("swipe", 0.43, DESK),
        ("side", -1.61, DESK),
        ("onion", 0.43, {**PHONE, "device_scale_factor": 3}),
    ],
)
def test_between_whole_zooms_nothing_shines_through_between_the_pictures(
    mode: str, zoom: float, options: dict[str, Any], opened: Callable[..., Screen]
) -> None:
    look = f"mode={mode}&day={THIRD}&with={THIRD}"
    screen = opened(f"#map={MAP}&layer=new&{look}&x=-0.3&z=0.2&zoom={zoom}", **options)
    assert green_in_the_middle(screen)[1] <= 4


def test_a_faded_difference_has_no_lines_where_its_pictures_meet(opened: Callable[..., Screen]) -> None:
    screen = opened(f"#map={MAP}&layer=new&mode=difference&day={THIRD}&with={THIRD}&x=-0.3&z=0.2&zoom=-0.37")
    least, most = green_in_the_middle(screen)
    # A third of a dark grey lies on the green: more where two pictures overlap, and nothing in a gap.
    assert 160 < least < most < 215


def test_what_is_chosen_to_compare_two_days_leaves_the_map_where_it_is(opened: Callable[..., Screen]) -> None:
    screen = opened(f"#map={MAP}&layer=new")
    before = screen.part("map").bounding_box()
    for mode in ("Swipe", "Onion skin", "Difference", "One day"):
        screen.choose_mode(mode)
        assert screen.part("map").bounding_box() == before
    assert screen.page.evaluate("document.querySelector('.tools').scrollWidth") <= DESK["viewport"]["width"]


def test_where_nothing_is_the_page_says_so_and_leads_to_what_there_is(opened: Callable[..., Screen]) -> None:
    screen = opened(f"#map={MAP}&layer=new&day={SECOND}&x=6&z=0&zoom=0")
    notice = screen.part("notice")
    expect(notice).to_contain_text("Nothing here on Feb 16, 2021.")
    notice.get_by_role("button", name="First seen May 12, 2021").click()
    screen.expect_day(str(THIRD))
    expect(notice).to_be_hidden()
    screen.open_hash(f"#map={MAP}&layer=new&x=90000&z=600&zoom=0")
    expect(notice).to_contain_text("Nothing was ever recorded here.")
    screen.page.locator("#map").get_by_role("button", name="Show the whole map").click()
    expect(notice).to_be_hidden()
    screen.await_map()
    assert len([square for square in screen.squares_in_view() if square.source]) > 3


def test_a_map_opens_on_a_layer_that_it_still_has_and_a_layer_that_ended_says_so(
    opened: Callable[..., Screen],
) -> None:
    screen = opened(f"#map={MAP}")
    expect(screen.part("layer-choice")).to_have_value("new")
    expect(screen.part("day-change")).to_have_text("64 tiles changed in view")
    # At an address of the loopback each visitor would find another computer.
    expect(screen.part("live")).to_be_hidden()
    screen.part("layer-choice").select_option("old")
    expect(screen.part("notice")).to_contain_text("has not had this layer since Feb 13, 2021")
    expect(screen.part("day-change")).to_have_text("this layer ended Feb 13, 2021")
    screen.choose_day(str(FIRST))
    expect(screen.part("notice")).to_be_hidden()


_ALONE_ON_GREEN: Final = """() => {
  for (const part of document.querySelectorAll("#stage > *, .leaflet-control-container")) {
    if (part.matches(".map")) part.style.background = "#0f0";
    else part.style.visibility = "hidden";
  }
}"""
