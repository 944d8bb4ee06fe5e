"""The page of harvests: what `scrapy harvests` says, to be seen at a glance."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import expect

from tests.browser.screen import Screen, Spot
from tests.browser.viewed_maps import COAST, DAYS, GROWING, NEVER, NOTE
from tests.browser.windows import DESK, window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator, Page

    from tests.browser.viewed_maps import PublishedDays, Viewer

WORDS: Final = {
    "404": "nothing there",
    "add": "new",
    "fail": "failed",
    "gone": "gone",
    "ign": "unchanged by its ETag",
    "nMod": "fetched, the same bytes",
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


def test_each_row_begins_with_its_day(page_of_harvests: Page) -> None:
    heads = section(page_of_harvests, "antworld").get_by_role("rowheader")
    expect(heads).to_have_text(["May 12, 2021", "Apr 12, 2021", "Feb 16, 2021", "Feb 13, 2021"])


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
    expect(section(page_of_harvests, NEVER)).to_contain_text(f"scrapy harvest {NEVER}")


def test_the_way_to_the_harvests_and_back_leads_to_the_same_place(screen: Screen) -> None:
    screen.open(Spot.middle_of(COAST), map="antworld", day=DAYS[1])
    look = screen.await_place()
    screen.page.get_by_role("link", name="Harvests").click()
    expect(screen.page.get_by_role("heading", name="Harvests")).to_be_visible()
    screen.page.get_by_role("link", name="Map", exact=True).click()
    screen.await_map()
    assert screen.look() == look
    screen.square(COAST, Spot.middle_of(COAST))
