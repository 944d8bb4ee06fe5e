"""Connections that break, stay silent or are reset: a tile is asked again, and fails after five attempts."""

from __future__ import annotations

import pytest

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    SECOND_DAY,
    Stage,
    Visit,
    address,
    found,
    methods,
    versions,
    visit,
)
from tests.servers import rules

BROKEN_TWICE, BROKEN_FOR_EVER = "00", "01"
RESET_TWICE, RESET_FOR_EVER = "10", "11"
SILENT_ONCE, SILENT_FOR_EVER, SILENT_ON_GET = "20", "21", "22"
RULES = {
    BROKEN_TWICE: rules.only("GET", rules.first(2, rules.broken_off(100))),
    BROKEN_FOR_EVER: rules.broken_off(100),
    RESET_TWICE: rules.first(2, rules.reset()),
    RESET_FOR_EVER: rules.reset(),
    SILENT_ONCE: rules.first(1, rules.hang()),
    SILENT_FOR_EVER: rules.hang(),
    SILENT_ON_GET: rules.only("GET", rules.hang()),
}


@pytest.fixture(scope="module")
def broken(shared_stage: Stage) -> Stage:
    """A site whose connections break. Its map is asked by HEAD first."""
    shared_stage.project.maps_file.unlink()
    shared_stage.project.add_map("small", f"{shared_stage.site.url}/", first="head")
    shared_stage.site.rules = {address(path): rule for path, rule in RULES.items()}
    return shared_stage


@pytest.fixture(scope="module")
def first_visit(broken: Stage) -> Visit:
    # In 3 s the server answers all requests that it does not leave silent, even on a busy machine. The site
    # must not be taken for down after some failures in a row, as that asks for a good tile once more.
    return visit(broken.project, FIRST_DAY, "-s", "DOWNLOAD_TIMEOUT=3", "-s", "HOST_DOWN_AFTER=100")


@pytest.mark.parametrize("path", [BROKEN_FOR_EVER, RESET_FOR_EVER, SILENT_FOR_EVER, SILENT_ON_GET])
def test_after_five_attempts_the_tile_has_failed(broken: Stage, first_visit: Visit, path: str) -> None:
    outcome, reason = found(broken.project)[path]
    assert outcome == "fail"
    assert (reason or "").endswith(" (5 attempts)")
    assert len((reason or "").splitlines()) == 1
    assert versions(broken.project, path) == []


@pytest.mark.parametrize(
    ("path", "requests"),
    [
        (BROKEN_FOR_EVER, ["HEAD", *["GET"] * 5]),
        (RESET_FOR_EVER, ["HEAD"] * 5),
        (SILENT_FOR_EVER, ["HEAD"] * 5),
        (SILENT_ON_GET, ["HEAD", *["GET"] * 5]),
    ],
)
def test_five_attempts_are_made_and_no_more(
    broken: Stage, first_visit: Visit, path: str, requests: list[str]
) -> None:
    assert methods(broken.site, path) == requests


@pytest.mark.parametrize(
    ("path", "requests"),
    [
        (BROKEN_TWICE, ["HEAD", "GET", "GET", "GET"]),
        (RESET_TWICE, ["HEAD", "HEAD", "HEAD", "GET"]),
        (SILENT_ONCE, ["HEAD", "HEAD", "GET"]),
    ],
)
def test_a_tile_that_is_answered_at_last_is_kept(
    broken: Stage, first_visit: Visit, path: str, requests: list[str]
) -> None:
    assert found(broken.project)[path].outcome == "add"
    assert [row[:2] for row in versions(broken.project, path)] == [(FIRST_DAY, broken.files.sha1(path))]
    assert methods(broken.site, path) == requests


def test_the_other_tiles_are_harvested(first_visit: Visit) -> None:
    assert first_visit.status == 3
    assert first_visit.counts == {"add": 16, "fail": 4}
    assert first_visit.said.startswith("failed tiles of map 'small': ")
    assert len(first_visit.said.splitlines()) == 1


def test_the_next_harvest_asks_again(stage: Stage) -> None:
    """On the first day a part of an image arrives each time. On the second day the site is well."""
    stage.site.rules[address("00")] = rules.broken_off(100)
    assert visit(stage.project, FIRST_DAY).counts == {"add": 19, "fail": 1}
    stage.site.rules.clear()
    assert visit(stage.project, SECOND_DAY).counts == {"add": 1, "ign": 19}
