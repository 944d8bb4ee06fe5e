"""Two days compared: swipe, side by side, onion skin, difference and time lens, all measured in pixels."""

import re
from collections.abc import Callable
from typing import Final

import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.browser.screen import PHONE, Screen, Spot, as_shown, eventually, in_words, move_fingers
from tests.browser.viewed_maps import COAST, DAYS, SHORE, PublishedDays

MIDDLE: Final = Spot.middle_of(COAST)
OLD, NEW = DAYS[1], DAYS[3]
SIZE: Final = 384


def open_compared(screen: Screen, mode: str) -> None:
    screen.open(MIDDLE, map="antworld", day=NEW, mode=mode, **{"with": OLD})
    expect(screen.page.locator("#ticks .changed")).to_have_count(2)


def expect_border(screen: Screen, days: PublishedDays, at: float) -> None:
    """The older day is to the left of this place on the page, the newer one to the right of it."""

    def is_there() -> bool:
        square, handle = screen.square(COAST, MIDDLE), 34
        border = round(at - square.left)
        return all(
            left >= right or screen.shows(square, as_shown(days.image(COAST, day)), (left, 0, right, SIZE))
            for day, left, right in ((OLD, 0, border - handle), (NEW, border + handle, SIZE))
        )

    eventually(is_there)


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
    for map_, day in (("map", OLD), ("second-map", NEW)):
        square = screen.square(COAST, MIDDLE, map=map_)
        assert screen.shows(square, as_shown(published_days.image(COAST, day)))
    middle = MIDDLE
    for start in (300, 900):
        screen.pull((start, 300), (start + 32, 320), (start + 64, 340))
        middle = Spot(middle.x - 64 / 192, middle.y + 40 / 192)
        for map_, day in (("map", OLD), ("second-map", NEW)):
            name = published_days.name(COAST, day)
            eventually(
                lambda at=(middle, map_), name=name: screen.square(COAST, at[0], map=at[1]).name == name
            )


def test_in_an_onion_skin_what_is_new_fades_as_well_where_nothing_was_before(
    screen: Screen, published_days: PublishedDays
) -> None:
    screen.open(MIDDLE, map="antworld", day=NEW, mode="onion", **{"with": DAYS[0]})
    square = screen.square(COAST, MIDDLE)
    old, new = (as_shown(published_days.image(COAST, day)) for day in (DAYS[0], NEW))
    for percent in (50, 100):
        screen.part("onion").fill(str(percent))
        blended = Image.blend(new, old, percent / 100)
        eventually(lambda blended=blended: screen.shows(square, blended))


def test_a_difference_from_the_change_before_is_drawn_and_the_page_says_what_is_seen(screen: Screen) -> None:
    screen.open(MIDDLE, map="antworld", day=NEW)
    expect(screen.page.locator("#ticks .changed")).to_have_count(2)
    screen.choose_mode("Difference")
    expect(screen.part("other")).to_have_value(OLD)
    screen.square(SHORE, MIDDLE, "drawing")
    expect(screen.part("notice")).to_contain_text("8 × 8 pixels")
    screen.choose_mode("Swipe")
    expect(screen.part("notice")).to_be_hidden()
    screen.open(MIDDLE, map="antworld", day="2021-03-01", mode="swipe", **{"with": OLD})
    expect(screen.part("notice")).to_have_text(
        "There is no harvest between the two days: both show the harvest of Feb 16, 2021."
    )


def lens_on(screen: Screen) -> tuple[float, float, float]:
    """Where the middle of the lens is on the page, and how far it reaches."""
    left, top, width, _ = screen.box("lens")
    return left + width / 2, top + width / 2, width / 2


def expect_days(screen: Screen, days: PublishedDays, inside: str, outside: str) -> None:
    """The coast is as it was on one day within the lens, and as it was on another one beside it."""
    expect(screen.part("lens-day")).to_have_text(in_words(inside, "medium"))
    through, around = (as_shown(days.image(COAST, day)) for day in (inside, outside))

    def are_there() -> bool:
        (x, y, radius), square = lens_on(screen), screen.square(COAST, MIDDLE)
        left, top, half = round(x - square.left), round(y - square.top), round(radius * 0.6)
        # Below the middle, within the lens, stands its day.
        within = (left - half, top - half, left + half, top + half // 2)
        beside = (0, 186, 8, 198) if left >= 192 else (376, 186, 384, 198)
        return screen.shows(square, through, within) and screen.shows(square, around, beside)

    eventually(are_there)


def is_at(screen: Screen, x: float, y: float) -> bool:
    return lens_on(screen)[:2] == pytest.approx((x, y), abs=1)


def test_within_the_lens_is_another_day_and_it_follows_the_mouse_whose_wheel_turns_its_time(
    screen: Screen, published_days: PublishedDays
) -> None:
    screen.open(MIDDLE, map="antworld", day=NEW)
    expect(screen.page.locator("#ticks .changed")).to_have_count(2)
    screen.press("Time lens")
    expect_days(screen, published_days, inside=OLD, outside=NEW)
    screen.page.mouse.move(700, 420)
    eventually(lambda: is_at(screen, 700, 420))
    look = screen.await_look("x")
    for notch, day in ((120, DAYS[0]), (120, DAYS[0]), (-120, DAYS[1]), (-120, DAYS[1])):
        screen.page.mouse.wheel(0, notch)
        assert screen.await_look(**{"with": day}) == {**look, "with": day}
        expect_days(screen, published_days, inside=day, outside=NEW)


def test_a_finger_pulls_the_lens_and_two_turn_its_time(
    new_screen: Callable[..., Screen], published_days: PublishedDays
) -> None:
    phone = new_screen(**PHONE)
    open_compared(phone, "lens")
    expect(phone.part("lens-day")).not_to_be_empty()
    x, y, _ = lens_on(phone)
    phone.pull((x + 30, y), (x + 10, y + 20), (x - 40, y + 50))
    x, y = x - 40, y + 50
    eventually(lambda: is_at(phone, x, y))
    expect_days(phone, published_days, inside=OLD, outside=NEW)
    for way, day in ((-25, DAYS[0]), (25, OLD)):
        pairs = [[(x - 30 + step * way, y), (x + 30 + step * way, y)] for step in range(3)]
        move_fingers(phone.page, *pairs)
        phone.await_look(**{"with": day}, **MIDDLE.look)
    eventually(lambda: is_at(phone, x, y))
