"""Two days compared: swipe, side by side, onion skin and difference, all measured in pixels."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Final

import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.browser.cells import CELL, cell_differences
from tests.browser.screen import BEHIND, Screen, Spot, apart, as_shown
from tests.browser.viewed_maps import COAST, DAYS, SHORE

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.browser.viewed_maps import PublishedDays

MIDDLE: Final = Spot.middle_of(COAST)
OLD, NEW = DAYS[1], DAYS[3]
HALVES: Final = ("map", "second-map")


def open_compared(screen: Screen, mode: str) -> None:
    screen.open(MIDDLE, map="antworld", day=NEW, mode=mode, **{"with": OLD})


def strip(image: Image.Image, left: float, right: float) -> Image.Image:
    """A part of a tile from top to bottom, between two distances from its left edge."""
    return image.crop((round(left), 0, round(right), image.height))


class TestSwipe:
    HANDLE: Final = 34
    """Pixels to each side of the border on which the handle and its shadow lie."""

    def expect_border(self, screen: Screen, days: PublishedDays, at: float) -> None:
        """The older day is to the left of this place on the page, the newer one to the right of it."""
        square = screen.square(COAST, MIDDLE)
        border = min(384.0, max(0.0, at - square.left))
        seen = screen.pixels(square)
        old, new = (as_shown(days.image(COAST, day)) for day in (OLD, NEW))
        if border > self.HANDLE:
            parts = [strip(image, 0, border - self.HANDLE) for image in (seen, old)]
            assert apart(*parts) <= 2
        if border < 384 - self.HANDLE:
            parts = [strip(image, border + self.HANDLE, 384) for image in (seen, new)]
            assert apart(*parts) <= 2

    def test_the_older_day_is_left_of_the_border_and_the_newer_one_right_of_it(
        self, screen: Screen, published_days: PublishedDays
    ) -> None:
        open_compared(screen, "swipe")
        self.expect_border(screen, published_days, 640)
        expect(screen.part("left-day")).to_have_text("Feb 16, 2021")
        expect(screen.part("right-day")).to_have_text("May 12, 2021")

    def test_the_border_follows_the_pointer(self, screen: Screen, published_days: PublishedDays) -> None:
        open_compared(screen, "swipe")
        mouse = screen.page.mouse
        for start, end in ((640, 540), (540, 750)):
            mouse.move(start, 400)
            mouse.down()
            mouse.move(end + 30, 300)
            mouse.move(end, 420, steps=3)
            mouse.up()
            mouse.move(100, 300)  # Without the button it leads nothing.
            self.expect_border(screen, published_days, end)

    def test_the_border_is_a_slider_that_tells_where_it_is(self, screen: Screen) -> None:
        open_compared(screen, "swipe")
        border = screen.page.get_by_role("slider", name="Border between the two days")
        values: list[int] = []
        for key in ("ArrowLeft", "ArrowLeft", "ArrowRight", "End", "Home"):
            values.append(value_of(border))
            border.press(key)
        assert values[0] == 50
        assert values[1] < values[0]
        assert values[2] < values[1]
        assert values[3] == values[1]
        assert (values[4], value_of(border)) == (100, 0)
        expect(border).to_have_attribute("aria-valuemin", "0")
        expect(border).to_have_attribute("aria-valuemax", "100")
        expect(border).to_have_attribute("aria-valuetext", re.compile("Feb 16, 2021"))


def value_of(slider: Locator) -> int:
    return int(slider.get_attribute("aria-valuenow") or "-1")


class TestSideBySide:
    def expect_both_at(self, screen: Screen, middle: Spot, days: PublishedDays) -> None:
        """Each map has the coast where it must be, in its own day's picture."""
        for map, day in (("map", OLD), ("second-map", NEW)):  # noqa: A001 - ids of the parts
            square = screen.square(COAST, middle, map=map)
            assert square.name == days.name(COAST, day)

    def test_both_days_are_shown_at_the_same_place(
        self, screen: Screen, published_days: PublishedDays
    ) -> None:
        open_compared(screen, "side")
        self.expect_both_at(screen, MIDDLE, published_days)
        for map, day in (("map", OLD), ("second-map", NEW)):  # noqa: A001
            seen = screen.pixels(screen.square(COAST, MIDDLE, map=map))
            assert apart(seen, as_shown(published_days.image(COAST, day))) <= 2

    @pytest.mark.parametrize("start", [300, 900], ids=["the first", "the second"])
    def test_pulling_one_map_moves_both(
        self, start: int, screen: Screen, published_days: PublishedDays
    ) -> None:
        open_compared(screen, "side")
        screen.drag((start, 300), (start + 64, 340))
        self.expect_both_at(screen, Spot(MIDDLE.x - 64 / 192, MIDDLE.y + 40 / 192), published_days)


class TestOnionSkin:
    def test_what_is_new_fades_as_well_where_nothing_was_before(
        self, screen: Screen, published_days: PublishedDays
    ) -> None:
        screen.open(MIDDLE, map="antworld", day=NEW, mode="onion", **{"with": DAYS[0]})
        square = screen.square(COAST, MIDDLE)
        old, new = (as_shown(published_days.image(COAST, day)) for day in (DAYS[0], NEW))
        for percent in (50, 100):
            screen.part("onion").fill(str(percent))
            assert apart(screen.pixels(square), Image.blend(new, old, percent / 100)) <= 3


class TestDifference:
    def test_cells_that_changed_are_in_colour_and_the_others_are_faded(
        self, screen: Screen, published_days: PublishedDays
    ) -> None:
        open_compared(screen, "difference")
        threshold = threshold_said(screen)
        seen = screen.pixels(screen.square(SHORE, MIDDLE, "drawing"))
        old, new = (published_days.image(SHORE, day) for day in (OLD, NEW))
        amounts = cell_differences(old, new)
        changed = [cell for cell, amount in amounts.items() if amount > threshold + 1]
        calm = [cell for cell, amount in amounts.items() if amount < threshold - 1]
        assert min(len(changed), len(calm)) > 100
        coloured, faded = as_shown(new), as_faded(new)
        # A line of one pixel runs along the edges of what changed.
        assert [cell for cell in changed if apart(inner(seen, cell), inner(coloured, cell)) > 2] == []
        assert [cell for cell in calm if apart(inner(seen, cell), inner(faded, cell)) > 3] == []

    def test_the_page_says_what_the_colours_mean(self, screen: Screen) -> None:
        open_compared(screen, "difference")
        assert 0 < threshold_said(screen) < 32
        expect(screen.part("notice")).to_contain_text("8 × 8 pixels")
        screen.choose_mode("One day")
        expect(screen.part("notice")).to_be_hidden()


def threshold_said(screen: Screen) -> int:
    said = re.search(r"(\d+) of 255", screen.part("notice").inner_text())
    assert said is not None
    return int(said[1])


def inner(image: Image.Image, cell: tuple[int, int]) -> Image.Image:
    """A cell without its outermost pixels."""
    left, top = cell[0] * CELL, cell[1] * CELL
    return image.crop((left + 1, top + 1, left + CELL - 1, top + CELL - 1))


def as_faded(body: bytes) -> Image.Image:
    """A tile in grey and a third as strong, on the map's background."""
    tile = Image.open(io.BytesIO(body)).convert("RGBA")
    grey = tile.convert("L").convert("RGBA")
    grey.putalpha(tile.getchannel("A").point(lambda opacity: opacity * 35 // 100))
    return Image.alpha_composite(Image.new("RGBA", tile.size, (*BEHIND, 255)), grey).convert("RGB")


def test_choosing_a_way_to_compare_takes_the_change_before(screen: Screen) -> None:
    screen.open(MIDDLE, map="antworld", day=NEW)
    expect(screen.page.locator("#ticks .changed")).to_have_count(2)
    screen.choose_mode("Swipe")
    expect(screen.part("other")).to_have_value(OLD)


def test_two_days_with_no_harvest_between_them_are_said_to_show_the_same(screen: Screen) -> None:
    screen.open(MIDDLE, map="antworld", day="2021-03-01", mode="swipe", **{"with": OLD})
    expect(screen.part("notice")).to_have_text(
        "There is no harvest between the two days: both show the harvest of Feb 16, 2021."
    )
    screen.choose_day(NEW)
    expect(screen.part("notice")).to_be_hidden()
