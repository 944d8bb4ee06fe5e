"""Where one is and how one gets there: coordinates, places that are typed, and links."""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from tests.browser.overviewer import block_at, drawn_at
from tests.browser.screen import DEPTH, Screen, Spot, await_refusal, in_words
from tests.browser.viewed_maps import COAST, DAYS, tile

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Route

    from tests.browser.viewed_maps import PublishedDays

MIDDLE: Final = Spot.middle_of(COAST)
SPAWN: Final = (216, 80, 183)
"""X, height and Z in antworld's own config."""


def spot_of(x: float, y: float, z: float, zoom: int = 0) -> Spot:
    """Where Overviewer draws a place of the world."""
    left, top = drawn_at(x, y, z, DEPTH)
    return Spot((left - 0.5) * 2 ** (DEPTH + 1), (0.5 - top) * 2 ** (DEPTH + 1), zoom)


def moved(spot: Spot, right: float, down: float) -> Spot:
    """So many pixels of the screen away."""
    unit = 192 * 2.0**spot.zoom
    return Spot(spot.x + right / unit, spot.y - down / unit, spot.zoom)


@pytest.mark.parametrize(
    ("middle", "right", "down"),
    [(Spot(83, -21), 143, -77), (Spot(-105, -23), -301, 156), (Spot(1, 1, 2), -199, 107)],
    ids=["coast", "desert", "enlarged"],
)
def test_the_block_under_the_pointer_is_the_one_that_overviewer_shows(
    middle: Spot, right: float, down: float, screen: Screen, published_days: PublishedDays
) -> None:
    # Points well within a block: the map's middle can lie on half a pixel.
    near = {
        block_at(*moved(middle, right + across, down + along).fractions, DEPTH)
        for across in (-1, 1)
        for along in (-1, 1)
    }
    assert len(near) == 1
    screen.open(middle, map="antworld")
    x, y = screen.point(middle.x, middle.y, middle)
    screen.page.mouse.move(x + right, y + down)
    ((block_x, block_z),) = near
    expect(screen.part("coordinates")).to_have_text(f"X {block_x}, Z {block_z}")
    there = tile(0, int(middle.x), int(middle.y))
    assert screen.square(there, middle).name == published_days.name(there, DAYS[3])


def test_a_place_that_is_typed_is_brought_to_the_middle(
    screen: Screen, published_days: PublishedDays
) -> None:
    screen.open(Spot(1, 1), map="antworld")
    look = screen.await_place()
    screen.part("go-to-place").fill("528, 64, 816")
    screen.part("go-to-place").press("Enter")
    screen.await_moved(look)
    middle = spot_of(528, 64, 816)
    assert screen.square(COAST, middle).name == published_days.name(COAST, DAYS[3])


def test_what_is_not_on_the_map_is_refused_and_the_map_stays_where_it_is(screen: Screen) -> None:
    """The published tiles are a cut of the map, in which its spawn does not lie."""
    screen.open(Spot.middle_of(COAST), map="antworld")
    field, look = screen.part("go-to-place"), screen.await_place()
    for typed, place in (("X 528000, Z 816", "X 528000, Z 816"), ("spawn", "X 232, Z 167")):
        field.fill(typed)
        field.press("Enter")
        expect(field).to_have_js_property("validationMessage", f"{place} lies outside the map.")
    field.fill("north")
    screen.page.get_by_role("button", name="Go", exact=True).click()
    await_refusal(screen, "Write X and Z")
    assert screen.look() == look


def test_a_named_area_can_be_gone_to_by_its_name(new_screen: Callable[..., Screen]) -> None:
    """The server's answers are made up: the page alone is tested."""
    screen = new_screen()
    area = {"name": "My base", "layer": "world-lighting", "corners": [[500, 800], [560, 840]]}
    areas = {"areas": [{**area, "place": {"x": 528, "z": 816, "zoom": -1}}]}

    def with_an_area(route: Route) -> None:
        answer = route.fetch().json()
        answer["maps"] = [{**each, "areas": 1} for each in answer["maps"]]
        route.fulfill(json=answer)

    screen.page.route("**/api/v1/maps", with_an_area)
    screen.page.route("**/maps/antworld/areas", lambda route: route.fulfill(json=areas))
    screen.open(Spot(1, 1), map="antworld", day=DAYS[1])
    screen.part("go-to-place").fill("my base")
    screen.part("go-to-place").press("Enter")
    screen.await_look(x="528", z="816", zoom="-1", day=DAYS[1])


def test_a_link_of_the_maps_own_page_that_is_pasted_leads_to_the_same_place(screen: Screen) -> None:
    screen.open(Spot(1, 1), map="antworld")
    link = "https://antworld.example.net/map/#/216/80/183/-3/world/world-lighting"
    screen.part("go-to-place").fill(link)
    screen.part("go-to-place").press("Enter")
    screen.await_look(zoom="-3")
    spot = spot_of(*SPAWN, -3)
    # Also of tiles: the pin alone could be wrong as the place is.
    screen.square(tile(-3, int(spot.x // 16 * 16 + 8), int(spot.y // 16 * 16 + 8)), spot)
    box = screen.page.get_by_role("img", name="Spawn").bounding_box()
    assert box is not None
    x, y = screen.point(spot.x, spot.y, spot)
    # The pin's tip is at its lower end.
    assert abs(box["x"] + box["width"] / 2 - x) < 3
    assert abs(box["y"] + box["height"] - y) < 5


def copied(screen: Screen) -> str:
    """Press the button that copies the link; what was copied."""
    screen.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    screen.page.get_by_role("button", name="Copy link").click()
    expect(screen.part("announcement")).to_have_text("The link is copied.")
    return str(screen.page.evaluate("navigator.clipboard.readText()"))


@pytest.mark.parametrize("compared", [{}, {"mode": "swipe", "with": DAYS[1]}], ids=["one day", "two days"])
def test_a_copied_link_unfolds_elsewhere_and_leads_back_to_what_is_shown(
    compared: dict[str, str], screen: Screen
) -> None:
    look = {"map": "antworld", "layer": "world-lighting", "day": DAYS[3], **compared, **MIDDLE.look}
    screen.open(MIDDLE, map="antworld", day=DAYS[3], **compared)
    screen.page.mouse.move(0, 0)
    link = copied(screen)
    days = f"{DAYS[1]}..{DAYS[3]}" if compared else DAYS[3]
    place = ",".join(MIDDLE.look.values())
    assert link == f"{screen.viewer.url}/s/antworld/{days}/{place}?layer=world-lighting"
    assert screen.await_place() == look
    told = screen.page.request.get(link).text()
    picture = re.search(r'property="og:image" content="([^"]+)"', told)
    assert picture is not None
    assert screen.page.request.get(unescape(picture[1])).headers["content-type"] == "image/jpeg"
    screen.page.goto("about:blank")
    screen.page.goto(link)
    screen.await_look(**look)


def test_a_page_without_a_clipboard_offers_the_link_to_be_copied_by_hand(screen: Screen) -> None:
    """Browsers have none for pages that come over plain http from another computer."""
    screen.open(MIDDLE, map="antworld")
    screen.page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    screen.page.evaluate("document.execCommand = () => false")
    screen.part("share").click()
    field = screen.page.get_by_label("This browser does not let the page copy. Copy the link yourself:")
    expect(field).to_have_value(re.compile(f"/s/antworld/{DAYS[3]}/"))
    expect(field).to_be_focused()
    screen.page.wait_for_function("(link) => getSelection().toString() === link", arg=field.input_value())
    expect(screen.part("announcement")).to_have_text("")
    screen.page.keyboard.press("Escape")
    expect(field).to_be_hidden()


def test_what_a_link_says_wrongly_is_told_with_what_there_is_instead(screen: Screen) -> None:
    look = {"map": "antworld", "layer": "moon", "day": "yesterday", "mode": "upside-down", "x": "here"}
    screen.open(None, **look, z="5", zoom="99", heat="always")
    screen.expect_day(DAYS[3])
    expect(screen.page.get_by_role("radio", name="One day")).to_be_checked()
    notice = screen.part("link-notice")
    for said in ("no layer moon", "“yesterday”", "“upside-down”", "“always”", "x=here, z=5, zoom=99"):
        expect(notice).to_contain_text(said)
    for offer in ("world-lighting", "Feb 13, 2021", "May 12, 2021", "Swipe", "Difference"):
        expect(notice.get_by_role("link", name=offer)).to_be_visible()
    notice.get_by_role("link", name="Feb 13, 2021").click()
    screen.expect_day(DAYS[0])
    expect(notice).to_be_hidden()


@pytest.mark.parametrize("wrong", ["1999-12-31", "2031-01-01"])
def test_a_day_outside_of_the_history_shows_the_nearest_and_says_so(wrong: str, screen: Screen) -> None:
    nearest = DAYS[0] if wrong < DAYS[0] else DAYS[3]
    screen.open(MIDDLE, map="antworld", day=wrong)
    screen.expect_day(nearest)
    words = screen.page.locator("#link-notice p")
    expect(words).to_have_count(1)
    for day in (nearest, wrong):
        expect(words).to_contain_text(in_words(day, "medium"))
    screen.await_look(day=nearest)
    screen.part("link-notice-close").click()
    expect(screen.part("link-notice")).to_be_hidden()
