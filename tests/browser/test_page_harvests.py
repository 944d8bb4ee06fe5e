"""The page of harvests: what `scrapy harvests` says, to be seen at a glance."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import expect

from tests.browser.screen import Screen, Spot, open_tables
from tests.browser.viewed_maps import COAST, DAYS, GROWING, NEVER, serving
from tests.browser.windows import DESK, window
from tests.end_to_end.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

    from tests.browser.viewed_maps import Viewer

WORDS: Final = {
    "404": "nothing there",
    "add": "new",
    "fail": "failed",
    "gone": "gone",
    "ign": "unchanged by its ETag",
    "nMod": "fetched, the same bytes",
    "skip": "not asked, nothing above it changed",
    "rep": "changed again that day",
    "upd": "changed",
}


def section(page: Page, map: str) -> Locator:  # noqa: A002 - a map of the history
    return page.locator("section").filter(has=page.get_by_role("heading", name=map, exact=True))


def in_bytes(words: str) -> float:
    number, unit = words.split()
    return float(number) * {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}[unit]


def column(table: Locator, head: str) -> list[str]:
    """The texts of a column, by its head, from top to bottom."""
    heads = table.get_by_role("columnheader").all_inner_texts()
    rows = table.locator("tbody tr")
    cells = [rows.nth(index).locator("th, td").nth(heads.index(head)) for index in range(rows.count())]
    return [cell.inner_text() for cell in cells]


def test_a_link_keeps_the_focus_when_the_page_looks_again(screen: Screen) -> None:
    screen.page.clock.install()
    screen.open_hash("#harvests")
    open_tables(screen.page)
    link = screen.page.get_by_role("table").first.get_by_role("link").first
    link.focus()
    shown = screen.page.locator("#harvests-page table").first.element_handle()
    screen.page.clock.run_for(15_000)
    screen.page.wait_for_function("(table) => !table.isConnected", arg=shown)
    expect(link).to_be_focused()


@pytest.fixture(scope="module")
def page_of_harvests(browser: Browser, viewer: Viewer) -> Iterator[Page]:
    """Opened once: the tests only look at it."""
    with window(browser, **DESK) as opened:
        Screen(opened.page, viewer).open_hash("#harvests")
        open_tables(opened.page)
        yield opened.page


@pytest.fixture(scope="module")
def told(viewer: Viewer) -> dict[str, list[dict[str, Any]]]:
    """What `scrapy harvests --json` says of each map, newest first."""
    return {name: viewer.project.harvests(name)[::-1] for name in ("antworld", GROWING)}


@pytest.mark.parametrize("name", ["antworld", GROWING])
def test_there_is_a_row_for_each_harvest_newest_first(
    name: str, page_of_harvests: Page, told: dict[str, list[dict[str, Any]]]
) -> None:
    table = section(page_of_harvests, name).get_by_role("table")
    depths = [str(harvest["depth"]["world-lighting"]) for harvest in told[name]]
    assert column(table, "Depth") == depths
    assert column(table, "Requests") == [f"{harvest['requests']:,}" for harvest in told[name]]
    assert column(table, "Failed") == [str(harvest["counts"].get("fail", 0)) for harvest in told[name]]
    assert column(table, "End") == [harvest["reason"] for harvest in told[name]]
    for head, key in (("Received", "received_bytes"), ("Stored", "stored_bytes")):
        sizes = [in_bytes(size) for size in column(table, head)]
        assert sizes == pytest.approx([harvest[key] for harvest in told[name]], rel=0.1)


SPEED: Final = "12.5 requests per second · 5 MB received"
RUNNING: Final = {
    "done": 300, "expected": 900, "active": True, "tiles_done": 120, "tiles_expected": 700, "failures": 2,
    "requests_per_second": 12.5, "seconds_left": 600, "stopped": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("running", "words"),
    [
        (
            RUNNING,
            f"running: 120 of about 700 tiles · {SPEED} · 2 failed · about 10 min left",
        ),
        (
            RUNNING | {"tiles_expected": None, "failures": 0, "seconds_left": None},
            f"running: 120 tiles so far · {SPEED}",
        ),
        (
            RUNNING | {"active": False, "seconds_left": None, "stopped": "budget: 1,000 requests"},
            (
                "stopped at 120 tiles (budget: 1,000 requests); tileharvest run goes on with it; to go on"
                " now, run tileharvest harvest antworld"
            ),
        ),
    ],
    ids=["known before", "first harvest", "stopped"],
)
def test_a_harvest_that_is_not_finished_tells_how_far_it_is(
    browser: Browser, viewer: Viewer, told: dict[str, list[dict[str, Any]]], running: object, words: str
) -> None:
    """The server's answer is made up: the page alone is tested."""
    last = told["antworld"][0] | {"ended": None, "reason": None, "received_bytes": 5_000_000}
    answer = {"harvests": [last], "running": running, "next_due": None, "stored_bytes": 0}
    with window(browser, **DESK) as opened:
        opened.page.route("**/maps/antworld/harvests", lambda route: route.fulfill(json=answer))
        Screen(opened.page, viewer).open_hash("#harvests")
        expect(section(opened.page, "antworld").locator(".running")).to_have_text(
            re.compile(re.escape(words))
        )


def test_each_map_tells_in_a_glance_how_it_does(
    browser: Browser, viewer: Viewer, told: dict[str, list[dict[str, Any]]]
) -> None:
    """The server's answer is made up: the page alone is tested."""
    now = datetime.now(UTC)
    days = [(now - timedelta(days=ago)).date().isoformat() for ago in range(3)]
    counts: list[dict[str, int]] = [{"upd": 3}, {"fail": 2}, {"add": 9}]
    harvests = [
        {**told["antworld"][0], "day": day, "counts": count, "ended": (now - timedelta(hours=5)).isoformat()}
        for day, count in zip(days, counts, strict=True)
    ]
    due = (now + timedelta(hours=3)).isoformat()
    answer = {"harvests": harvests, "running": None, "next_due": due, "stored_bytes": 0}
    with window(browser, **DESK) as opened:
        opened.page.route("**/maps/antworld/harvests", lambda route: route.fulfill(json=answer))
        Screen(opened.page, viewer).open_hash("#harvests")
        shown = section(opened.page, "antworld")
        expect(shown.locator(".status")).to_have_text("Last harvest: finished, 5 hours ago · next in 3 hours")
        expect(shown.locator(".last-days")).to_have_attribute(
            "aria-label", "The last 30 days: 2 harvests without failures, 1 with some or unfinished"
        )
        kinds = shown.locator(".last-days span").evaluate_all("all => all.map((one) => one.className)")
        assert kinds == [*["none"] * 27, "fine", "poor", "fine"]
        expect(shown.get_by_role("table")).to_be_hidden()


def test_outcomes_are_told_in_words_with_the_historys_own_as_a_tooltip(page_of_harvests: Page) -> None:
    legend = page_of_harvests.locator(".outcome-legend li")
    words = [words.strip() for words in legend.all_inner_texts()]
    codes = [each.get_attribute("title") for each in legend.all()]
    assert dict(zip(codes, words, strict=True)) == WORDS


def test_the_bar_of_outcomes_says_its_counts_to_those_who_do_not_see_it(
    page_of_harvests: Page, told: dict[str, list[dict[str, Any]]]
) -> None:
    bars = section(page_of_harvests, "antworld").get_by_role("table").get_by_role("img")
    expect(bars).to_have_count(len(told["antworld"]))
    for index, harvest in enumerate(told["antworld"]):
        words = bars.nth(index).get_attribute("aria-label") or ""
        counts = {f"{count} {WORDS[outcome]}" for outcome, count in harvest["counts"].items() if count}
        assert set(re.split(", (?=[0-9])", words)) == counts


def test_a_map_that_was_never_harvested_says_how_to(page_of_harvests: Page) -> None:
    expect(section(page_of_harvests, NEVER)).to_contain_text(f"tileharvest harvest {NEVER}")


def test_the_way_to_the_harvests_and_back_leads_to_the_same_place(screen: Screen) -> None:
    screen.open(Spot.middle_of(COAST), map="antworld", day=DAYS[1])
    look = screen.await_place()
    screen.page.get_by_role("link", name="Harvests").click()
    expect(screen.page.get_by_role("heading", name="Harvests")).to_be_visible()
    screen.page.get_by_role("link", name="Map", exact=True).click()
    screen.await_map()
    assert screen.look() == look
    screen.square(COAST, Spot.middle_of(COAST))


def test_of_a_thousand_maps_one_is_found_by_its_name_or_its_note(page: Page, tmp_path: Path) -> None:
    project = Project(tmp_path)
    for number in range(1_000):
        project.add_map(f"map-{number}", f"http://127.0.0.1:1/{number}/", note=f"note {number}x")
    with serving(project) as viewer:
        Screen(page, viewer).open_hash("#harvests")
        sections = page.locator("#harvests-page section")
        expect(sections).to_have_count(20)
        expect(page.get_by_role("status")).to_have_text("980 more maps: write a part of a name to find them.")
        field = page.get_by_role("searchbox", name="Find a map by its name or note")
        field.press_sequentially("map-777")
        expect(page.get_by_role("heading", level=2)).to_have_text(["map-777"])
        expect(field).to_be_focused()
        field.fill("NOTE 12X")
        expect(page.get_by_role("heading", level=2)).to_have_text(["map-12"])
        field.fill("nowhere")
        expect(page.get_by_role("status")).to_have_text("No map has that in its name or note.")
        field.fill("map-42")
        page.get_by_role("link", name="map-42", exact=True).click()
        expect(page.locator("#empty pre")).to_have_text("tileharvest harvest map-42")
        # And on the page of a map, where so long a list would not help.
        choice = page.get_by_role("combobox", name="Find a map by a part of its name")
        expect(choice).to_have_value("map-42")
        choice.fill("77")
        choice.press("Enter")
        expect(page.locator("#empty pre")).to_have_text("tileharvest harvest map-77")
        expect(choice).to_have_value("map-77")
