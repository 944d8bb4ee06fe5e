"""What the page promises, on each screen: three sizes, light and dark, both languages.

All other modules look at 1280 x 800 pixels, light and in English. Four of the twelve cells are tried here:
they have each size, and each colour in each language. Two more are tried with `--all`: then each size is seen
in each colour and in each language. In each cell a person goes through the promises in one window, whose
document stays. A failed test's name tells its cell.

There is a test for each promise, in this order. What it means in full is held on one screen, by the modules
behind it:

 1. no old picture under a new date, and failures are said: test_page_loading
 2. what a link names that is not there is said: test_page_links, test_permalink
 3. a story follows the ground over zooms and growth: test_page_story
 4. an onion skin is a true cross-fade: test_page_comparing
 5. a link that is copied names its day, with a clipboard or without one: test_page_links
 6. changes are counted the same from near and from afar: test_page_time, tests/viewer/test_changes
 7. no day is compared with itself; unfinished and new days are said: test_page_comparing, test_page_loading
 8. both halves side by side can do the same: test_page_comparing, test_page_levels
 9. the first picture fills the stage, and nothing moves: test_page_pictures, test_page_accessibility
10. a time axis to live on: test_page_time, test_page_keyboard, test_time_axis
11. what is new: test_page_answers, tests/viewer/test_events
12. when did these pixels change: test_page_answers, tests/viewer/test_pixels
13. the time lens: test_page_lens
14. named areas: test_page_areas, tests/viewer/test_areas
15. links that unfold, and frames: test_page_links, tests/viewer/test_shared_places
16. places that are typed, and harvests that lead to the map: test_page_places, test_page_harvests
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlencode

import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.browser.screen import Screen, Spot, apart, as_shown, day_number, move_fingers
from tests.browser.test_page_accessibility import wrong
from tests.browser.test_page_empty import LOOKS_AGAIN
from tests.browser.test_page_loading import OUTLINE, held, outlined, shown
from tests.browser.test_page_places import spot_of
from tests.browser.viewed_maps import AFTER_GROWTH, BEFORE_GROWTH, COAST, DAYS, GROWING, tile
from tests.browser.windows import fail_if_wrong, has_failed, take_pictures, window
from tests.viewer.building import FIRST as BEGUN
from tests.viewer.building import MAP
from tests.viewer.building import SECOND as TURNED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from tests.browser.viewed_maps import PublishedDays, Viewer
    from tests.browser.windows import Window

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
    Cell(1440, 900, "light", "en"),
    pytest.param(Cell(1440, 900, "dark", "zh"), marks=pytest.mark.repetition),
    pytest.param(Cell(1280, 720, "light", "en"), marks=pytest.mark.repetition),
    Cell(1280, 720, "dark", "zh"),
    Cell(390, 844, "light", "zh"),
    Cell(390, 844, "dark", "en"),
)


_FOOT: Final = """(day) => {
  const box = document.querySelector(`#ticks [data-day="${day}"]`)?.getBoundingClientRect();
  return box && box.width > 0 ? [box.x + box.width / 2, box.bottom - 3] : null;
}"""


class CellScreen(Screen):
    """The viewer in a cell, as a person has it who does one thing after the other."""

    def __init__(self, opened: Window, viewer: Viewer, cell: Cell) -> None:
        super().__init__(opened.page, viewer)
        self.cell = cell
        self.watch = opened.watch

    def say(self, english: str, chinese: str) -> str:
        """What the cell's language has of the two."""
        return {"en": english, "zh": chinese}[self.cell.language]

    def day_in_words(self, day: str, style: Literal["long", "medium"] = "medium") -> str:
        year, month, of_month = (int(part) for part in day.split("-"))
        months = ["", "January", "February", "March", "April", "May"] + [""] * 4 + ["October"]
        name = months[month][: 3 if style == "medium" else None]
        return self.say(f"{name} {of_month}, {year}", f"{year}年{month}月{of_month}日")

    def show(self, spot: Spot | None = MIDDLE, **look: str) -> None:
        """Follow a link to antworld, and wait until the map is drawn there. No panel stays open."""
        look = {"map": "antworld", **look, **(spot.look if spot else {})}
        if self.part("panel-close").is_visible():
            self.part("panel-close").click()
        if self.page.url == "about:blank":
            self.open(None, **look)
        elif {**self.look(), "layer": ""} == {**look, "layer": ""}:
            self.await_map()
        else:
            self.page.evaluate("(hash) => { location.hash = hash; }", f"#{urlencode(look)}")
            self.await_look(**look)

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

    def middle_of(self, id: str) -> tuple[float, float]:  # noqa: A002 - its name in documents
        box = self.part(id).bounding_box()
        assert box is not None
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def foot_of_tick(self, day: str) -> tuple[float, float]:
        """Returns the place where a day's tick begins. The ticks may be drawn anew at any moment."""
        x, y = self.page.wait_for_function(_FOOT, arg=day).json_value()
        return x, y

    def await_ticks(self) -> None:
        """Wait until the changes in view are counted."""
        expect(self.page.locator("#ticks .changed")).not_to_have_count(0)


@pytest.fixture(scope="module", params=CELLS, ids=str)
def cell_window(request: pytest.FixtureRequest, browser: Browser) -> Iterator[tuple[Cell, Window]]:
    with window(browser, **request.param.options) as opened:
        yield request.param, opened


@pytest.fixture
def screen(
    request: pytest.FixtureRequest,
    cell_window: tuple[Cell, Window],
    viewer: Viewer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[CellScreen]:
    """The cell's window as the test before has left it; after a failure it begins anew."""
    cell, opened = cell_window
    yield CellScreen(opened, viewer, cell)
    if has_failed(request.node) or opened.watch.wrong():
        take_pictures([opened.page], tmp_path_factory, request.node)
        opened.page.unroute_all()
        opened.page.goto("about:blank")
    try:
        fail_if_wrong(opened.watch)
        assert opened.watch.unanswered() == []
    finally:
        opened.watch.clear()


def test_no_day_is_shown_with_another_days_pictures(
    screen: CellScreen, published_days: PublishedDays
) -> None:
    """First of all: what a window has shown before it does not load again."""
    screen.watch.expected += ["status of 500", "the disk is gone"]
    views = f"**/view?*day={FIRST}*"
    screen.page.route(views, lambda route: route.fulfill(status=500, json={"error": "the disk is gone"}))
    with held(screen.page, f"**/pictures/{published_days.name(COAST, LAST)}"):
        screen.show(day=SECOND)
        before = shown(screen)
        screen.part("slider").fill(day_number(LAST))
        words = screen.day_in_words(LAST, "long")
        expect(screen.part("loading")).to_have_text(screen.say(f"Loading {words} …", f"正在载入 {words}……"))
        assert shown(screen) == before
        expect(screen.part("day")).to_have_text(screen.day_in_words(SECOND, "long"))
    expect(screen.part("day")).to_have_text(screen.day_in_words(LAST, "long"))
    assert published_days.name(COAST, LAST) in shown(screen)
    screen.part("slider").fill(day_number(FIRST))
    expect(screen.part("day")).to_have_text(screen.day_in_words(FIRST, "long"))
    expect(screen.part("notice")).to_contain_text(screen.say("could not be loaded", "无法载入"))
    expect(screen.part("notice")).to_contain_text(screen.day_in_words(FIRST))
    assert shown(screen) == {""}
    screen.page.unroute(views)
    screen.part("notice").get_by_role("button", name=screen.say("Try again", "重试")).click()
    expect(screen.part("notice")).to_be_hidden()
    assert published_days.name(COAST, FIRST) in shown(screen)


def test_what_a_link_does_not_find_is_said_with_what_there_is(screen: CellScreen) -> None:
    wrong = {"layer": "moon", "mode": "upside-down", "with": "never", "heat": "always", "new": "century"}
    screen.show(None, day=LAST)
    link = urlencode({"map": "antworld", "day": "2021-01-31", "x": "here", **wrong})
    screen.page.evaluate("(hash) => { location.hash = hash; }", f"#{link}")
    notice = screen.part("link-notice")
    expect(notice).to_contain_text(screen.day_in_words("2021-01-31"))
    screen.expect_day(FIRST)
    for said in ("moon", "“upside-down”", "“never”", "“always”", "“century”", "x=here"):
        expect(notice).to_contain_text(said)
    expect(notice).to_contain_text(screen.say("in the link is no mode", "不是查看方式"))
    expect(notice).to_contain_text(screen.say("is no period", "不是时段"))
    box = notice.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= screen.cell.width
    notice.get_by_role("link", name=screen.day_in_words(LAST)).first.click()
    screen.expect_day(LAST)
    expect(notice).to_be_hidden()
    screen.page.evaluate("() => { location.hash = '#map=nowhere'; }")
    heading = screen.page.get_by_role("heading", level=1)
    words = screen.say("There is no map nowhere here", "这里没有名为 nowhere 的地图")
    expect(heading.filter(visible=True)).to_have_text(words)
    screen.page.get_by_role("link", name="antworld", exact=True).click()
    screen.await_look(map="antworld")


def test_a_story_goes_back_to_before_the_map_grew(screen: CellScreen) -> None:
    """The tile came with the growth; what is drawn on it had been there, and the map shows it on that day."""
    coarsest = tile(-5, 32, 32)
    middle = Spot.middle_of(coarsest)
    screen.show(middle, map=GROWING, day=BEFORE_GROWTH)
    assert "/composed/" in screen.square(coarsest, middle).source
    screen.touch(*screen.point(coarsest.x, coarsest.y, middle))
    chapters = screen.part("panel").get_by_role("listitem")
    days = [screen.day_in_words(day, "long") for day in (AFTER_GROWTH, BEFORE_GROWTH)]
    expect(chapters.locator("strong")).to_have_text(days)
    changed = re.compile(screen.say(r"[\d.]+ % changed", r"[\d.]+% 有变化"))
    expect(chapters.locator(".share")).to_have_text([changed, screen.say("first version", "最初版本")])
    first = chapters.last.get_by_role("img")
    first.scroll_into_view_if_needed()
    expect(first).to_have_js_property("naturalWidth", 384)


def test_an_onion_skin_fades_both_days(screen: CellScreen, published_days: PublishedDays) -> None:
    screen.show(day=LAST, mode="onion", **{"with": FIRST})
    square = screen.square(COAST, MIDDLE)
    inner = (142, 142, 242, 242)
    old, new = (as_shown(published_days.image(COAST, day)).crop(inner) for day in (FIRST, LAST))
    for percent in (0, 50, 100):
        screen.part("onion").fill(str(percent))
        seen = screen.pixels(square).crop(inner)
        assert apart(seen, Image.blend(new, old, percent / 100)) <= 3


def test_a_page_without_a_clipboard_lets_one_copy_a_link_that_names_its_day(screen: CellScreen) -> None:
    screen.show()
    screen.page.evaluate(
        """() => {
          Object.defineProperty(navigator, "clipboard", { value: undefined, configurable: true });
          document.execCommand = () => false;
        }"""
    )
    screen.part("share").click()
    field = screen.page.get_by_label(screen.say("Copy the link yourself", "请自行复制链接"))
    expect(field).to_be_focused()
    place = ",".join(MIDDLE.look.values())
    language = screen.say("", "&language=zh")
    link = f"{screen.viewer.url}/s/antworld/{LAST}/{place}?layer=world-lighting{language}"
    expect(field).to_have_value(link)
    expect(screen.part("announcement")).to_have_text("")
    assert screen.say("antworld on", f"{LAST} 的 antworld") in screen.page.request.get(link).text()
    screen.page.keyboard.press("Escape")
    expect(field).to_be_hidden()
    screen.page.evaluate("() => { delete navigator.clipboard; delete document.execCommand; }")


def test_a_view_from_afar_counts_the_deepest_tiles(screen: CellScreen, published_days: PublishedDays) -> None:
    every = {there for one in published_days.harvested for there in one.images if there.zoom == 0}
    count = published_days.changes(every)[LAST]
    screen.show(None, day=LAST)
    words = screen.say(f"{count} tiles changed in view", f"视野内 {count} 个图块有变化")
    expect(screen.part("day-change")).to_have_text(words)


def test_the_first_day_is_compared_with_the_next_change(screen: CellScreen) -> None:
    screen.show(day=FIRST)
    screen.await_ticks()
    screen.choose_mode(screen.say("Swipe", "滑动对比"))
    expect(screen.part("left-day")).to_have_text(screen.day_in_words(FIRST))
    expect(screen.part("right-day")).to_have_text(screen.day_in_words(SECOND))
    x, y = screen.middle_of("swipe")
    screen.pull((x, y), (x - 60, y), (x - 100, y))
    percent = round(100 * (x - 100) / screen.cell.width)
    expect(screen.part("swipe")).to_have_attribute(
        "aria-valuenow", re.compile(f"^({percent}|{percent + 1})$")
    )


def test_unfinished_and_new_days_and_the_last_visit_are_said(
    browser: Browser, cell_window: tuple[Cell, Window], viewer: Viewer
) -> None:
    """In a window of its own, whose clock goes as it is told: the page itself notes the first visit."""
    cell, _ = cell_window
    before_last = outlined(lambda told: told.update(days=list(DAYS[:3]), unfinished=[THIRD]))
    with window(browser, **cell.options) as opened:
        screen = CellScreen(opened, viewer, cell)
        screen.page.clock.install()
        screen.page.route(OUTLINE, before_last)
        screen.open(MIDDLE, map="antworld")
        notice = screen.part("notice")
        third, last = screen.day_in_words(THIRD), screen.day_in_words(LAST)
        unfinished = screen.say(f"The harvest of {third} is not finished", f"{third} 的采集尚未完成")
        expect(notice).to_contain_text(unfinished)
        screen.page.unroute(OUTLINE)
        screen.page.context.new_cdp_session(screen.page).send("Network.clearBrowserCache")
        screen.page.clock.run_for(LOOKS_AGAIN)
        expect(notice).to_contain_text(
            screen.say(f"A new day has been harvested: {last}", f"已采集新的一天：{last}")
        )
        expect(notice).not_to_contain_text(unfinished)
        expect(screen.part("day")).to_have_text(screen.day_in_words(THIRD, "long"))
        notice.get_by_role("button", name=screen.say("Show it", "显示")).click()
        expect(screen.part("day")).to_have_text(screen.day_in_words(LAST, "long"))
        screen.open(MIDDLE, map="antworld")
        screen.part("events-switch").click()
        chosen = screen.part("panel").locator("option:checked")
        expect(chosen).to_have_text(
            screen.say(f"since {third}, which you saw last", f"自您上次看到的 {third} 以来")
        )
        expect(screen.page.locator(".events li")).to_have_count(2)


def test_each_half_side_by_side_has_stories_places_and_heat(screen: CellScreen) -> None:
    screen.show(day=LAST, mode="side", heat=f"{FIRST}..{LAST}", **{"with": SECOND})
    for half in ("map", "second-map"):
        expect(screen.page.locator(f"#{half} .leaflet-heat-pane canvas")).not_to_have_count(0)
    screen.show(day=LAST, mode="side", **{"with": SECOND})
    x, y = screen.middle_of("second-map")
    screen.touch(x + 30, y - 30)
    expect(screen.part("panel")).to_contain_text(f"0_{COAST.x}_{COAST.y}")
    if not screen.cell.is_phone:
        said = []
        for half in ("map", "second-map"):
            left, top = screen.middle_of(half)
            screen.page.mouse.move(left - 80, top + 40)
            said.append(screen.part("coordinates").inner_text())
        assert said[0] == said[1]
        assert re.fullmatch(screen.say(r"X -?\d+, Z -?\d+", r"X -?\d+，Z -?\d+"), said[0])


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


def test_the_time_axis_has_ticks_keys_and_history(screen: CellScreen, published_days: PublishedDays) -> None:
    screen.show(day=LAST)
    screen.await_ticks()
    title = "antworld{}{} – TileHarvest"
    apart_by = screen.say(", ", "，")
    expect(screen.page).to_have_title(title.format(apart_by, screen.day_in_words(LAST)))
    expect(screen.part("axis-labels")).to_contain_text(re.compile(screen.say("Apr|27", "4月|27")))
    x, y = screen.foot_of_tick(SECOND)
    if not screen.cell.is_phone:
        screen.page.mouse.move(x, y)
        hint = screen.part("tick-hint")
        expect(hint).to_contain_text(screen.day_in_words(SECOND))
        name = published_days.name(COAST, SECOND)
        expect(hint.locator("img")).to_have_attribute("src", re.compile(f"{name}$"))
    screen.touch(x, y)
    screen.await_look(day=SECOND)
    screen.part("share").press("ArrowLeft")
    screen.await_look(day=FIRST)
    expect(screen.page).to_have_title(title.format(apart_by, screen.day_in_words(FIRST)))
    for day in (SECOND, LAST):
        screen.page.go_back()
        screen.await_look(day=day)
    screen.page.go_forward()
    screen.await_look(day=SECOND)
    for pressed in ("true", "false"):
        screen.part("map").press("Space")
        expect(screen.part("play")).to_have_attribute("aria-pressed", pressed)
    screen.show(day=LAST)
    screen.part("time-in").click()
    expect(screen.part("first-day")).not_to_have_text(screen.day_in_words(FIRST))
    screen.part("time-out").click()
    expect(screen.part("first-day")).to_have_text(screen.day_in_words(FIRST))


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
    x, y = screen.middle_of("map")
    # Above what lies behind the panel, in the middle tile. From its lower corner, as a finger that comes down
    # beside the buttons of the zoom is taken for one on them.
    screen.pull((x + 30, y - 60), (x - 60, y - 120), (x - 150, y - 180))
    chapters = screen.page.locator(".pixels-panel .story li")
    since = screen.day_in_words(LAST, "long")
    expect(screen.part("panel")).to_contain_text(
        screen.say(f"It has looked as it does today since {since}.", f"自 {since} 起与今天相同。")
    )
    assert [each.get_attribute("data-day") for each in chapters.all()] == [LAST, SECOND]
    expect(chapters.last).to_contain_text(screen.say("first appeared", "首次出现"))
    chapters.last.scroll_into_view_if_needed()
    expect(chapters.last.locator("img")).to_have_js_property("naturalWidth", 180)
    chapters.first.get_by_role("button").last.click()
    screen.await_look(day=LAST, mode="swipe", **{"with": THIRD})


def test_the_lens_follows_and_turns_its_time(screen: CellScreen) -> None:
    screen.show(day=LAST)
    screen.await_ticks()
    screen.page.get_by_role("button", name=screen.say("Time lens", "时间透镜")).click()
    expect(screen.part("lens-day")).to_have_text(screen.day_in_words(SECOND))
    x, y = screen.middle_of("lens")
    if screen.cell.is_phone:
        move_fingers(screen.page, *([(x - 30 - way, y), (x + 30 - way, y)] for way in (0, 25, 50)))
        screen.await_look(**{"with": FIRST})
        screen.pull((x, y), (x - 10, y + 10), (x - 40, y + 40))
    else:
        screen.page.mouse.move(x - 40, y + 40)
        screen.page.mouse.wheel(0, 120)
        screen.await_look(**{"with": FIRST})
    assert screen.middle_of("lens") == pytest.approx((x - 40, y + 40), abs=1)
    expect(screen.part("lens-day")).to_have_text(screen.day_in_words(FIRST))
    assert screen.look() == {**screen.look(), **MIDDLE.look, "day": LAST, "mode": "lens"}


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
    assert "x=15.5&z=15.5" in page.url
    page.goto("about:blank")


def test_a_link_that_unfolds_shows_the_map_and_the_time_alone_in_a_frame(screen: CellScreen) -> None:
    place = ",".join(MIDDLE.look.values())
    screen.page.goto(f"{screen.viewer.url}/s/antworld/{FIRST}..{SECOND}/{place}?embed=1")
    screen.await_look(day=SECOND, mode="swipe", **MIDDLE.look, **{"with": FIRST})
    expect(screen.part("left-day")).to_have_text(screen.day_in_words(FIRST))
    expect(screen.part("slider")).to_be_visible()
    for hidden in ("brand", "go-to", "modes", "share"):
        expect(screen.part(hidden)).to_be_hidden()
    assert screen.part("map").bounding_box() == pytest.approx(screen.part("stage").bounding_box(), abs=1)
    screen.page.goto("about:blank")


def test_a_shared_link_to_nothing_says_so_and_offers_what_there_is(screen: CellScreen) -> None:
    page = screen.page
    screen.watch.expected.append("status of 404")
    page.goto(f"{screen.viewer.url}/s/antworld/{LAST}/1,2,9")
    words = "There is no zoom 9. The zooms of map antworld go from -6 to 0, the deepest", "没有缩放级别 9"
    expect(page.locator("main")).to_contain_text(screen.say(*words))
    assert page.evaluate("document.documentElement.scrollWidth") == screen.cell.width
    behind = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert behind == {"light": "rgb(244, 245, 241)", "dark": "rgb(20, 25, 23)"}[screen.cell.colours]
    assert wrong(screen) == []
    page.goto(f"{screen.viewer.url}/s/antworld/1999-01-01/1,2,0")
    page.get_by_role("link", name=FIRST).click()
    screen.await_look(map="antworld", day=FIRST)
    page.goto("about:blank")


def test_places_are_understood_as_the_page_writes_them(screen: CellScreen) -> None:
    screen.show(day=LAST)
    field = screen.part("go-to-place")
    for typed, x, z in (
        (screen.say("X 500, Z 800", "X 500，Z 800"), "500", "800"),
        ("/tp @s 528 64 816", "528", "816"),
    ):
        field.fill(typed)
        field.press("Enter")
        screen.await_look(x=x, z=z)
    # The published tiles are a cut of the map: it has nothing where its spawn is.
    for typed, x, z in (("r.0.1.mca", 256, 768), ("spawn", 232, 167)):
        field.fill(typed)
        field.press("Enter")
        refused = f"X {x}, Z {z} lies outside the map.", f"X {x}，Z {z} 不在地图显示的范围内。"
        expect(field).to_have_js_property("validationMessage", screen.say(*refused))
    assert screen.look() == {**screen.look(), "x": "528", "z": "816"}


def test_rows_of_harvests_have_words_and_lead_to_the_map(screen: CellScreen) -> None:
    screen.show(day=LAST)
    screen.part("to-harvests").click()
    legend = screen.page.locator(".outcome-legend li")
    expect(legend).not_to_have_count(0)
    expect(screen.page).to_have_title(screen.say("Harvests – TileHarvest", "采集记录 – TileHarvest"))
    words = {each.get_attribute("title"): each.inner_text().strip() for each in legend.all()}
    assert words["ign"] == screen.say("unchanged by its ETag", "ETag 未变")
    assert words["add"] == screen.say("new", "新增")
    assert screen.page.evaluate("document.documentElement.scrollWidth") == screen.cell.width
    screen.page.get_by_role("link", name=screen.day_in_words(SECOND)).click()
    screen.await_look(map="antworld", day=SECOND)
    screen.expect_day(SECOND)
