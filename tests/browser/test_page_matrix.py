"""What the page promises on each screen, in each language and in light and dark colours: by pairs.

All other modules look at 1280 x 800 pixels, light and in English. In each cell a person looks at the
promises one after the other. The name of a failed test has its cell.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import pytest
from playwright.sync_api import expect

from tests.browser.screen import Screen, Spot, move_fingers
from tests.browser.test_page_links import spot_of
from tests.browser.viewed_maps import AFTER_GROWTH, BEFORE_GROWTH, COAST, DAYS, GROWING, tile
from tests.viewer.building import FIRST as BEGUN
from tests.viewer.building import MAP
from tests.viewer.building import SECOND as TURNED

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from tests.browser.viewed_maps import PublishedDays, Viewer

MIDDLE: Final = Spot.middle_of(COAST)
FIRST, SECOND, THIRD, LAST = DAYS


@dataclass(frozen=True, slots=True)
class Cell:
    """A screen, its colours and its language."""

    width: int
    height: int
    colours: Literal["light", "dark"]
    language: Literal["en", "zh"]

    @property
    def is_phone(self) -> bool:
        """Whether fingers do what the mouse does elsewhere."""
        return self.width < 500

    @property
    def options(self) -> dict[str, Any]:
        size = {"width": self.width, "height": self.height}
        touch = {"has_touch": True, "is_mobile": True} if self.is_phone else {}
        locale = {"en": "en-GB", "zh": "zh-CN"}[self.language]
        return {"viewport": size, "screen": size, "color_scheme": self.colours, "locale": locale, **touch}

    def __str__(self) -> str:
        return f"{self.width}x{self.height}-{self.colours}-{self.language}"


CELLS: Final = (
    Cell(1440, 900, "dark", "zh"),
    Cell(390, 844, "dark", "en"),
)


class CellScreen(Screen):
    """The viewer in a cell, as a person has it who does one thing after the other."""

    def __init__(self, page: Page, viewer: Viewer, cell: Cell) -> None:
        super().__init__(page, viewer)
        self.cell = cell

    def say(self, english: str, chinese: str) -> str:
        """What the cell's language has of the two."""
        return {"en": english, "zh": chinese}[self.cell.language]

    def day_in_words(self, day: str, style: Literal["long", "medium"] = "medium") -> str:
        year, month, of_month = (int(part) for part in day.split("-"))
        months = ["", "January", "February", "March", "April", "May"] + [""] * 4 + ["October"]
        name = months[month][: 3 if style == "medium" else None]
        return self.say(f"{name} {of_month}, {year}", f"{year}年{month}月{of_month}日")

    def show(self, spot: Spot | None = MIDDLE, **look: str) -> None:
        """Open antworld, unless another map is named."""
        self.open(spot, **{"map": "antworld", **look})

    def touch(self, x: float, y: float) -> None:
        """Click there, or tap with a finger."""
        if self.cell.is_phone:
            self.page.touchscreen.tap(x, y)
        else:
            self.page.mouse.click(x, y)

    def pull(self, *points: tuple[float, float]) -> None:
        """With the mouse or a finger."""
        if self.cell.is_phone:
            move_fingers(self.page, *([point] for point in points))
            return
        self.page.mouse.move(*points[0])
        self.page.mouse.down()
        for point in points[1:]:
            self.page.mouse.move(*point)
        self.page.mouse.up()


@pytest.fixture(params=CELLS, ids=str)
def screen(request: pytest.FixtureRequest, open_page: Callable[..., Page], viewer: Viewer) -> CellScreen:
    return CellScreen(open_page(**request.param.options), viewer, request.param)


def test_a_story_goes_back_to_before_the_map_grew(screen: CellScreen) -> None:
    """The tile came with the growth; what is drawn on it had been there, and the map shows it on that day."""
    coarsest = tile(-5, 32, 32)
    middle = Spot.middle_of(coarsest)
    screen.show(middle, map=GROWING, day=BEFORE_GROWTH)
    assert "/composed/" in screen.square(coarsest, middle).source
    screen.touch(*screen.point(coarsest.x, coarsest.y, middle))
    expect(screen.part("panel-title")).to_contain_text(re.compile(r"X -?\d+"))
    expect(screen.page.locator("#map .point-mark")).to_have_count(1)
    chapters = screen.part("panel").get_by_role("listitem")
    days = [screen.day_in_words(day, "long") for day in (AFTER_GROWTH, BEFORE_GROWTH)]
    expect(chapters.locator("strong")).to_have_text(days)
    changed = re.compile(screen.say(r"[\d.]+ % changed", r"[\d.]+% 有变化"))
    expect(chapters.locator(".share")).to_have_text([changed, screen.say("first version", "最初版本")])
    first = chapters.last.get_by_role("img")
    first.scroll_into_view_if_needed()
    expect(first).to_have_js_property("naturalWidth", 384)


def test_the_first_picture_fills_the_stage_and_nothing_moves(
    screen: CellScreen, published_days: PublishedDays
) -> None:
    screen.open(map="antworld")
    look = screen.await_place()
    middle = spot_of(float(look["x"]), 64, float(look["z"]), float(look["zoom"]))
    box = screen.part("map").bounding_box()
    assert box is not None
    deepest = [there for there in published_days.harvested[-1].images if there.zoom == 0]
    corners = [
        screen.point(
            outermost(there.x for there in deepest) + way,
            outermost(there.y for there in deepest) + way,
            middle,
        )
        for outermost, way in ((min, -1), (max, 1))
    ]
    (left, bottom), (right, top) = corners
    assert box["x"] <= left + 1
    assert right <= box["x"] + box["width"] + 1
    assert max((right - left) / box["width"], (bottom - top) / box["height"]) > 0.85
    assert screen.page.evaluate("document.documentElement.scrollWidth") == screen.cell.width
    assert screen.page.evaluate(_SHIFTS) < 0.05


_SHIFTS: Final = """() => new Promise((done) => {
  let sum = 0;
  const add = (entries) => {
    for (const { value } of entries) sum += value;
  };
  const observer = new PerformanceObserver((list) => add(list.getEntries()));
  observer.observe({ type: "layout-shift", buffered: true });
  requestAnimationFrame(() => requestAnimationFrame(() => {
    add(observer.takeRecords());
    observer.disconnect();
    done(sum);
  }));
})"""
"""How much has moved in this document, until all that was laid out before is painted.

What Chromium says of recent input is not asked: nobody has touched this document, and of a telephone's it
says so for its first half second, in which things would move.
"""


def test_what_is_new_is_told_with_pictures_and_leads_to_its_two_days(screen: CellScreen) -> None:
    """As they were published: 15 tiles changed on the last day, and 12 came into being."""
    screen.show(day=LAST)
    screen.part("events-switch").click()
    expect(screen.part("panel-title")).to_have_text(screen.say("What is new", "新变化"))
    events = screen.page.locator(".events li")
    expect(events).to_have_count(2)
    expect(events.nth(0)).to_contain_text(screen.say("15 tiles changed around X ", "附近 15 个图块有变化"))
    expect(events.nth(1)).to_contain_text(screen.say("12 new tiles around X ", "附近新增 12 个图块"))
    expect(events.nth(0).locator("img")).to_have_js_property("naturalWidth", 680)
    feed = screen.part("panel").locator("a[href*='events.atom']")
    expect(feed).to_have_attribute("href", re.compile(screen.say("layer=", "language=zh")))
    events.nth(0).locator("a").click()
    screen.await_look(day=LAST, mode="swipe", **{"with": THIRD})


def test_a_rectangle_that_is_drawn_tells_when_its_pixels_changed(screen: CellScreen) -> None:
    """The coast was transparent at first, land came on the second day, and sea on the last."""
    screen.show(day=LAST)
    screen.part("pixels-switch").click()
    expect(screen.page.locator("#map.asking")).to_be_visible()
    screen.await_map()
    left, top, width, height = screen.box("map")
    x, y = left + width / 2, top + height / 2
    # Above what lies behind the panel, in the middle tile. From its lower corner, as a finger that comes down
    # beside the buttons of the zoom is taken for one on them.
    screen.pull((x + 30, y - 60), (x - 60, y - 120), (x - 150, y - 180))
    chapters = screen.page.locator(".pixels-panel .story li")
    since = screen.day_in_words(LAST, "long")
    expect(screen.part("panel")).to_contain_text(
        screen.say(f"It has looked as it does today since {since}.", f"自 {since} 起与今天相同。")
    )
    expect(chapters).to_have_count(2)
    assert [each.get_attribute("data-day") for each in chapters.all()] == [LAST, SECOND]
    expect(chapters.last).to_contain_text(screen.say("first appeared", "首次出现"))
    chapters.last.scroll_into_view_if_needed()
    expect(chapters.last.locator("img")).to_have_js_property("naturalWidth", 180)
    screen.part("panel").get_by_text(screen.say("Watch this area", "关注此区域")).click()
    name = screen.say("my area", "我的区域")
    command = re.compile(rf'^tileharvest areas antworld add "{name}" \d+,-?\d+ \d+,-?\d+$')
    expect(screen.part("panel").locator("code")).to_have_text(command)
    chapters.first.get_by_role("button").last.click()
    screen.await_look(day=LAST, mode="swipe", **{"with": THIRD})


def test_an_area_has_a_page_that_fits(screen: CellScreen, named: Viewer) -> None:
    page = screen.page
    page.goto(f"{named.url}/#map={MAP}&day={TURNED}")
    page.get_by_role("link", name=screen.say("Areas", "区域")).click()
    page.get_by_role("link", name="my base & 农场").click()
    expect(page.get_by_role("link", name=screen.say("Show on the map", "在地图上查看"))).to_be_visible()
    chapters = page.locator(".chapters li")
    expect(chapters).to_have_count(2)
    assert [each.get_attribute("data-day") for each in chapters.all()] == [str(TURNED), str(BEGUN)]
    expect(chapters.first).to_contain_text(screen.say("Changed tiles: 1", "有变化的图块：1"))
    expect(chapters.last).to_contain_text(screen.say("first version", "最初版本"))
    assert page.evaluate("document.documentElement.scrollWidth") == screen.cell.width
    for picture in page.locator(".chapters img").all():
        picture.scroll_into_view_if_needed()
        picture.evaluate("image => image.decode()")
    feed = page.locator("a[href*='events.atom']").get_attribute("href")
    assert page.request.get(f"{named.url}/{feed}").headers["content-type"] == "application/atom+xml"
    chapters.first.get_by_role("link").click()
    expect(page.locator("#left-day")).to_have_text(screen.day_in_words(str(BEGUN)))
    expect(page.locator("#right-day")).to_have_text(screen.day_in_words(str(TURNED)))
    screen.await_look(x="15.5", z="15.5")


def test_a_link_that_unfolds_shows_the_map_and_the_time_alone_in_a_frame(screen: CellScreen) -> None:
    place = ",".join(MIDDLE.look.values())
    screen.page.goto(f"{screen.viewer.url}/s/antworld/{FIRST}..{SECOND}/{place}?embed=1")
    screen.await_look(day=SECOND, mode="swipe", **MIDDLE.look, **{"with": FIRST})
    expect(screen.part("left-day")).to_have_text(screen.day_in_words(FIRST))
    expect(screen.part("slider")).to_be_visible()
    for hidden in ("brand", "go-to", "modes", "share"):
        expect(screen.part(hidden)).to_be_hidden()
    assert screen.part("map").bounding_box() == pytest.approx(screen.part("stage").bounding_box(), abs=1)
