"""The page on a telephone: 390 x 844 pixels, and fingers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from tests.browser.screen import Screen, Spot, in_words, move_fingers
from tests.browser.test_page_loading import held
from tests.browser.viewed_maps import COAST, DAYS, NEVER
from tests.browser.windows import window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser

    from tests.browser.viewed_maps import Viewer
    from tests.browser.windows import Window

WIDTH, HEIGHT = 390, 844
MIDDLE: Final = Spot.middle_of(COAST)
SWIPE: Final = {"map": "antworld", "day": DAYS[3], "mode": "swipe", "with": DAYS[1]}


@pytest.fixture(scope="module")
def phone_window(browser: Browser) -> Iterator[Window]:
    size = {"width": WIDTH, "height": HEIGHT}
    with window(browser, viewport=size, screen=size, has_touch=True, is_mobile=True) as opened:
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


def open_one_day(phone: Screen) -> None:
    phone.open(MIDDLE, map="antworld")


def open_onion_skin(phone: Screen) -> None:
    phone.open(MIDDLE, **{**SWIPE, "mode": "onion"})


def open_swipe(phone: Screen) -> None:
    phone.open(MIDDLE, **SWIPE)


def open_difference(phone: Screen) -> None:
    phone.open(MIDDLE, **{**SWIPE, "mode": "difference"})


def open_heat(phone: Screen) -> None:
    phone.open(MIDDLE, map="antworld", heat=f"{DAYS[0]}..{DAYS[3]}")
    expect(phone.part("panel").get_by_role("link")).not_to_have_count(0)


def open_story(phone: Screen) -> None:
    phone.open(MIDDLE, map="antworld")
    phone.part("map").press("Enter")
    expect(phone.part("panel").get_by_role("listitem")).not_to_have_count(0)


def open_calendar(phone: Screen) -> None:
    phone.open(MIDDLE, map="antworld")
    phone.part("calendar-switch").tap()
    expect(phone.part("calendar")).to_be_visible()


def open_harvests(phone: Screen) -> None:
    phone.open_hash("#harvests")
    expect(phone.page.get_by_role("table").first).to_be_visible()


def open_nothing(phone: Screen) -> None:
    phone.open_hash(f"#map={NEVER}")
    expect(phone.page.locator("#empty pre")).to_be_visible()


@pytest.fixture(
    scope="module",
    params=[
        open_one_day,
        open_swipe,
        open_onion_skin,
        open_difference,
        open_heat,
        open_story,
        open_calendar,
        open_harvests,
        open_nothing,
    ],
)
def part(request: pytest.FixtureRequest, phone_window: Window, viewer: Viewer) -> Screen:
    """A part of the page, opened once: the tests only look at it."""
    screen = Screen(phone_window.page, viewer)
    request.param(screen)
    return screen


def test_nothing_is_wider_than_the_screen(part: Screen) -> None:
    assert part.page.evaluate("document.documentElement.scrollWidth") == WIDTH
    assert part.page.evaluate(_TOO_WIDE) == []


def test_the_map_page_needs_no_scrolling(part: Screen) -> None:
    height = part.page.evaluate("document.documentElement.scrollHeight")
    assert height <= HEIGHT or not part.part("map-page").is_visible()


def test_every_control_can_be_touched(part: Screen) -> None:
    found = part.page.evaluate(_OUT_OF_REACH)
    assert found["controls"] > 3
    assert found["hidden"] == []


def test_every_control_has_a_name_there_too(phone: Screen) -> None:
    open_swipe(phone)
    assert phone.unnamed_controls() == []


def test_all_that_a_wide_screen_has_is_there(phone: Screen, screen: Screen) -> None:
    """What is left out for want of space could not be used at all."""
    controls = []
    for each in (phone, screen):
        open_swipe(each)
        controls.append(each.page.evaluate(_IDS_OF_CONTROLS))
    assert controls[0] == controls[1]


def test_the_map_takes_at_least_half_of_the_screen(phone: Screen) -> None:
    open_one_day(phone)
    box = phone.part("map").bounding_box()
    assert box is not None
    assert box["width"] == WIDTH
    assert box["height"] > HEIGHT / 2


@pytest.mark.parametrize("open_part", [open_heat, open_story])
def test_the_panel_comes_up_from_below_and_leaves_a_part_of_the_map(
    open_part: Callable[[Screen], None], phone: Screen
) -> None:
    open_part(phone)
    panel, map_box = phone.page.evaluate(_BOXES, ["panel", "map"])
    assert (panel["x"], panel["width"]) == (0, WIDTH)
    assert panel["bottom"] == pytest.approx(map_box["bottom"], abs=1)
    assert panel["top"] - map_box["top"] > 150


def test_nothing_is_wider_than_another_telephone(phone: Screen) -> None:
    try:
        for mode in ("one", "lens"):
            phone.open(MIDDLE, map="antworld", day=DAYS[3], mode=mode, **{"with": DAYS[1]})
            for width in (320, 360, 412):
                phone.page.set_viewport_size({"width": width, "height": HEIGHT})
                # A page that is wider would be shown smaller.
                widths = phone.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
                assert widths == [width, width]
                # The lens is put where it belongs when the page has its new size.
                phone.page.wait_for_function(f"() => ({_TOO_WIDE})().length === 0")
    finally:
        phone.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})


@pytest.mark.parametrize("day", [DAYS[0], DAYS[3]])
def test_what_is_said_of_the_changes_does_not_move_the_map(day: str, phone: Screen) -> None:
    """A map of another size has other changes in view, which would be counted, and so on."""
    with held(phone.page, "**/changes?*"):
        phone.open(MIDDLE, map="antworld", day=day)
        expect(phone.part("day-change")).to_have_text("counting changes …")
        before = phone.part("stage").bounding_box()
    expect(phone.part("day-change")).to_have_text(re.compile("changed in view|first harvest"))
    assert phone.part("stage").bounding_box() == before


@pytest.mark.parametrize("width", [320, WIDTH])
def test_the_day_and_what_changed_on_it_are_said_in_full(width: int, phone: Screen) -> None:
    phone.page.set_viewport_size({"width": width, "height": HEIGHT})
    try:
        phone.open(MIDDLE, map="antworld", day=DAYS[1])
        expect(phone.part("day-change")).to_have_text(re.compile(r"^\d+ tiles changed in view$"))
        expect(phone.part("day")).to_have_text(in_words(DAYS[1]))
        # The longest of all such words, whatever this map has.
        longest = {"day": "September 30, 2026", "day-change": "1,000,000 tiles changed in view"}
        for part, words in [*longest.items(), ("day-change", "this zoom begins Sep 30, 2026")]:
            phone.part(part).evaluate("(part, words) => { part.textContent = words; }", words)
            box = phone.part(part).evaluate(_CONTENT_AND_BOX)
            assert box["content"][0] <= box["box"][0]
            assert box["content"][1] <= box["box"][1]
    finally:
        phone.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_swipe_hides_neither_of_its_days_nor_a_button(language: str, phone: Screen) -> None:
    """On the smallest of telephones, where the border runs through the box with the place."""
    phone.page.set_viewport_size({"width": 320, "height": 568})
    try:
        phone.open(MIDDLE, **SWIPE)
        phone.part("language").select_option(language)
        expect(phone.part("left-day")).to_have_text(re.compile("年|, "))
        left, right = phone.part("left-day").bounding_box(), phone.part("right-day").bounding_box()
        assert left is not None
        assert right is not None
        assert left["x"] + left["width"] < right["x"]
        assert phone.part("place").evaluate(_IS_ABOVE)
    finally:
        phone.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        phone.part("language").select_option("en")


def test_words_about_a_wrong_link_leave_the_map_and_the_tools_in_view(phone: Screen) -> None:
    """On the smallest of telephones, for the longest of such words."""
    phone.page.set_viewport_size({"width": 320, "height": 568})
    try:
        wrong = {
            "layer": "moon",
            "day": "2021-01-31",
            "mode": "upside-down",
            "with": "never",
            "new": "century",
        }
        phone.open(map="antworld", **wrong)
        expect(phone.part("link-notice")).to_contain_text("century")
        stage, tools = phone.part("stage").bounding_box(), phone.page.get_by_role("toolbar").bounding_box()
        assert stage is not None
        assert tools is not None
        assert stage["height"] >= 48
        assert tools["height"] >= 40
    finally:
        phone.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})


def test_a_finger_pulls_the_slider(phone: Screen) -> None:
    open_one_day(phone)
    box = phone.part("slider").bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    right, left = box["x"] + box["width"] - 8, box["x"] + 8
    move_fingers(phone.page, [(right, y)], [((right + left) / 2, y)], [(left, y)])
    phone.expect_day(DAYS[0])


def test_a_finger_on_the_slider_chooses_the_day_there(phone: Screen) -> None:
    open_one_day(phone)
    box = phone.part("slider").bounding_box()
    assert box is not None
    phone.page.touchscreen.tap(box["x"] + 8, box["y"] + box["height"] / 2)
    phone.expect_day(DAYS[0])


def test_a_finger_pulls_the_border_of_the_swipe(phone: Screen) -> None:
    open_swipe(phone)
    box = phone.part("map").bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    move_fingers(phone.page, [(WIDTH / 2, y)], [(150, y)], [(78, y)])
    expect(phone.part("swipe")).to_have_attribute("aria-valuenow", "20")
    assert phone.look()["x"] == MIDDLE.look["x"]


def test_a_finger_pulls_the_map(phone: Screen) -> None:
    open_one_day(phone)
    box = phone.part("map").bounding_box()
    assert box is not None
    x, y = box["x"] + 100, box["y"] + 100
    move_fingers(phone.page, [(x, y)], [(x + 20, y)], [(x + 60, y)])
    phone.await_moved(MIDDLE.look)
    left, up = float(phone.look()["x"]), float(phone.look()["z"])
    # Pulled to the right one comes to the left, which is where x and z are less.
    assert left < float(MIDDLE.look["x"])
    assert up < float(MIDDLE.look["z"])


_TOO_WIDE: Final = """() => {
  const scrolled = (element) => {
    for (let above = element.parentElement; above; above = above.parentElement) {
      if (above.matches(".leaflet-map-pane")) return true;
      if (["auto", "scroll"].includes(getComputedStyle(above).overflowX)) return true;
    }
    return false;
  };
  return [...document.body.querySelectorAll("*")]
    .filter((element) => element.checkVisibility() && !element.closest("svg *, .unseen"))
    .filter((element) => !scrolled(element))
    .filter((element) => {
      const { left, right, width } = element.getBoundingClientRect();
      return width > 0 && (left < -0.5 || right > innerWidth + 0.5);
    })
    .map((element) => element.outerHTML.slice(0, 80));
}"""

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

_IS_ABOVE: Final = """(element) => {
  const { left, top, width, height } = element.getBoundingClientRect();
  const middle = document.getElementById("swipe").getBoundingClientRect();
  const x = middle.left + middle.width / 2;
  return left < x && x < left + width && element.contains(document.elementFromPoint(x, top + height / 2));
}"""

_CONTENT_AND_BOX: Final = """(element) => ({
  content: [element.scrollWidth, element.scrollHeight],
  box: [element.clientWidth, element.clientHeight],
})"""

_IDS_OF_CONTROLS: Final = """() => [...document.querySelectorAll("button[id], input[id], select[id], a[id]")]
  .filter((control) => control.checkVisibility())
  .map((control) => control.id)
  .sort()"""

_BOXES: Final = "(ids) => ids.map((id) => document.getElementById(id).getBoundingClientRect().toJSON())"
"""At one moment: while something is still being counted the map's height may change."""
