"""Where there is nothing to see yet the page says what to do, and shows the first harvest by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from playwright.sync_api import expect

from tests.browser.screen import Screen
from tests.browser.viewed_maps import AFTER_GROWTH, BEFORE_GROWTH, DEEP, NEVER, serving
from tests.end_to_end.project import Project
from tests.servers.published import published

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.browser.windows import Watch
    from tests.servers.nginx import Nginx

LOOKS_AGAIN: Final = 15_000
"""Milliseconds after which the page looks again for harvests."""


def await_by_looking_again(page: Page, come: Callable[[], None]) -> None:
    """Let the page look again until what must come is there: the viewer, too, remembers for a moment."""
    for _ in range(40):
        forget_answers(page)
        page.clock.run_for(LOOKS_AGAIN)
        try:
            come()
        except AssertionError:
            continue
        return
    come()


def forget_answers(page: Page) -> None:
    """Let the browser ask anew: for some seconds it would take an answer for the one that it has."""
    page.context.new_cdp_session(page).send("Network.clearBrowserCache")


def test_without_any_map_the_page_says_how_to_add_one(page: Page, tmp_path: Path) -> None:
    (tmp_path / "maps.toml").touch()
    with serving(Project(tmp_path)) as viewer:
        Screen(page, viewer).open_hash("")
        expect(page.get_by_role("heading", name="Nothing to see yet")).to_be_visible()
        expect(page.locator("body")).to_contain_text("No map is configured")
        expect(page.locator("#empty pre")).to_have_text("tileharvest add NAME URL")
        # There is nothing to choose from.
        expect(page.locator("#map-field, #layer-field").filter(visible=True)).to_have_count(0)


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
        last_day = screen.part("last-day")

        project.crawl("small", BEFORE_GROWTH)
        await_by_looking_again(
            page, lambda: expect(last_day).to_contain_text("Only one day so far", timeout=500)
        )
        screen.await_map()
        assert any(square.source for square in screen.squares_in_view())

        published(shared_maps, "alexjj", 2, site)
        project.crawl("small", AFTER_GROWTH)
        await_by_looking_again(page, lambda: expect(last_day).to_have_text("Oct 7, 2016", timeout=500))
        screen.expect_day(BEFORE_GROWTH)
        screen.part("notice").get_by_role("button", name="Show it").click()
        screen.await_map()
        screen.expect_day(AFTER_GROWTH)
        assert page.evaluate("window.loadedOnce") is True
        page.goto("about:blank")  # Before the viewer ends, of which the page may just ask something.


def test_with_one_day_alone_there_is_nothing_to_compare(screen: Screen) -> None:
    screen.open_hash(f"#map={DEEP}")
    screen.await_place()
    expect(screen.part("slider")).to_be_disabled()
    expect(screen.page.get_by_role("radio", name="Swipe")).to_be_disabled()
    expect(screen.part("last-day")).to_contain_text("Only one day so far")


def test_a_viewer_that_has_ended_is_named_as_the_reason(page: Page, tmp_path: Path, watch: Watch) -> None:
    watch.expected.append("ERR_CONNECTION_REFUSED")
    (tmp_path / "maps.toml").touch()
    with serving(Project(tmp_path)) as viewer:
        Screen(page, viewer).open_hash("")
        expect(page.locator("#empty pre")).to_be_visible()
    forget_answers(page)
    page.evaluate("() => { location.hash = '#map=other'; }")
    expect(page.get_by_role("alert")).to_contain_text("The viewer does not answer")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
