"""The time lens: a round part of the map that shows another day, under the mouse and under a finger."""

from typing import Final

import pytest
from playwright.sync_api import expect

from tests.browser.screen import Screen, Spot, apart, as_shown, eventually, in_words, move_fingers
from tests.browser.viewed_maps import COAST, DAYS, PublishedDays

MIDDLE: Final = Spot.middle_of(COAST)
OLD, NEW = DAYS[1], DAYS[3]


def open_lens(screen: Screen) -> None:
    screen.open(MIDDLE, map="antworld", day=NEW, mode="lens", **{"with": OLD})
    expect(screen.page.locator("#ticks .changed")).to_have_count(2)


def lens_on(screen: Screen) -> tuple[float, float, float]:
    """Where the middle of the lens is on the page, and how far it reaches."""
    left, top, width, _ = screen.box("lens")
    return left + width / 2, top + width / 2, width / 2


def expect_lens(screen: Screen, x: float, y: float) -> None:
    """Wait until its middle is there."""

    def check() -> None:
        assert lens_on(screen)[:2] == pytest.approx((x, y), abs=1)

    eventually(check)


def expect_days(screen: Screen, days: PublishedDays, inside: str, outside: str) -> None:
    """The coast is as it was on one day within the lens, and as it was on another one beside it."""
    screen.await_map()
    expect(screen.part("lens-day")).to_have_text(in_words(inside, "medium"))
    eventually(lambda: check_days(screen, days, inside, outside))


def check_days(screen: Screen, days: PublishedDays, inside: str, outside: str) -> None:
    x, y, radius = lens_on(screen)
    square = screen.square(COAST, MIDDLE)
    seen = screen.pixels(square)
    through, around = (as_shown(days.image(COAST, day)) for day in (inside, outside))
    left, top, half = round(x - square.left), round(y - square.top), round(radius * 0.6)
    # Below the middle, within the lens, stands its day.
    within = (left - half, top - half, left + half, top + half // 2)
    beside = (0, 186, 8, 198) if left >= 192 else (376, 186, 384, 198)
    for part, picture in ((within, through), (beside, around)):
        assert apart(seen.crop(part), picture.crop(part)) <= 2


def test_within_the_lens_is_another_day_and_it_follows_the_mouse(
    screen: Screen, published_days: PublishedDays
) -> None:
    screen.open(MIDDLE, map="antworld", day=NEW)
    expect(screen.page.locator("#ticks .changed")).to_have_count(2)
    screen.page.get_by_role("button", name="Time lens").click()
    expect_days(screen, published_days, inside=OLD, outside=NEW)
    expect(screen.part("day")).to_have_text(in_words(NEW))
    screen.page.mouse.move(700, 420)
    expect_lens(screen, 700, 420)
    expect_days(screen, published_days, inside=OLD, outside=NEW)


def test_the_wheel_turns_its_time_and_leaves_the_map_alone(
    screen: Screen, published_days: PublishedDays
) -> None:
    open_lens(screen)
    screen.page.mouse.move(640, 360)
    for notch, day in ((120, DAYS[0]), (120, DAYS[0]), (-120, DAYS[1]), (-120, DAYS[1])):
        screen.page.mouse.wheel(0, notch)
        screen.await_look(**{"with": day})
        expect_days(screen, published_days, inside=day, outside=NEW)
    assert screen.look() == {**screen.look(), "zoom": "0", "day": NEW, "mode": "lens"}


def test_a_finger_pulls_the_lens_and_two_turn_its_time(phone: Screen, published_days: PublishedDays) -> None:
    open_lens(phone)
    x, y, _ = lens_on(phone)
    move_fingers(phone.page, [(x + 30, y)], [(x + 10, y + 20)], [(x - 40, y + 50)])
    x, y = x - 40, y + 50
    expect_lens(phone, x, y)
    expect_days(phone, published_days, inside=OLD, outside=NEW)
    for way, day in ((-25, DAYS[0]), (25, OLD)):
        pairs = [[(x - 30 + step * way, y), (x + 30 + step * way, y)] for step in range(3)]
        move_fingers(phone.page, *pairs)
        phone.await_look(**{"with": day})
    expect_lens(phone, x, y)
    assert (phone.look()["x"], phone.look()["zoom"]) == (MIDDLE.look["x"], "0")
