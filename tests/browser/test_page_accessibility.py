"""For everyone: axe, the keyboard, light and dark colours, English and Chinese, telephones."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.screen import PHONE, Screen, Spot, eventually, open_harvests
from tests.browser.viewed_maps import COAST, DAYS, DEEP, GROWING, NEVER
from tests.viewer.building import MAP

MIDDLE: Final = Spot.middle_of(COAST)
BOTH: Final = {"map": "antworld", "day": DAYS[3], "with": DAYS[0]}


def open_one_day(screen: Screen) -> None:
    screen.open(MIDDLE, map="antworld")


def open_many_controls(screen: Screen) -> None:
    """As many controls as can be there at once."""
    screen.open(MIDDLE, **{**BOTH, "day": DAYS[2]}, mode="swipe", heat=f"{DAYS[0]}..{DAYS[3]}")
    expect(screen.panel.get_by_role("link")).not_to_have_count(0)
    expect(screen.part("previous")).to_be_enabled()


def open_story(screen: Screen) -> None:
    screen.open(MIDDLE, **BOTH, mode="difference")
    screen.part("map").press("Enter")
    figure = re.compile("[0-9]")
    expect(screen.panel.locator(".share")).to_have_text([figure, figure, re.compile("[^0-9]")])


def open_calendar(screen: Screen) -> None:
    open_one_day(screen)
    screen.part("calendar-switch").click()
    expect(screen.part("calendar").locator(".shade-4").first).to_be_visible()


def open_lens(screen: Screen) -> None:
    screen.open(MIDDLE, **BOTH, mode="lens")
    expect(screen.part("lens-day")).not_to_be_empty()


def open_panel(screen: Screen, switch: str) -> None:
    open_one_day(screen)
    screen.part(switch).click()
    expect(screen.panel).to_be_visible()


def open_address(screen: Screen, address: str, ready: str) -> None:
    screen.open_hash(address)
    expect(screen.page.locator(ready).first).to_be_visible()


PARTS: Final[dict[str, Callable[[Screen], None]]] = {
    "one day": open_one_day,
    "many controls": open_many_controls,
    "story": open_story,
    "calendar": open_calendar,
    "lens": open_lens,
    "harvests": open_harvests,
    "never harvested": partial(open_address, address=f"#map={NEVER}", ready="#empty pre"),
    **{name: partial(open_panel, switch=f"{name}-switch") for name in ("events", "pixels", "save")},
}
OTHERS: Final = {
    "#map=nowhere": "#empty a",
    "#map=antworld&layer=moon&day=1999-01-01&mode=none": "#link-notice a",
    "?embed=1#map=antworld": "#map .picture img",
}
OF_AREAS: Final = {
    "#areas": "#areas-page li a",
    f"#area=my+base+%26+%E5%86%9C%E5%9C%BA&map={MAP}": ".chapters img",
}
_AXE: Final = Axe().axe_script
_LOOK: Final = """
  () => globalThis.axe.run({ resultTypes: ["violations"] }).then(({ violations }) => violations)
"""


@pytest.mark.parametrize(
    "options",
    [{}, {"color_scheme": "dark", "locale": "zh-CN", **PHONE, "device_scale_factor": 3}],
    ids=["light, in English", "dark, in Chinese, on a phone"],
)
def test_axe_finds_nothing_wrong(
    options: dict[str, Any], new_screen: Callable[..., Screen], named: str
) -> None:
    screen, found = new_screen(**options), []
    areas = Screen(screen.page, named)
    opened = [partial(part, screen) for part in PARTS.values()]
    opened += [partial(open_address, screen, *one) for one in OTHERS.items()]
    opened += [partial(open_address, areas, *one) for one in OF_AREAS.items()]
    for open_it in opened:
        open_it()
        screen.page.evaluate(_AXE)
        wrong = screen.page.evaluate(_LOOK)
        found += [
            f"{screen.page.url}: {each['id']}: {node['html']}" for each in wrong for node in each["nodes"]
        ]
    assert not found, "\n".join(found)


NAMES: Final = {
    *("TileHarvest", "English", "tileharvest", "harvest", "world", "lighting", "ants", "of", "a"),
    *("antworld", GROWING, DEEP, NEVER),
    # Figures and what stands beside them, keys, formats, and the history's own words for outcomes.
    *("X", "Z", "r", "mca", "kB", "MB", "B", "ETag", "Shift", "PNG", "WebM", "Atom"),
    *("add", "upd", "rep", "gone", "fail", "nMod", "ign", "skip"),
}
"""Words that are the same in every language."""


@pytest.mark.parametrize("part", PARTS)
def test_a_part_fits_a_telephone_each_control_can_be_touched_and_in_chinese_no_english_is_left(
    part: str, new_screen: Callable[..., Screen]
) -> None:
    screen = new_screen(**PHONE, locale="zh-CN")
    PARTS[part](screen)
    expect(screen.page.locator("html")).to_have_attribute("lang", "zh")
    words = {word for text in screen.page.evaluate(_TEXTS) for word in re.findall(r"[A-Za-z]+", text)}
    assert words - NAMES == set()
    assert screen.page.evaluate("document.documentElement.scrollWidth") == 390
    if part != "harvests":
        assert screen.page.evaluate("document.documentElement.scrollHeight") <= 844
    found = screen.page.evaluate(_OUT_OF_REACH)
    assert found["controls"] > 2
    assert found["hidden"] == []


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
    open_one_day(screen)
    right = MIDDLE.x + 240 / 192
    for key, middle in (
        ("Shift+ArrowRight", Spot(right, MIDDLE.y)),
        ("ArrowUp", Spot(right, MIDDLE.y + 80 / 192)),
    ):
        screen.part("map").press(key)
        eventually(lambda middle=middle: screen.square(COAST, middle) is not None)
        screen.await_map()  # Leaflet passes over a key while the map still moves.


def test_arrow_keys_and_space_go_through_time_wherever_the_focus_is_but_in_a_field(screen: Screen) -> None:
    screen.open(MIDDLE, map="antworld", day=DAYS[3])
    expect(screen.part("previous")).to_be_enabled()
    look = screen.await_look("x")
    days = iter((DAYS[1], DAYS[0], DAYS[1], DAYS[3]))
    for id_, key in (("map", "Left"), ("share", "Left"), ("heat-switch", "Right"), ("loop", "Right")):
        screen.part(id_).press(f"Arrow{key}")
        screen.expect_day(next(days))
    screen.part("speed").press("ArrowLeft")
    screen.expect_day(DAYS[3])
    assert screen.await_look(day=DAYS[3]) == look
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
    expect(screen.panel).to_be_visible()
    screen.page.keyboard.press("Escape")
    expect(screen.panel).to_be_hidden()
    expect(screen.part("map")).to_be_focused()


def is_dark(screen: Screen) -> bool:
    colour = screen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    return max(map(float, re.findall(r"[\d.]+", colour)[:3])) < 60


def test_a_button_chooses_the_colours_and_the_browser_remembers_them(screen: Screen) -> None:
    open_harvests(screen)
    button = screen.part("theme")
    for said, dark in (
        ("light", False),
        ("dark", True),
        ("like the system", False),
        ("light", False),
        ("dark", True),
    ):
        button.click()
        expect(button).to_have_attribute("aria-label", f"Colours: {said}")
        assert is_dark(screen) is dark
    screen.page.reload()
    expect(button).to_have_attribute("aria-label", "Colours: dark")
    assert is_dark(screen)


def test_another_language_leaves_the_place_and_the_days_as_they_are(screen: Screen) -> None:
    screen.open(MIDDLE, **{**BOTH, "day": DAYS[1]}, mode="swipe")
    look = screen.await_look("layer", "x")
    screen.part("language").select_option("中文")
    expect(screen.part("day")).to_have_text("2021年2月16日")
    expect(screen.page.get_by_role("button", name="复制链接")).to_be_visible()
    assert screen.await_look("layer", "x") == look


_MARK_CONTROLS: Final = """() => {
  const seen = (element) => element.checkVisibility({ visibilityProperty: true }) && !element.disabled;
  const all = [...document.querySelectorAll("button, input, select, a[href], [tabindex='0']")].filter(seen)
    // Of a group of radio buttons the Tab key reaches the one that is chosen.
    .filter((element) => element.type !== "radio" || element.checked);
  return all.map((element, index) => (element.dataset.mark = String(index)));
}"""

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
