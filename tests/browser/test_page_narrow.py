"""The page on a telephone: 390 x 844 pixels, and fingers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from tests.browser.screen import Screen, Spot, move_fingers, open_harvests
from tests.browser.viewed_maps import COAST, DAYS

if TYPE_CHECKING:
    from collections.abc import Callable

WIDTH, HEIGHT = 390, 844
MIDDLE: Final = Spot.middle_of(COAST)


def open_one_day(phone: Screen) -> None:
    phone.open(MIDDLE, map="antworld")


def open_heat(phone: Screen) -> None:
    phone.open(MIDDLE, map="antworld", heat=f"{DAYS[0]}..{DAYS[3]}")
    expect(phone.part("panel").get_by_role("link")).not_to_have_count(0)


def open_calendar(phone: Screen) -> None:
    open_one_day(phone)
    phone.part("calendar-switch").tap()
    expect(phone.part("calendar")).to_be_visible()


@pytest.mark.parametrize("part", [open_one_day, open_heat, open_calendar, open_harvests])
def test_a_part_of_the_page_fits_the_screen_and_every_control_can_be_touched(
    part: Callable[[Screen], None], phone: Screen
) -> None:
    part(phone)
    assert phone.page.evaluate("document.documentElement.scrollWidth") == WIDTH
    if part is not open_harvests:
        assert phone.page.evaluate("document.documentElement.scrollHeight") <= HEIGHT
    if part is open_one_day:
        assert phone.box("map")[3] > HEIGHT / 2
    found = phone.page.evaluate(_OUT_OF_REACH)
    assert found["controls"] > 3
    assert found["hidden"] == []


def test_words_about_a_wrong_link_leave_the_map_and_the_tools_in_view(phone: Screen) -> None:
    """On the smallest of telephones, for the longest of such words."""
    phone.page.set_viewport_size({"width": 320, "height": 568})
    wrong = {"layer": "moon", "day": "2021-01-31", "mode": "upside-down", "with": "never", "new": "century"}
    phone.open(map="antworld", **wrong)
    expect(phone.part("link-notice")).to_contain_text("century")
    assert phone.box("stage")[3] >= 48
    toolbar = phone.page.get_by_role("toolbar").bounding_box() or {"height": 0}
    assert toolbar["height"] >= 40


def test_a_finger_pulls_the_slider_and_the_map(phone: Screen) -> None:
    open_one_day(phone)
    x, y, _, _ = phone.box("map")
    move_fingers(phone.page, [(x + 100, y + 100)], [(x + 120, y + 100)], [(x + 160, y + 100)])
    phone.await_moved(MIDDLE.look)
    # Pulled to the right one comes to the left, which is where x and z are less.
    assert float(phone.look()["x"]) < float(MIDDLE.look["x"])
    assert float(phone.look()["z"]) < float(MIDDLE.look["z"])
    left, top, width, height = phone.box("slider")
    points = [(left + width * share, top + height / 2) for share in (0.98, 0.5, 0.02)]
    move_fingers(phone.page, *([point] for point in points))
    phone.expect_day(DAYS[0])


_OUT_OF_REACH: Final = """() => {
  const panel = document.getElementById("panel");
  const above = document.getElementById("calendar").hidden ? panel : document.getElementById("calendar");
  const root = above.checkVisibility() ? above : document;
  const controls = [...root.querySelectorAll("button, input, select, a[href], [role=slider]")]
    .filter((control) => control.checkVisibility() && !control.disabled && !control.matches(".skip"));
  const hidden = controls.filter((control) => {
    const target = control.labels?.[0] ?? control;
    target.scrollIntoView({ block: "nearest", inline: "nearest" });
    const { left, top, width, height } = target.getBoundingClientRect();
    const hit = document.elementFromPoint(left + width / 2, top + height / 2);
    // A link is as high as its line.
    const least = target.matches("a") ? 14 : 20;
    return !target.contains(hit) || width < least || height < least;
  });
  return { controls: controls.length, hidden: hidden.map((control) => control.outerHTML.slice(0, 80)) };
}"""
