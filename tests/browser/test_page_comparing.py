"""Two days compared: swipe, side by side, onion skin and difference, all measured in pixels."""

import re
from typing import Final

from PIL import Image
from playwright.sync_api import expect

from tests.browser.screen import Screen, Spot, Square, apart, as_shown, eventually
from tests.browser.viewed_maps import COAST, DAYS, SHORE, PublishedDays

MIDDLE: Final = Spot.middle_of(COAST)
OLD, NEW = DAYS[1], DAYS[3]


def open_compared(screen: Screen, mode: str) -> None:
    screen.open(MIDDLE, map="antworld", day=NEW, mode=mode, **{"with": OLD})


def expect_border(screen: Screen, days: PublishedDays, at: float) -> None:
    """The older day is to the left of this place on the page, the newer one to the right of it."""

    def check() -> None:
        square = screen.square(COAST, MIDDLE)
        border, handle, seen = round(at - square.left), 34, screen.pixels(square)
        for day, left, right in ((OLD, 0, border - handle), (NEW, border + handle, 384)):
            if left < right:
                part = (left, 0, right, 384)
                assert apart(seen.crop(part), as_shown(days.image(COAST, day)).crop(part)) <= 2

    eventually(check)


def test_a_swipe_has_the_older_day_left_of_a_border_that_follows_the_pointer(
    screen: Screen, published_days: PublishedDays
) -> None:
    open_compared(screen, "swipe")
    expect_border(screen, published_days, 640)
    expect(screen.part("left-day")).to_have_text("Feb 16, 2021")
    expect(screen.part("right-day")).to_have_text("May 12, 2021")
    for start, end in ((640, 540), (540, 750)):
        screen.pull((start, 400), (end - 1, 410), (end, 420))
        screen.page.mouse.move(100, 300)  # Without the button it leads nothing.
        expect_border(screen, published_days, end)
    border = screen.page.get_by_role("slider", name="Border between the two days")
    for key, value in (("Home", "0"), ("ArrowRight", "2"), ("ArrowLeft", "0"), ("End", "100")):
        border.press(key)
        expect(border).to_have_attribute("aria-valuenow", value)
    expect(border).to_have_attribute("aria-valuetext", re.compile("Feb 16, 2021"))


def test_side_by_side_both_days_are_shown_at_the_same_place_also_when_one_is_pulled(
    screen: Screen, published_days: PublishedDays
) -> None:
    open_compared(screen, "side")
    for map, day in (("map", OLD), ("second-map", NEW)):  # noqa: A001 - ids of the parts
        seen = screen.pixels(screen.square(COAST, MIDDLE, map=map))
        assert apart(seen, as_shown(published_days.image(COAST, day))) <= 2
    middle = MIDDLE
    for start in (300, 900):
        screen.pull((start, 300), (start + 32, 320), (start + 64, 340))
        screen.await_map()
        middle = Spot(middle.x - 64 / 192, middle.y + 40 / 192)
        for map, day in (("map", OLD), ("second-map", NEW)):  # noqa: A001
            assert screen.square(COAST, middle, map=map).name == published_days.name(COAST, day)


def test_in_an_onion_skin_what_is_new_fades_as_well_where_nothing_was_before(
    screen: Screen, published_days: PublishedDays
) -> None:
    screen.open(MIDDLE, map="antworld", day=NEW, mode="onion", **{"with": DAYS[0]})
    square = screen.square(COAST, MIDDLE)
    old, new = (as_shown(published_days.image(COAST, day)) for day in (DAYS[0], NEW))
    for percent in (50, 100):
        screen.part("onion").fill(str(percent))
        blended = Image.blend(new, old, percent / 100)
        eventually(lambda blended=blended: expect_pixels(screen, square, blended))  # type: ignore[misc]


def expect_pixels(screen: Screen, square: Square, image: Image.Image) -> None:
    assert apart(screen.pixels(square), image) <= 3


def test_a_difference_is_drawn_and_the_page_says_what_its_colours_mean(screen: Screen) -> None:
    open_compared(screen, "difference")
    screen.square(SHORE, MIDDLE, "drawing")
    expect(screen.part("notice")).to_contain_text("8 × 8 pixels")
    screen.choose_mode("One day")
    expect(screen.part("notice")).to_be_hidden()


def test_the_change_before_is_compared_and_two_days_of_one_harvest_are_said_to_be_the_same(
    screen: Screen,
) -> None:
    screen.open(MIDDLE, map="antworld", day=NEW)
    expect(screen.page.locator("#ticks .changed")).to_have_count(2)
    screen.choose_mode("Swipe")
    expect(screen.part("other")).to_have_value(OLD)
    screen.open(MIDDLE, map="antworld", day="2021-03-01", mode="swipe", **{"with": OLD})
    expect(screen.part("notice")).to_have_text(
        "There is no harvest between the two days: both show the harvest of Feb 16, 2021."
    )
    screen.choose_day(NEW)
    expect(screen.part("notice")).to_be_hidden()
