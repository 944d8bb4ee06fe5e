"""The time lens: a round part of the map that shows another day, under the mouse and under a finger."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from tests.browser.screen import Screen, Spot, apart, as_shown, in_words, move_fingers
from tests.browser.viewed_maps import COAST, DAYS
from tests.browser.windows import window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PIL import Image
    from playwright.sync_api import Browser

    from tests.browser.viewed_maps import PublishedDays, Viewer
    from tests.browser.windows import Window

MIDDLE: Final = Spot.middle_of(COAST)
OLD, NEW = DAYS[1], DAYS[3]
RIM: Final = 6
"""Pixels on each side of the lens' edge that its rim hides."""
SMALL: Final = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def phone_window(browser: Browser) -> Iterator[Window]:
    with window(browser, viewport=SMALL, screen=SMALL, has_touch=True, is_mobile=True) as opened:
        yield opened


@pytest.fixture
def phone(
    request: pytest.FixtureRequest,
    phone_window: Window,
    viewer: Viewer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Screen]:
    """The viewer on a telephone that other tests have used, not opened yet."""
    with phone_window.lent_to(request.node, tmp_path_factory) as page:
        yield Screen(page, viewer)


def open_lens(screen: Screen) -> None:
    screen.open(MIDDLE, map="antworld", day=NEW, mode="lens", **{"with": OLD})
    expect(screen.page.locator("#ticks .changed")).to_have_count(2)


def lens_on(screen: Screen) -> tuple[float, float, float]:
    """Where the middle of the lens is on the page, and how far it reaches."""
    box = screen.part("lens").bounding_box()
    assert box is not None
    radius = box["width"] / 2
    return box["x"] + radius, box["y"] + radius, radius


def expect_days(screen: Screen, days: PublishedDays, inside: str, outside: str, spot: Spot = MIDDLE) -> None:
    """The coast is as it was on one day within the lens, and as it was on another one around it."""
    screen.await_map()
    expect(screen.part("lens-day")).to_have_text(in_words(inside, "medium"))
    x, y, radius = lens_on(screen)
    square = screen.square(COAST, spot)
    seen = screen.pixels(square)
    through, around = (as_shown(days.image(COAST, day)) for day in (inside, outside))
    within = radius * 0.62
    left, top = x - square.left, y - square.top
    # Below, within the lens, stands its day.
    parts = (left - within, top - within, left + within, top + within * 0.7)
    assert apart(*(image.crop(cut(parts, image)) for image in (seen, through))) <= 2
    reach = radius + RIM
    for corner in ((0, 0), (383, 0), (0, 383), (383, 383)):
        spots = corner_of(corner)
        is_covered = has_something_over(screen, square.left + spots[0] + 6, square.top + spots[1] + 6)
        if not is_covered and math.dist(corner, (left, top)) > reach + 20:
            assert apart(seen.crop(spots), around.crop(spots)) <= 2


def has_something_over(screen: Screen, x: float, y: float) -> bool:
    """On a telephone the buttons and the words about the place, with their shadows, lie over some corners."""
    for over in (".leaflet-control-zoom", "#place"):
        box = screen.page.locator(over).bounding_box()
        assert box is not None
        across = abs(box["x"] + box["width"] / 2 - x) < box["width"] / 2 + 20
        if across and abs(box["y"] + box["height"] / 2 - y) < box["height"] / 2 + 20:
            return True
    return False


def cut(box: tuple[float, float, float, float], image: Image.Image) -> tuple[int, int, int, int]:
    left, top, right, bottom = box
    return (
        max(0, math.ceil(left)),
        max(0, math.ceil(top)),
        min(image.width, int(right)),
        min(image.height, int(bottom)),
    )


def corner_of(corner: tuple[int, int]) -> tuple[int, int, int, int]:
    left, top = (max(0, edge - 12) for edge in corner)
    return left, top, left + 12, top + 12


def test_within_the_lens_is_another_day_and_around_it_the_chosen_one(
    screen: Screen, published_days: PublishedDays
) -> None:
    screen.open(MIDDLE, map="antworld", day=NEW)
    expect(screen.page.locator("#ticks .changed")).to_have_count(2)
    screen.page.get_by_role("button", name="Time lens").click()
    expect_days(screen, published_days, inside=OLD, outside=NEW)
    expect(screen.part("day")).to_have_text(in_words(NEW))


def test_the_lens_follows_the_mouse(screen: Screen, published_days: PublishedDays) -> None:
    open_lens(screen)
    for point in ((600, 330), (700, 420)):
        screen.page.mouse.move(*point)
        assert lens_on(screen)[:2] == pytest.approx(point, abs=1)
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


def test_a_finger_pulls_the_lens_and_not_the_map(phone: Screen, published_days: PublishedDays) -> None:
    open_lens(phone)
    x, y, _ = lens_on(phone)
    move_fingers(phone.page, [(x + 30, y)], [(x + 10, y + 20)], [(x - 40, y + 50)])
    assert lens_on(phone)[:2] == pytest.approx((x - 40, y + 50), abs=1)
    expect_days(phone, published_days, inside=OLD, outside=NEW)
    assert phone.look()["x"] == MIDDLE.look["x"]


def test_two_fingers_on_the_lens_turn_its_time(phone: Screen, published_days: PublishedDays) -> None:
    open_lens(phone)
    x, y, _ = lens_on(phone)

    def fingers(at: float) -> list[tuple[float, float]]:
        return [(at - 30, y), (at + 30, y)]

    move_fingers(phone.page, fingers(x), fingers(x - 25), fingers(x - 50))
    phone.await_look(**{"with": DAYS[0]})
    move_fingers(phone.page, fingers(x), fingers(x + 25), fingers(x + 50))
    phone.await_look(**{"with": OLD})
    expect_days(phone, published_days, inside=OLD, outside=NEW)
    assert lens_on(phone)[:2] == pytest.approx((x, y), abs=1)
    assert phone.look()["zoom"] == "0"


_CLIPPED: Final = """() => ["pictures", "other"]
  .map((pane) => document.querySelector(`#map .leaflet-${pane}-pane`).style.clipPath).join("")"""
