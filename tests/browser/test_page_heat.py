"""The heat map: where, how often and in which period anything changed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from playwright.sync_api import expect

from tests.browser.overviewer import drawn_at
from tests.browser.screen import DEPTH, Screen, Spot
from tests.browser.viewed_maps import COAST, DAYS, around, tile

if TYPE_CHECKING:
    from tests.browser.viewed_maps import PublishedDays
    from tests.end_to_end.project import LayerTile

MIDDLE: Final = Spot.middle_of(COAST)
EVER: Final = f"{DAYS[0]}..{DAYS[3]}"


def open_heat(screen: Screen, spot: Spot, heat: str) -> None:
    screen.open(spot, map="antworld", heat=heat)
    expect(screen.part("panel")).to_be_visible()
    screen.await_map()


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


def test_tiles_are_coloured_by_the_days_on_which_they_changed(
    screen: Screen, published_days: PublishedDays
) -> None:
    """Those that changed on as many days have one colour, which no others have; the rest has none."""
    open_heat(screen, MIDDLE, EVER)
    tiles = around(COAST)
    counts = {each: changes_between(published_days, each, EVER) for each in tiles}
    found = colours(screen, MIDDLE, tiles)
    assert {each for each in tiles if found[each]} == {each for each in tiles if counts[each]}
    pairs = {(counts[each], found[each]) for each in tiles}
    assert len(pairs) == len(set(counts.values())) == len(set(found.values())) > 1


def test_places_that_changed_are_links_that_lead_there(screen: Screen, published_days: PublishedDays) -> None:
    open_heat(screen, MIDDLE, EVER)
    links = screen.part("panel").get_by_role("link")
    expect(links).not_to_have_count(0)
    for index in range(2):
        said = re.fullmatch(
            r"X (-?\d+), Z (-?\d+): changed on (one|\d+) days?", links.nth(index).inner_text()
        )
        assert said is not None
        links.nth(index).click()
        # What lies there is seen without the colours, before and after.
        screen.await_look(x=said[1], z=said[2], mode="swipe", day=DAYS[3], **{"with": DAYS[0]})
        assert "heat" not in screen.look()
        there = tile_at(float(said[1]), float(said[2]))
        assert changes_between(published_days, there, EVER) == (1 if said[3] == "one" else int(said[3]))
        middle = Spot(*grid_at(float(said[1]), float(said[2])), zoom=float(screen.look()["zoom"]))
        assert screen.square(there, middle).name == published_days.name(there, DAYS[3])
        assert screen.square(there, middle, "other").name == (published_days.name(there, DAYS[0]) or "")
        screen.page.go_back()
        expect(screen.part("panel")).to_be_visible()


def grid_at(x: float, z: float) -> tuple[float, float]:
    """The point of the grid where Overviewer draws a block."""
    left, top = drawn_at(x, 64, z, DEPTH)
    return (left - 0.5) * 2 ** (DEPTH + 1), (0.5 - top) * 2 ** (DEPTH + 1)


def tile_at(x: float, z: float) -> LayerTile:
    """The tile of zoom 0 that shows a block."""
    across, up = grid_at(x, z)
    return tile(0, int(across // 2 * 2 + 1), int(up // 2 * 2 + 1))


def test_the_switch_opens_and_closes_the_heat_map(screen: Screen) -> None:
    screen.open(MIDDLE, map="antworld")
    switch = screen.page.get_by_role("button", name="Heat map")
    expect(switch).to_have_attribute("aria-pressed", "false")
    switch.click()
    expect(switch).to_have_attribute("aria-pressed", "true")
    expect(screen.part("heat-after")).to_have_value(DAYS[0])
    expect(screen.part("heat-until")).to_have_value(DAYS[3])
    switch.click()
    expect(screen.part("panel")).to_be_hidden()
    screen.await_map()
    assert set(colours(screen, MIDDLE, around(COAST)).values()) == {""}


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
