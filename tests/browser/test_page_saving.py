"""What is in view, saved from the page as a picture and as a film."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import av
import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.browser.screen import DESK, Screen
from tests.viewer.asking import serving
from tests.viewer.building import (
    BLUE,
    FIRST,
    GREEN,
    IN_BLOCKS,
    MAP,
    RED,
    SECOND,
    THIRD,
    World,
    picture,
    square,
)
from tileharvest.tiles.grid import Tile

APART: Final = 16
"""By how much a colour may differ in a film: it has 6 bits for a pixel and second, and 220 steps of light."""


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Green, with a tile right below the origin that turns blue and then red."""
    world, right_below = World(tmp_path_factory.mktemp("changing")), Tile(0, 1, -1)
    world.harvest(FIRST, dict.fromkeys(square(0, 24, -12, -12), picture(GREEN, 64)), described=IN_BLOCKS)
    for day, colour in ((SECOND, BLUE), (THIRD, RED)):
        world.harvest(day, {right_below: picture(colour, 64)}, described=IN_BLOCKS)
    with serving(world) as client:
        yield client.url


def saved(page: Page, button: str, folder: Path) -> Path:
    with page.expect_download() as download:
        page.get_by_role("button", name=button, exact=True).click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    expect(page.get_by_role("status").filter(has_text=path.name)).to_be_visible()
    return path


def opened(page: Page, viewer: str, more: str) -> tuple[int, int]:
    """The size of the map beside the open panel, in whose middle the origin is."""
    screen = Screen(page, viewer)
    screen.open_hash(f"#map={MAP}&x=-0.5&z=-0.5&zoom=0{more}")
    screen.await_map()
    screen.part("save-switch").click()
    expect(screen.part("save-picture")).to_be_visible()
    # The panel has taken some room from the map, which looks anew at what is in view.
    screen.await_map()
    # Of the days that are counted a film is made.
    expect(screen.part("day-change")).not_to_have_text(re.compile("^$|…"))
    _, _, width, height = screen.box("map")
    return round(width), round(height)


def test_a_picture_shows_just_what_is_in_view_on_its_day(page: Page, changing: str, tmp_path: Path) -> None:
    width, height = opened(page, changing, f"&day={SECOND}")
    path = saved(page, "Save picture", tmp_path)
    assert path.name == f"{MAP}-{SECOND}.png"
    with Image.open(path) as image:
        assert image.size == (width, height)
        # The tile lies right below the middle and has 64 pixels.
        for colour, places in ((BLUE, [(3, 3), (60, 60)]), (GREEN, [(-4, 32), (70, 32), (32, -4)])):
            for across, down in places:
                at = width // 2 + across, height // 2 + down
                assert image.convert("RGBA").getpixel(at) == colour
        # The day stands at the lower left.
        corner = image.convert("RGB").crop((0, height - 60, 300, height))
        assert (255, 255, 255) in {colour for _, colour in corner.getcolors(100_000) or ()}


def test_two_days_become_one_picture(page: Page, changing: str, tmp_path: Path) -> None:
    width, height = opened(page, changing, f"&day={THIRD}&other={SECOND}&mode=swipe")
    path = saved(page, "Save before and after", tmp_path)
    assert path.name == f"{MAP}-{SECOND}-{THIRD}.png"
    with Image.open(path) as image:
        assert image.size == (2 * width + 8, height)
        places = [(left + width // 2 + 32, height // 2 + 32) for left in (0, width + 8)]
        assert [image.convert("RGBA").getpixel(place) for place in places] == [BLUE, RED]


def test_a_film_shows_each_day_on_which_something_in_view_changed(
    open_page: Callable[..., Page], changing: str, tmp_path: Path
) -> None:
    page = open_page(**DESK, locale="zh-CN")
    width, height = opened(page, changing, f"&day={THIRD}")
    path = saved(page, "保存影片", tmp_path)
    assert path.name == f"{MAP}-{FIRST}-{THIRD}.webm"
    with av.open(path) as container:
        assert container.duration is not None
        assert container.duration / 1_000_000 == pytest.approx(0.5 + 0.5 + 0.1 + 2.05, abs=0.01)
        frames = list(container.decode(video=0))
    assert (frames[0].width, frames[0].height) == (width & ~1, height & ~1)
    for frame, expected in zip((frames[0], frames[3], frames[-1]), (GREEN, BLUE, RED), strict=True):
        colour = frame.to_image().convert("RGB").getpixel((width // 2 + 32, height // 2 + 32))
        assert max(abs(one - other) for one, other in zip(colour, expected, strict=False)) <= APART
