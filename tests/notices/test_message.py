"""What is said of a harvest, and when."""

from __future__ import annotations

from datetime import date

import pytest

from tileharvest.errors import (
    AlreadyHarvestedError,
    BudgetError,
    SiteError,
    TileHarvestError,
)
from tileharvest.history.costs import Cost
from tileharvest.notices.message import Report, compose, is_wanted
from tileharvest.notices.notice import ChangedPlace
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.outcomes import Outcome

DAY = date(2026, 11, 21)
FOUND = {Outcome.IGNORED: 1035, Outcome.UPDATED: 12, Outcome.GONE: 5, Outcome.NOTHING: 13}
QUIET = {Outcome.IGNORED: 35, Outcome.NOT_MODIFIED: 2, Outcome.NOTHING: 13}
SOME_FAILED = {**QUIET, Outcome.FAILED: 1}
UNREACHABLE = SiteError("http://example.net/ cannot be reached <timeout>; try again later")
BUDGET = BudgetError("the budget of 90 requests is spent; run again", "budget: 90 requests")


def report(found: dict[Outcome, int], error: TileHarvestError | None = None) -> Report:
    return Report("demo", DAY, found, error, Cost(1092, 2_700_000, 0, 3_300_000))


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (report(FOUND), "17 tiles changed"),
        (report({Outcome.REPLACED: 1}), "1 tile changed"),
        (report(QUIET), "nothing changed"),
        (report(SOME_FAILED), "nothing changed, 1 tile failed"),
        (report({}, UNREACHABLE), "the harvest failed"),
        (report({Outcome.ADDED: 1200}, BUDGET), "ended by its budget, 1,200 tiles changed"),
    ],
)
def test_the_title_says_the_most_important(ended: Report, said: str) -> None:
    assert compose(ended).title == f"demo, 2026-11-21: {said}"


def test_the_text_reads_well_without_markup() -> None:
    view = TileRange(0, 1, 7, 1, 7)
    place = ChangedPlace("world`s\nday", 12, (view,), 272, -208, -1, tile=Tile(-2, 4, 4))
    message = compose(report(FOUND), [place], "http://viewer.example.net/")
    assert message.body == (
        "    outcome  tiles\n"
        "    404         13\n"
        "    ign      1,035\n"
        "    upd         12\n"
        "    gone         5\n"
        "\n"
        "1,092 requests, 2.7 MB received, 3.3 MB spared by ETags.\n"
        "\n"
        "Where most changed:\n"
        "\n"
        "- -2_4_4 of `world's\\nday`: 12 tiles\n"
        "  <http://viewer.example.net/#map=demo&layer=world%60s%0Aday&day=2026-11-21&x=272&z=-208&zoom=-1>\n"
    )


def test_a_place_on_the_earth_is_told_in_degrees() -> None:
    view = TileRange(0, 1, 7, 1, 7)
    place = ChangedPlace("zoom10", 1, (view,), 8.1125, -54.3, -1, "", Tile(0, 1, 1), (47.372, 8.6125))
    said = compose(report(FOUND), [place], "http://viewer.example.net/").body
    assert "- 0_1_1 of `zoom10` at 47.37200\u00b0, 8.61250\u00b0: 1 tile\n" in said
    assert said.endswith("&x=8.1125&z=-54.3&zoom=-1>\n")


def test_an_error_comes_first_and_no_service_takes_it_for_markup() -> None:
    lines = compose(report({}, SiteError(f"{UNREACHABLE} {'word ' * 30}"))).body.splitlines()
    assert lines[0].startswith("    http://example.net/ cannot be reached <timeout>;")
    assert all(line.startswith("    ") and len(line) <= 80 for line in lines[: lines.index("")])


ENDS = {
    "changed": report(FOUND),
    "quiet": report(QUIET),
    "some failed": report(SOME_FAILED),
    "unreachable": report({}, UNREACHABLE),
    "budget": report(QUIET, BUDGET),
    "already": report({}, AlreadyHarvestedError("already")),
    "spent before": report({}, BudgetError("spent", "daily budget: 90 requests", has_begun=False)),
}


@pytest.mark.parametrize(
    ("occasions", "told"),
    [
        ((), set()),
        (("change",), {"changed"}),
        (("failure",), {"some failed", "unreachable", "budget"}),
        (("change", "failure"), {"changed", "some failed", "unreachable", "budget"}),
        (("always",), {"changed", "quiet", "some failed", "unreachable", "budget"}),
    ],
)
def test_who_wants_what_is_told_that_and_never_of_a_harvest_that_was_done(
    occasions: tuple[str, ...], told: set[str]
) -> None:
    assert {name for name, ended in ENDS.items() if is_wanted(ended, occasions)} == told
