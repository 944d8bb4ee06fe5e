"""Where one is and how one gets there: coordinates, places that are typed, and links."""

import re
from html import unescape
from typing import Final

import pytest
from playwright.sync_api import Page, expect

from tests.browser.screen import Screen, Spot, await_refusal, in_words
from tests.browser.viewed_maps import COAST, DAYS, PublishedDays, tile
from tests.viewer.building import MAP
from tests.viewer.building import SECOND as TURNED

MIDDLE: Final = Spot.middle_of(COAST)
PLACE: Final = ",".join(MIDDLE.look.values())


def go_to(screen: Screen, typed: str) -> None:
    screen.part("go-to-place").fill(typed)
    screen.part("go-to-place").press("Enter")


def test_the_block_under_the_pointer_is_named_and_a_place_that_is_typed_is_brought_to_the_middle(
    screen: Screen, published_days: PublishedDays
) -> None:
    screen.open(Spot(1, 1, 2), map="antworld")
    there = Spot.of_block(222, -190)
    screen.page.mouse.move(*screen.point(there.x, there.y, Spot(1, 1, 2)))
    expect(screen.part("coordinates")).to_have_text("X 222, Z -190")
    go_to(screen, "528, 64, 816")
    screen.await_look(x="528", z="816")
    middle = Spot.of_block(528, 816, 2)
    assert screen.square(COAST, middle).name == published_days.name(COAST, DAYS[3])


def test_what_is_not_on_the_map_is_refused_and_the_map_stays_where_it_is(screen: Screen) -> None:
    """The published tiles are a cut of the map, in which its spawn does not lie."""
    screen.open(MIDDLE, map="antworld")
    look = screen.await_look("layer", "x")
    for typed, place in (("X 528000, Z 816", "X 528000, Z 816"), ("spawn", "X 232, Z 167")):
        go_to(screen, typed)
        await_refusal(screen, f"{place} lies outside the map.")
    screen.part("go-to-place").fill("north")
    screen.press("Go")
    await_refusal(screen, "Write X and Z")
    assert screen.await_look() == look


def test_a_named_area_can_be_gone_to_by_its_name(page: Page, named: str) -> None:
    screen = Screen(page, named)
    screen.open_hash(f"#map={MAP}&x=40&z=40&zoom=0&day={TURNED}")
    screen.await_look("layer", "x")
    go_to(screen, "MY base & 农场")
    screen.await_look(x="15.5", z="15.5", day=str(TURNED))


def test_a_link_of_the_maps_own_page_that_is_pasted_leads_to_the_same_place(screen: Screen) -> None:
    screen.open(Spot(1, 1), map="antworld")
    go_to(screen, "https://antworld.example.net/map/#/216/80/183/-3/world/world-lighting")
    screen.await_look(zoom="-3")
    spot = Spot.of_block(216, 183, -3, above=16)
    # Also of tiles: the pin alone could be wrong as the place is.
    screen.square(tile(-3, int(spot.x // 16 * 16 + 8), int(spot.y // 16 * 16 + 8)), spot)
    box = screen.page.get_by_role("img", name="Spawn").bounding_box()
    assert box is not None
    # The pin's tip is at its lower end.
    tip = box["x"] + box["width"] / 2, box["y"] + box["height"]
    assert tip == pytest.approx(screen.point(spot.x, spot.y, spot), abs=5)


@pytest.mark.parametrize("compared", [{}, {"mode": "swipe", "with": DAYS[1]}], ids=["one day", "two days"])
def test_a_copied_link_unfolds_elsewhere_and_leads_back_to_what_is_shown(
    compared: dict[str, str], screen: Screen
) -> None:
    screen.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    screen.open(MIDDLE, map="antworld", day=DAYS[3], **compared)
    look = screen.await_look("layer", "x", day=DAYS[3], **compared)
    screen.press("Copy link")
    expect(screen.part("announcement")).to_have_text("The link is copied.")
    days = f"{DAYS[1]}..{DAYS[3]}" if compared else DAYS[3]
    link = f"{screen.url}s/antworld/{days}/{PLACE}?layer=world-lighting"
    assert screen.page.evaluate("navigator.clipboard.readText()") == link
    picture = re.search(r'"og:image" content="([^"]+)"', screen.page.request.get(link).text())
    assert picture is not None
    assert screen.page.request.get(unescape(picture[1])).headers["content-type"] == "image/jpeg"
    screen.page.goto("about:blank")
    screen.page.goto(link)
    assert screen.await_look(**look) == look


def test_a_link_that_unfolds_shows_the_map_and_the_time_alone_in_a_frame(each_screen: Screen) -> None:
    screen = each_screen
    screen.page.goto(f"{screen.url}s/antworld/{DAYS[0]}..{DAYS[1]}/{PLACE}?embed=1")
    screen.await_look(day=DAYS[1], mode="swipe", **MIDDLE.look, **{"with": DAYS[0]})
    expect(screen.part("left-day")).to_have_text(in_words(DAYS[0], "medium"))
    expect(screen.part("slider")).to_be_visible()
    for hidden in ("brand", "go-to", "modes", "share"):
        expect(screen.part(hidden)).to_be_hidden()
    assert screen.box("map") == pytest.approx(screen.box("stage"), abs=1)


def test_a_page_without_a_clipboard_offers_the_link_to_be_copied_by_hand(screen: Screen) -> None:
    """Browsers have none for pages that come over plain http from another computer."""
    screen.open(MIDDLE, map="antworld")
    screen.page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    screen.page.evaluate("document.execCommand = () => false")
    screen.part("share").click()
    field = screen.page.get_by_label("This browser does not let the page copy. Copy the link yourself:")
    expect(field).to_have_value(re.compile(f"/s/antworld/{DAYS[3]}/"))
    screen.page.wait_for_function("(link) => getSelection().toString() === link", arg=field.input_value())
    screen.page.keyboard.press("Escape")
    expect(field).to_be_hidden()


def test_what_a_link_says_wrongly_is_named_with_what_there_is_instead(screen: Screen) -> None:
    look = {"map": "antworld", "layer": "moon", "day": "yesterday", "mode": "upside-down", "x": "here"}
    screen.open(None, **look, z="5", zoom="99", heat="always")
    screen.expect_day(DAYS[3])
    notice = screen.part("link-notice")
    for said in ("no layer moon", "“yesterday”", "“upside-down”", "“always”", "x=here, z=5, zoom=99"):
        expect(notice).to_contain_text(said)
    for offer in ("world-lighting", "Feb 13, 2021", "May 12, 2021", "Swipe", "Difference"):
        expect(notice.get_by_role("link", name=offer)).to_be_visible()
    notice.get_by_role("link", name="Feb 13, 2021").click()
    screen.expect_day(DAYS[0])
    expect(notice).to_be_hidden()
    screen.open(MIDDLE, map="antworld", day="1999-12-31")
    for day in (DAYS[0], "1999-12-31"):
        expect(screen.page.locator("#link-notice p")).to_contain_text(in_words(day, "medium"))
    screen.await_look(day=DAYS[0])
    screen.part("link-notice-close").click()
    expect(notice).to_be_hidden()
