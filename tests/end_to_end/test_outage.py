"""A host that goes down in the middle of a harvest: for good, and for a while."""

import time
from itertools import pairwise
from math import inf
from typing import Final, NamedTuple

import pytest
from aiohttp import web

from tests.end_to_end.bad_input.small_site import FIRST_DAY, Visit, staged, visit
from tests.servers import rules
from tests.servers.misbehaving import Exchange

AFTER: Final = 5
"""Failures in a row after which the host is probed only."""
ON_THE_WAY: Final = 3
"""Of the 4 requests at a time, when one of them is the last failure that it takes; as many may have failed
before another one's answer, which begins the row anew."""
PAUSES: Final = (0.2, 0.4, 0.8)
"""Seconds."""
SETTINGS: Final = (
    *("-s", f"HOST_DOWN_AFTER={AFTER}"),
    *("-s", f"HOST_DOWN_PAUSE={PAUSES[0]}"),
    *("-s", f"HOST_DOWN_LONGEST_PAUSE={PAUSES[-1]}"),
)


class Outage:
    """A rule that resets every connection after so many answers.

    The host comes back after so many probes. A probe is a HEAD for a path that was answered already; no other
    request is like that.
    """

    def __init__(self, answers: int, *, probes: float = inf) -> None:
        self._answers = answers
        self._awaited = probes
        self._answered: set[str] = set()
        self.failures: list[float] = []
        """When those requests came, on the monotonic clock, that were reset and were not probes."""
        self.probes: list[float] = []
        """When the probes came that were reset, on the monotonic clock."""

    async def __call__(self, exchange: Exchange) -> web.StreamResponse | None:
        now = time.monotonic()
        self._answers -= 1
        if self._answers >= 0:
            self._answered.add(exchange.path)
            return None
        if len(self.probes) >= self._awaited:
            return None
        is_probe = exchange.request.method == "HEAD" and exchange.path in self._answered
        (self.probes if is_probe else self.failures).append(now)
        return await exchange.answered(rules.reset())


class Story(NamedTuple):
    """Two harvests of one day."""

    for_good: Outage
    given_up: Visit
    for_a_while: Outage
    finished: Visit
    requests: int
    """That the second harvest made, as the server counts them."""


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    with staged(tmp_path_factory.mktemp("outage")) as stage:
        for_good, for_a_while = Outage(8), Outage(12, probes=3)
        stage.site.rule_for_all = for_good
        given_up = visit(stage.project, FIRST_DAY, *SETTINGS, "-s", "HOST_DOWN_PATIENCE=1")
        before = len(stage.site.received)
        stage.site.rule_for_all = for_a_while
        finished = visit(stage.project, FIRST_DAY, *SETTINGS)
        requests = len(stage.site.received) - before
    return Story(for_good, given_up, for_a_while, finished, requests)


def test_a_host_that_stays_down_ends_the_harvest_and_the_next_run_loses_nothing(story: Story) -> None:
    assert story.given_up.status == 5
    (report,) = story.given_up.reports
    assert (report["finished"], report["exit_status"]) == (False, 5)
    assert "fail" not in report["counts"]
    warning, error = story.given_up.said.splitlines()
    assert warning.startswith("WARNING: 127.0.0.1 does not answer")
    assert error.startswith("ERROR: 127.0.0.1 has not answered for 1 s")
    assert error.endswith("everything that was found is kept; run it again to continue")
    assert (story.finished.status, story.finished.counts) == (0, {"add": 20})
    # A host that comes back is asked on at once, and the line comes once.
    (warning,) = story.finished.said.splitlines()
    assert warning.startswith("WARNING: 127.0.0.1 does not answer")


def test_after_the_failures_in_a_row_there_are_only_probes_at_growing_pauses_and_all_are_counted(
    story: Story,
) -> None:
    for outage in (story.for_good, story.for_a_while):
        assert AFTER <= len(outage.failures) <= AFTER + 2 * ON_THE_WAY
        assert outage.failures[-1] < outage.probes[0]
        times = [outage.failures[AFTER - 1], *outage.probes]
        gaps = [later - earlier for earlier, later in pairwise(times)]
        # The last one before patience ends comes earlier.
        kept = [gap >= pause - 0.01 for gap, pause in zip(gaps, PAUSES, strict=False)]
        assert all(kept if outage is story.for_a_while else kept[:2])
    assert len(story.for_a_while.probes) == 3
    assert story.finished.reports[0]["requests"] == story.requests
