"""What is new, and when exactly some pixels changed."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.screen import Spot
from tests.browser.viewed_maps import COAST, DAYS
from tests.end_to_end.real_maps import ANTWORLD

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.browser.screen import Screen

HERE = Spot.middle_of(COAST)


@pytest.fixture
def open_coast(screen: Screen) -> Screen:
    screen.open(HERE, map=ANTWORLD, day=DAYS[3])
    return screen


def panel(screen: Screen) -> Locator:
    return screen.page.get_by_role("complementary")


def test_what_is_new_has_an_address_of_its_own(screen: Screen) -> None:
    screen.open(map=ANTWORLD, new="day", day=DAYS[1])
    expect(panel(screen).get_by_role("heading", name="What is new")).to_be_visible()
    expect(panel(screen).get_by_label("Period")).to_have_value("day")
    panel(screen).get_by_label("Period").select_option("month")
    screen.await_look(new="month")
    screen.page.keyboard.press("Escape")
    expect(panel(screen)).to_be_hidden()
    screen.page.wait_for_function("() => !location.hash.includes('new=')")
    screen.page.get_by_role("button", name="What is new").click()
    screen.await_look(new="month")
    # A link to the map alone shows the map alone.
    screen.page.evaluate("(hash) => { location.hash = hash; }", f"#map={ANTWORLD}&day={DAYS[3]}")
    expect(panel(screen)).to_be_hidden()


def test_the_period_and_the_view_choose_what_is_told(open_coast: Screen) -> None:
    screen = open_coast
    screen.page.get_by_role("button", name="What is new").click()
    events = panel(screen).locator(".events li")
    panel(screen).get_by_label("only in view").check()
    expect(events).to_have_count(1)
    panel(screen).get_by_label("Period").select_option("day")
    screen.choose_day(DAYS[2])
    # What grew on that day lies elsewhere.
    expect(panel(screen)).to_contain_text("Nothing changed in this time.")
    panel(screen).get_by_label("only in view").uncheck()
    expect(events).to_have_count(1)
    expect(events).to_contain_text("55 new tiles")


def test_two_corners_can_be_written_instead(open_coast: Screen) -> None:
    screen = open_coast
    x, z = (round(float(value)) for value in (screen.look()["x"], screen.look()["z"]))
    screen.page.get_by_role("button", name="When did this change?").click()
    panel(screen).get_by_label("One corner").fill("here")
    panel(screen).get_by_role("button", name="Find out").click()
    expect(panel(screen).locator(".story")).to_have_count(0)
    panel(screen).get_by_label("One corner").fill(f"{x - 4} {z - 4}")
    panel(screen).get_by_label("The other corner").fill(f"{x + 3}, {z + 3}")
    with screen.page.expect_request("**/pixels?*") as asked:
        panel(screen).get_by_role("button", name="Find out").click()
    west, south, east, north = map(float, parse_qs(urlsplit(asked.value.url).query)["ground"][0].split(","))
    assert west < HERE.x < east
    assert south < HERE.y < north
    # Eight blocks each way, seen aslant: 16 of Overviewer's steps of 12 pixels in a tile of 384.
    assert east - west == pytest.approx(16 * 12 / 192, abs=1e-5)
    expect(panel(screen).locator(".story li")).not_to_have_count(0)
