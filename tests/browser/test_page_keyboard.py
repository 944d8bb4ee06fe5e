"""Everything can be done with the keyboard, and every control has a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from playwright.sync_api import expect

from tests.browser.screen import Screen, Spot
from tests.browser.viewed_maps import COAST, DAYS

if TYPE_CHECKING:
    from playwright.sync_api import Page


MIDDLE: Final = Spot.middle_of(COAST)


def open_swipe_with_heat(screen: Screen) -> None:
    """As many controls as can be there at once."""
    screen.open(
        MIDDLE, map="antworld", mode="swipe", day=DAYS[2], heat=f"{DAYS[0]}..{DAYS[3]}", **{"with": DAYS[0]}
    )
    expect(screen.part("panel").get_by_role("link")).not_to_have_count(0)
    expect(screen.part("previous")).to_be_enabled()


def test_the_tab_key_reaches_every_control(screen: Screen) -> None:
    open_swipe_with_heat(screen)
    wanted = set(screen.page.evaluate(_MARK_CONTROLS))
    assert len(wanted) > 30
    assert wanted - set(tabbed(screen.page, "dataset.mark")) == set()


def tabbed(page: Page, tells: str) -> list[str]:
    """What the property tells of each element that the Tab key comes to, until it leaves the page's end.

    Fields for a date have several parts, in which the focus stays for some presses.
    """
    found: list[str] = []
    while True:
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            return found
        told = page.evaluate(f"document.activeElement.{tells}") or ""
        if told not in found[-1:]:
            found.append(told)
        assert len(found) < 200


def test_arrow_keys_move_the_map_but_those_to_the_sides_only_with_shift(screen: Screen) -> None:
    screen.open(MIDDLE, map="antworld")
    middle = MIDDLE
    for key, right, up in (
        ("Shift+ArrowRight", 240, 0),
        ("ArrowUp", 0, 80),
        ("Shift+ArrowLeft", -240, 0),
        ("ArrowDown", 0, -80),
    ):
        before = screen.await_place()
        screen.part("map").press(key)
        screen.await_moved(before)
        middle = Spot(middle.x + right / 192, middle.y + up / 192)
        screen.square(COAST, middle)


def test_arrow_keys_and_space_go_through_time_wherever_the_focus_is_but_in_a_field(screen: Screen) -> None:
    screen.open(MIDDLE, map="antworld", day=DAYS[3])
    expect(screen.part("previous")).to_be_enabled()
    look = screen.await_place()
    days = iter((DAYS[1], DAYS[0], DAYS[1], DAYS[3]))
    for id_, key in (("map", "Left"), ("share", "Left"), ("heat-switch", "Right"), ("loop", "Right")):
        screen.part(id_).press(f"Arrow{key}")
        screen.expect_day(next(days))
    for field in ("go-to-place", "speed"):
        screen.part(field).press("ArrowLeft")
        screen.expect_day(DAYS[3])
    assert {**screen.look(), "day": DAYS[3]} == {**look, "day": DAYS[3]}
    for id_ in ("map", "slider"):
        screen.part(id_).press("Space")
        expect(screen.part("play")).to_have_attribute("aria-pressed", "true")
        screen.part(id_).press("Space")
        expect(screen.part("play")).to_have_attribute("aria-pressed", "false")
    screen.part("heat-switch").press("Space")  # A button keeps its own meaning of it.
    expect(screen.part("heat-switch")).to_have_attribute("aria-pressed", "true")
    expect(screen.part("play")).to_have_attribute("aria-pressed", "false")


def test_escape_closes_the_calendar_before_the_panel_and_gives_the_focus_back(screen: Screen) -> None:
    open_swipe_with_heat(screen)
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
