"""The panels beside the map: what is new, the story of a tile, the story of some pixels, and heat."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.overviewer import drawn_at
from tests.browser.screen import DEPTH, Screen, Spot, in_words
from tests.browser.viewed_maps import COAST, DAYS, SHORE, around, tile
from tests.end_to_end.real_maps import ANTWORLD

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.browser.screen import Screen
    from tests.browser.viewed_maps import PublishedDays
    from tests.end_to_end.project import LayerTile

HERE = Spot.middle_of(COAST)


@pytest.fixture
def open_coast(screen: Screen) -> Screen:
    screen.open(HERE, map=ANTWORLD, day=DAYS[3])
    return screen


def panel(screen: Screen) -> Locator:
    return screen.page.get_by_role("complementary")


def test_what_is_new_has_an_address_of_its_own(screen: Screen) -> None:
    screen.open(map=ANTWORLD, new="day", day=DAYS[1])
    expect(panel(screen).get_by_role("heading", name="What is new")).to_be_visible()
    expect(panel(screen).get_by_label("Period")).to_have_value("day")
    panel(screen).get_by_label("Period").select_option("month")
    screen.await_look(new="month")
    screen.page.keyboard.press("Escape")
    expect(panel(screen)).to_be_hidden()
    screen.page.wait_for_function("() => !location.hash.includes('new=')")
    screen.page.get_by_role("button", name="What is new").click()
    screen.await_look(new="month")
    # A link to the map alone shows the map alone.
    screen.page.evaluate("(hash) => { location.hash = hash; }", f"#map={ANTWORLD}&day={DAYS[3]}")
    expect(panel(screen)).to_be_hidden()


def test_the_period_and_the_view_choose_what_is_told(open_coast: Screen) -> None:
    screen = open_coast
    screen.page.get_by_role("button", name="What is new").click()
    events = panel(screen).locator(".events li")
    panel(screen).get_by_label("only in view").check()
    expect(events).to_have_count(1)
    panel(screen).get_by_label("Period").select_option("day")
    screen.choose_day(DAYS[2])
    # What grew on that day lies elsewhere.
    expect(panel(screen)).to_contain_text("Nothing changed in this time.")
    panel(screen).get_by_label("only in view").uncheck()
    expect(events).to_have_count(1)
    expect(events).to_contain_text("55 new tiles")


def test_two_corners_can_be_written_instead(open_coast: Screen) -> None:
    screen = open_coast
    x, z = (round(float(value)) for value in (screen.look()["x"], screen.look()["z"]))
    screen.page.get_by_role("button", name="When did this change?").click()
    panel(screen).get_by_label("One corner").fill("here")
    panel(screen).get_by_role("button", name="Find out").click()
    expect(panel(screen).locator(".story")).to_have_count(0)
    panel(screen).get_by_label("One corner").fill(f"{x - 4} {z - 4}")
    panel(screen).get_by_label("The other corner").fill(f"{x + 3}, {z + 3}")
    with screen.page.expect_request("**/pixels?*") as asked:
        panel(screen).get_by_role("button", name="Find out").click()
    west, south, east, north = map(float, parse_qs(urlsplit(asked.value.url).query)["ground"][0].split(","))
    assert west < HERE.x < east
    assert south < HERE.y < north
    # Eight blocks each way, seen aslant: 16 of Overviewer's steps of 12 pixels in a tile of 384.
    assert east - west == pytest.approx(16 * 12 / 192, abs=1e-5)
    expect(panel(screen).locator(".story li")).not_to_have_count(0)


def open_story(screen: Screen, tile: LayerTile, aside: float = 0.3) -> Locator:
    """Click on a tile that is in view; gives its versions."""
    x, y = screen.point(tile.x + aside, tile.y, HERE)
    screen.page.mouse.click(x, y)
    expect(panel(screen)).to_contain_text(f"Tile {tile.zoom}_{tile.x}_{tile.y}")
    return panel(screen).get_by_role("listitem")


def test_a_click_tells_the_versions_of_a_tile_and_each_is_compared_with_the_one_before(
    open_coast: Screen, published_days: PublishedDays
) -> None:
    screen = open_coast
    versions = open_story(screen, SHORE)
    days = published_days.days_of(SHORE)
    assert len(days) == 3
    expect(versions.locator("strong")).to_have_text([in_words(day) for day in reversed(days)])
    versions.first.get_by_role("button", name="Compare with previous").click()
    screen.await_look(mode="swipe", day=DAYS[3], **{"with": DAYS[1]})
    squares = [screen.square(SHORE, HERE, pane) for pane in ("other", "pictures")]
    assert [each.name for each in squares] == [published_days.name(SHORE, day) for day in (DAYS[1], DAYS[3])]
    beside = COAST._replace(x=COAST.x - 4)
    assert published_days.days_of(beside) == []
    screen.open(HERE, map=ANTWORLD)
    expect(open_story(screen, beside, 0.8)).to_have_count(0)
    expect(panel(screen)).to_contain_text("Nothing was ever recorded here.")


EVER: Final = f"{DAYS[0]}..{DAYS[3]}"


def changes_between(days: PublishedDays, tile: LayerTile, heat: str) -> int:
    """On how many days after the first of the two, and until the second, a tile changed."""
    after, until = heat.split("..")
    return sum(after < day <= until for day in days.days_of(tile))


def colours(screen: Screen, middle: Spot, tiles: list[LayerTile]) -> dict[LayerTile, str]:
    """What is drawn over the middle of each tile; empty where nothing is."""
    found: dict[LayerTile, str] = {}
    for each in tiles:
        x, y = screen.point(each.x, each.y, middle)
        found[each] = screen.page.evaluate(_COLOUR_AT, [x, y])
    return found


def test_tiles_are_coloured_by_the_days_on_which_they_changed_while_the_heat_is_switched_on(
    open_coast: Screen, published_days: PublishedDays
) -> None:
    """Those that changed on as many days have one colour, which no others have; the rest has none."""
    screen, tiles = open_coast, around(COAST)
    switch = screen.page.get_by_role("button", name="Heat map")
    expect(switch).to_have_attribute("aria-pressed", "false")
    switch.click()
    expect(switch).to_have_attribute("aria-pressed", "true")
    expect(screen.page.get_by_label("From", exact=True)).to_have_value(DAYS[0])
    expect(screen.page.get_by_label("To", exact=True)).to_have_value(DAYS[3])
    screen.await_map()
    counts = {each: changes_between(published_days, each, EVER) for each in tiles}
    found = colours(screen, HERE, tiles)
    assert {each for each in tiles if found[each]} == {each for each in tiles if counts[each]}
    pairs = {(counts[each], found[each]) for each in tiles}
    assert len(pairs) == len(set(counts.values())) == len(set(found.values())) > 1
    switch.click()
    expect(panel(screen)).to_be_hidden()
    screen.await_map()
    assert set(colours(screen, HERE, tiles).values()) == {""}


def test_places_that_changed_are_links_that_show_them_before_and_after(
    screen: Screen, published_days: PublishedDays
) -> None:
    screen.open(HERE, map=ANTWORLD, heat=EVER)
    link = panel(screen).get_by_role("link").first
    said = re.fullmatch(r"X (-?\d+), Z (-?\d+): changed on (\d+) days?", link.inner_text())
    assert said is not None
    link.click()
    screen.await_look(x=said[1], z=said[2], mode="swipe", day=DAYS[3], **{"with": DAYS[0]})
    assert "heat" not in screen.look()
    left, up = grid_at(float(said[1]), float(said[2]))
    there = tile(0, int(left // 2 * 2 + 1), int(up // 2 * 2 + 1))
    assert changes_between(published_days, there, EVER) == int(said[3])
    middle = Spot(left, up, zoom=float(screen.look()["zoom"]))
    assert screen.square(there, middle).name == published_days.name(there, DAYS[3])
    assert screen.square(there, middle, "other").name == (published_days.name(there, DAYS[0]) or "")


def grid_at(x: float, z: float) -> tuple[float, float]:
    """The point of the grid where Overviewer draws a block."""
    left, top = drawn_at(x, 64, z, DEPTH)
    return (left - 0.5) * 2 ** (DEPTH + 1), (0.5 - top) * 2 ** (DEPTH + 1)


@pytest.mark.parametrize("device", ["screen", "phone"])
def test_a_panel_lies_beside_the_map_and_its_day(device: str, request: pytest.FixtureRequest) -> None:
    screen: Screen = request.getfixturevalue(device)
    screen.open(HERE, map=ANTWORLD)
    screen.part("events-switch").click()
    left, top, width, height = screen.box("panel")
    for part in ("map", "day", "slider"):
        x, y, wide, high = screen.box(part)
        across = x + wide <= left + 1 or left + width <= x + 1
        assert across or y + high <= top + 1 or top + height <= y + 1, part


def test_before_the_first_area_its_page_says_how_to_add_one(screen: Screen) -> None:
    screen.open(HERE, map=ANTWORLD)
    screen.page.get_by_role("link", name="Areas").click()
    expect(screen.part("areas-page")).to_contain_text("No area has a name yet")
    expect(screen.page.locator("#areas-page pre")).to_contain_text("tileharvest areas NAME add")


_COLOUR_AT: Final = """([x, y]) => {
  for (const canvas of document.querySelectorAll("#map .leaflet-heat-pane canvas")) {
    const { left, top, right, bottom, width } = canvas.getBoundingClientRect();
    if (x < left || x >= right || y < top || y >= bottom) continue;
    const scale = canvas.width / width;
    const [red, green, blue, opacity] =
      canvas.getContext("2d").getImageData((x - left) * scale, (y - top) * scale, 1, 1).data;
    return opacity === 0 ? "" : `${red} ${green} ${blue}`;
  }
  return "";
}"""
