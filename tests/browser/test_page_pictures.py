"""The pictures on the screen are those that were published, and no more are fetched than must be."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

import pytest
from PIL import Image, ImageStat
from playwright.sync_api import Page, expect

from tests.browser.screen import DESK, PHONE, Screen, Spot, apart, as_shown
from tests.browser.viewed_maps import COAST, DAYS, DEEP, PublishedDays, around, tile
from tests.viewer.asking import serving
from tests.viewer.building import FIRST, GREEN, MAP, SECOND, THIRD, World, as_png, picture, square
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid

MIDDLE: Final = Spot.middle_of(COAST)


def test_the_next_steps_are_loaded_before_anybody_makes_them_and_nothing_else(
    screen: Screen, published_days: PublishedDays
) -> None:
    names = sorted(
        {name for tile in around(COAST) for day in DAYS if (name := published_days.name(tile, day))}
    )
    screen.open(MIDDLE, map="antworld", day=DAYS[1])
    screen.page.wait_for_function(f"(names) => names.every((name) => ({_ASKED})().includes(name))", arg=names)
    for day in (DAYS[3], DAYS[0], DAYS[1]):
        screen.choose_day(day)
    assert sorted(name for name in screen.page.evaluate(_ASKED) if name.endswith(".png")) == names


_ASKED: Final = """() => performance.getEntriesByType("resource").map(({ name }) => name.split("/").at(-1))"""


def test_a_level_that_is_not_kept_looks_like_the_one_that_was_published(
    screen: Screen, published_days: PublishedDays
) -> None:
    coarse = tile(-3, 88, -24)  # All below it was published.
    screen.open(Spot.middle_of(coarse), map=DEEP)
    shown = screen.square(coarse, Spot.middle_of(coarse))
    seen = screen.pixels(shown.left, shown.top, shown.width, shown.height)
    expected = as_shown(published_days.image(coarse, DAYS[3]))
    # Overviewer scales its levels in its own way: the same picture, but not the same pixels.
    assert ImageStat.Stat(seen).mean == pytest.approx(ImageStat.Stat(expected).mean, abs=3)
    assert apart(seen.reduce(16), expected.reduce(16)) < 30
    assert len(seen.getcolors(384 * 384) or []) > 1000


def test_a_screen_with_finer_pixels_shows_the_images_of_one_level_deeper_after_the_coarse_ones(
    new_screen: Callable[..., Screen], published_days: PublishedDays
) -> None:
    screen, middle = new_screen(device_scale_factor=2), Spot(COAST.x, COAST.y, -1)
    screen.open(middle, map="antworld", day=DAYS[3])
    shown = screen.square(COAST, middle)
    assert (shown.width, shown.name) == (192, published_days.name(COAST, DAYS[3]))
    asked = screen.page.evaluate(_ASKED)
    coarse = published_days.name(tile(-1, COAST.x - 1, COAST.y - 1), DAYS[3])
    assert asked.index(coarse) < asked.index(shown.name)


EDGE: Final = 256
OLD, NEW = (Layer(name, Pyramid(4), "png", tile_size=(EDGE, EDGE)) for name in ("old", "new"))


def noise(random: Random) -> bytes:
    """Pixels without any green. Chromium would draw a picture of one colour in a way of its own."""
    red, blue = (Image.frombytes("L", (EDGE, EDGE), random.randbytes(EDGE * EDGE)) for _ in range(2))
    return as_png(Image.merge("RGB", (red, Image.new("L", (EDGE, EDGE)), blue)))


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A map whose renderer was replaced before the second day, with a name of its own for the layer."""
    world, random = World(tmp_path_factory.mktemp("ground")), Random(1)
    world.describe(url="http://127.0.0.1:9/")
    tiles = square(0, 8, left=-4, bottom=-4)
    world.harvest(FIRST, dict.fromkeys(tiles, picture(GREEN, EDGE)), layer="old", described=OLD)
    for day in (SECOND, THIRD):
        found = {tile: noise(random) for tile in tiles if day == THIRD or tile.x < 0}
        world.harvest(day, dict(found), layer="new", described=NEW, renderer="unmined")
    with serving(world) as client:
        yield client.url


@pytest.fixture
def opened(open_page: Callable[..., Page], ground: str) -> Callable[..., Screen]:
    def opened(look: str, **options: Any) -> Screen:
        screen = Screen(open_page(**(options or DESK)), ground)
        screen.open_hash(f"#map={MAP}{look}")
        screen.await_map()
        return screen

    return opened


@pytest.mark.parametrize(
    ("mode", "zoom", "options"),
    [
        ("one", -0.37, {**PHONE, "device_scale_factor": 3}),
        ("swipe", 0.43, DESK),
        ("side", -1.61, DESK),
        ("onion", 0.43, {**PHONE, "device_scale_factor": 3}),
        ("difference", -0.37, DESK),
    ],
)
def test_between_whole_zooms_nothing_shines_through_between_the_pictures_and_no_line_is_where_they_meet(
    mode: str, zoom: float, options: dict[str, Any], opened: Callable[..., Screen]
) -> None:
    screen = opened(f"&layer=new&mode={mode}&day={THIRD}&with={THIRD}&x=-0.3&z=0.2&zoom={zoom}", **options)
    screen.page.evaluate(_ALONE_ON_GREEN)
    left, top, width, height = screen.box("map")
    seen = screen.pixels(left + width // 2 - 80, top + height // 2 - 80, 160, 160)
    least, most = seen.getchannel("G").getextrema()
    if mode != "difference":
        assert most <= 4
    else:
        # A third of a dark grey lies on the green: more where two pictures overlap, and nothing in a gap.
        assert 160 < least < most < 215


def test_what_is_chosen_to_compare_two_days_leaves_the_map_where_it_is(opened: Callable[..., Screen]) -> None:
    screen = opened("&layer=new")
    before = screen.box("map")
    for mode in ("Swipe", "Onion skin", "Difference", "One day"):
        screen.choose_mode(mode)
        assert screen.box("map") == before
    assert screen.page.evaluate("document.querySelector('.tools').scrollWidth") <= DESK["viewport"]["width"]


def test_where_nothing_is_the_page_says_so_and_leads_to_what_there_is(opened: Callable[..., Screen]) -> None:
    screen = opened(f"&layer=new&day={SECOND}&x=6&z=0&zoom=0")
    notice = screen.part("notice")
    expect(notice).to_contain_text("Nothing here on Feb 16, 2021.")
    notice.get_by_role("button", name="First seen May 12, 2021").click()
    screen.expect_day(str(THIRD))
    expect(notice).to_be_hidden()
    screen.open_hash(f"#map={MAP}&layer=new&x=90000&z=600&zoom=0")
    expect(notice).to_contain_text("Nothing was ever recorded here.")
    screen.part("map").get_by_role("button", name="Show the whole map").click()
    expect(notice).to_be_hidden()
    screen.await_map()
    assert any(each.source for each in screen.squares())


def test_a_map_opens_on_a_layer_that_it_still_has_and_a_layer_that_ended_says_so(
    opened: Callable[..., Screen],
) -> None:
    screen = opened("")
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
