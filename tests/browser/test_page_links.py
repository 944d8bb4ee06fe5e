"""A link to what is shown brings back all of it."""

from __future__ import annotations

import math
import re
from html import unescape
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode

import pytest
from playwright.sync_api import expect

from tests.browser.screen import Screen, Spot, apart, day_number, in_words
from tests.browser.viewed_maps import AFTER_GROWTH, COAST, DAYS, DESERT, GROWING

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Route

    from tests.browser.windows import Window

MIDDLE: Final = Spot.middle_of(COAST)
MODES: Final = {"Swipe": "swipe", "Side by side": "side", "Difference": "difference"}


def copied(screen: Screen) -> str:
    """Press the button that copies the link; what was copied."""
    screen.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    screen.page.get_by_role("button", name="Copy link").click()
    expect(screen.part("announcement")).to_have_text("The link is copied.")
    return str(screen.page.evaluate("navigator.clipboard.readText()"))


def change_everything(screen: Screen, mode: str) -> None:
    """The day, the way to compare, the day compared with, the zoom and the place."""
    screen.open(MIDDLE, map="antworld")
    screen.choose_day(DAYS[1])
    screen.choose_mode(mode)
    screen.part("other").fill(DAYS[0])
    screen.page.locator("#map").get_by_role("button", name="Zoom out").click()
    screen.await_look(zoom="-1", mode=MODES[mode], day=DAYS[1], **{"with": DAYS[0]})
    before = screen.look()
    screen.drag((300, 350), (340, 320))
    screen.await_moved(before)


def in_another_window(screen: Screen, other: Screen) -> Screen:
    """Open there the address that the first window shows."""
    other.page.goto(screen.page.url)
    other.await_map()
    assert other.look() == screen.look()
    return other


@pytest.mark.parametrize("mode", ["Swipe", "Difference"])
def test_a_link_shows_the_same_in_another_window(
    mode: str, screen: Screen, new_screen: Callable[..., Screen]
) -> None:
    change_everything(screen, mode)
    other = in_another_window(screen, new_screen())
    for each in (screen, other):
        each.page.mouse.move(0, 0)
        each.page.evaluate("document.activeElement.blur()")
        expect(each.part("day-change")).to_have_text(re.compile("tiles? changed in view"))
    assert apart(screen.picture(), other.picture()) <= 16  # The edges of letters vary a little.


def test_a_link_shows_the_same_maps_side_by_side(screen: Screen, new_screen: Callable[..., Screen]) -> None:
    change_everything(screen, "Side by side")
    other = in_another_window(screen, new_screen())
    for map in ("map", "second-map"):  # noqa: A001 - ids of the parts
        first, second = (
            sorted((square.name, *square.middle) for square in each.squares_in_view(map))
            for each in (screen, other)
        )
        assert [name for name, *_ in first] == [name for name, *_ in second]
        assert all(math.dist(a[1:], b[1:]) < 2 for a, b in zip(first, second, strict=True))


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


def test_a_copied_link_of_what_no_picture_shows_names_all_of_it(screen: Screen) -> None:
    screen.open(MIDDLE, map="antworld", day=DAYS[3], mode="difference", **{"with": DAYS[1]})
    link = copied(screen)
    assert link.startswith(f"{screen.viewer.url}/#map=antworld&")
    assert (
        said_by(link)
        == screen.await_place()
        == {
            "map": "antworld",
            "layer": "world-lighting",
            "day": DAYS[3],
            "with": DAYS[1],
            "mode": "difference",
            **MIDDLE.look,
        }
    )


def said_by(link: str) -> dict[str, str]:
    return dict(parse_qsl(link.partition("#")[2]))


def test_a_copied_link_names_the_day_and_the_place_also_where_the_address_does_not(screen: Screen) -> None:
    """Else it would show another day after the next harvest."""
    screen.open(map="antworld")
    assert re.search(rf"/s/antworld/{DAYS[3]}/-?[\d.]+,-?[\d.]+,-?[\d.]+\?", copied(screen))
    assert "day" not in screen.look()


def test_a_page_without_a_clipboard_says_that_a_link_is_copied_only_where_it_is(screen: Screen) -> None:
    """Browsers have none for pages that come over plain http from another computer."""
    screen.open(MIDDLE, map="antworld")
    screen.page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    button = screen.page.get_by_role("button", name="Copy link")
    screen.page.evaluate(
        """document.execCommand = (command) => {
          window.taken = [command, String(getSelection())];
          return true;
        }"""
    )
    button.click()
    expect(screen.part("announcement")).to_have_text("The link is copied.")
    command, link = screen.page.evaluate("window.taken")
    assert command == "copy"
    assert f"/s/antworld/{DAYS[3]}/" in link
    screen.page.evaluate("document.getElementById('announcement').textContent = ''")
    screen.page.evaluate("document.execCommand = () => false")
    screen.part("share").click()
    field = screen.page.get_by_label("This browser does not let the page copy. Copy the link yourself:")
    expect(field).to_have_value(link)
    expect(field).to_be_focused()
    assert screen.page.evaluate("getSelection().toString()") == link
    expect(screen.part("announcement")).to_have_text("")
    screen.page.keyboard.press("Escape")
    expect(field).to_be_hidden()


def test_a_link_to_a_heat_map_opens_its_panel_with_its_period(screen: Screen) -> None:
    screen.open(MIDDLE, map="antworld", heat=f"{DAYS[1]}..{DAYS[2]}")
    expect(screen.part("heat-after")).to_have_value(DAYS[1])
    expect(screen.part("heat-until")).to_have_value(DAYS[2])


def test_a_link_without_a_day_shows_the_newest(screen: Screen) -> None:
    screen.open(MIDDLE, map="antworld")
    screen.expect_day(DAYS[3])
    assert "day" not in screen.look()


def test_a_link_to_what_is_shown_already_gets_the_usual_spelling(screen: Screen) -> None:
    screen.open(MIDDLE, map="antworld", day=DAYS[1])
    screen.await_look(day=DAYS[1])
    usual = screen.page.url
    screen.page.evaluate("hash => { location.hash = hash; }", f"#day={DAYS[1]}&{urlencode(screen.look())}")
    expect(screen.page).to_have_url(usual)
    screen.await_look(day=DAYS[1])


def told_by(screen: Screen) -> list[str]:
    """What the notice says was not found."""
    expect(screen.part("link-notice")).to_be_visible()
    return [words.partition("  ")[0] for words in screen.page.locator("#link-notice p").all_inner_texts()]


def test_what_a_link_says_wrongly_is_told_with_what_there_is_instead(screen: Screen) -> None:
    look = {"map": "antworld", "layer": "moon", "day": "yesterday", "mode": "upside-down", "x": "here"}
    screen.open(None, **look, z="5", zoom="99", heat="always")
    screen.expect_day(DAYS[3])
    expect(screen.page.get_by_role("radio", name="One day")).to_be_checked()
    words = " ".join(told_by(screen))
    for said in ("no layer moon", "“yesterday”", "“upside-down”", "“always”", "x=here, z=5, zoom=99"):
        assert said in words
    notice = screen.part("link-notice")
    for offer in ("world-lighting", "Feb 13, 2021", "May 12, 2021", "Swipe", "Difference"):
        expect(notice.get_by_role("link", name=offer)).to_be_visible()
    assert screen.unnamed_controls() == []
    notice.get_by_role("link", name="Feb 13, 2021").click()
    screen.expect_day(DAYS[0])
    expect(notice).to_be_hidden()


def test_a_zoom_that_is_not_there_is_told_with_those_that_are(screen: Screen) -> None:
    screen.open(None, map="antworld", x=MIDDLE.look["x"], z=MIDDLE.look["z"], zoom="9")
    assert told_by(screen) == ["There is no zoom 9. Zooms go from -6 to 0, the deepest, and enlarged to 2."]


@pytest.mark.parametrize("wrong", ["1999-12-31", "2031-01-01"])
def test_a_day_outside_of_the_history_shows_the_nearest_and_says_so(wrong: str, screen: Screen) -> None:
    nearest = DAYS[0] if wrong < DAYS[0] else DAYS[3]
    screen.open(MIDDLE, map="antworld", day=wrong)
    screen.expect_day(nearest)
    (words,) = told_by(screen)
    assert in_words(nearest, "medium") in words
    assert in_words(wrong, "medium") in words
    screen.await_look(day=nearest)
    screen.part("link-notice-close").click()
    expect(screen.part("link-notice")).to_be_hidden()


def test_the_map_is_shown_where_the_words_about_a_wrong_link_cannot_be_loaded(
    screen: Screen, desk: Window
) -> None:
    desk.watch.expected.append("link-notice.js")
    screen.page.route("**/page/link-notice.js", lambda route: route.abort("aborted"))
    screen.open(MIDDLE, map="antworld", layer="moon", day=DAYS[1])
    screen.page.unroute_all()
    screen.expect_day(DAYS[1])
    assert [square for square in screen.squares_in_view() if square.source]
    expect(screen.part("announcement")).to_contain_text("link-notice.js")
    expect(screen.part("link-notice")).to_be_hidden()


def test_a_comparison_without_another_day_is_one_with_the_day_before_and_says_so(screen: Screen) -> None:
    screen.open(MIDDLE, map="antworld", day=DAYS[2], mode="swipe")
    expect(screen.part("other")).to_have_value(DAYS[1])
    (words,) = told_by(screen)
    assert in_words(DAYS[1], "medium") in words
    screen.open(MIDDLE, map="antworld", day=DAYS[2], mode="side", **{"with": "1980-01-01"})
    expect(screen.part("other")).to_have_value(DAYS[0])
    (words,) = told_by(screen)
    assert "Jan 1, 1980" in words


def test_an_address_that_means_nothing_says_so(screen: Screen) -> None:
    screen.open_hash("#nothing/of/this")
    screen.await_map()
    assert "#nothing/of/this is no address" in told_by(screen)[0]


def test_another_map_is_chosen_from_the_list(screen: Screen) -> None:
    screen.open(MIDDLE, map="antworld")
    screen.part("map-choice").select_option(GROWING)
    screen.await_look(map=GROWING)
    screen.expect_day(AFTER_GROWTH)


def test_back_leads_to_the_map_before(screen: Screen) -> None:
    screen.open(MIDDLE, map="antworld", day=DAYS[1])
    screen.part("map-choice").select_option(GROWING)
    screen.await_look(map=GROWING)
    screen.await_place()
    screen.page.go_back()
    screen.await_look(map="antworld")
    screen.expect_day(DAYS[1])
    screen.await_map()
    screen.square(COAST, MIDDLE)


def test_an_address_that_is_opened_while_another_is_being_written_is_not_lost(
    new_screen: Callable[..., Screen],
) -> None:
    """What is on the screen is written into the address a moment later; an answer can take longer."""
    screen = new_screen()
    page = screen.page
    page.clock.install()
    screen.open(MIDDLE, map="antworld", day=DAYS[3])
    screen.await_place()
    held: list[Route] = []
    page.route("**/api/v1/maps", lambda route: held.append(route))  # noqa: PLW0108 - it cannot take a method of C
    page.clock.pause_at(page.evaluate("Date.now()") + 1000)
    screen.part("slider").fill(day_number(DAYS[1]))
    with page.expect_request("**/api/v1/maps"):
        page.evaluate("hash => { location.hash = hash; }", f"#map={GROWING}")
    page.clock.run_for(1000)
    held[0].continue_()
    expect(screen.part("map-choice")).to_have_value(GROWING)
    screen.expect_day(AFTER_GROWTH)


def test_an_address_counts_as_followed_when_the_page_shows_what_it_tells(
    new_screen: Callable[..., Screen],
) -> None:
    """Of the rig: a link's address is there at once, what it leads to a moment later."""
    screen = new_screen()
    screen.open(MIDDLE, map="antworld")
    screen.await_look(map="antworld")
    held: list[Route] = []
    screen.page.route("**/api/v1/maps", lambda route: held.append(route))  # noqa: PLW0108 - it cannot take a method of C
    there = Spot.middle_of(DESERT)
    with screen.page.expect_request("**/api/v1/maps"):
        screen.page.evaluate("hash => { location.hash = hash; }", f"#{urlencode(there.look)}")
    assert not screen.has_gone(**there.look)
    held[0].continue_()
    screen.await_look(**there.look)
    assert screen.square(DESERT, there).name != ""
