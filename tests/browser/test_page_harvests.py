"""The page of harvests: what `tileharvest harvests` says, to be seen at a glance."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.screen import Screen, open_harvests
from tests.browser.viewed_maps import NEVER
from tests.viewer.asking import serving
from tests.viewer.building import World

RUNNING: Final[dict[str, Any]] = {
    "active": True, "tiles_done": 120, "tiles_expected": 700, "failures": 2,
    "requests_per_second": 12.5, "seconds_left": 600, "stopped": None,
}  # fmt: skip


def harvests(screen: Screen) -> list[dict[str, Any]]:
    """antworld's, newest first."""
    answer = screen.page.request.get(f"{screen.url}api/v1/maps/antworld/harvests").json()
    found: list[dict[str, Any]] = answer["harvests"]
    return found


def section(page: Page, name: str) -> Locator:
    return page.locator("section").filter(has=page.get_by_role("heading", name=name, exact=True))


def column(table: Locator, head: str) -> list[str]:
    """The texts of a column, by its head, from top to bottom."""
    at = table.get_by_role("columnheader").all_inner_texts().index(head)
    return [row.locator("th, td").nth(at).inner_text() for row in table.locator("tbody tr").all()]


def test_there_is_a_row_for_each_harvest_newest_first_and_it_keeps_the_focus(screen: Screen) -> None:
    told = harvests(screen)
    screen.page.clock.install()
    open_harvests(screen)
    table = section(screen.page, "antworld").get_by_role("table")
    assert column(table, "Depth") == [str(harvest["depth"]["world-lighting"]) for harvest in told]
    assert column(table, "Requests") == [f"{harvest['requests']:,}" for harvest in told]
    assert column(table, "Failed") == [str(harvest["counts"].get("fail", 0)) for harvest in told]
    assert column(table, "End") == [harvest["reason"] for harvest in told]
    # Those who do not see the bar of outcomes hear its counts.
    for bar, harvest in zip(table.get_by_role("img").all(), told, strict=True):
        said = re.findall(r"(\d[\d,]*) [a-z]", bar.get_attribute("aria-label") or "")
        assert sorted(said) == sorted(f"{count:,}" for count in harvest["counts"].values() if count)
    expect(section(screen.page, NEVER)).to_contain_text(f"tileharvest harvest {NEVER}")
    # A link keeps the focus when the page looks again.
    link = table.get_by_role("link").first
    link.focus()
    shown = table.element_handle()
    screen.page.clock.run_for(15_000)
    screen.page.wait_for_function("(table) => !table.isConnected", arg=shown)
    expect(link).to_be_focused()


def open_answer(screen: Screen, answer: dict[str, Any], *changes: dict[str, Any]) -> Locator:
    """Opens the page with an answer that is made up: antworld's last harvest with each of these changes."""
    last = harvests(screen)[0]
    made = {"running": None, "next_due": None, "stored_bytes": 0, **answer}
    made["harvests"] = [{**last, **change} for change in changes]
    screen.page.route("**/maps/antworld/harvests", lambda route: route.fulfill(json=made))
    screen.open_hash("#harvests")
    return section(screen.page, "antworld")


@pytest.mark.parametrize(
    ("running", "words"),
    [
        ({}, "running: 120 of about 700 tiles · 12.5 requests per second · 5 MB received · 2 failed"),
        (
            {"active": False, "stopped": "budget: 9 tiles"},
            "stopped at 120 tiles (budget: 9 tiles); tileharvest",
        ),
    ],
    ids=["running", "stopped"],
)
def test_a_harvest_that_is_not_finished_says_how_far_it_is(
    screen: Screen, running: dict[str, Any], words: str
) -> None:
    last = {"ended": None, "reason": None, "received_bytes": 5_000_000}
    shown = open_answer(screen, {"running": RUNNING | running}, last).locator(".running")
    expect(shown).to_contain_text(words)
    expect(shown).to_contain_text("run tileharvest harvest antworld" if running else " · about 10 min left")


def test_each_map_shows_at_a_glance_how_it_does(screen: Screen) -> None:
    now = datetime(2026, 7, 20, 12, tzinfo=UTC)
    screen.page.clock.set_fixed_time(now)
    ended = (now - timedelta(hours=5)).isoformat()
    changes = [
        {"day": (now - timedelta(days=ago)).date().isoformat(), "counts": counts, "ended": ended}
        for ago, counts in enumerate(({"upd": 3}, {"fail": 2}, {"add": 9}))
    ]
    shown = open_answer(screen, {"next_due": (now + timedelta(hours=3)).isoformat()}, *changes)
    expect(shown.locator(".status")).to_have_text("Last harvest: finished, 5 hours ago · next in 3 hours")
    expect(shown.locator(".last-days")).to_have_attribute(
        "aria-label", "The last 30 days: 2 harvests without failures, 1 with some or unfinished"
    )
    kinds = shown.locator(".last-days span").evaluate_all("all => all.map((one) => one.className)")
    assert kinds == [*["none"] * 27, "fine", "poor", "fine"]
    expect(shown.get_by_role("table")).to_be_hidden()


def test_of_a_thousand_maps_one_is_found_by_its_name_or_its_note(page: Page, tmp_path: Path) -> None:
    world = World(tmp_path)
    for number in range(1_000):
        world.describe(f"map-{number}", note=f"note {number}x")
    with serving(world) as client:
        Screen(page, client.url).open_hash("#harvests")
        expect(page.locator("#harvests-page section")).to_have_count(20)
        expect(page.get_by_role("status")).to_have_text("980 more maps: write a part of a name to find them.")
        field = page.get_by_role("searchbox", name="Find a map by its name or note")
        field.press_sequentially("map-777")
        expect(page.get_by_role("heading", level=2)).to_have_text(["map-777"])
        expect(field).to_be_focused()
        field.fill("NOTE 12X")
        expect(page.get_by_role("heading", level=2)).to_have_text(["map-12"])
        page.get_by_role("link", name="map-12", exact=True).click()
        # And on the page of a map, where so long a list would not help.
        choice = page.get_by_role("combobox", name="Find a map by a part of its name")
        expect(choice).to_have_value("map-12")
        choice.fill("77")
        choice.press("Enter")
        expect(page.locator("#empty pre")).to_have_text("tileharvest harvest map-77")
        expect(choice).to_have_value("map-77")
        page.goto("about:blank")
