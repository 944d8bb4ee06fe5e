"""What the page says while there is nothing to see, while it comes, and when the history goes on."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from playwright.sync_api import Page, Route, expect

from tests.browser.screen import Screen, Spot, day_number, eventually, in_words
from tests.browser.viewed_maps import COAST, DAYS, NEVER, PublishedDays
from tests.viewer.asking import serving
from tests.viewer.building import FIRST as BEGUN
from tests.viewer.building import IN_BLOCKS, MAP, World, picture, square
from tests.viewer.building import SECOND as GROWN
from tileharvest.tiles.pyramid import Pyramid

MIDDLE: Final = Spot.middle_of(COAST)
FIRST, SECOND, THIRD, LAST = DAYS
LOOKS_AGAIN: Final = 15_000
"""Milliseconds after which the page looks again for harvests."""


def forget_answers(page: Page) -> None:
    """Let the browser ask anew: for some seconds it would take an answer for the one that it has."""
    page.context.new_cdp_session(page).send("Network.clearBrowserCache")


def test_of_a_map_that_was_never_harvested_the_page_says_how_to(screen: Screen) -> None:
    screen.open_hash(f"#map={NEVER}")
    expect(screen.page.locator("#empty pre")).to_have_text(f"tileharvest harvest {NEVER}")
    expect(screen.part("map-choice")).to_have_value(NEVER)
    expect(screen.part("layer-field")).to_be_hidden()
    expect(screen.part("empty")).to_contain_text("tileharvest run begins it, and tries again after a failure")
    expect(screen.part("map")).to_be_hidden()


def test_harvests_are_shown_without_loading_the_page_again(page: Page, tmp_path: Path) -> None:
    """The first one, and the next, before which the map grew."""

    def await_last_day(words: str) -> None:
        def is_said() -> bool:
            # The viewer, too, remembers for a moment.
            forget_answers(page)
            page.clock.run_for(LOOKS_AGAIN)
            expect(page.locator("#last-day")).to_contain_text(words, timeout=500)
            return True

        eventually(is_said)

    world, tiles = World(tmp_path), dict.fromkeys(square(0, 4), picture(size=64))
    world.describe()
    page.clock.install()
    with serving(world) as client:
        screen = Screen(page, client.url)
        screen.open_hash("")
        expect(page.locator("#empty pre")).to_have_text(f"tileharvest harvest {MAP}")
        page.evaluate("() => { window.loadedOnce = true; }")
        world.harvest(BEGUN, tiles, described=IN_BLOCKS)
        await_last_day("Only one day so far")
        screen.await_map()
        assert any(square.source for square in screen.squares())

        world.harvest(GROWN, tiles, described=replace(IN_BLOCKS, pyramid=Pyramid(6)), finished=False)
        await_last_day("Feb 16, 2021")
        screen.expect_day(str(BEGUN))
        screen.part("notice").get_by_role("button", name="Show it").click()
        screen.await_map()
        screen.expect_day(str(GROWN))
        expect(screen.part("notice")).to_contain_text("The harvest of Feb 16, 2021 is not finished")
        assert page.evaluate("window.loadedOnce") is True
        page.goto("about:blank")  # Before the viewer ends, of which the page may just ask something.


def test_without_any_map_the_page_says_how_to_add_one_and_that_the_viewer_has_ended(
    page: Page, tmp_path: Path, provoked: list[str]
) -> None:
    provoked.append("ERR_CONNECTION_REFUSED")
    with serving(World(tmp_path)) as client:
        Screen(page, client.url).open_hash("")
        expect(page.get_by_role("heading", name="Nothing to see yet")).to_be_visible()
        expect(page.locator("body")).to_contain_text("No map is configured")
        expect(page.locator("#empty pre")).to_have_text("tileharvest add NAME URL")
        # There is nothing to choose from.
        expect(page.locator("#map-field, #layer-field").filter(visible=True)).to_have_count(0)
    forget_answers(page)
    page.evaluate("() => { location.hash = '#map=other'; }")
    expect(page.get_by_role("alert")).to_contain_text("The viewer does not answer")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()


@contextmanager
def held(page: Page, pattern: str) -> Iterator[None]:
    """Let no answer to such a request through until the block ends.

    The page looks ahead: what it is not to have must be held before it is opened.
    """
    waiting: list[Route] = []
    page.route(pattern, lambda route: waiting.append(route))  # noqa: PLW0108 - Playwright marks what it is given
    try:
        yield
    finally:
        for route in waiting:
            route.continue_()
        page.unroute(pattern)


def test_a_slow_day_is_given_up_for_the_one_that_is_chosen_after_it(
    screen: Screen, published_days: PublishedDays
) -> None:
    """Its date is never seen above the pictures of another day."""
    with held(screen.page, f"**/pictures/{published_days.name(COAST, LAST)}"):
        screen.open(MIDDLE, map="antworld", day=SECOND)
        screen.part("day").evaluate(_WATCH)
        screen.part("slider").fill(day_number(LAST))
        expect(screen.part("loading")).to_be_visible()
        screen.choose_day(FIRST)
        expect(screen.part("day")).to_have_text(in_words(FIRST))
    screen.await_map()
    assert screen.square(COAST, MIDDLE).name == published_days.name(COAST, FIRST)
    assert in_words(LAST) not in screen.page.evaluate("window.seen")


_WATCH: Final = """(day) => {
  window.seen = [];
  new MutationObserver(() => window.seen.push(day.textContent)).observe(day, { childList: true });
}"""


def test_nothing_is_said_of_changes_before_they_are_counted(screen: Screen) -> None:
    counting = screen.part("day-change")
    with held(screen.page, "**/changes?*"):
        screen.open(MIDDLE, map="antworld", day=LAST)
        expect(counting).to_have_text("counting changes …")
    expect(counting).to_have_text(re.compile("tiles changed in view"))
    with held(screen.page, "**/changes?*"):
        screen.press("Zoom out")
        expect(counting).to_have_text("counting changes …")


def test_a_part_that_cannot_be_loaded_says_so_on_the_screen_and_is_asked_for_again(
    screen: Screen, provoked: list[str]
) -> None:
    provoked.append("lens.js")
    screen.page.route("**/page/lens.js", lambda route: route.abort("aborted"))
    screen.open(MIDDLE, map="antworld", day=LAST)
    announcement, switch, day = (screen.part(name) for name in ("announcement", "lens-switch", "lens-day"))
    switch.click()
    expect(announcement).to_contain_text("lens.js")
    expect(announcement).not_to_have_class(re.compile("unseen"))
    expect(day).to_be_empty()
    screen.page.unroute_all()
    switch.click()
    switch.click()
    expect(day).not_to_be_empty()
    screen.await_map()


def test_all_that_is_in_view_is_one_question_for_each_day(screen: Screen) -> None:
    """In the middle of the grid four blocks of 4 x 4 tiles meet."""
    asked: list[str] = []
    screen.page.on("request", lambda request: asked.append(request.url) if "/view?" in request.url else None)
    screen.open(Spot(0, 0), map="antworld", day=LAST)
    screen.choose_day(FIRST)
    days = [day for url in asked for day in re.findall(r"day=([\d-]+)", url)]
    assert set(days) >= {FIRST, LAST}
    assert len(days) == len(set(days))
    assert all("zoom=0&x_from=-7&x_to=7&y_from=-7&y_to=7" in url for url in asked)
