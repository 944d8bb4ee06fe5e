"""Answers with status 200 that are no image: for new tiles on one day, and for known tiles on the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    PATHS,
    SECOND_DAY,
    THIRD_DAY,
    Found,
    Visit,
    address,
    found,
    versions,
    visit,
)
from tests.servers import rules

if TYPE_CHECKING:
    from tests.end_to_end.bad_input.small_site import Stage


class Case(NamedTuple):
    new: str
    """A tile that is no image on the first day."""
    known: str
    """A tile that is no image on the second day."""
    rule: rules.Rule
    reason: str
    """The beginning of the reason in the failure list."""


CASES = {
    "error page": Case("00", "01", rules.error_page(), "the answer is a page of HTML or XML (1 attempt)"),
    "cut off": Case("10", "11", rules.cut_off(400), "the image is cut off"),
    "Git-LFS pointer": Case(
        "20", "21", rules.body(rules.LFS_POINTER), "the answer is a Git-LFS pointer, not the image itself"
    ),
    "no bytes": Case("30", "31", rules.body(b""), "the answer has no bytes (1 attempt)"),
}


class Day(NamedTuple):
    visit: Visit
    found: dict[str, Found]


@pytest.fixture(scope="module")
def days(shared_stage: Stage) -> list[Day]:
    """A day with bad answers for new tiles, one with bad answers for known tiles, and one with good ones."""

    def harvested(day: str, bad: dict[str, rules.Rule]) -> Day:
        shared_stage.site.rules = bad
        return Day(visit(shared_stage.project, day), found(shared_stage.project))

    return [
        harvested(FIRST_DAY, {address(case.new): case.rule for case in CASES.values()}),
        harvested(SECOND_DAY, {address(case.known): case.rule for case in CASES.values()}),
        harvested(THIRD_DAY, {}),
    ]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_new_tile_that_is_no_image_fails_with_its_reason(days: list[Day], case: Case) -> None:
    outcome, reason = days[0].found[case.new]
    assert outcome == "fail"
    assert (reason or "").startswith(case.reason)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_known_tile_that_is_no_image_fails_with_its_reason(days: list[Day], case: Case) -> None:
    outcome, reason = days[1].found[case.known]
    assert outcome == "fail"
    assert (reason or "").startswith(case.reason)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_no_image_never_becomes_a_version(days: list[Day], shared_stage: Stage, case: Case) -> None:
    """The new tile has its first version on the second day. The known tile keeps that of the first day."""
    files, project = shared_stage.files, shared_stage.project
    assert [row[:2] for row in versions(project, case.new)] == [(SECOND_DAY, files.sha1(case.new))]
    assert [row[:2] for row in versions(project, case.known)] == [(FIRST_DAY, files.sha1(case.known))]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_next_harvest_asks_again(days: list[Day], case: Case) -> None:
    assert days[1].found[case.new].outcome == "add"
    assert days[2].found[case.known].outcome == "ign"


def test_the_store_holds_the_sites_images_only(days: list[Day], shared_stage: Stage) -> None:
    names = [name.rpartition("/")[2] for name in shared_stage.project.stored()]
    assert sorted(names) == sorted(f"{shared_stage.files.sha1(path)}.png" for path in PATHS)


def test_failed_tiles_are_counted_and_show_in_the_exit_status(days: list[Day]) -> None:
    assert [day.visit.status for day in days] == [3, 3, 0]
    assert [day.visit.counts for day in days] == [
        {"add": 16, "fail": 4},
        {"add": 4, "ign": 12, "fail": 4},
        {"ign": 20},
    ]


def test_one_line_says_why_tiles_have_failed_and_it_is_no_error(days: list[Day]) -> None:
    (first,) = days[0].visit.said.splitlines()
    assert first.startswith("failed tiles of map 'small': ")
    assert "the answer has no bytes 1" in first
    assert "and 1 more" in first
    assert days[2].visit.said == ""
