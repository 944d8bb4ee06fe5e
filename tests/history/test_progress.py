from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tests.history.making import LATER, A, B, C, D, began, ended, found, record
from tileharvest.history.costs import Cost
from tileharvest.history.summaries import progress_of
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from tileharvest.history.database import History


def test_an_unfinished_harvest_tells_how_far_it_is(history: History) -> None:
    ended(began(history))
    harvest = began(history, LATER)
    harvest.expect(7)
    record(
        harvest,
        [found("ign", A), found("fail", B), found("404", C), found("add", D)],
        Cost(5, 600, 70, 8, 2.5),
    )
    progress = progress_of(history, "world")
    assert progress is not None
    assert (progress.segment, progress.day) == ("2021-02-16", LATER)
    assert progress.started == datetime(2021, 2, 16, 6, tzinfo=UTC)
    assert (progress.ended, progress.stopped, progress.expected) == (None, None, 7)
    assert progress.counts == dict.fromkeys(
        (Outcome.IGNORED, Outcome.FAILED, Outcome.NOTHING, Outcome.ADDED), 1
    )
    assert progress.cost == Cost(5, 600, 70, 8, 2.5)


def test_without_an_unfinished_harvest_there_is_no_progress(history: History) -> None:
    assert progress_of(history, "world") is None
    ended(began(history))
    began(history, name="nether")
    assert progress_of(history, "world") is None


def test_a_harvest_says_why_it_was_stopped_until_it_goes_on(history: History) -> None:
    def stopped() -> str | None:
        progress = progress_of(history, "world")
        assert progress is not None
        return progress.stopped

    harvest, other = began(history), began(history)
    # One of two processes is told that it has noted it. That one tells people.
    reason = "budget: 1,000 requests"
    assert [one.stop(reason) for one in (harvest, other)] == [True, False]
    assert stopped() == "budget: 1,000 requests"
    harvest = began(history)
    assert stopped() is None
    harvest.stop("budget: 2 GB")
    ended(harvest)
    harvest.stop("budget: too late")
    with history.reading() as connection:
        assert connection.exec_driver_sql("SELECT stopped FROM harvests").scalar_one() is None


def test_what_is_expected_is_what_the_first_process_says_that_knows_any_tile(history: History) -> None:
    assert began(history).expect(0) == 0
    assert [began(history).expect(tiles) for tiles in (30, 20, 0)] == [30, 30, 30]
    assert began(history, LATER).expect(5) == 5
