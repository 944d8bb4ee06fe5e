"""What the page says while there is nothing to see, while it comes, and when the history goes on."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.screen import Screen, Spot, day_number, eventually, in_words
from tests.browser.viewed_maps import AFTER_GROWTH, BEFORE_GROWTH, COAST, DAYS, NEVER, PublishedDays, serving
from tests.browser.windows import Watch
from tests.end_to_end.project import Project
from tests.servers.nginx import Nginx
from tests.servers.published import published

LOOKS_AGAIN: Final = 15_000
"""Milliseconds after which the page looks again for harvests."""


def await_by_looking_again(page: Page, words: str) -> None:
    """Let the page look again until its last day has these words: the viewer, too, remembers for a moment."""

    def check() -> None:
        forget_answers(page)
        page.clock.run_for(LOOKS_AGAIN)
        expect(page.locator("#last-day")).to_contain_text(words, timeout=500)

    eventually(check)


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


def test_harvests_are_shown_without_loading_the_page_again(
    page: Page, tmp_path: Path, shared_maps: Path, nginx: Callable[..., Nginx]
) -> None:
    """The first one, and the next, before which the map grew."""
    project = Project(tmp_path)
    site = published(shared_maps, "alexjj", 1, tmp_path / "site")
    project.add_map("small", nginx(site).url)
    page.clock.install()
    with serving(project) as viewer:
        screen = Screen(page, viewer)
        screen.open_hash("")
        expect(page.locator("#empty pre")).to_have_text("tileharvest harvest small")
        page.evaluate("() => { window.loadedOnce = true; }")
        project.crawl("small", BEFORE_GROWTH)
        await_by_looking_again(page, "Only one day so far")
        screen.await_map()
        assert any(square.source for square in screen.squares_in_view())

        published(shared_maps, "alexjj", 2, site)
        project.crawl("small", AFTER_GROWTH)
        await_by_looking_again(page, "Oct 7, 2016")
        screen.expect_day(BEFORE_GROWTH)
        screen.part("notice").get_by_role("button", name="Show it").click()
        screen.await_map()
        screen.expect_day(AFTER_GROWTH)
        assert page.evaluate("window.loadedOnce") is True
        page.goto("about:blank")  # Before the viewer ends, of which the page may just ask something.


def test_without_any_map_the_page_says_how_to_add_one_and_that_the_viewer_has_ended(
    page: Page, tmp_path: Path, watch: Watch
) -> None:
    watch.expected.append("ERR_CONNECTION_REFUSED")
    (tmp_path / "maps.toml").touch()
    with serving(Project(tmp_path)) as viewer:
        Screen(page, viewer).open_hash("")
        expect(page.get_by_role("heading", name="Nothing to see yet")).to_be_visible()
        expect(page.locator("body")).to_contain_text("No map is configured")
        expect(page.locator("#empty pre")).to_have_text("tileharvest add NAME URL")
        # There is nothing to choose from.
        expect(page.locator("#map-field, #layer-field").filter(visible=True)).to_have_count(0)
    forget_answers(page)
    page.evaluate("() => { location.hash = '#map=other'; }")
    expect(page.get_by_role("alert")).to_contain_text("The viewer does not answer")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()


MIDDLE: Final = Spot.middle_of(COAST)
FIRST, SECOND, THIRD, LAST = DAYS
OUTLINE: Final = re.compile(r"/api/v1/maps/antworld$")


@contextmanager
def held(page: Page, pattern: str) -> Iterator[list[Route]]:
    """Let no answer to such a request through until the block ends. Gives the requests.

    The page looks ahead: what it is not to have must be held before it is opened.
    """
    waiting: list[Route] = []
    page.route(pattern, lambda route: waiting.append(route))  # noqa: PLW0108 - Playwright marks what it is given
    try:
        yield waiting
    finally:
        for route in waiting:
            route.continue_()
        page.unroute(pattern)


def shown(screen: Screen) -> set[str]:
    return {square.name for square in screen.squares_in_view()}


def test_a_slow_day_is_given_up_for_the_one_that_is_chosen_after_it(
    screen: Screen, published_days: PublishedDays
) -> None:
    with held(screen.page, f"**/pictures/{published_days.name(COAST, LAST)}"):
        screen.open(MIDDLE, map="antworld", day=SECOND)
        screen.part("slider").fill(day_number(LAST))
        expect(screen.part("loading")).to_be_visible()
        screen.choose_day(FIRST)
        expect(screen.part("day")).to_have_text(in_words(FIRST))
    expect(screen.part("day")).to_have_text(in_words(FIRST))
    assert published_days.name(COAST, LAST) not in shown(screen)


def test_nothing_is_said_of_changes_before_they_are_counted(screen: Screen) -> None:
    with held(screen.page, "**/changes?*"):
        screen.open(MIDDLE, map="antworld", day=LAST)
        expect(screen.part("day-change")).to_have_text("counting changes …")
    expect(screen.part("day-change")).to_have_text(re.compile("tiles changed in view"))
    with held(screen.page, "**/changes?*"):
        screen.page.get_by_role("button", name="Zoom out").click()
        expect(screen.part("day-change")).to_have_text("counting changes …")


@pytest.mark.parametrize(
    ("module", "on", "off", "shown"),
    [
        ("lens.js", "#lens-switch", "#lens-switch", "#lens-day:not(:empty)"),
        ("difference.js", "[value=difference] + span", "[value=one] + span", "#stage[data-mode=difference]"),
        ("calendar.js", "#calendar-switch", "", "#calendar"),
    ],
)
def test_a_part_that_cannot_be_loaded_says_so_on_the_screen_and_is_asked_for_again(
    module: str, on: str, off: str, shown: str, screen: Screen, watch: Watch
) -> None:
    watch.expected.append(module)
    screen.page.route(f"**/page/{module}", lambda route: route.abort("aborted"))
    screen.open(MIDDLE, map="antworld", day=LAST)
    screen.page.locator(on).click()
    expect(screen.part("announcement")).to_contain_text(module)
    expect(screen.part("announcement")).not_to_have_class(re.compile("unseen"))
    expect(screen.page.locator(shown)).to_be_hidden()
    screen.page.unroute_all()
    if off:
        screen.page.locator(off).click()
    screen.page.locator(on).click()
    expect(screen.page.locator(shown)).to_be_visible()
    screen.await_map()


def test_a_day_whose_harvest_has_not_ended_is_told_from_the_others(screen: Screen) -> None:
    def answer(route: Route) -> None:
        route.fulfill(json={**route.fetch().json(), "unfinished": [LAST]})

    screen.page.route(OUTLINE, answer)
    screen.open(MIDDLE, map="antworld", day=LAST)
    expect(screen.part("notice")).to_contain_text("The harvest of May 12, 2021 is not finished")
    screen.choose_day(SECOND)
    expect(screen.part("notice")).to_be_hidden()


def test_all_that_is_in_view_is_one_question_for_each_day(screen: Screen) -> None:
    """In the middle of the grid four blocks of 4 x 4 tiles meet."""
    asked: list[str] = []
    screen.page.on("request", lambda request: asked.append(request.url) if "/view?" in request.url else None)
    screen.open(Spot(0, 0), map="antworld", day=LAST)
    screen.choose_day(FIRST)
    days = [re.search(r"day=([\d-]+)", url)[1] for url in asked]  # type: ignore[index]
    assert set(days) >= {FIRST, LAST}
    assert len(days) == len(set(days))
    assert all("zoom=0&x_from=-7&x_to=7&y_from=-7&y_to=7" in url for url in asked)
