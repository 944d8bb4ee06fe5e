"""Levels that were not harvested are put together from deeper ones, and growth moves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PIL import ImageStat

from tests.browser.screen import Screen, Spot, apart, as_shown
from tests.browser.viewed_maps import AFTER_GROWTH, BEFORE_GROWTH, COAST, DAYS, DEEP, GROWING, tile
from tests.end_to_end.rendering import Rendering
from tests.servers.published import published

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.browser.viewed_maps import PublishedDays


def test_a_level_that_is_not_kept_looks_like_the_one_that_was_published(
    screen: Screen, published_days: PublishedDays
) -> None:
    coarse = tile(-3, 88, -24)  # All below it was published.
    middle = Spot.middle_of(coarse)
    screen.open(middle, map=DEEP)
    seen = screen.pixels(screen.square(coarse, middle))
    expected = as_shown(published_days.image(coarse, DAYS[3]))
    # Overviewer scales its levels in its own way: the same picture, but not the same pixels.
    assert ImageStat.Stat(seen).mean == pytest.approx(ImageStat.Stat(expected).mean, abs=3)
    small = [image.reduce(16) for image in (seen, expected)]
    assert apart(*small) < 30
    assert len(seen.getcolors(384 * 384) or []) > 1000


def test_a_screen_with_finer_pixels_shows_the_images_of_one_level_deeper(
    new_screen: Callable[..., Screen], published_days: PublishedDays
) -> None:
    screen, middle = new_screen(device_scale_factor=2), Spot(COAST.x, COAST.y, -1)
    screen.open(middle, map="antworld", day=DAYS[3])
    square = screen.square(COAST, middle)
    assert (square.width, square.name) == (192, published_days.name(COAST, DAYS[3]))


def test_growth_leaves_every_place_where_it_was(screen: Screen, shared_maps: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    before = Rendering(published(shared_maps, "alexjj", 1, site), depth=5).images()
    after = Rendering(published(shared_maps, "alexjj", 2, site), depth=6).images()
    same = [each for each in before if each.zoom == 0 and after.get(each) == before[each]]
    moved = max(same, key=lambda each: len(before[each]))
    for day in (BEFORE_GROWTH, AFTER_GROWTH):
        screen.open(Spot.middle_of(moved), map=GROWING, day=day)
        square = screen.square(moved, Spot.middle_of(moved))
        assert apart(screen.pixels(square), as_shown(before[moved])) <= 2
