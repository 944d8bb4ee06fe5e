"""The time slider: its ticks, the steps from change to change, playing, and the calendar."""

import re
from typing import Final

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.screen import Screen, Spot, in_words
from tests.browser.viewed_maps import COAST, DAYS, PublishedDays, around

MIDDLE: Final = Spot.middle_of(COAST)
FIRST, SECOND, THIRD, LAST = DAYS
BETWEEN: Final = "2021-03-01"


def open_coast(screen: Screen, day: str) -> None:
    """Where something changed on all days but the third, and wait until that is counted."""
    screen.open(MIDDLE, map="antworld", day=day)
    expect(tick(screen, THIRD)).to_have_class("calm")
    expect(tick(screen, SECOND)).to_have_class("changed")


def tick(screen: Screen, day: str) -> Locator:
    return screen.page.locator(f"#ticks [data-day='{day}']")


def test_a_tick_tells_its_day_with_a_picture_and_a_click_chooses_it(
    screen: Screen, published_days: PublishedDays
) -> None:
    open_coast(screen, LAST)
    box = tick(screen, SECOND).bounding_box() or {}
    # A little beside it, as a pointer is.
    screen.page.mouse.move(box["x"] + 6, box["y"] + box["height"] - 3)
    hint = screen.part("tick-hint")
    changes = published_days.changes(around(COAST))[SECOND]
    expect(hint).to_have_text(f"{in_words(SECOND, 'medium')}{changes} tiles changed in view")
    expect(hint.locator("img")).to_have_attribute("src", re.compile(f"{published_days.name(COAST, SECOND)}$"))
    screen.page.mouse.click(box["x"] + 6, box["y"] + box["height"] - 3)
    screen.expect_day(SECOND)
    screen.page.mouse.move(0, 0)
    expect(hint).to_be_hidden()


def test_a_part_of_the_time_is_looked_at_more_nearly_and_steps_move_it(screen: Screen) -> None:
    open_coast(screen, SECOND)
    # Between the first and the last day months are written, where there is room.
    expect(screen.part("axis-labels")).to_contain_text("Apr")
    expect(screen.part("time-out")).to_be_disabled()
    screen.part("time-in").click()
    # Nearer there are days, of which the first names its month.
    expect(screen.part("axis-labels").locator("span").first).to_have_text(re.compile(r"^(Feb|Mar)( \d+)?$"))
    expect(tick(screen, LAST)).to_have_count(0)
    screen.part("next").click()
    screen.expect_day(LAST)
    expect(tick(screen, SECOND)).to_have_count(0)
    left, top, width, _ = screen.box("ticks")
    screen.page.mouse.move(left + width - 2, top + 5)
    screen.page.mouse.wheel(0, 480)
    expect(screen.part("time-out")).to_be_disabled()
    # To look at another time is not to go there.
    screen.expect_day(LAST)


def test_playing_goes_round_through_the_changes_or_without_the_loop_stops_at_the_last(screen: Screen) -> None:
    """The second time four times as fast."""
    timed = screen
    timed.page.clock.install()
    open_coast(timed, LAST)
    # Far enough ahead that it is not past when it is told.
    timed.page.clock.pause_at(timed.page.evaluate("Date.now()") + 3_600_000)
    timed.await_map()
    timed.part("play").click()
    for day in (FIRST, SECOND, LAST, FIRST):
        timed.expect_day(day)
        timed.page.clock.run_for(1000)
    timed.part("play").click()
    timed.choose_day(FIRST)
    timed.part("loop").uncheck()
    timed.part("speed").select_option("4 day/s")
    timed.part("play").click()
    for day in (SECOND, LAST):
        timed.expect_day(day)
        expect(timed.part("play")).to_have_attribute("aria-pressed", "true")
        timed.page.clock.run_for(250)
    expect(timed.part("play")).to_have_attribute("aria-pressed", "false")
    timed.expect_day(LAST)


@pytest.fixture
def calendar(screen: Screen) -> Locator:
    """Opened on the last day."""
    open_coast(screen, LAST)
    screen.part("calendar-switch").click()
    box = screen.part("calendar")
    expect(box).to_be_visible()
    return box


def day_in(calendar: Locator, day: str) -> Locator:
    return calendar.locator(f"[data-day='{day}']")


def test_the_calendar_tells_what_changed_on_each_day_and_arrow_keys_move_through_it(
    calendar: Locator, screen: Screen, published_days: PublishedDays
) -> None:
    expect(day_in(calendar, LAST)).to_be_focused()
    expect(day_in(calendar, LAST)).to_have_attribute("aria-current", "date")
    changes = published_days.changes(around(COAST))
    expect(day_in(calendar, SECOND)).to_have_accessible_name(
        f"Tuesday, February 16, 2021: {changes[SECOND]} tiles changed in view"
    )
    expect(day_in(calendar, THIRD)).to_have_accessible_name(re.compile("no change in view"))
    expect(day_in(calendar, BETWEEN)).to_have_accessible_name(re.compile("no harvest that day"))

    for key in ("ArrowUp", "ArrowUp", "ArrowUp", "ArrowUp", "ArrowLeft", "ArrowLeft"):
        screen.page.keyboard.press(key)
    expect(day_in(calendar, THIRD)).to_be_focused()
    screen.page.keyboard.press("Enter")
    screen.expect_day(THIRD)


def test_the_year_is_seen_at_a_glance_with_a_square_for_each_day(calendar: Locator, screen: Screen) -> None:
    expect(calendar.locator(".strip span")).to_have_count(365)
    expect(calendar.locator(".strip-months span").first).to_have_text("Jan")
    colour_of = "(square) => getComputedStyle(square).backgroundColor"
    changed, calm = (calendar.locator(f"[data-square='{day}']") for day in (SECOND, THIRD))
    assert (
        changed.evaluate(colour_of)
        == day_in(calendar, SECOND).evaluate(colour_of)
        != calm.evaluate(colour_of)
    )
    changed.click()
    screen.expect_day(SECOND)
