"""The panels beside the map: what is new, the story of a tile, the story of some pixels, areas, and heat."""

import re
from typing import Final
from urllib.parse import unquote

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.screen import Screen, Spot, in_words
from tests.browser.viewed_maps import (
    AFTER_GROWTH,
    BEFORE_GROWTH,
    COAST,
    DAYS,
    GROWING,
    SHORE,
    PublishedDays,
    around,
    tile,
)
from tests.end_to_end.project import LayerTile
from tests.end_to_end.real_maps import ANTWORLD
from tests.viewer.building import FIRST as BEGUN
from tests.viewer.building import MAP
from tests.viewer.building import SECOND as TURNED

HERE: Final = Spot.middle_of(COAST)
FIRST, SECOND, THIRD, LAST = DAYS
EVER: Final = f"{FIRST}..{LAST}"


def test_what_is_new_is_shown_beside_the_map_with_pictures_and_leads_to_its_two_days(
    each_screen: Screen,
) -> None:
    """As they were published: 15 tiles changed on the last day, and 12 came into being."""
    screen = each_screen
    screen.open(HERE, map=ANTWORLD, day=LAST)
    screen.part("events-switch").click()
    events = screen.page.locator(".events li")
    expect(events).to_have_count(2)
    expect(events.nth(0)).to_contain_text("15 tiles changed around X ")
    expect(events.nth(1)).to_contain_text("12 new tiles around X ")
    expect(events.nth(0).locator("img")).to_have_js_property("naturalWidth", 680)
    left, top, width, height = screen.box("panel")
    for part in ("map", "day", "slider"):
        x, y, wide, high = screen.box(part)
        across = x + wide <= left + 1 or left + width <= x + 1
        assert across or y + high <= top + 1 or top + height <= y + 1, part
    expect(screen.panel.locator("a[href*='events.atom']")).to_have_attribute("href", re.compile("layer="))
    events.nth(0).locator("a").click()
    screen.await_look(day=LAST, mode="swipe", **{"with": THIRD})


def test_what_is_new_has_an_address_of_its_own_with_its_period(screen: Screen) -> None:
    screen.open(HERE, map=ANTWORLD, new="month", day=LAST)
    events, period = screen.panel.locator(".events li"), screen.panel.get_by_label("Period")
    screen.panel.get_by_label("only in view").check()
    expect(events).to_have_count(1)
    period.select_option("day")
    screen.await_look(new="day")
    screen.choose_day(THIRD)
    # What grew on that day lies elsewhere.
    expect(screen.panel).to_contain_text("Nothing changed in this time.")
    screen.panel.get_by_label("only in view").uncheck()
    expect(events).to_contain_text(["55 new tiles"])
    screen.page.keyboard.press("Escape")
    expect(screen.panel).to_be_hidden()
    screen.page.wait_for_function("() => !location.hash.includes('new=')")
    screen.press("What is new")
    screen.await_look(new="month")
    # A link to the map alone shows the map alone.
    screen.page.evaluate("(hash) => { location.hash = hash; }", f"#map={ANTWORLD}&day={LAST}")
    expect(screen.panel).to_be_hidden()


def test_a_rectangle_that_is_drawn_shows_when_its_pixels_changed(each_screen: Screen) -> None:
    """The coast was transparent at first, land came on the second day, and sea on the last."""
    screen = each_screen
    screen.open(HERE, map=ANTWORLD, day=LAST)
    screen.part("pixels-switch").click()
    expect(screen.page.locator("#map.asking")).to_be_visible()
    screen.await_map()
    x, y = screen.point(HERE.x, HERE.y, HERE)
    # Above what lies behind the panel, in the middle tile. From its lower corner, as a finger that comes down
    # beside the buttons of the zoom is taken for one on them.
    screen.pull((x + 30, y - 60), (x - 60, y - 120), (x - 150, y - 180))
    since = f"It has looked as it does today since {in_words(LAST)}."
    expect(screen.panel).to_contain_text(since)
    chapters = screen.panel.locator(".story li")
    expect(chapters.locator("strong")).to_have_text([in_words(LAST), in_words(SECOND)])
    expect(chapters.last).to_contain_text("first appeared")
    chapters.last.scroll_into_view_if_needed()
    expect(chapters.last.locator("img")).to_have_js_property("naturalWidth", 180)
    screen.panel.get_by_text("Watch this area").click()
    command = re.compile(r'^tileharvest areas antworld add "my area" \d+,-?\d+ \d+,-?\d+$')
    expect(screen.panel.locator("code")).to_have_text(command)
    chapters.first.get_by_role("button").last.click()
    screen.await_look(day=LAST, mode="swipe", **{"with": THIRD})


def test_two_corners_can_be_written_instead(screen: Screen) -> None:
    screen.open(HERE, map=ANTWORLD, day=LAST)
    x, z = (round(float(value)) for value in (HERE.look["x"], HERE.look["z"]))
    screen.press("When did this change?")
    screen.panel.get_by_label("One corner").fill(f"{x - 4} {z - 4}")
    screen.panel.get_by_label("The other corner").fill(f"{x + 3}, {z + 3}")
    with screen.page.expect_request("**/pixels?*") as asked:
        screen.press("Find out")
    west, south, east, north = map(float, unquote(asked.value.url).partition("ground=")[2].split(","))
    assert west < HERE.x < east
    assert south < HERE.y < north
    # Eight blocks each way, seen aslant: 16 of Overviewer's steps of 12 pixels in a tile of 384.
    assert east - west == pytest.approx(16 * 12 / 192, abs=1e-5)


def open_story(screen: Screen, x: float, y: float, middle: Spot = HERE) -> Locator:
    """Click on a point of the grid that is in view; gives the versions of its tile."""
    screen.page.mouse.click(*screen.point(x, y, middle))
    expect(screen.part("panel-title")).to_contain_text(re.compile(r"X -?\d+"))
    expect(screen.page.locator("#map .point-mark")).to_have_count(1)
    return screen.panel.get_by_role("listitem")


def test_a_click_shows_the_versions_of_a_tile_and_each_is_compared_with_the_one_before(
    screen: Screen, published_days: PublishedDays
) -> None:
    screen.open(HERE, map=ANTWORLD, day=LAST)
    versions = open_story(screen, SHORE.x + 0.3, SHORE.y)
    expect(screen.panel).to_contain_text(f"Tile 0_{SHORE.x}_{SHORE.y}")
    days = published_days.days_of(SHORE)
    expect(versions.locator("strong")).to_have_text([in_words(day) for day in reversed(days)])
    versions.first.get_by_role("button", name="Compare with previous").click()
    screen.await_look(mode="swipe", day=LAST, **{"with": SECOND})
    squares = [screen.square(SHORE, HERE, pane) for pane in ("other", "pictures")]
    assert [each.name for each in squares] == [published_days.name(SHORE, day) for day in (SECOND, LAST)]
    screen.open(HERE, map=ANTWORLD)
    open_story(screen, COAST.x - 3.2, COAST.y)
    expect(screen.panel).to_contain_text("Nothing was ever recorded here.")


def test_a_story_goes_back_to_before_the_map_grew(screen: Screen) -> None:
    """The tile came with the growth; what is drawn on it had been there, and the map shows it on that day."""
    coarsest = tile(-5, 32, 32)
    middle = Spot.middle_of(coarsest)
    screen.open(middle, map=GROWING, day=BEFORE_GROWTH)
    assert "/composed/" in screen.square(coarsest, middle).source
    chapters = open_story(screen, middle.x, middle.y, middle)
    expect(chapters.locator("strong")).to_have_text([in_words(AFTER_GROWTH), in_words(BEFORE_GROWTH)])
    expect(chapters.locator(".share")).to_have_text([re.compile(r"[\d.]+ % changed"), "first version"])
    chapters.last.get_by_role("img").scroll_into_view_if_needed()
    expect(chapters.last.get_by_role("img")).to_have_js_property("naturalWidth", 384)


def changes_between(days: PublishedDays, tile: LayerTile) -> int:
    """On how many days after the first a tile changed."""
    return len([day for day in days.days_of(tile) if day > FIRST])


def test_tiles_are_coloured_by_the_days_on_which_they_changed_while_the_heat_is_switched_on(
    screen: Screen, published_days: PublishedDays
) -> None:
    """Those that changed on as many days have one colour, which no others have; the rest has none."""
    screen.open(HERE, map=ANTWORLD, day=LAST)
    switch, tiles = screen.page.get_by_role("button", name="Heat map"), around(COAST)
    switch.click()
    expect(switch).to_have_attribute("aria-pressed", "true")
    expect(screen.page.get_by_label("From", exact=True)).to_have_value(FIRST)
    expect(screen.page.get_by_label("To", exact=True)).to_have_value(LAST)
    expect(screen.panel.locator(".swatch")).to_have_text(["1", "2", "3"])
    screen.await_map()
    found = {each: screen.heat_at(*screen.point(each.x, each.y, HERE)) for each in tiles}
    counts = {each: changes_between(published_days, each) for each in tiles}
    assert {each for each in tiles if found[each]} == {each for each in tiles if counts[each]}
    pairs = {(counts[each], found[each]) for each in tiles}
    assert len(pairs) == len(set(counts.values())) == len(set(found.values())) > 1
    switch.click()
    expect(screen.panel).to_be_hidden()
    expect(screen.page.locator("#map .leaflet-heat-pane canvas")).to_have_count(0)


def test_places_that_changed_are_links_that_show_them_before_and_after(
    screen: Screen, published_days: PublishedDays
) -> None:
    screen.open(HERE, map=ANTWORLD, heat=EVER)
    link = screen.panel.get_by_role("link").first
    said = re.fullmatch(r"X (-?\d+), Z (-?\d+): changed on (\d+) days?", link.inner_text())
    assert said is not None
    link.click()
    look = screen.await_look(x=said[1], z=said[2], mode="swipe", day=LAST, **{"with": FIRST})
    assert "heat" not in look
    middle = Spot.of_block(float(said[1]), float(said[2]), float(look["zoom"]))
    there = tile(0, int(middle.x // 2 * 2 + 1), int(middle.y // 2 * 2 + 1))
    assert changes_between(published_days, there) == int(said[3])
    assert screen.square(there, middle).name == published_days.name(there, LAST)
    assert screen.square(there, middle, "other").name == (published_days.name(there, FIRST) or "")


def test_an_area_has_a_page_that_fits_and_before_the_first_one_the_list_says_how_to_add_it(
    each_screen: Screen, named: str
) -> None:
    screen, page = each_screen, each_screen.page
    screen.open_hash("#areas")
    expect(screen.part("areas-page")).to_contain_text("No area has a name yet")
    expect(page.locator("#areas-page pre")).to_contain_text("tileharvest areas NAME add")
    Screen(page, named).open_hash(f"#map={MAP}&day={TURNED}")
    page.get_by_role("link", name="Areas").click()
    page.get_by_role("link", name="my base & 农场").click()
    expect(page.get_by_role("link", name="Show on the map")).to_be_visible()
    chapters = page.locator(".chapters li")
    expect(chapters.locator("h2")).to_have_text([in_words(str(TURNED)), in_words(str(BEGUN))])
    expect(chapters.first).to_contain_text("Changed tiles: 1")
    expect(chapters.last).to_contain_text("first version")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for picture in page.locator(".chapters img").all():
        picture.scroll_into_view_if_needed()
        expect(picture).not_to_have_js_property("naturalWidth", 0)
    feed = page.locator("a[href*='events.atom']").get_attribute("href")
    assert page.request.get(f"{named}{feed}").headers["content-type"] == "application/atom+xml"
    chapters.first.get_by_role("link").click()
    expect(page.locator("#left-day")).to_have_text(in_words(str(BEGUN), "medium"))
    expect(page.locator("#right-day")).to_have_text(in_words(str(TURNED), "medium"))
    screen.await_look(x="15.5", z="15.5")
