"""The README's pictures of the viewer, made of the demo's world, which is the project's own.

With TILEHARVEST_PICTURES=1 in the environment they take the place of those in `docs/pictures`.
"""

import os
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Final

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.browser.screen import DESK, Screen
from tests.end_to_end.project import Project
from tests.servers.nginx import nginx
from tests.viewer.asking import serving
from tileharvest.demo.publication import publish

_DAYS: Final = [(date(2026, 11, 18) + timedelta(days=days)).isoformat() for days in range(3)]
_PICTURES: Final = Path(__file__).resolve().parents[2] / "docs" / "pictures"
_PAIR: Final = {"day": _DAYS[2], "with": _DAYS[0], "x": "219", "z": "-225", "zoom": "-1"}
_LOOKS: Final = {
    "slider": ({"day": _DAYS[1], "x": "215", "z": "-168", "zoom": "-2"}, (660, 380), "#panel li img"),
    "compare": ({**_PAIR, "mode": "swipe"}, None, "#swipe"),
    "lens": ({**_PAIR, "mode": "lens"}, (795, 285), "#lens"),
}
"""How each picture looks, where the mouse is, and what must be seen."""
_LEAST_COLOURS: Final = 10_000
"""A page without its map has a few hundred."""


@pytest.mark.repetition
def test_the_pictures_of_the_readme(open_page: Callable[..., Page], tmp_path: Path) -> None:
    project, site = Project(tmp_path), tmp_path / "site"
    site.mkdir()
    with nginx(site) as server:
        project.add_map("island", server.url, timezone="UTC")
        for number, day in enumerate(_DAYS, start=1):
            publish(number, date.fromisoformat(_DAYS[0]), site)
            project.crawl("island", day)
    folder = _PICTURES if os.environ.get("TILEHARVEST_PICTURES") == "1" else tmp_path
    with serving(project) as client:
        for name, (look, mouse, seen) in _LOOKS.items():
            page = open_page(**DESK)
            Screen(page, client.url).open(map="island", **look)
            if mouse is not None:
                page.mouse.click(*mouse) if name == "slider" else page.mouse.move(*mouse)
            expect(page.locator(seen).first).to_be_visible()
            expect(page.locator("#day-change")).to_contain_text("changed")
            page.screenshot(path=folder / f"viewer-{name}.png")
            page.close()
            with Image.open(folder / f"viewer-{name}.png") as picture:
                assert picture.convert("RGB").getcolors(maxcolors=_LEAST_COLOURS) is None
