"""Where one is: coordinates as the map's own page has them, and ways to go to a place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from tests.browser.overviewer import block_at, drawn_at
from tests.browser.screen import DEPTH, Screen, Spot
from tests.browser.viewed_maps import COAST, DAYS, tile

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Route

    from tests.browser.viewed_maps import PublishedDays

SPAWN: Final = (216, 80, 183)
"""X, height and Z in antworld's own config."""


def spot_of(x: float, y: float, z: float, zoom: int = 0) -> Spot:
    """Where Overviewer draws a place of the world."""
    left, top = drawn_at(x, y, z, DEPTH)
    return Spot((left - 0.5) * 2 ** (DEPTH + 1), (0.5 - top) * 2 ** (DEPTH + 1), zoom)


def moved(spot: Spot, right: float, down: float) -> Spot:
    """So many pixels of the screen away."""
    unit = 192 * 2.0**spot.zoom
    return Spot(spot.x + right / unit, spot.y - down / unit, spot.zoom)


@pytest.mark.parametrize(
    ("middle", "right", "down"),
    [(Spot(83, -21), 143, -77), (Spot(-105, -23), -301, 156), (Spot(1, 1, 2), -199, 107)],
    ids=["coast", "desert", "enlarged"],
)
def test_the_block_under_the_pointer_is_the_one_that_overviewer_shows(
    middle: Spot, right: float, down: float, screen: Screen, published_days: PublishedDays
) -> None:
    # Points well within a block: the map's middle can lie on half a pixel.
    near = {
        block_at(*moved(middle, right + across, down + along).fractions, DEPTH)
        for across in (-1, 1)
        for along in (-1, 1)
    }
    assert len(near) == 1
    screen.open(middle, map="antworld")
    x, y = screen.point(middle.x, middle.y, middle)
    screen.page.mouse.move(x + right, y + down)
    ((block_x, block_z),) = near
    expect(screen.part("coordinates")).to_have_text(f"X {block_x}, Z {block_z}")
    there = tile(0, int(middle.x), int(middle.y))
    assert screen.square(there, middle).name == published_days.name(there, DAYS[3])


def test_a_place_that_is_typed_is_brought_to_the_middle(
    screen: Screen, published_days: PublishedDays
) -> None:
    screen.open(Spot(1, 1), map="antworld")
    look = screen.await_place()
    screen.part("go-to-place").fill("528, 64, 816")
    screen.part("go-to-place").press("Enter")
    screen.await_moved(look)
    middle = spot_of(528, 64, 816)
    assert screen.square(COAST, middle).name == published_days.name(COAST, DAYS[3])


def test_what_is_not_on_the_map_is_refused_and_the_map_stays_where_it_is(screen: Screen) -> None:
    """The published tiles are a cut of the map, in which its spawn does not lie."""
    screen.open(Spot.middle_of(COAST), map="antworld")
    field, look = screen.part("go-to-place"), screen.await_place()
    for typed, place in (("X 528000, Z 816", "X 528000, Z 816"), ("spawn", "X 232, Z 167")):
        field.fill(typed)
        field.press("Enter")
        expect(field).to_have_js_property("validationMessage", f"{place} lies outside the map.")
    field.fill("north")
    screen.page.get_by_role("button", name="Go", exact=True).click()
    assert field.evaluate("(field) => field.validationMessage").startswith("Write X and Z")
    assert screen.look() == look


def test_a_named_area_can_be_gone_to_by_its_name(new_screen: Callable[..., Screen]) -> None:
    """The server's answers are made up: the page alone is tested."""
    screen = new_screen()
    area = {"name": "My base", "layer": "world-lighting", "corners": [[500, 800], [560, 840]]}
    areas = {"areas": [{**area, "place": {"x": 528, "z": 816, "zoom": -1}}]}

    def with_an_area(route: Route) -> None:
        answer = route.fetch().json()
        answer["maps"] = [{**each, "areas": 1} for each in answer["maps"]]
        route.fulfill(json=answer)

    screen.page.route("**/api/v1/maps", with_an_area)
    screen.page.route("**/maps/antworld/areas", lambda route: route.fulfill(json=areas))
    screen.open(Spot(1, 1), map="antworld", day=DAYS[1])
    screen.part("go-to-place").fill("my base")
    screen.part("go-to-place").press("Enter")
    screen.await_look(x="528", z="816", zoom="-1", day=DAYS[1])


def test_a_link_of_the_maps_own_page_that_is_pasted_leads_to_the_same_place(screen: Screen) -> None:
    screen.open(Spot(1, 1), map="antworld")
    link = "https://antworld.example.net/map/#/216/80/183/-3/world/world-lighting"
    screen.part("go-to-place").fill(link)
    screen.part("go-to-place").press("Enter")
    screen.await_look(zoom="-3")
    spot = spot_of(*SPAWN, -3)
    # Also of tiles: the pin alone could be wrong as the place is.
    screen.square(tile(-3, int(spot.x // 16 * 16 + 8), int(spot.y // 16 * 16 + 8)), spot)
    box = screen.page.get_by_role("img", name="Spawn").bounding_box()
    assert box is not None
    x, y = screen.point(spot.x, spot.y, spot)
    # The pin's tip is at its lower end.
    assert abs(box["x"] + box["width"] / 2 - x) < 3
    assert abs(box["y"] + box["height"] - y) < 5
