"""The page of harvests: what `scrapy harvests` says, to be seen at a glance."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import expect

from tests.browser.screen import Screen, Spot
from tests.browser.viewed_maps import COAST, DAYS, GROWING, NEVER, NOTE, serving
from tests.browser.windows import DESK, window
from tests.end_to_end.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

    from tests.browser.viewed_maps import PublishedDays, Viewer

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
        expect(section(opened.page, "antworld").get_by_role("table")).to_be_visible()
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


def test_each_row_tells_what_was_spared_and_which_part_that_is(
    page_of_harvests: Page, told: dict[str, list[dict[str, Any]]]
) -> None:
    spared = column(section(page_of_harvests, "antworld").get_by_role("table"), "Spared")
    *later, first = told["antworld"]
    assert spared[-1] == "0 B"
    assert first["spared_bytes"] == 0
    for words, harvest in zip(spared, later, strict=False):
        size, percent = re.fullmatch(r"(.*) \((\d+) %\)", words).groups()
        assert in_bytes(size) == pytest.approx(harvest["spared_bytes"], rel=0.1)
        whole = harvest["spared_bytes"] + harvest["received_bytes"]
        assert int(percent) == pytest.approx(100 * harvest["spared_bytes"] / whole, abs=0.5)


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
    answer = {"harvests": [last], "running": running, "stored_bytes": 0}
    with window(browser, **DESK) as opened:
        opened.page.route("**/maps/antworld/harvests", lambda route: route.fulfill(json=answer))
        Screen(opened.page, viewer).open_hash("#harvests")
        expect(section(opened.page, "antworld").locator(".running")).to_have_text(
            re.compile(re.escape(words))
        )


def test_each_row_begins_with_its_day(page_of_harvests: Page) -> None:
    heads = section(page_of_harvests, "antworld").get_by_role("rowheader")
    expect(heads).to_have_text(["May 12, 2021", "Apr 12, 2021", "Feb 16, 2021", "Feb 13, 2021"])


def test_outcomes_are_told_in_words_with_the_historys_own_as_a_tooltip(page_of_harvests: Page) -> None:
    legend = page_of_harvests.locator(".outcome-legend li")
    words = [words.strip() for words in legend.all_inner_texts()]
    codes = [each.get_attribute("title") for each in legend.all()]
    assert dict(zip(codes, words, strict=True)) == WORDS


def test_the_bar_of_outcomes_says_its_counts_to_those_who_do_not_see_it(
    page_of_harvests: Page, told: dict[str, list[dict[str, Any]]]
) -> None:
    bars = section(page_of_harvests, "antworld").get_by_role("img")
    expect(bars).to_have_count(len(told["antworld"]))
    for index, harvest in enumerate(told["antworld"]):
        words = bars.nth(index).get_attribute("aria-label") or ""
        counts = {f"{count} {WORDS[outcome]}" for outcome, count in harvest["counts"].items() if count}
        assert set(re.split(", (?=[0-9])", words)) == counts


def test_the_bar_of_outcomes_has_widths_that_are_in_proportion(
    page_of_harvests: Page, told: dict[str, list[dict[str, Any]]]
) -> None:
    counts = {outcome: count for outcome, count in told["antworld"][0]["counts"].items() if count}
    bar = section(page_of_harvests, "antworld").get_by_role("img").first
    width_of = "(part) => part.getBoundingClientRect().width"
    widths = {outcome: bar.locator(f".outcome-{outcome}").evaluate(width_of) for outcome in counts}
    assert len(widths) > 2
    for outcome, width in widths.items():
        share = counts[outcome] / sum(counts.values())
        assert width / sum(widths.values()) == pytest.approx(share, abs=0.03)


def test_what_a_map_takes_in_the_store_is_told(page_of_harvests: Page, published_days: PublishedDays) -> None:
    images = {image for harvest in published_days.harvested for image in harvest.images.values()}
    said = re.search(r"([\d.]+ [kM]?B) stored", section(page_of_harvests, "antworld").inner_text())
    assert said is not None
    assert in_bytes(said[1]) == pytest.approx(sum(map(len, images)), rel=0.02)


def test_the_days_of_a_map_and_its_note_are_told(page_of_harvests: Page) -> None:
    expect(section(page_of_harvests, "antworld")).to_contain_text("4 days, Feb 13, 2021 to May 12, 2021")
    expect(section(page_of_harvests, "antworld")).to_contain_text(NOTE)


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
