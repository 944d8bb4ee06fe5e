"""What axe finds wrong with the page for people who do not see it, or use it without a mouse: nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.screen import Screen, Spot
from tests.browser.viewed_maps import COAST, DAYS, NEVER
from tests.viewer.building import MAP

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.browser.viewed_maps import Viewer

MIDDLE: Final = Spot.middle_of(COAST)
PHONE: Final[dict[str, Any]] = {
    "viewport": {"width": 390, "height": 844},
    "has_touch": True,
    "is_mobile": True,
    "device_scale_factor": 3,
}
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
    [{}, {"color_scheme": "dark", "locale": "zh-CN", **PHONE}],
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
