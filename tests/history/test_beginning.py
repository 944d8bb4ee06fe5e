from datetime import UTC, datetime

import pytest

from tests.history.making import DAY, LATER, START, B, began, ended, found, record
from tileharvest.errors import AlreadyHarvestedError, HistoryError
from tileharvest.history.database import History
from tileharvest.history.harvests import begin
from tileharvest.history.outlines import map_outline
from tileharvest.history.recorded_versions import tile_versions
from tileharvest.history.summaries import harvest_summaries
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.pyramid import Pyramid


def described(history: History, *layers: Layer) -> dict[str, int]:
    """The depths of the layers after a harvest was begun or continued with these."""
    begin(history, "world", DAY.isoformat(), DAY, START, "overviewer", layers)
    return {one.name: one.latest.depth for one in map_outline(history, "world").layers}


def test_an_unfinished_harvest_of_the_segment_is_continued(history: History) -> None:
    first = began(history)
    record(first, [found("add")])
    again = began(history)
    assert (again.id, again.continued) == (first.id, True)
    assert again.counts() == {Outcome.ADDED: 1}


def test_a_continued_harvest_keeps_its_day(history: History) -> None:
    began(history, segment="2021-W06")
    again = began(history, LATER, segment="2021-W06")
    record(again, [found("add")])
    assert again.day == DAY
    assert [recorded.version.day for recorded in tile_versions(history, "world")] == [DAY]


def test_a_finished_segment_gets_another_harvest_when_it_is_asked_for_again(history: History) -> None:
    first = began(history)
    ended(first)
    second = began(history, again=True)
    assert second.id != first.id
    assert not second.continued


def test_a_finished_segment_is_refused_another_harvest(history: History) -> None:
    ended(began(history))
    with pytest.raises(
        AlreadyHarvestedError,
        match="'world' is already harvested for 2021-02-13, since 2021-02-13 07:00 UTC; nothing was changed",
    ):
        began(history)
    assert len(harvest_summaries(history, "world")) == 1


def test_a_finished_segment_gets_a_harvest_of_what_was_pushed_that_goes_on_after_a_kill(
    history: History,
) -> None:
    ended(began(history))
    pushed = began(history, pushed=True)
    assert (pushed.is_pushed, pushed.continued) == (True, False)
    again = began(history)
    assert (again.id, again.is_pushed, again.continued) == (pushed.id, True, True)


def test_a_harvest_of_what_was_pushed_ends_when_everything_is_asked_for_again(history: History) -> None:
    ended(began(history))
    pushed = began(history, pushed=True)
    whole = began(history, again=True)
    assert (whole.is_pushed, whole.continued) == (False, False)
    assert pushed.ended() == "interrupted"


def test_an_unfinished_harvest_of_an_older_segment_ends_as_interrupted(history: History) -> None:
    first = began(history)
    record(first, [found("add"), found("fail", B)])
    began(history, LATER)
    summary = harvest_summaries(history, "world")[0]
    assert (summary.reason, summary.ended) == ("interrupted", datetime(2021, 2, 16, 6, tzinfo=UTC))
    assert summary.counts == {Outcome.ADDED: 1, Outcome.FAILED: 1}


def test_a_day_before_the_latest_version_is_refused(history: History) -> None:
    harvest = began(history, LATER)
    record(harvest, [found("add")])
    ended(harvest)
    with pytest.raises(
        HistoryError, match="2021-02-16 already: history is only written forwards, so 2021-02-13"
    ):
        began(history, DAY)


def test_a_continued_harvest_takes_what_the_site_says_now(history: History) -> None:
    described(history, Layer("day", Pyramid(7), "png"))
    now = described(history, Layer("day", Pyramid(8), "png"), Layer("new", Pyramid(2), "png"))
    assert now == {"day": 8, "new": 2}


@pytest.mark.parametrize("layers", [[], [Layer("day", Pyramid(7), "png")] * 2])
def test_a_harvest_has_each_layer_once(history: History, layers: list[Layer]) -> None:
    with pytest.raises(ValueError, match="at least one layer, and each once"):
        described(history, *layers)
