"""The pictures on the screen are those that were published, and no more of them are fetched than must be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.browser.screen import Screen, Spot, apart, as_shown
from tests.browser.viewed_maps import COAST, DAYS, Viewer, around

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.browser.viewed_maps import PublishedDays
    from tests.servers.nginx import Nginx

MIDDLE: Final = Spot.middle_of(COAST)


@pytest.mark.parametrize("day", DAYS)
def test_the_slider_shows_the_picture_that_was_published_on_that_day(
    day: str, screen: Screen, published_days: PublishedDays
) -> None:
    screen.open(MIDDLE, map="antworld", day=DAYS[0] if day != DAYS[0] else DAYS[1])
    screen.choose_day(day)
    square = screen.square(COAST, MIDDLE)
    published = published_days.image(COAST, day)
    assert square.name == published_days.name(COAST, day)
    assert square.width == 384
    assert apart(screen.pixels(square), as_shown(published)) <= 2


def test_a_map_that_was_pulled_shows_pictures_as_sharp_as_before(
    screen: Screen, published_days: PublishedDays
) -> None:
    screen.open(MIDDLE, map="antworld", day=DAYS[3])
    screen.drag((400, 300), (460, 330))
    seen = screen.pixels(screen.square(COAST, Spot(MIDDLE.x - 60 / 192, MIDDLE.y + 30 / 192)))
    assert apart(seen, as_shown(published_days.image(COAST, DAYS[3]))) <= 2


def test_the_next_steps_are_loaded_before_anybody_makes_them_and_nothing_is_loaded_twice(
    watched: Screen, published_days: PublishedDays, images_asked: Callable[[], list[str]]
) -> None:
    watched.open(MIDDLE, map="antworld", day=DAYS[1])
    names = {published_days.name(tile, day) for tile in around(COAST) for day in DAYS} - {None}
    watched.page.wait_for_function(_LOADED, arg=sorted(map(str, names)))
    assert sorted(images_asked()) == sorted(map(str, names))
    for day in (DAYS[3], DAYS[0], DAYS[1]):
        watched.choose_day(day)
    watched.open(MIDDLE, map="antworld", day=DAYS[1])
    assert {square.name for square in watched.squares_in_view()} > {published_days.name(COAST, DAYS[1])}
    assert images_asked() == []


@pytest.fixture
def between(viewer: Viewer, nginx: Callable[..., Nginx]) -> Nginx:
    """A server between the browser and the viewer, which keeps a log: what the browser has is not in it."""
    return nginx(viewer.project.folder, location=f"proxy_pass {viewer.url};")


@pytest.fixture
def watched(new_screen: Callable[..., Screen], viewer: Viewer, between: Nginx) -> Screen:
    screen = new_screen()
    screen.viewer = Viewer(between.url, viewer.project)
    return screen


@pytest.fixture
def images_asked(between: Nginx) -> Callable[[], list[str]]:
    """The names of the images that reached the server since the last call."""

    def images_asked() -> list[str]:
        names = [
            line.path.removeprefix("/pictures/")
            for line in between.log()
            if line.path.startswith("/pictures/")
        ]
        between.clear_log()
        return names

    return images_asked


_LOADED: Final = """(names) => {
  const loaded = performance.getEntriesByType("resource").map(({ name }) => name);
  return names.every((name) => loaded.some((address) => address.endsWith(name)));
}"""
