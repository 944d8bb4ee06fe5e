"""The README's pictures of the viewer, made of the demo's world, which is the project's own.

With TILEHARVEST_PICTURES=1 in the environment they take the place of those in `docs/pictures`.
"""

from __future__ import annotations

import os
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.browser.screen import Screen
from tests.browser.viewed_maps import serving
from tests.end_to_end.project import Project
from tests.servers.nginx import nginx
from tileharvest.demo.publication import publish
from tileharvest.demo.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Page

    from tests.browser.viewed_maps import Viewer

_MAP: Final = "island"
_DAYS: Final = [(date(2026, 11, 18) + timedelta(days=days)).isoformat() for days in range(3)]
_PICTURES: Final = Path(__file__).resolve().parents[2] / "docs" / "pictures"
_LEAST_COLOURS: Final = 10_000
"""A page without its map has a few hundred."""


@pytest.fixture(scope="module")
def island(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """The demo's three days, harvested and served."""
    folder = tmp_path_factory.mktemp("island")
    project = Project(folder)
    site = folder / "site"
    site.mkdir()
    with nginx(site) as server:
        project.add_map(_MAP, server.url, timezone="UTC")
        for number, day in enumerate(_DAYS, start=1):
            publish(World(), number, date.fromisoformat(_DAYS[0]), site)
            project.crawl(_MAP, day)
    with serving(project) as viewer:
        yield viewer


@pytest.fixture
def pictured(open_page: Callable[..., Page], island: Viewer) -> Screen:
    return Screen(open_page(viewport={"width": 1280, "height": 800}, color_scheme="light"), island)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return _PICTURES if os.environ.get("TILEHARVEST_PICTURES") == "1" else tmp_path


def take(page: Page, file: Path) -> None:
    page.mouse.move(640, 790)
    page.screenshot(path=file)
    with Image.open(file) as picture:
        colours = picture.convert("RGB").getcolors(maxcolors=1 << 24)
    assert colours is not None
    assert len(colours) > _LEAST_COLOURS


def test_picture_of_the_slider_and_a_story(pictured: Screen, folder: Path) -> None:
    pictured.open(map=_MAP, day=_DAYS[1], x="215", z="-168", zoom="-2")
    pictured.page.mouse.click(660, 380)
    panel = pictured.part("panel")
    expect(panel.get_by_role("img")).to_have_count(3)
    expect(panel.get_by_text("% changed")).to_have_count(2)
    expect(pictured.part("day-change")).to_contain_text("changed")
    take(pictured.page, folder / "viewer-slider.png")


def test_picture_of_two_days_compared(pictured: Screen, folder: Path) -> None:
    look = {"day": _DAYS[2], "with": _DAYS[0], "mode": "swipe", "x": "219", "z": "-225", "zoom": "-1"}
    pictured.open(map=_MAP, **look)
    expect(pictured.part("swipe")).to_be_visible()
    expect(pictured.part("day-change")).to_contain_text("changed")
    take(pictured.page, folder / "viewer-compare.png")


def test_picture_of_the_time_lens(pictured: Screen, folder: Path) -> None:
    look = {"day": _DAYS[2], "with": _DAYS[0], "mode": "lens", "x": "219", "z": "-225", "zoom": "-1"}
    pictured.open(map=_MAP, **look)
    expect(pictured.part("lens")).to_be_visible()
    pictured.page.mouse.move(795, 285)
    expect(pictured.part("day-change")).to_contain_text("changed")
    take(pictured.page, folder / "viewer-lens.png")
