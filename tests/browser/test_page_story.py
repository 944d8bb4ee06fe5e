"""The story of a place: the versions of the tile that is clicked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from playwright.sync_api import expect

from tests.browser.screen import Screen, Spot, in_words
from tests.browser.viewed_maps import (
    COAST,
    DAYS,
    SHORE,
)

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.browser.viewed_maps import PublishedDays
    from tests.end_to_end.project import LayerTile

MIDDLE: Final = Spot.middle_of(COAST)


def open_story(screen: Screen, tile: LayerTile) -> Locator:
    """Click on a tile that is in view; gives its versions."""
    x, y = screen.point(tile.x, tile.y, MIDDLE)
    screen.page.mouse.click(x + 50, y + 60)
    expect(screen.part("panel")).to_contain_text(f"Tile {tile.zoom}_{tile.x}_{tile.y}")
    return screen.part("panel").get_by_role("listitem")


def test_a_click_lists_the_versions_of_the_tile_newest_first(
    screen: Screen, published_days: PublishedDays
) -> None:
    screen.open(MIDDLE, map="antworld")
    versions = open_story(screen, SHORE)
    days = published_days.days_of(SHORE)
    assert len(days) == 3
    expect(versions.locator("strong")).to_have_text([in_words(day) for day in reversed(days)])


def test_a_version_is_compared_with_the_one_before_in_a_swipe(
    screen: Screen, published_days: PublishedDays
) -> None:
    screen.open(MIDDLE, map="antworld")
    newest = open_story(screen, SHORE).first
    newest.get_by_role("button", name="Compare with previous").click()
    screen.await_look(mode="swipe", day=DAYS[3], **{"with": DAYS[1]})
    squares = [screen.square(SHORE, MIDDLE, pane) for pane in ("other", "pictures")]
    assert [each.name for each in squares] == [published_days.name(SHORE, day) for day in (DAYS[1], DAYS[3])]


def test_a_tile_that_never_was_says_so(screen: Screen, published_days: PublishedDays) -> None:
    beside = COAST._replace(x=COAST.x - 4)
    assert published_days.days_of(beside) == []
    screen.open(MIDDLE, map="antworld")
    x, y = screen.point(beside.x + 0.8, beside.y, MIDDLE)
    screen.page.mouse.click(x, y)
    expect(screen.part("panel")).to_contain_text(f"Tile 0_{beside.x}_{beside.y}")
    expect(screen.part("panel")).to_contain_text("Nothing was ever recorded here.")
