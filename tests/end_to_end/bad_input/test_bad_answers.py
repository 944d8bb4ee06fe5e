"""Tiles that are answered badly: with a status, with something that is not an image, or not to the end.

On the first day the tiles are new, and on the second the site is well.
"""

from typing import NamedTuple

import pytest

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    PATHS,
    SECOND_DAY,
    Found,
    Stage,
    Visit,
    address,
    found,
    methods,
    versions,
    visit,
)
from tests.servers import rules


class Bad(NamedTuple):
    rule: rules.Rule
    attempts: int
    reason: str = ""
    """A part of the reason in the failure list. Empty: the last attempt is answered well."""


FIVE = " (5 attempts)"
BAD = {
    "00": Bad(
        rules.body(rules.ERROR_PAGE, "text/html"), 1, "the answer is a page of HTML or XML (1 attempt)"
    ),
    "01": Bad(rules.cut_off(400), 1, "the image is cut off"),
    "02": Bad(rules.body(rules.LFS_POINTER), 1, "the answer is a Git-LFS pointer, not the image itself"),
    "03": Bad(rules.body(b""), 1, "the answer has no bytes (1 attempt)"),
    "10": Bad(rules.status(500), 5, "500 Internal Server Error (5 attempts)"),
    "11": Bad(rules.status(401), 1, "401 Unauthorized (1 attempt)"),
    "12": Bad(rules.status(400), 1, "400 Bad Request (1 attempt)"),
    "13": Bad(rules.broken_off(100), 5, FIVE),
    "20": Bad(rules.reset(), 5, FIVE),
    "21": Bad(rules.hang(), 5, FIVE),
    "22": Bad(rules.first(3, rules.status(500)), 4),
    "23": Bad(rules.first(2, rules.broken_off(100)), 3),
    "30": Bad(rules.first(2, rules.reset()), 3),
    "31": Bad(rules.first(1, rules.hang()), 2),
    "32": Bad(rules.status(403), 2, "403 Forbidden (2 attempts)"),
    "33": Bad(rules.first(1, rules.status(403)), 2),
}
FAILING = [path for path, bad in BAD.items() if bad.reason]


class Days(NamedTuple):
    bad: Visit
    found: dict[str, Found]
    """On the first day."""
    asked: dict[str, list[str]]
    """The methods of the first day's requests, by path."""
    well: Visit


@pytest.fixture(scope="module")
def days(shared_stage: Stage) -> Days:
    site, project = shared_stage.site, shared_stage.project
    site.rules = {address(path): bad.rule for path, bad in BAD.items()}
    # In 3 s the server answers all requests that it does not leave silent, even on a busy machine. A host
    # that was taken for down would be asked for a good tile once more.
    bad = visit(project, FIRST_DAY, "-s", "DOWNLOAD_TIMEOUT=3", "-s", "HOST_DOWN_AFTER=100")
    state, asked = found(project), {path: methods(site, path) for path in PATHS}
    site.rules = {}
    return Days(bad, state, asked, visit(project, SECOND_DAY))


@pytest.mark.parametrize("path", BAD)
def test_a_new_tile_is_asked_as_often_as_that_can_help(days: Days, path: str) -> None:
    bad = BAD[path]
    outcome, reason = days.found[path]
    assert days.asked[path] == ["GET"] * bad.attempts
    assert outcome == ("fail" if bad.reason else "add")
    assert bad.reason in (reason or "")
    assert len((reason or "").splitlines()) == bool(bad.reason)


def test_failures_show_in_the_counts_the_exit_status_and_one_line(days: Days) -> None:
    failed = len(FAILING)
    assert (days.bad.status, days.bad.counts) == (3, {"add": 20 - failed, "fail": failed})
    (line,) = days.bad.said.splitlines()
    assert line.startswith("failed tiles of map 'small': ")
    well = (days.well.status, days.well.counts, days.well.said)
    assert well == (0, {"add": failed, "ign": 20 - failed}, "")


def test_what_is_answered_badly_never_becomes_a_version(days: Days, shared_stage: Stage) -> None:
    for path in FAILING:
        right = (SECOND_DAY, shared_stage.files.sha1(path))
        assert [row[:2] for row in versions(shared_stage.project, path)] == [right]
