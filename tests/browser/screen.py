"""What a person sees of the viewer's page, and does with it."""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlencode

from PIL import Image, ImageChops
from playwright.sync_api import Locator, Page, expect

from tests.end_to_end.project import LayerTile
from tileharvest.renderers.overviewer import projection_of

PATIENCE: Final = 60_000
"""Milliseconds that an expectation or an action waits, far below a test's time limit."""
DESK: Final[dict[str, Any]] = {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"}
PHONE: Final[dict[str, Any]] = {
    "viewport": {"width": 390, "height": 844},
    "screen": {"width": 390, "height": 844},
    "has_touch": True,
    "is_mobile": True,
}
TILE_SIZE: Final = 384
BEHIND: Final = (0x1A, 0x1A, 0x1A, 255)
"""antworld's own background colour."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A place on a layer, by its distance from the map's centre in grid units, y upwards, and a zoom."""

    x: float
    y: float
    zoom: float = 0

    @classmethod
    def middle_of(cls, tile: LayerTile) -> Spot:
        """At the tile's own zoom."""
        return cls(tile.x, tile.y, tile.zoom)

    @classmethod
    def of_block(cls, x: float, z: float, zoom: float = 0, above: int = 0) -> Spot:
        """Where Overviewer draws a block at height 64, or some blocks above that."""
        left, up = projection_of(TILE_SIZE, 0).point_of(x + 0.5, z + 0.5)
        return cls(left, up + above / 16, zoom)

    @property
    def look(self) -> dict[str, str]:
        """What an address says to have this in the middle of the map: whole numbers are middles of blocks."""
        x, z = projection_of(TILE_SIZE, 0).place_at(self.x, self.y)
        return {"x": f"{x - 0.5:g}", "z": f"{z - 0.5:g}", "zoom": str(self.zoom)}


class Square(NamedTuple):
    """A tile's place on the screen, in pixels of the page, with the address of its picture, or none."""

    left: float
    top: float
    width: float
    height: float
    source: str

    @property
    def name(self) -> str:
        """The last part of the picture's address."""
        return self.source.rsplit("/", 1)[-1]


class Screen:
    """A page that shows a viewer, and where on it things are."""

    def __init__(self, page: Page, url: str) -> None:
        """The address is that of the viewer's page, without what follows `#`."""
        self.page = page
        self.url = url
        self._waits = 0

    def open(self, spot: Spot | None = None, **look: str) -> None:
        """Open an address as in a new tab, and wait until the map is drawn."""
        self.open_hash(f"#{urlencode({**look, **(spot.look if spot else {})})}")
        self.await_map()

    def open_hash(self, hash: str) -> None:  # noqa: A002 - its name in browsers
        """Open an address, whatever page it leads to."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}{hash}")

    def await_map(self) -> None:
        """Wait until every square of the map is filled and nothing moves or fades any more.

        It must be so in some frames after each other: a map that has got another size learns of it in the
        next one.
        """
        self._waits += 1
        self.page.wait_for_function(_STILL, arg=self._waits)

    def await_look(self, *named: str, **values: str) -> dict[str, str]:
        """Wait until the address has these names, and others with these values, and the map is drawn there.
        Returns what the address says."""
        self.page.wait_for_function(_IS_THERE, arg=[named, values])
        self.await_map()
        return dict(parse_qsl(self.page.evaluate("location.hash.slice(1)")))

    def part(self, id: str) -> Locator:  # noqa: A002 - its name in documents
        return self.page.locator(f"#{id}")

    @property
    def panel(self) -> Locator:
        return self.page.get_by_role("complementary")

    def press(self, name: str) -> None:
        """Click on the button of that name."""
        self.page.get_by_role("button", name=name, exact=True).click()

    def box(self, id: str) -> tuple[float, float, float, float]:  # noqa: A002 - its name in documents
        """Left, top, width and height of a part that is seen."""
        expect(self.part(id)).to_be_visible()
        box = self.part(id).bounding_box()
        assert box is not None
        return box["x"], box["y"], box["width"], box["height"]

    def choose_day(self, day: str) -> None:
        """Pull the slider there."""
        self.part("slider").fill(day_number(day))
        self.await_map()

    def expect_day(self, day: str) -> None:
        """Wait until the slider stands there."""
        expect(self.part("slider")).to_have_value(day_number(day))

    def choose_mode(self, name: str) -> None:
        """Choose a way of comparing by its name on the page."""
        self.part("modes").get_by_text(name, exact=True).click()
        self.await_map()

    def pull(self, *points: tuple[float, float]) -> None:
        """Pull what is at the first point over the others, with the mouse or, on a telephone, a finger."""
        if self.page.viewport_size == PHONE["viewport"]:
            move_fingers(self.page, *([point] for point in points))
        else:
            self.page.mouse.move(*points[0])
            self.page.mouse.down()
            for point in points[1:]:
                self.page.mouse.move(*point)
            self.page.mouse.up()

    def heat_at(self, x: float, y: float) -> str:
        """The colour that is drawn over a point of the page; empty where nothing is."""
        return str(self.page.evaluate(_HEAT_AT, [x, y]))

    def squares(self, pane: str = "pictures", map: str = "map") -> list[Square]:  # noqa: A002 - the part's id
        """All tiles of a pane that are there, seen or not."""
        found = self.page.evaluate(_SQUARES, f"#{map} .leaflet-{pane}-pane .leaflet-tile")
        return [Square(*each) for each in found]

    def square(self, tile: LayerTile, middle: Spot, pane: str = "pictures", map: str = "map") -> Square:  # noqa: A002
        """The square that lies where the tile must be, when that spot is in the middle of the map."""
        at = self.point(tile.x, tile.y, middle, map)
        near = [
            square
            for square in self.squares(pane, map)
            # Squares lie on whole pixels, enlarged or not.
            if math.dist((square.left + square.width / 2, square.top + square.height / 2), at) < 4
        ]
        assert len(near) == 1, f"{len(near)} squares at {at}"
        return near[0]

    def point(self, x: float, y: float, middle: Spot, map: str = "map") -> tuple[float, float]:  # noqa: A002
        """Where on the page a point of the grid must be."""
        left, top = self.part(map).evaluate(_MIDDLE)
        unit = TILE_SIZE / 2 * 2.0**middle.zoom
        return left + (x - middle.x) * unit, top + (middle.y - y) * unit

    def pixels(self, left: float, top: float, width: float, height: float) -> Image.Image:
        """What is on the screen there, whatever lies above the map included."""
        values = map(round, (left, top, width, height))
        clip = dict(zip(("x", "y", "width", "height"), values, strict=True))
        return Image.open(io.BytesIO(self.page.screenshot(clip=clip))).convert("RGB")

    def shows(
        self, square: Square, image: Image.Image, part: tuple[int, int, int, int] | None = None
    ) -> bool:
        """Whether the square looks like the image, all of it or a part. Blending rounds."""
        seen = self.pixels(square.left, square.top, square.width, square.width)
        return apart(seen.crop(part), image.crop(part)) <= 3


def eventually(check: Callable[[], bool]) -> None:
    """Repeat a check of what the page shows until it holds: what a person did may be drawn a frame later."""
    until = time.monotonic() + PATIENCE / 1000
    while True:
        with suppress(AssertionError):  # A square may not be there yet.
            if check():
                return
        assert time.monotonic() < until, "the page does not come to show it"
        time.sleep(0.05)


def open_harvests(screen: Screen) -> None:
    """Open the page of harvests, and on it those of each map."""
    screen.open_hash("#harvests")
    tables = screen.page.locator(".all-harvests")
    expect(tables.first).to_be_visible()
    tables.evaluate_all("all => { for (const one of all) one.open = true; }")
    expect(screen.page.get_by_role("table").first).to_be_visible()


def await_refusal(screen: Screen, words: str) -> None:
    """Wait until the field for places refuses what was typed in words that begin so."""
    begins = "([field, words]) => field.validationMessage.startsWith(words)"
    screen.page.wait_for_function(begins, arg=[screen.part("go-to-place").element_handle(), words])


def move_fingers(page: Page, *moments: list[tuple[float, float]]) -> None:
    """Put fingers on the first points, pull them over the others, and take them away."""
    touch = page.context.new_cdp_session(page)
    for number, points in enumerate(moments):
        events = [{"x": x, "y": y, "id": finger} for finger, (x, y) in enumerate(points)]
        kind = "touchMove" if number else "touchStart"
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": events})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def day_number(day: str) -> str:
    """The slider's value on a day: days since 1970."""
    return str(date.fromisoformat(day).toordinal() - date(1970, 1, 1).toordinal())


def in_words(day: str, style: str = "long") -> str:
    """As the page writes a day in English, in full or with `medium` shortly."""
    parsed = date.fromisoformat(day)
    return f"{parsed:%B}"[: None if style == "long" else 3] + f" {parsed.day}, {parsed.year}"


def as_shown(body: bytes) -> Image.Image:
    """A tile's file as it must look on the map's background."""
    tile = Image.open(io.BytesIO(body)).convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", tile.size, BEHIND), tile).convert("RGB")


def apart(first: Image.Image, second: Image.Image) -> int:
    """By how much the pixels differ that differ most, in 255ths."""
    extremes = ImageChops.difference(first, second).getextrema()
    return max(int(high) for _, high in extremes)


_STILL: Final = """(wait) => {
  const all = (selector) => [...document.querySelectorAll(`#stage ${selector}`)];
  const maps = all(".map:not([hidden])");
  const isStill = !document.getElementById("map-page").hidden
    && maps.length > 0 && maps.every((map) => map.getAttribute("aria-busy") === "false")
    && all(".leaflet-zoom-anim, .leaflet-pan-anim").length === 0
    && all(".leaflet-tile").every((square) => getComputedStyle(square).opacity === "1");
  if (window.stillFrames?.wait !== wait || !isStill) window.stillFrames = { wait, count: 0 };
  window.stillFrames.count += isStill ? 1 : 0;
  return window.stillFrames.count > 3;
}"""

# A link changes the address at once. When the page has gone there, its own link to the map leads there too.
_IS_THERE: Final = """([named, values]) => {
  const told = new URLSearchParams(location.hash.slice(1));
  return document.getElementById("to-map").href === location.href && named.every((name) => told.has(name))
    && Object.entries(values).every(([key, value]) => told.get(key) === value);
}"""

_MIDDLE: Final = """(map) => {
  const { left, top } = map.getBoundingClientRect();
  return [left + map.clientLeft + map.clientWidth / 2, top + map.clientTop + map.clientHeight / 2];
}"""

_SQUARES: Final = """(selector) => [...document.querySelectorAll(selector)].map((square) => {
  const { left, top, width, height } = square.getBoundingClientRect();
  return [left, top, width, height, square.querySelector("img")?.src ?? ""];
})"""

_HEAT_AT: Final = """([x, y]) => {
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
