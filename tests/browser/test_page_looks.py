"""Light and dark colours, English and Chinese, and that everything stays legible."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from tests.browser.screen import Screen, Spot, open_tables
from tests.browser.viewed_maps import COAST, DAYS, DEEP, GROWING, NEVER

if TYPE_CHECKING:
    from collections.abc import Callable


MIDDLE: Final = Spot.middle_of(COAST)
HEAT: Final = f"{DAYS[0]}..{DAYS[3]}"

NAMES: Final = {
    "TileHarvest",
    "English",
    "tileharvest",
    "harvest",
    "world",
    "lighting",
    "ants",
    "of",
    "a",
} | {
    "antworld",
    GROWING,
    DEEP,
    NEVER,
    # Figures and what stands beside them, a key, and the history's own words for outcomes.
    *("X", "Z", "r", "mca", "kB", "MB", "B", "ETag", "Shift"),
    *("add", "upd", "rep", "gone", "fail", "nMod", "ign", "skip"),
}
"""Words that are the same in every language."""


def open_swipe_with_heat(screen: Screen) -> None:
    screen.open(MIDDLE, map="antworld", mode="swipe", day=DAYS[3], heat=HEAT, **{"with": DAYS[0]})
    expect(screen.part("panel").get_by_role("link")).not_to_have_count(0)


def open_story_and_calendar(screen: Screen) -> None:
    screen.open(MIDDLE, map="antworld", mode="difference", **{"with": DAYS[0]})
    screen.part("map").press("Enter")
    expect(screen.part("panel").locator(".share")).to_have_text(
        [re.compile("[0-9]"), re.compile("[0-9]"), re.compile("[^0-9]")]
    )
    screen.part("calendar-switch").click()
    expect(screen.part("calendar").locator(".shade-4").first).to_be_visible()


def open_harvests(screen: Screen) -> None:
    screen.open_hash("#harvests")
    open_tables(screen.page)


def open_nothing(screen: Screen) -> None:
    screen.open_hash(f"#map={NEVER}")
    expect(screen.page.locator("#empty pre")).to_be_visible()


@pytest.mark.parametrize("part", [open_swipe_with_heat, open_story_and_calendar, open_harvests, open_nothing])
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
    said = []
    for dark in (False, True, False):
        button.click()
        said.append(button.get_attribute("aria-label"))
        assert (lightness(screen) < 60) is dark
    assert said == ["Colours: light", "Colours: dark", "Colours: like the system"]
    button.click()
    button.click()
    screen.page.reload()
    expect(button).to_have_attribute("aria-label", "Colours: dark")
    assert lightness(screen) < 60


def test_another_language_leaves_the_place_and_the_days_as_they_are(
    new_screen: Callable[..., Screen],
) -> None:
    screen = new_screen()
    screen.open(MIDDLE, map="antworld", day=DAYS[1], mode="swipe", **{"with": DAYS[0]})
    look, shown = screen.await_place(), screen.squares_in_view()
    screen.part("language").select_option("中文")
    expect(screen.part("heat-switch")).to_have_text("热力图")
    expect(screen.part("day")).to_have_text("2021年2月16日")
    expect(screen.page.get_by_role("button", name="复制链接")).to_be_visible()
    screen.await_map()
    assert screen.look() == look
    assert screen.squares_in_view() == shown


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
