"""Statuses that do not say whether there is a tile, such as 500, 403 and 429."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import pytest

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    SECOND_DAY,
    THIRD_DAY,
    Found,
    Stage,
    Visit,
    address,
    asked,
    found,
    methods,
    versions,
    visit,
)
from tests.servers import rules

ILL_FOR_A_WHILE, ILL, FORBIDDEN, BAD_REQUEST, BUSY_FOR_AN_HOUR = "00", "01", "10", "11", "20"
RULES = {
    ILL_FOR_A_WHILE: rules.first(3, rules.status(500)),
    ILL: rules.status(500),
    FORBIDDEN: rules.status(403),
    BAD_REQUEST: rules.status(400),
    BUSY_FOR_AN_HOUR: rules.too_many("3600"),
}
PAUSE = 0.1
"""The seconds before the second attempt."""
LONGEST_REST = 1.0
"""The most seconds for which a host is left alone."""


@pytest.fixture(scope="module")
def refusing(shared_stage: Stage) -> Stage:
    """A site that answers some new tiles with such statuses."""
    shared_stage.site.rules = {address(path): rule for path, rule in RULES.items()}
    shared_stage.project.maps_file.unlink()
    # One request at a time: no other one is on the way when a host asks for a rest.
    shared_stage.project.add_map("small", f"{shared_stage.site.url}/", concurrency=1)
    return shared_stage


@pytest.fixture(scope="module")
def first_visit(refusing: Stage) -> Visit:
    options = {"RETRY_PAUSE": PAUSE, "RETRY_AFTER_LONGEST": LONGEST_REST}
    settings = [word for name, value in options.items() for word in ("-s", f"{name}={value}")]
    return visit(refusing.project, FIRST_DAY, *settings)


def test_a_server_that_recovers_at_the_fourth_attempt_loses_no_tile(
    refusing: Stage, first_visit: Visit
) -> None:
    assert methods(refusing.site, ILL_FOR_A_WHILE) == ["GET"] * 4
    assert found(refusing.project)[ILL_FOR_A_WHILE].outcome == "add"


def test_pauses_double(refusing: Stage, first_visit: Visit) -> None:
    times = [request.time for request in asked(refusing.site, ILL)]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    # No request comes too early. On a busy machine each may come late.
    assert [gap >= PAUSE * 2**doublings for doublings, gap in enumerate(gaps)] == [True] * 4


def test_a_server_that_stays_ill_is_asked_five_times(refusing: Stage, first_visit: Visit) -> None:
    assert methods(refusing.site, ILL) == ["GET"] * 5
    assert found(refusing.project)[ILL] == Found("fail", "500 Internal Server Error (5 attempts)")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (FORBIDDEN, "403 Forbidden (1 attempt)"),
        (BAD_REQUEST, "400 Bad Request (1 attempt)"),
    ],
)
def test_a_refusal_for_good_is_asked_once(
    refusing: Stage, first_visit: Visit, path: str, reason: str
) -> None:
    assert methods(refusing.site, path) == ["GET"]
    assert found(refusing.project)[path] == Found("fail", reason)


def test_a_server_that_wants_to_rest_for_an_hour_has_as_long_as_is_allowed_and_is_not_asked_again(
    refusing: Stage, first_visit: Visit
) -> None:
    assert methods(refusing.site, BUSY_FOR_AN_HOUR) == ["GET"]
    assert found(refusing.project)[BUSY_FOR_AN_HOUR] == Found("fail", "429 Too Many Requests (1 attempt)")
    (busy,) = asked(refusing.site, BUSY_FOR_AN_HOUR)
    rested = [one for one in refusing.site.received if busy.time < one.time < busy.time + LONGEST_REST]
    assert rested == []


def test_failures_show_in_counts_and_exit_status_and_nowhere_else(first_visit: Visit) -> None:
    assert first_visit.counts == {"add": 16, "fail": 4}
    assert first_visit.status == 3
    assert first_visit.said.startswith("failed tiles of map 'small': ")
    assert len(first_visit.said.splitlines()) == 1


class Days(NamedTuple):
    failing: Visit
    found: dict[str, Found]
    after: Visit


@pytest.fixture(scope="module")
def days(refusing: Stage, first_visit: Visit) -> Days:
    """Harvests on three days: of all tiles, with a known tile that fails above others, and of all again."""
    refusing.site.rules = {}
    visit(refusing.project, FIRST_DAY, "-a", "segment=run")
    refusing.site.received.clear()
    refusing.site.rules = {address("3"): rules.status(500)}
    failing = visit(refusing.project, SECOND_DAY)
    states = found(refusing.project)
    refusing.site.rules = {}
    return Days(failing, states, visit(refusing.project, THIRD_DAY))


def test_a_known_tile_that_fails_keeps_its_version(refusing: Stage, days: Days) -> None:
    assert days.failing.status == 3
    assert days.found["3"] == Found("fail", "500 Internal Server Error (5 attempts)")
    assert [row[:2] for row in versions(refusing.project, "3")] == [(FIRST_DAY, refusing.files.sha1("3"))]


def test_the_walk_goes_on_below_a_known_tile_that_fails(days: Days) -> None:
    assert days.failing.counts == {"ign": 19, "fail": 1}


def test_the_next_harvest_asks_for_what_failed(days: Days) -> None:
    assert days.after.counts == {"ign": 20}
    assert days.after.status == 0


def test_nothing_is_asked_below_an_unknown_tile_that_fails(stage: Stage) -> None:
    stage.site.rules[address("3")] = rules.status(500)
    assert visit(stage.project, FIRST_DAY).counts == {"add": 15, "fail": 1}
    assert [methods(stage.site, f"3{last}") for last in "0123"] == [[], [], [], []]


def test_a_look_at_the_site_that_is_repeated_keeps_the_delay_and_the_budget(stage: Stage) -> None:
    """robots.txt takes one request of the budget, and each attempt at the configuration takes one.

    On a busy machine a request may come late. The next one starts only after its answer, so the second next
    one comes at least a whole delay later.
    """
    stage.site.rules["/overviewerConfig.js"] = rules.first(9, rules.status(503))
    done = visit(stage.project, FIRST_DAY, "-s", "DELAY=0.7", "-s", 'BUDGET={"requests": 4}')
    moments = [request.time for request in stage.site.received]
    assert (done.status, len(moments)) == (4, 4)
    pairs = zip(moments[:2], moments[2:], strict=True)
    assert [later - earlier >= 0.7 for earlier, later in pairs] == [True, True]
