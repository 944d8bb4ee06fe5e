"""A link to what is shown brings back all of it."""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from tests.browser.screen import Screen, Spot, day_number, in_words
from tests.browser.viewed_maps import AFTER_GROWTH, COAST, DAYS, GROWING

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Route


MIDDLE: Final = Spot.middle_of(COAST)
MODES: Final = {"Swipe": "swipe", "Side by side": "side", "Difference": "difference"}


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
