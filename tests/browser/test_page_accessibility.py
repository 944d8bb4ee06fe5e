"""For everyone: axe, the keyboard, light and dark colours, English and Chinese, telephones and fingers."""

import re
from collections.abc import Callable
from typing import Any, Final

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.screen import Screen, Spot, move_fingers, open_harvests
from tests.browser.viewed_maps import COAST, DAYS, DEEP, GROWING, NEVER, Viewer
from tests.browser.windows import PHONE
from tests.viewer.building import MAP

MIDDLE: Final = Spot.middle_of(COAST)
_AXE: Final = Axe().axe_script
_LOOK: Final = """
  () => globalThis.axe?.run({ resultTypes: ["violations"] }).then(({ violations }) => violations)
"""


def wrong(screen: Screen) -> list[str]:
    """Returns what axe finds, a line for each fault. A document loads axe once."""
    found = screen.page.evaluate(_LOOK)
    if found is None:
        screen.page.evaluate(_AXE)
        found = screen.page.evaluate(_LOOK)
    return [f"{screen.page.url}: {each['id']}: {node['html']}" for each in found for node in each["nodes"]]


@pytest.mark.parametrize(
    "options",
    [{}, {"color_scheme": "dark", "locale": "zh-CN", **PHONE, "device_scale_factor": 3}],
    ids=["light, in English", "dark, in Chinese, on a phone"],
)
def test_axe_finds_nothing_wrong(
    options: dict[str, Any], new_screen: Callable[..., Screen], named: Viewer
) -> None:
    """On the map alone, with each panel and the calendar, and on the other pages."""
    screen = new_screen(**options)
    screen.open(MIDDLE, map="antworld")
    found = wrong(screen)
    for switch in ("events-switch", "pixels-switch", "save-switch"):
        screen.part(switch).click()
        expect(screen.part("panel")).to_be_visible()
        found += wrong(screen)
    screen.part("panel-close").click()
    screen.part("map").press("Enter")
    expect(screen.part("panel").locator(".share")).to_have_count(3)
    found += wrong(screen)
    screen.part("panel-close").click()
    screen.part("calendar-switch").click()
    expect(screen.part("calendar")).to_be_visible()
    found += wrong(screen)
    screen.open(MIDDLE, map="antworld", day=DAYS[3], mode="lens", **{"with": DAYS[1]})
    expect(screen.part("lens")).to_be_visible()
    found += wrong(screen)
    screen.open(MIDDLE, map="antworld", mode="swipe", heat=f"{DAYS[0]}..{DAYS[3]}", **{"with": DAYS[0]})
    expect(screen.part("panel").get_by_role("link")).not_to_have_count(0)
    found += wrong(screen)
    for address, ready in (
        ("#harvests", ".status"),
        (f"#map={NEVER}", "#empty pre"),
        ("#map=nowhere", "#empty a"),
        ("#map=antworld&layer=moon&day=1999-01-01&mode=none", "#link-notice a"),
        ("?embed=1#map=antworld", "#map .picture img"),
        (f"{named.url}/#areas", "#areas-page li a"),
        (f"{named.url}/#area=my+base+%26+%E5%86%9C%E5%9C%BA&map={MAP}", ".chapters img"),
    ):
        screen.page.goto("about:blank")
        screen.page.goto(address if address.startswith("http") else f"{screen.viewer.url}/{address}")
        expect(screen.page.locator(ready).first).to_be_visible()
        found += wrong(screen)
    assert not found, "\n".join(found)


def open_many_controls(screen: Screen) -> None:
    """As many controls as can be there at once."""
    screen.open(
        MIDDLE, map="antworld", mode="swipe", day=DAYS[2], heat=f"{DAYS[0]}..{DAYS[3]}", **{"with": DAYS[0]}
    )
    expect(screen.part("panel").get_by_role("link")).not_to_have_count(0)
    expect(screen.part("previous")).to_be_enabled()


def test_the_tab_key_reaches_every_control(screen: Screen) -> None:
    open_many_controls(screen)
    wanted, found = set(screen.page.evaluate(_MARK_CONTROLS)), set()
    assert len(wanted) > 30
    # Fields for a date have several parts, in which the focus stays for some presses.
    for _ in range(200):
        screen.page.keyboard.press("Tab")
        found.add(screen.page.evaluate("document.activeElement.dataset.mark"))
        if screen.page.evaluate("document.activeElement === document.body"):
            break
    assert wanted - found == set()


def test_arrow_keys_move_the_map_but_those_to_the_sides_only_with_shift(screen: Screen) -> None:
    screen.open(MIDDLE, map="antworld")
    for key, middle in (
        ("Shift+ArrowRight", Spot(MIDDLE.x + 240 / 192, MIDDLE.y)),
        ("ArrowUp", Spot(MIDDLE.x + 240 / 192, MIDDLE.y + 80 / 192)),
    ):
        before = screen.await_place()
        screen.part("map").press(key)
        screen.await_moved(before)
        screen.square(COAST, middle)


def test_arrow_keys_and_space_go_through_time_wherever_the_focus_is_but_in_a_field(screen: Screen) -> None:
    screen.open(MIDDLE, map="antworld", day=DAYS[3])
    expect(screen.part("previous")).to_be_enabled()
    look = screen.await_place()
    days = iter((DAYS[1], DAYS[0], DAYS[1], DAYS[3]))
    for id_, key in (("map", "Left"), ("share", "Left"), ("heat-switch", "Right"), ("loop", "Right")):
        screen.part(id_).press(f"Arrow{key}")
        screen.expect_day(next(days))
    screen.part("speed").press("ArrowLeft")
    screen.expect_day(DAYS[3])
    assert {**screen.look(), "day": DAYS[3]} == {**look, "day": DAYS[3]}
    for pressed in ("true", "false"):
        screen.part("map").press("Space")
        expect(screen.part("play")).to_have_attribute("aria-pressed", pressed)
    screen.part("heat-switch").press("Space")  # A button keeps its own meaning of it.
    expect(screen.part("heat-switch")).to_have_attribute("aria-pressed", "true")
    expect(screen.part("play")).to_have_attribute("aria-pressed", "false")


def test_escape_closes_the_calendar_before_the_panel_and_gives_the_focus_back(screen: Screen) -> None:
    open_many_controls(screen)
    screen.part("calendar-switch").press("Enter")
    expect(screen.part("calendar")).to_be_visible()
    screen.page.keyboard.press("Escape")
    expect(screen.part("calendar")).to_be_hidden()
    expect(screen.part("calendar-switch")).to_be_focused()
    expect(screen.part("panel")).to_be_visible()
    screen.page.keyboard.press("Escape")
    expect(screen.part("panel")).to_be_hidden()
    expect(screen.part("map")).to_be_focused()


_MARK_CONTROLS: Final = """() => {
  const seen = (element) => element.checkVisibility({ visibilityProperty: true }) && !element.disabled;
  const all = [...document.querySelectorAll("button, input, select, a[href], [tabindex='0']")].filter(seen)
    // Of a group of radio buttons the Tab key reaches the one that is chosen.
    .filter((element) => element.type !== "radio" || element.checked);
  return all.map((element, index) => (element.dataset.mark = String(index)));
}"""


NAMES: Final = {
    *("TileHarvest", "English", "tileharvest", "harvest", "world", "lighting", "ants", "of", "a"),
    *("antworld", GROWING, DEEP, NEVER),
    # Figures and what stands beside them, a key, and the history's own words for outcomes.
    *("X", "Z", "r", "mca", "kB", "MB", "B", "ETag", "Shift"),
    *("add", "upd", "rep", "gone", "fail", "nMod", "ign", "skip"),
}
"""Words that are the same in every language."""


def open_story_and_calendar(screen: Screen) -> None:
    screen.open(MIDDLE, map="antworld", mode="difference", **{"with": DAYS[0]})
    screen.part("map").press("Enter")
    expect(screen.part("panel").locator(".share")).to_have_text(
        [re.compile("[0-9]"), re.compile("[0-9]"), re.compile("[^0-9]")]
    )
    screen.part("calendar-switch").click()
    expect(screen.part("calendar").locator(".shade-4").first).to_be_visible()


def open_nothing(screen: Screen) -> None:
    screen.open_hash(f"#map={NEVER}")
    expect(screen.page.locator("#empty pre")).to_be_visible()


@pytest.mark.parametrize("part", [open_many_controls, open_story_and_calendar, open_harvests, open_nothing])
def test_in_chinese_no_english_is_left(
    part: Callable[[Screen], None], new_screen: Callable[..., Screen]
) -> None:
    screen = new_screen(locale="zh-CN")
    part(screen)
    expect(screen.page.locator("html")).to_have_attribute("lang", "zh")
    words = {word for text in screen.page.evaluate(_TEXTS) for word in re.findall(r"[A-Za-z]+", text)}
    assert words - NAMES == set()


def lightness(screen: Screen) -> float:
    """Of the page's background: 0 is black, 255 is white."""
    colour = screen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3


def test_the_button_chooses_the_colours_and_the_browser_remembers_them(
    new_screen: Callable[..., Screen],
) -> None:
    screen = new_screen(color_scheme="light")
    open_harvests(screen)
    button = screen.part("theme")
    for dark, said in ((False, "light"), (True, "dark"), (False, "like the system")):
        button.click()
        expect(button).to_have_attribute("aria-label", f"Colours: {said}")
        assert (lightness(screen) < 60) is dark
    button.click()
    button.click()
    screen.page.reload()
    expect(button).to_have_attribute("aria-label", "Colours: dark")
    assert lightness(screen) < 60


def test_another_language_leaves_the_place_and_the_days_as_they_are(screen: Screen) -> None:
    screen.open(MIDDLE, map="antworld", day=DAYS[1], mode="swipe", **{"with": DAYS[0]})
    look = screen.await_place()
    screen.part("language").select_option("中文")
    expect(screen.part("day")).to_have_text("2021年2月16日")
    expect(screen.page.get_by_role("button", name="复制链接")).to_be_visible()
    screen.await_map()
    assert screen.look() == look


_TEXTS: Final = """() => {
  const found = [document.title];
  for (const element of document.querySelectorAll("body *")) {
    if (!element.checkVisibility() || element.matches("script, noscript, code")) continue;
    for (const name of ["aria-label", "title", "placeholder", "alt", "aria-valuetext"]) {
      found.push(element.getAttribute(name) ?? "");
    }
    for (const node of element.childNodes) if (node.nodeType === Node.TEXT_NODE) found.push(node.data);
  }
  return found;
}"""


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
    assert phone.page.evaluate("document.documentElement.scrollWidth") == 390
    if part is not open_harvests:
        assert phone.page.evaluate("document.documentElement.scrollHeight") <= 844
    if part is open_one_day:
        assert phone.box("map")[3] > 844 / 2
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
